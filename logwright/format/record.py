"""Parse and serialize the records of a batch and their varints.

::

    length           varint   bytes that follow
    attributes       int8     0
    timestampDelta   varlong  to the batch's baseTimestamp
    offsetDelta      varint   to the batch's baseOffset
    keyLength        varint   -1 = null
    key
    valueLength      varint   -1 = null: a tombstone
    value
    headersCount     varint
    headers          each: varint length and UTF-8 key, varint length (-1 = null) and value

Source: DefaultRecord and ByteUtils of Kafka 4.3.0. As in Kafka, a varint's bits beyond the 32nd (a
varlong's beyond the 64th) are dropped. Unlike Kafka, a length below -1 is refused instead of read
as null. Every length is checked against the remaining bytes before slicing or allocating.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from logwright.errors import CorruptBatch, UnsupportedFormatError
from logwright.format.batch import (
    HEADER_BYTES,
    NO_SEQUENCE,
    RecordBatch,
    increment_sequence,
    to_int32,
    to_int64,
)
from logwright.format.codec import CODEC_NAMES, decompress
from logwright.format.limits import AboveLimit, CodecError, above_limit, decompression_limit
from logwright.units import Offset, TimestampMs

if TYPE_CHECKING:
    from collections.abc import Iterable

SMALLEST_RECORD_BYTES: Final = 7
"""Length, attributes, two deltas, two lengths and a header count, one byte each."""

SMALLEST_HEADER_BYTES: Final = 2

_VARINT_BYTES: Final = 5
_VARLONG_BYTES: Final = 10
_MORE: Final = 0x80
_NULL: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordHeader:
    """One header of a record; the key as the stored bytes, which should be UTF-8."""

    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record, with absolute offset and timestamp.

    Attributes:
        offset: offset in the partition.
        timestamp_ms: its own timestamp, or the batch's maxTimestamp under LogAppendTime.
        sequence: the producer's sequence, -1 if the batch has none.
        key: None for a null key.
        value: None for a tombstone.
    """

    offset: Offset
    timestamp_ms: TimestampMs
    sequence: int
    key: bytes | None
    value: bytes | None
    headers: tuple[RecordHeader, ...]


def encode_varint(value: int) -> bytes:
    """Encode an int32 or int64 as a zigzag varint; an int32 has the same bytes in both."""
    rest = value << 1 if value >= 0 else (-value << 1) - 1
    encoded = bytearray()
    while rest >= _MORE:
        encoded.append(rest & 0x7F | _MORE)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def decode_varint(buffer: bytes | memoryview, position: int) -> tuple[int, int]:
    """Decode to (int32, position after it).

    Raises:
        CorruptBatch: it has more than 5 bytes, or the buffer ends inside it.
    """
    raw, position = _decode_unsigned(buffer, position, _VARINT_BYTES)
    raw &= 0xFFFF_FFFF
    return to_int32(raw >> 1 ^ -(raw & 1)), position


def decode_varlong(buffer: bytes | memoryview, position: int) -> tuple[int, int]:
    """Decode to (int64, position after it).

    Raises:
        CorruptBatch: it has more than 10 bytes, or the buffer ends inside it.
    """
    raw, position = _decode_unsigned(buffer, position, _VARLONG_BYTES)
    raw &= 0xFFFF_FFFF_FFFF_FFFF
    return to_int64(raw >> 1 ^ -(raw & 1)), position


def _decode_unsigned(buffer: bytes | memoryview, position: int, longest: int) -> tuple[int, int]:
    value = 0
    end = min(len(buffer), position + longest)
    for index in range(position, end):
        byte = buffer[index]
        value |= (byte & 0x7F) << 7 * (index - position)
        if byte < _MORE:
            return value, index + 1
    if end == position + longest:
        raise CorruptBatch(f"a varint has more than {longest} bytes.")
    raise CorruptBatch("the records end inside a varint.")


def encode_record(batch: RecordBatch, record: Record) -> bytes:
    """Encode one record for an uncompressed batch with this header.

    Under LogAppendTime the record's own timestamp is lost: its delta is relative to the batch's
    base timestamp.
    """
    body = bytearray(b"\x00")
    body += encode_varint(record.timestamp_ms - batch.base_timestamp)
    body += encode_varint(record.offset - batch.base_offset)
    _append_bytes(body, record.key)
    _append_bytes(body, record.value)
    body += encode_varint(len(record.headers))
    for header in record.headers:
        _append_bytes(body, header.key)
        _append_bytes(body, header.value)
    return encode_varint(len(body)) + bytes(body)


def encode_records(batch: RecordBatch, records: Iterable[Record]) -> bytes:
    """Encode the uncompressed records section of a batch."""
    return b"".join(encode_record(batch, record) for record in records)


def _append_bytes(body: bytearray, content: bytes | None) -> None:
    if content is None:
        body += encode_varint(_NULL)
    else:
        body += encode_varint(len(content))
        body += content


