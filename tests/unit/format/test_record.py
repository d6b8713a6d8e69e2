"""Varints and records both ways, and everything malformed refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logwright.errors import CorruptBatch, UnsupportedFormatError
from logwright.format.batch import parse_batch, serialize_batch
from logwright.format.codec import compress
from logwright.format.record import (
    Record,
    RecordHeader,
    decode_records,
    decode_varint,
    decode_varlong,
    encode_records,
    encode_varint,
    read_first_record,
    read_records,
)
from logwright.units import Offset, TimestampMs
from tests.unit.format import builders
from tests.unit.format.builders import a_header, a_record

if TYPE_CHECKING:
    from collections.abc import Callable

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
OPTIONAL_BYTES = st.none() | st.binary(max_size=40)
RECORDS = st.builds(
    Record,
    offset=st.integers(0, 2**31 - 1),
    timestamp_ms=st.integers(-1, 2**62),
    sequence=st.just(-1),
    key=OPTIONAL_BYTES,
    value=OPTIONAL_BYTES,
    headers=st.lists(
        st.builds(RecordHeader, key=st.binary(max_size=9), value=OPTIONAL_BYTES), max_size=3
    ).map(tuple),
)


def test_kafkas_two_records_decode() -> None:
    """Keys, a tombstone, headers with and without value, a negative timestamp delta."""
    content = builders.TWO_RECORDS
    expected = (
        Record(
            offset=Offset(100),
            timestamp_ms=TimestampMs(1000),
            sequence=50,
            key=b"k1",
            value=b"v1",
            headers=(RecordHeader(key=b"h", value=b"x"), RecordHeader(key=b"n", value=None)),
        ),
        Record(
            offset=Offset(101),
            timestamp_ms=TimestampMs(990),
            sequence=51,
            key=b"k2",
            value=None,
            headers=(),
        ),
    )
    batch = parse_batch(content)
    assert expected == read_records(batch, content)
    assert content[61:] == encode_records(batch, expected)


def test_times_are_kept_relative_to_a_delete_horizon() -> None:
    """5600 - 4610 = 990: the record's own time is still there after a cleaning."""
    content = builders.TOMBSTONE_WITH_HORIZON
    (record,) = read_records(parse_batch(content), content)
    assert (record.offset, record.timestamp_ms, record.sequence) == (101, 990, 51)


def test_log_append_time_overrides_every_records_time() -> None:
    """Under LogAppendTime a record's time is the batch's maxTimestamp."""
    header = a_header(attributes=0x08, max_timestamp=7777)
    (record,) = decode_records(header, builders.PLAIN_RECORD)
    assert record.timestamp_ms == 7777


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
@given(records=st.lists(RECORDS, max_size=5))
def test_records_round_trip(codec: int, records: list[Record]) -> None:
    """Under every codec what is written is read back."""
    header = a_header(attributes=codec, records_count=len(records))
    content = serialize_batch(header, compress(codec, encode_records(header, records)))
    assert tuple(records) == read_records(parse_batch(content), content)


@given(INT32)
def test_varints_round_trip(value: int) -> None:
    """An int32 takes at most 5 bytes."""
    encoded = encode_varint(value)
    assert len(encoded) <= 5
    assert (value, len(encoded)) == decode_varint(encoded, 0)


@given(INT64)
def test_varlongs_round_trip(value: int) -> None:
    """An int64 takes at most 10 bytes."""
    encoded = encode_varint(value)
    assert len(encoded) <= 10
    assert (value, len(encoded)) == decode_varlong(encoded, 0)


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
    ],
)
def test_zigzag(value: int, encoded: str) -> None:
    """Kafka's ByteUtils vectors."""
    assert bytes.fromhex(encoded) == encode_varint(value)


def test_bits_beyond_an_int32_are_dropped() -> None:
    """As in ByteUtils.readUnsignedVarint: only the length of a varint is checked."""
    assert decode_varint(b"\x80\x80\x80\x80\x10", 0) == (0, 5)


@pytest.mark.parametrize(
    ("decode", "encoded", "problem"),
    [
        (decode_varint, b"\x80" * 5 + b"\x00", "more than 5"),
        (decode_varlong, b"\x80" * 10 + b"\x00", "more than 10"),
        (decode_varint, b"\x80\x80", "end inside a varint"),
        (decode_varint, b"", "end inside a varint"),
        (decode_varlong, b"\xff" * 9, "end inside a varint"),
    ],
)
def test_long_and_cut_off_varints_are_refused(
    decode: Callable[[bytes, int], tuple[int, int]], encoded: bytes, problem: str
) -> None:
    """Never more bytes than the type can have, never after the buffer."""
    with pytest.raises(CorruptBatch, match=problem):
        decode(encoded, 0)


