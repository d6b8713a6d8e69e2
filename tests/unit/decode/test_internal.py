"""Kafka's internal topics: records of a real broker, and what is refused."""

from __future__ import annotations

import datetime as dt
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from logwright.config.decoding import Decoding, InternalSpec, default_decoding
from logwright.decode.internal_messages import TYPES
from logwright.decode.make import make_decoder
from logwright.decode.model import Decoder
from logwright.errors import PolicyError
from logwright.format.batch import parse_batch, walk_batches
from logwright.format.record import read_records
from tests.fixtures import case_dir
from tests.unit.decode.records import Pair, Result, batch, decode, reasons

OFFSETS, STATES = "__consumer_offsets", "__transaction_state"
UTC = dt.UTC


def decoder(topic: str) -> Decoder:
    return make_decoder(default_decoding(topic), base=Path("/"), topic=topic)


def decoded(topic: str, *pairs: Pair) -> Result:
    return decode(decoder(topic), batch(pairs, topic))


def text(content: str | None) -> bytes:
    """A string in the form of old versions."""
    if content is None:
        return struct.pack(">h", -1)
    return struct.pack(">h", len(content.encode())) + content.encode()


def offset_key(version: int = 1, group: str = "g", topic: str = "t", partition: int = 3) -> bytes:
    return struct.pack(">h", version) + text(group) + text(topic) + struct.pack(">i", partition)


def of_fixture(topic: str) -> Iterator[Pair]:
    """The records of an internal topic that a broker wrote."""
    for path in sorted((case_dir("real-broker") / "before").glob(f"{topic}-*/*.log")):
        content = path.read_bytes()
        for span in walk_batches(content):
            whole = content[span.position : span.position + span.bytes]
            header = parse_batch(whole)
            if not header.is_control and header.records_count:
                yield from ((one.key, one.value) for one in read_records(header, whole))


@pytest.mark.parametrize("topic", [OFFSETS, STATES])
def test_records_of_a_broker(topic: str) -> None:
    """All are decoded."""
    result = decoded(topic, *of_fixture(topic))
    assert [] == result.refused
    if topic == OFFSETS:
        assert {"offset_commit", "group_metadata"} == set(
            Counter(row["type"] for row in result.rows)
        )
    else:
        states = {row["state"] for row in result.rows}
        assert {"Empty", "Ongoing", "PrepareCommit", "CompleteCommit"} <= states


@pytest.mark.parametrize(
    ("version", "value", "expected"),
    [
        (0, struct.pack(">q", 7) + text("m") + struct.pack(">q", 1000), {}),
        (
            1,
            struct.pack(">q", 7) + text("m") + struct.pack(">qq", 1000, 2000),
            {"expire_time": dt.datetime(1970, 1, 1, 0, 0, 2, 0, UTC)},
        ),
        (2, struct.pack(">q", 7) + text("m") + struct.pack(">q", 1000), {}),
        (
            3,
            struct.pack(">qi", 7, 5) + text("m") + struct.pack(">q", 1000),
            {"committed_leader_epoch": 5},
        ),
        (3, struct.pack(">qi", 7, -1) + text("m") + struct.pack(">q", 1000), {}),
        (
            4,
            struct.pack(">qi", 7, 5) + b"\x02m" + struct.pack(">q", 1000) + b"\0",
            {"committed_leader_epoch": 5},
        ),
        (
            4,
            struct.pack(">qi", 7, 5) + b"\x02m" + struct.pack(">q", 1000) + b"\1\0\x10" + bytes(16),
            {"committed_leader_epoch": 5, "committed_topic_id": "AAAAAAAAAAAAAAAAAAAAAA"},
        ),
        (
            4,
            struct.pack(">qi", 7, 5) + b"\x02m" + struct.pack(">q", 1000) + b"\1\x09\3abc",
            {"committed_leader_epoch": 5},
        ),
    ],
)
@pytest.mark.parametrize("key_version", [0, 1])
def test_every_version_of_a_commit(
    key_version: int, version: int, value: bytes, expected: dict[str, Any]
) -> None:
    """Versions 0 to 4; a tagged field that is unknown is ignored."""
    result = decoded(
        OFFSETS,
        (offset_key(key_version), struct.pack(">h", version) + value),
        (offset_key(key_version), None),
    )
    kind = "offset_commit" if key_version else "legacy_offset_commit"
    key = {"type": kind, "group_id": "g", "committed_topic": "t", "committed_partition": 3}
    commit = {
        "committed_offset": 7,
        "committed_metadata": "m",
        "commit_time": dt.datetime(1970, 1, 1, 0, 0, 1, 0, UTC),
    }
    nothing = dict.fromkeys(result.rows[0])
    assert [nothing | key | commit | expected, nothing | key] == result.rows
    assert [1] == result.deleted


