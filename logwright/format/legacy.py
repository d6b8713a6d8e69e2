"""Messages of formats v0 and v1, which brokers before 0.11 wrote (LegacyRecord,
AbstractLegacyRecordBatch, Kafka 4.3.0), and the record batch of format v2 that each becomes.

::

     0  offset       int64   of the message; of a wrapper that of its last message
     8  size         int32   bytes after this field
    12  crc          uint32  CRC-32 of byte 16 to the end
    16  magic        int8    0 or 1
    17  attributes   int8    0-2 codec (none, gzip, snappy, lz4), 3 LogAppendTime (v1)
    18  timestamp    int64   v1 only; -1 = none
        keyLength    int32   -1 = null
        key
        valueLength  int32   -1 = null: a tombstone
        value                of a wrapper: messages, compressed as one

1. What stands in a log by itself is a batch: a message, or a wrapper with a codec, whose value
   holds messages of the same form without one. A wrapper in a wrapper is refused.
2. Messages in a v0 wrapper have their offsets in the log. In a v1 wrapper they are relative: the
   last one has the wrapper's offset.
3. A v0 message has no timestamp. In a v1 wrapper with LogAppendTime all have the wrapper's.
4. Kafka's cleaner writes each batch in format v2, with the same codec (MemoryRecords.filterTo).
   Base and last offset are those of the first and last record; there is neither a leader epoch nor
   a producer.
5. The CRC covers all of a batch but offset and size; that of a message in a wrapper is not checked,
   as Kafka does not.

Every length is untrusted: it is checked against the bytes that are left; decompression is bounded.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.errors import CorruptBatch
from logwright.format.batch import (
    CODEC_MASK,
    LOG_APPEND_TIME,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_AT,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    RecordBatch,
    serialize_batch,
)
from logwright.format.codec import LZ4, ZSTD, compress, decompress
from logwright.format.limits import AboveLimit, CodecError, above_limit, decompression_limit
from logwright.format.lz4frame import decompress_lz4
from logwright.format.record import encode_varint
from logwright.kernel import inline_kernel, kernel
from logwright.units import INT32_MAX, INT64_MAX, Offset, TimestampMs

NOT_LEGACY: Final = 0
LEGACY: Final = 1
"""In the column `legacy` of a batch: it is, or was, of format v0 or v1."""
LEGACY_EXPIRED: Final = 2
"""It was, and its tombstones may go."""
NO_EPOCH: Final = -1
"""As leader epoch: a message has none."""
SMALLEST_BYTES: Final = (26, 34)
"""Bytes of the smallest message of each format."""
_TIMESTAMP_AT: Final = 18
_CRC_START: Final = 16
_HEAD: Final = struct.Struct(">qiIbb")
_TIMESTAMP: Final = struct.Struct(">q")
_LENGTH: Final = struct.Struct(">i")
_NULL: Final = -1
_NULL_LENGTH: Final = encode_varint(_NULL)
_NOTHING_FOLLOWS: Final = b"\x00"
"""The number of headers of a record: none."""


def _residues() -> NDArray[np.uint32]:
    """Return uint32[256]: what each byte adds to the rest of a CRC-32."""
    table = np.zeros(256, dtype=np.uint32)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0xEDB88320 if crc & 1 else 0)
        table[byte] = crc
    return table


_RESIDUES = _residues()


class LegacyBatch(NamedTuple):
    """A batch of format v0 or v1.

    Attributes:
        offset: of its last message. size: of all of it, bytes.
        timestamp: ms, -1 if it has none.
        key, value: None for null.
    """

    offset: int
    size: int
    magic: int
    crc: int
    attributes: int
    timestamp: int
    key: memoryview | None
    value: memoryview | None

    @property
    def codec(self) -> int:
        """Codec id, 0 to 7."""
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Whether its messages have its own timestamp; v0 has none."""
        return self.magic > 0 and bool(self.attributes & LOG_APPEND_TIME)


class LegacyRecord(NamedTuple):
    """A message, as a record: offset in the log, ms or -1, None for null."""

    offset: int
    timestamp: int
    key: memoryview | None
    value: memoryview | None


@inline_kernel
def is_legacy_magic(data: Any, position: int) -> Any:
    """Return whether the magic of a batch is 0 or 1."""
    return data[position + MAGIC_AT] < np.uint8(MAGIC)