def body(*parts: bytes) -> bytes:
    joined = b"".join(parts)
    return encode_varint(len(joined)) + joined


START = b"\x00\x00\x00"
KEY = b"\x02k"
HUGE = encode_varint(2**31 - 1)
MALFORMED = {
    "negative record length": encode_varint(-1) + bytes(8),
    "huge record length": HUGE + bytes(8),
    "record length of 0": bytes(8),
    "negative key length": body(START, encode_varint(-2), b"\x00\x00\x00\x00"),
    "huge key length": body(START, HUGE, b"\x00\x00\x00"),
    "negative value length": body(START, KEY, encode_varint(-2), b"\x00\x00"),
    "huge value length": body(START, KEY, HUGE, b"\x00"),
    "value one byte too long": body(START, KEY, b"\x06vv"),
    "negative header count": body(START, KEY, b"\x02v", encode_varint(-1)),
    "huge header count": body(START, KEY, b"\x02v", HUGE),
    "header count without headers": body(START, KEY, b"\x02v", b"\x02"),
    "null header key": body(START, KEY, b"\x02v", b"\x02\x01\x01"),
    "negative header value": body(START, KEY, b"\x02v", b"\x02\x00", encode_varint(-2)),
    "huge header key": body(START, KEY, b"\x02v", b"\x02", HUGE),
    "bytes after the headers": body(START, KEY, b"\x02v", b"\x00", b"\x00"),
    "record of the attributes only": body(b"\x00") + bytes(8),
    "long timestamp": body(b"\x00", b"\x80" * 11, b"\x00" * 5),
    "bytes after the last record": builders.PLAIN_RECORD + b"\x00",
    "nothing": b"",
}


@pytest.mark.parametrize("section", MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_records_are_refused(section: bytes) -> None:
    """Every length and count is compared with what is left."""
    with pytest.raises(CorruptBatch):
        decode_records(a_header(), section)


@pytest.mark.parametrize("count", [-1, 0, 2, 2**31 - 1])
def test_a_wrong_record_count_is_refused(count: int) -> None:
    """Neither too few nor too many, and nothing is allocated for the claim."""
    with pytest.raises(CorruptBatch):
        decode_records(a_header(records_count=count), builders.PLAIN_RECORD)


@given(st.binary(max_size=120), st.integers(0, 20))
def test_noise_is_decoded_or_refused(section: bytes, count: int) -> None:
    """No other exception comes out, whatever the bytes."""
    try:
        records = decode_records(a_header(records_count=count), section)
    except CorruptBatch:
        return
    assert count == len(records)


@given(st.data())
def test_a_damaged_record_is_decoded_or_refused(data: st.DataObject) -> None:
    """As above, near to what is right."""
    header = a_header(records_count=3)
    section = bytearray(encode_records(header, [a_record(number) for number in range(3)]))
    section[data.draw(st.integers(0, len(section) - 1))] = data.draw(st.integers(0, 255))
    try:
        records = decode_records(header, bytes(section))
    except CorruptBatch:
        return
    assert len(records) == 3


def test_no_key_or_value_stands_in_a_message() -> None:
    """Errors name numbers only."""
    secret = b"planted-secret"
    section = body(START, encode_varint(len(secret)), secret, encode_varint(99), secret)
    with pytest.raises(CorruptBatch) as refused:
        decode_records(a_header(), section)
    assert "planted" not in str(refused.value)


def test_an_unknown_codec_is_unsupported() -> None:
    """Ids 5 to 7 have no meaning."""
    content = serialize_batch(a_header(attributes=5), builders.PLAIN_RECORD)
    with pytest.raises(UnsupportedFormatError, match="codec 5"):
        read_records(parse_batch(content), content)


def test_a_payload_that_cannot_be_decompressed_is_corrupt() -> None:
    """The codec's complaint is part of the message."""
    content = serialize_batch(a_header(attributes=4), b"noise")
    with pytest.raises(CorruptBatch, match="zstd"):
        read_records(parse_batch(content), content)


def test_the_first_record_is_read_whatever_follows() -> None:
    """A count that is too large, and bytes that are left over, are not its business."""
    content = serialize_batch(a_header(records_count=48), builders.PLAIN_RECORD + b"more")
    (expected,) = decode_records(a_header(), builders.PLAIN_RECORD)
    assert expected == read_first_record(parse_batch(content), content)


@pytest.mark.parametrize(
    ("count", "section"), [(0, b""), (-1, builders.PLAIN_RECORD), (1, b"\x10")]
)
def test_a_first_record_that_is_not_there(count: int, section: bytes) -> None:
    """It is refused with the batch's offset."""
    content = serialize_batch(a_header(records_count=count), section)
    with pytest.raises(CorruptBatch, match="batch at offset"):
        read_first_record(parse_batch(content), content)