@pytest.mark.parametrize("version", range(4))
def test_every_version_of_a_group(version: int) -> None:
    """Members get what their version has; an assignment that is not a consumer's is left out."""
    topics = struct.pack(">hi", 0, 1) + text("t")
    assigned = struct.pack(">hi", 1, 1) + text("t") + struct.pack(">iii", 2, 0, 1)
    assigned += struct.pack(">i", -1)
    member = text("m") + (text("i") if version >= 3 else b"") + text("c") + text("/h")
    member += struct.pack(">i", 9) if version >= 1 else b""
    member += struct.pack(">i", 5)
    member += struct.pack(">i", len(topics)) + topics
    member += struct.pack(">i", len(assigned)) + assigned
    value = struct.pack(">h", version) + text("consumer") + struct.pack(">i", 4) + text("range")
    value += text("m") + (struct.pack(">q", 1000) if version >= 2 else b"")
    value += struct.pack(">i", 1) + member
    result = decoded(OFFSETS, (struct.pack(">h", 2) + text("g"), value))
    (row,) = result.rows
    assert ("group_metadata", "g", "consumer", 4) == tuple(
        row[name] for name in ("type", "group_id", "protocol_type", "generation")
    )
    (decoded_member,) = row["members"]
    assert {
        "member_id": "m",
        "group_instance_id": "i" if version >= 3 else None,
        "client_id": "c",
        "client_host": "/h",
        "rebalance_timeout_ms": 9 if version >= 1 else None,
        "session_timeout_ms": 5,
        "subscribed_topics": ["t"],
        "assigned_partitions": [{"topic": "t", "partitions": [0, 1]}],
    } == decoded_member
    assert (row["state_time"] is None) == (version < 2)


@pytest.mark.parametrize("version", [0, 1])
def test_every_version_of_a_transaction(version: int) -> None:
    """Version 1 has the tagged fields of KIP-890."""
    fixed = struct.pack(">qhib", 5, 2, 60_000, 1)
    if version:
        rest = b"\2\2t\2" + struct.pack(">i", 3) + b"\0" + struct.pack(">qq", 2000, 1000)
        rest += b"\3\0\x08" + struct.pack(">q", 4) + b"\2\2" + struct.pack(">h", 2)
        rest += b"\3\2" + struct.pack(">h", 3)
    else:
        rest = struct.pack(">i", 1) + text("t") + struct.pack(">ii", 1, 3)
        rest += struct.pack(">qq", 2000, -1)
    value = struct.pack(">h", version) + fixed + rest
    (row,) = decoded(STATES, (struct.pack(">h", 0) + text("tx"), value)).rows
    started = dt.datetime(1970, 1, 1, 0, 0, 1, 0, UTC)
    assert {
        "transactional_id": "tx",
        "producer_id": 5,
        "producer_epoch": 2,
        "previous_producer_id": 4 if version else None,
        "next_producer_id": None,
        "next_producer_epoch": 3 if version else None,
        "state": "Ongoing",
        "timeout_ms": 60_000,
        "partitions": [{"topic": "t", "partitions": [3]}],
        "start_time": started if version else None,
        "update_time": dt.datetime(1970, 1, 1, 0, 0, 2, 0, UTC),
        "transaction_version": 2 if version else 0,
    } == row


COMMIT = struct.pack(">hqi", 3, 7, 5) + text("m") + struct.pack(">q", 1000)


