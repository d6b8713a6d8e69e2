"""Timestamped values and windowed keys of Kafka Streams."""

from __future__ import annotations

import datetime as dt
import json
import struct
from pathlib import Path

import pytest
from pydantic import ValidationError

from logwright.config.decoding import Decoding, JsonSpec, ScalarSpec, TimestampedSpec, WindowedSpec
from logwright.config.json_fields import JsonField
from logwright.decode.make import make_decoder
from tests.unit.decode.records import Result, batch, by_value, decode

UTC = dt.UTC
START = dt.datetime(2026, 1, 2, tzinfo=UTC)
START_MS = int(START.timestamp() * 1000)
STRING = ScalarSpec(format="string")


def longs(*numbers: int) -> bytes:
    return struct.pack(f">{len(numbers)}q", *numbers)


def by_key(spec: WindowedSpec, *keys: bytes | None) -> Result:
    decoder = make_decoder(Decoding(key=spec), base=Path("/"))
    return decode(decoder, batch([(key, b"v") for key in keys]))


def test_timestamped_values() -> None:
    """The time is a column, as the value is; -1 is none; a tombstone has neither."""
    spec = TimestampedSpec(of=ScalarSpec(format="long"))
    result = by_value(
        spec, longs(START_MS, 7), longs(-1, 8), None, b"short", longs(2**62, 9), longs(START_MS)
    )
    assert [(START, 7), (None, 8), (None, None)] == [
        (row["value_timestamp"], row["value"]) for row in result.rows
    ]
    assert [2] == result.deleted
    assert [
        (3, "value", "is shorter than its timestamp"),
        (4, "value", "field timestamp is not a time of the years 1 to 9999"),
        (5, "value", "is not a long: not 8 bytes"),
    ] == result.refused


@pytest.mark.parametrize("fields", [None, (JsonField(name="id", type="long"),)])
def test_timestamped_objects(fields: tuple[JsonField, ...] | None) -> None:
    """Of a value with fields each is a column, also if they are inferred."""
    content = longs(START_MS) + json.dumps({"id": 7}).encode()
    spec = TimestampedSpec(of=JsonSpec(fields=fields))
    result = by_value(spec, content, sample=[batch([(b"k", content)])])
    assert [{"key": b"k", "value_timestamp": START, "id": 7}] == result.rows


def test_windows_of_time() -> None:
    """The start is in the key, the end by the size; a store's changelog has a number, too."""
    end = START + dt.timedelta(minutes=1)
    key = b"ab" + longs(START_MS)
    assert [{"key": {"key": "ab", "window_start": START, "window_end": end}, "value": b"v"}] == (
        by_key(WindowedSpec(of=STRING, size_ms=60_000), key).rows
    )
    unknown = by_key(WindowedSpec(of=STRING, store=True), key + b"\0\0\0\1").rows
    assert {"key": "ab", "window_start": START, "window_end": None} == unknown[0]["key"]
    assert [(0, "key", "is shorter than its window")] == by_key(WindowedSpec(), b"1234567").refused


def test_windows_of_sessions() -> None:
    """The end is before the start."""
    end = START + dt.timedelta(seconds=3)
    key = b"ab" + longs(START_MS + 3000, START_MS)
    result = by_key(WindowedSpec(of=STRING, session=True), key, longs(2**60, START_MS))
    assert [{"key": "ab", "window_start": START, "window_end": end}] == [
        row["key"] for row in result.rows
    ]
    reason = "field window_end is not a time of the years 1 to 9999"
    assert [(1, "key", reason)] == result.refused


def test_specs_that_contradict() -> None:
    """A session's window has no size; a format for key and value together is not inside another."""
    with pytest.raises(ValidationError, match="no size"):
        WindowedSpec(session=True, size_ms=1)
    with pytest.raises(ValidationError, match="must have a format of"):
        WindowedSpec.model_validate({"of": {"format": "kafka-internal"}})