def read_records(batch: RecordBatch, content: bytes | memoryview) -> tuple[Record, ...]:
    """Return the records of the whole batch `content`, decompressed if necessary.

    Raises:
        CorruptBatch: the payload or a record is malformed.
        BatchAboveLimit: it unpacks to more than the limit.
        UnsupportedFormatError: the codec is unknown.
    """
    return decode_records(batch, _section(batch, content))


def read_first_record(batch: RecordBatch, content: bytes | memoryview) -> Record:
    """Return the first record of the whole batch `content`, whatever follows it. A broker that
    loads a log reads no more of a control batch (ProducerAppendInfo.append).

    Raises:
        CorruptBatch, UnsupportedFormatError: see `read_records`.
    """
    if batch.records_count < 1:
        raise CorruptBatch(
            f"the record batch at offset {batch.base_offset} cannot hold"
            f" {batch.records_count} records."
        )
    try:
        return _decode_record(batch, _section(batch, content), 0)[0]
    except CorruptBatch as error:
        raise CorruptBatch(
            f"record 0 of the batch at offset {batch.base_offset}: {error.problem}"
        ) from error


def _section(batch: RecordBatch, content: bytes | memoryview) -> bytes | memoryview:
    """Return the records section of a batch, decompressed if necessary."""
    if batch.codec >= len(CODEC_NAMES):
        raise UnsupportedFormatError(
            f"the record batch's codec {batch.codec} is unknown.",
            remedy="The log was left untouched.",
        )
    payload = memoryview(content)[HEADER_BYTES:]
    if not payload:
        # An empty batch has nothing to decompress, be the codec what it may.
        return payload
    limit = decompression_limit(len(content))
    try:
        return decompress(batch.codec, payload, limit=limit)
    except AboveLimit as error:
        raise above_limit(batch.base_offset, limit) from error
    except CodecError as error:
        raise CorruptBatch(
            f"the record batch at offset {batch.base_offset} cannot be decompressed ({error})."
        ) from error


def decode_records(batch: RecordBatch, section: bytes | memoryview) -> tuple[Record, ...]:
    """Return all records of an uncompressed records section.

    Raises:
        CorruptBatch: the count is impossible, a record is malformed, or bytes are left over.
    """
    count = batch.records_count
    if not 0 <= count <= len(section) // SMALLEST_RECORD_BYTES:
        raise CorruptBatch(
            f"the record batch at offset {batch.base_offset} cannot hold {count} records"
            f" in {len(section)} bytes."
        )
    records: list[Record] = []
    position = 0
    for number in range(count):
        try:
            record, position = _decode_record(batch, section, position)
        except CorruptBatch as error:
            raise CorruptBatch(
                f"record {number} of the batch at offset {batch.base_offset}: {error.problem}"
            ) from error
        records.append(record)
    if position != len(section):
        raise CorruptBatch(
            f"{len(section) - position} bytes follow the {count} records of the batch"
            f" at offset {batch.base_offset}."
        )
    return tuple(records)


def _decode_record(
    batch: RecordBatch, section: bytes | memoryview, position: int
) -> tuple[Record, int]:
    length, start = decode_varint(section, position)
    if not 0 < length <= len(section) - start:
        raise CorruptBatch(f"a length of {length}, where {len(section) - start} bytes are left.")
    end = start + length
    body = memoryview(section)[start:end]
    timestamp_delta, position = decode_varlong(body, 1)
    offset_delta, position = decode_varint(body, position)
    key, position = _take(body, position)
    value, position = _take(body, position)
    headers, position = _decode_headers(body, position)
    if position != length:
        raise CorruptBatch(f"its length is {length}, its content has {position} bytes.")
    timestamp = (
        batch.max_timestamp
        if batch.is_log_append_time
        else TimestampMs(to_int64(batch.base_timestamp + timestamp_delta))
    )
    sequence = NO_SEQUENCE
    if batch.base_sequence >= 0:
        sequence = increment_sequence(batch.base_sequence, offset_delta)
    record = Record(
        offset=Offset(to_int64(batch.base_offset + offset_delta)),
        timestamp_ms=timestamp,
        sequence=sequence,
        key=key,
        value=value,
        headers=headers,
    )
    return record, end


def _decode_headers(body: memoryview, position: int) -> tuple[tuple[RecordHeader, ...], int]:
    count, position = decode_varint(body, position)
    if not 0 <= count <= (len(body) - position) // SMALLEST_HEADER_BYTES:
        raise CorruptBatch(f"{count} headers, where {len(body) - position} bytes are left.")
    headers: list[RecordHeader] = []
    for _ in range(count):
        key, position = _take(body, position)
        if key is None:
            raise CorruptBatch("a header's key is null.")
        value, position = _take(body, position)
        headers.append(RecordHeader(key=key, value=value))
    return tuple(headers), position


def _take(body: memoryview, position: int) -> tuple[bytes | None, int]:
    """Return (bytes or None for null, position after) of a field after its varint length."""
    length, position = decode_varint(body, position)
    if length == _NULL:
        return None, position
    if not 0 <= length <= len(body) - position:
        raise CorruptBatch(f"a field of {length} bytes, but {len(body) - position} are left.")
    return bytes(body[position : position + length]), position + length
