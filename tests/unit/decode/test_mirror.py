"""Records of MirrorMaker's own topics."""

from __future__ import annotations

import datetime as dt
import struct
from pathlib import Path

import pytest

from logwright.config.decoding import Decoding, MirrorSpec
from logwright.decode.make import make_decoder
from logwright.errors import PolicyError
from tests.unit.decode.records import Pair, Result, batch, decode

TIME = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
SYNCS, CHECKPOINTS = "mm2-offset-syncs.eu.internal", "us.checkpoints.internal"


def text(content: str) -> bytes:
    return struct.pack(">h", len(content.encode())) + content.encode()


def decoded(topic: str, *pairs: Pair) -> Result:
    decoding = Decoding(key=MirrorSpec(), value=MirrorSpec())
    return decode(make_decoder(decoding, base=Path("/"), topic=topic), batch(pairs, topic))


def test_offset_syncs() -> None:
    """Which offset of the source is which one here."""
    key = text("orders") + struct.pack(">i", 3)
    result = decoded(SYNCS, (key, struct.pack(">qq", 7, 5)), (key, None))
    named = {"topic": "orders", "partition": 3}
    assert [
        {"key": named, "upstream_offset": 7, "downstream_offset": 5},
        {"key": named, "upstream_offset": None, "downstream_offset": None},
    ] == result.rows


def test_checkpoints() -> None:
    """Offsets of consumer groups."""
    key = text("gröup") + text("orders") + struct.pack(">i", 3)
    result = decoded(CHECKPOINTS, (key, struct.pack(">hqq", 0, 7, 5) + text("m")))
    named = {"group_id": "gröup", "topic": "orders", "partition": 3}
    row = {"key": named, "upstream_offset": 7, "downstream_offset": 5, "metadata": "m"}
    assert [row] == result.rows


@pytest.mark.parametrize("topic", ["heartbeats", "eu.heartbeats"])
def test_heartbeats(topic: str) -> None:
    """When a cluster was reached."""
    value = struct.pack(">hq", 0, int(TIME.timestamp() * 1000))
    result = decoded(topic, (text("eu") + text("us"), value))
    named = {"source_cluster": "eu", "target_cluster": "us"}
    assert [{"key": named, "heartbeat_time": TIME}] == result.rows


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (struct.pack(">hq", 1, 0), "has an unknown version"),
        (struct.pack(">hqb", 0, 0, 0), "has bytes after its end"),
        (b"\0", "field version has another length than bytes are left"),
        (struct.pack(">hq", 0, 2**62), "field heartbeat_time is not a time of the years 1 to 9999"),
    ],
)
def test_refused(value: bytes, reason: str) -> None:
    """Alone, with the field."""
    key = text("eu") + text("us")
    good = struct.pack(">hq", 0, 0)
    result = decoded("heartbeats", (key, good), (key, value), (key, good))
    assert [(1, "value", reason)] == result.refused


@pytest.mark.parametrize("key", [b"\xff\xff", b"\0\5ab", b"\0\1\xff\0\0"])
def test_a_key_that_is_refused(key: bytes) -> None:
    """A length below zero, one of more than there is, a text that is not UTF-8."""
    assert ["key"] == [part for _, part, _ in decoded("heartbeats", (key, None)).refused]


def test_other_topics() -> None:
    """Nothing is guessed of a topic of another name."""
    with pytest.raises(PolicyError, match="not for orders"):
        decoded("orders")