@pytest.mark.parametrize(
    ("key", "value", "part", "reason"),
    [
        (None, COMMIT, "key", "is null"),
        (b"", COMMIT, "key", "has a length of more than the bytes that are left"),
        (b"\0", COMMIT, "key", "has a length of more than the bytes that are left"),
        (struct.pack(">h", 9), COMMIT, "key", "is of an unknown type of records"),
        (struct.pack(">h", 99), COMMIT, "key", "is of an unknown type of records"),
        (struct.pack(">h", -1), COMMIT, "key", "is of an unknown type of records"),
        (offset_key() + b"x", COMMIT, "key", "has bytes left after its last field"),
        (offset_key()[:-1], COMMIT, "key", "has a length of more than the bytes that are left"),
        (
            struct.pack(">hh", 1, -1),
            COMMIT,
            "key",
            "has null in a field that does not allow it",
        ),
        (struct.pack(">hh", 1, 1) + b"\xff", COMMIT, "key", "has a string that is not UTF-8"),
        (offset_key(), b"", "value", "has a length of more than the bytes that are left"),
        (offset_key(), struct.pack(">h", 5), "value", "has an unknown version"),
        (offset_key(), struct.pack(">h", -1), "value", "has an unknown version"),
        (offset_key(), COMMIT + b"x", "value", "has bytes left after its last field"),
        (
            offset_key(),
            COMMIT[:-8] + struct.pack(">q", 2**62),
            "value",
            "has a time that is not of the years 1970 to 9999",
        ),
        (
            offset_key(),
            struct.pack(">hqi", 4, 7, 5) + b"\xff\xff\xff\xff\xff\x01",
            "value",
            "has a varint that is too long",
        ),
        (
            offset_key(),
            struct.pack(">hqi", 4, 7, 5) + b"\x01" + bytes(8) + b"\2\0\x10" + bytes(16) + b"\0\0",
            "value",
            "has tagged fields out of order",
        ),
        (
            offset_key(),
            struct.pack(">hqi", 4, 7, 5) + b"\x01" + bytes(8) + b"\1\0\x11" + bytes(17),
            "value",
            "has a tagged field of another size",
        ),
        (
            struct.pack(">h", 2) + text("g"),
            struct.pack(">h", 0)
            + text("")
            + struct.pack(">i", 0)
            + text(None) * 2
            + struct.pack(">i", 2**31 - 1),
            "value",
            "has a length of more than the bytes that are left",
        ),
    ],
)
def test_refused(key: bytes | None, value: bytes, part: str, reason: str) -> None:
    """The records before and after are decoded."""
    good = (offset_key(), COMMIT)
    result = decoded(OFFSETS, good, (key, value), good)
    assert [(1, part, reason)] == result.refused
    assert 2 == len(result.rows)


def test_unknown_state() -> None:
    """A state that Kafka 4.3 does not have is refused."""
    value = struct.pack(">hqhibiqq", 0, 5, 2, 60_000, 8, -1, 2000, 1000)
    result = decoded(STATES, (struct.pack(">h", 0) + text("tx"), value))
    assert ["has an unknown state of a transaction"] == reasons(result)


def test_schemas() -> None:
    """Each topic has its columns, after those of every row."""
    for topic in TYPES:
        schema = decoder(topic).schema
        assert ["topic", "partition", "offset", "timestamp"] == schema.names[:4]
        assert {"group_id"} & set(schema.names) or {"transactional_id"} & set(schema.names)
        assert len(schema.names) == len(set(schema.names))
    assert pa.timestamp("us", "UTC") == decoder(OFFSETS).schema.field("commit_time").type


def test_only_for_internal_topics() -> None:
    """The format is the default of two topics, and for no other."""
    assert Decoding() == default_decoding("orders")
    decoding = Decoding(key=InternalSpec(), value=InternalSpec())
    assert decoding == default_decoding(OFFSETS) == default_decoding(STATES)
    with pytest.raises(PolicyError, match="not for orders"):
        make_decoder(decoding, base=Path("/"), topic="orders")
    with pytest.raises(PolicyError, match="needs the name of the topic"):
        make_decoder(decoding, base=Path("/"))
    sample = [batch([], OFFSETS), batch([(None, None)], OFFSETS)]
    assert decoder(OFFSETS).schema == make_decoder(decoding, base=Path("/"), sample=sample).schema