@kernel
def is_legacy(data: Any, position: int, size: int) -> Any:
    """Return whether a whole batch of an old magic is one: it has the bytes of a message, and its
    CRC is right. Else it may be one of another format whose magic is damaged.
    """
    magic = np.int64(data[position + MAGIC_AT])
    if size < (SMALLEST_BYTES[0] if magic == 0 else SMALLEST_BYTES[1]):
        return False
    crc = np.uint32(0xFFFFFFFF)
    for at in range(position + _CRC_START, position + size):
        crc = _RESIDUES[(crc ^ np.uint32(data[at])) & np.uint32(0xFF)] ^ (crc >> np.uint32(8))
    expected = np.uint32(0)
    for index in range(4):
        expected = (expected << np.uint32(8)) | np.uint32(data[position + 12 + index])
    return (crc ^ np.uint32(0xFFFFFFFF)) == expected


@inline_kernel
def _read_int64(data: Any, at: int) -> Any:
    value = np.int64(0)
    for index in range(8):
        value = (value << np.int64(8)) | np.int64(data[at + index])
    return value


@inline_kernel
def fill_legacy(batch: Any, data: Any, position: int, size: int) -> None:
    """Note a batch of an old format in a row of BATCH. Of a wrapper only the last offset is known
    without its messages: base offset and count are as if it had one.
    """
    magic = np.int64(data[position + MAGIC_AT])
    attributes = np.int64(data[position + MAGIC_AT + 1])
    batch.position = position
    batch.size = size
    batch.base_offset = _read_int64(data, position)
    batch.last_offset = batch.base_offset
    batch.max_timestamp = np.int64(-1) if magic == 0 else _read_int64(data, position + 18)
    batch.base_timestamp = batch.max_timestamp
    batch.producer_id = np.int64(NO_PRODUCER_ID)
    batch.producer_epoch = -1
    batch.count = 1
    batch.attributes = attributes & (CODEC_MASK if magic == 0 else CODEC_MASK | LOG_APPEND_TIME)
    batch.control_type = -1


def legacy_batch_at(content: memoryview, position: int = 0) -> LegacyBatch:
    """Return the message at a position, which ends where its size says.

    Raises:
        CorruptBatch: it is truncated, or a length in it is wrong; with its position.
    """
    left = len(content) - position
    if left < _HEAD.size:
        raise CorruptBatch("a message is truncated.", position=position)
    offset, length, crc, magic, attributes = _HEAD.unpack_from(content, position)
    size = length + LOG_OVERHEAD_BYTES
    if not 0 <= magic < len(SMALLEST_BYTES):
        raise CorruptBatch(f"a message has magic {magic}.", position=position)
    if not SMALLEST_BYTES[magic] <= size <= left:
        raise CorruptBatch(f"a message of {size} bytes, where {left} are left.", position=position)
    timestamp = _TIMESTAMP.unpack_from(content, position + _TIMESTAMP_AT)[0] if magic else -1
    end = position + size
    key, at = _field(content, position + SMALLEST_BYTES[magic] - 8, end)
    value, at = _field(content, at, end)
    if at != end:
        raise CorruptBatch(f"{end - at} bytes follow a message's value.", position=position)
    return LegacyBatch(offset, size, magic, crc, attributes & 0xFF, timestamp, key, value)


def _field(content: memoryview, at: int, end: int) -> tuple[memoryview | None, int]:
    """Return (bytes or None for null, position after) of a field after its length."""
    if end - at < _LENGTH.size:
        raise CorruptBatch("a message ends inside a length.", position=at)
    (length,) = _LENGTH.unpack_from(content, at)
    at += _LENGTH.size
    if length == _NULL:
        return None, at
    if not 0 <= length <= end - at:
        raise CorruptBatch(f"a field of {length} bytes, but {end - at} are left.", position=at - 4)
    return content[at : at + length], at + length


def is_whole(content: memoryview) -> bool:
    """Return whether this is a whole batch: `is_legacy` in Python (LegacyRecord.isValid)."""
    magic = content[MAGIC_AT] if len(content) > MAGIC_AT else MAGIC
    if magic >= MAGIC or len(content) < SMALLEST_BYTES[magic]:
        return False
    _, length, crc, _, _ = _HEAD.unpack_from(content)
    whole = length + LOG_OVERHEAD_BYTES == len(content)
    return bool(whole and zlib.crc32(content[_CRC_START:]) == crc)


def legacy_records(batch: LegacyBatch) -> list[LegacyRecord]:
    """Return the records of a batch, at least one (DeepRecordsIterator).

    Raises:
        CorruptBatch: a wrapper does not decompress, or what is in it is not messages with
            ascending offsets.
        BatchAboveLimit: it unpacks to more than the limit.
    """
    if not batch.codec:
        return [LegacyRecord(batch.offset, batch.timestamp, batch.key, batch.value)]
    inner = _messages(batch)
    last = inner[-1].offset
    base = 0
    if batch.magic:
        # Some producers left 0 as the wrapper's offset.
        base = batch.offset - last if batch.offset else 0
    offsets = [base + each.offset for each in inner]
    before = -1
    for offset in offsets:
        if not before < offset <= INT64_MAX:
            raise _in(batch, "has messages whose offsets do not ascend")
        before = offset
    if offsets[-1] > batch.offset or offsets[-1] - offsets[0] > INT32_MAX:
        raise _in(batch, "has messages whose offsets do not fit it")
    append_time = batch.is_log_append_time
    return [
        LegacyRecord(
            offset,
            batch.timestamp if append_time and each.magic else each.timestamp,
            each.key,
            each.value,
        )
        for offset, each in zip(offsets, inner, strict=True)
    ]


def _messages(batch: LegacyBatch) -> list[LegacyBatch]:
    """Return the messages of a wrapper."""
    if batch.codec >= ZSTD or batch.value is None:
        raise _in(batch, "has no messages: its codec is unknown to its format, or its value null")
    limit = decompression_limit(batch.size)
    try:
        if batch.codec == LZ4 and not batch.magic:
            # Its producers computed the checksum of the frame's header over too much.
            section = decompress_lz4(batch.value, limit, check_header=False)
        else:
            section = decompress(batch.codec, batch.value, limit=limit)
    except AboveLimit as error:
        raise above_limit(batch.offset, limit) from error
    except (CodecError, ValueError) as error:
        raise _in(batch, f"cannot be decompressed ({error})") from error
    content, position = memoryview(section), 0
    messages: list[LegacyBatch] = []
    while position < len(content):
        try:
            message = legacy_batch_at(content, position)
        except CorruptBatch as error:
            raise _in(batch, f"has {error.problem.removesuffix('.')}") from error
        if message.codec:
            raise _in(batch, "has a compressed message in it")
        messages.append(message)
        position += message.size
    if not messages:
        raise _in(batch, "has no messages")
    return messages


def _in(batch: LegacyBatch, problem: str) -> CorruptBatch:
    return CorruptBatch(f"the message at offset {batch.offset} {problem}.")


def in_format_v2(batch: LegacyBatch) -> bytes:
    """Return the record batch of format v2 that Kafka's cleaner writes for this batch if all of its
    records stay and none is a tombstone (MemoryRecords.buildRetainedRecordsInto).

    Raises:
        CorruptBatch: see `legacy_records`; a timestamp is negative.
    """
    records = legacy_records(batch)
    first = records[0]
    if min(each.timestamp for each in records) < NO_TIMESTAMP:
        raise _in(batch, "has a negative timestamp")
    section = bytearray()
    for each in records:
        body = b"".join(
            (
                b"\x00",
                encode_varint(each.timestamp - first.timestamp),
                encode_varint(each.offset - first.offset),
                *_with_length(each.key),
                *_with_length(each.value),
                _NOTHING_FOLLOWS,
            )
        )
        section += encode_varint(len(body))
        section += body
    append_time = batch.is_log_append_time
    largest = batch.timestamp if append_time else max(each.timestamp for each in records)
    header = RecordBatch(
        base_offset=Offset(first.offset),
        batch_length=0,
        partition_leader_epoch=NO_EPOCH,
        crc=0,
        attributes=batch.codec | (LOG_APPEND_TIME if append_time else 0),
        last_offset_delta=records[-1].offset - first.offset,
        base_timestamp=TimestampMs(first.timestamp),
        max_timestamp=TimestampMs(largest),
        producer_id=NO_PRODUCER_ID,
        producer_epoch=-1,
        base_sequence=NO_SEQUENCE,
        records_count=len(records),
    )
    return serialize_batch(header, compress(batch.codec, bytes(section)))


def _with_length(content: memoryview | None) -> tuple[bytes | memoryview, ...]:
    if content is None:
        return (_NULL_LENGTH,)
    return (encode_varint(len(content)), content)
