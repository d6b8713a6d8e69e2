"""Record batches of magic 2: parse and serialize headers, and iterate over a buffer of batches.

::

     0  baseOffset            int64
     8  batchLength           int32   bytes after this field
    12  partitionLeaderEpoch  int32   not covered by the CRC
    16  magic                 int8    2
    17  crc                   uint32  CRC-32C of byte 21 to the end
    21  attributes            int16   0-2 codec, 3 LogAppendTime, 4 transactional, 5 control,
                                      6 baseTimestamp is the delete horizon
    23  lastOffsetDelta       int32
    27  baseTimestamp         int64
    35  maxTimestamp          int64
    43  producerId            int64
    51  producerEpoch         int16
    53  baseSequence          int32
    57  recordsCount          int32
    61  records, or one compressed stream of them

Source: DefaultRecordBatch, FileLogInputStream and ByteBufferLogInputStream of Kafka 4.3.0.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from logwright.errors import CorruptBatch, UnsupportedFormatError
from logwright.format.crc import crc32c
from logwright.units import INT32_MAX, ByteCount, Offset, TimestampMs

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER_BYTES: Final = 61
LOG_OVERHEAD_BYTES: Final = 12
HEADER_UP_TO_MAGIC_BYTES: Final = 17
CRC_START: Final = 21
MAGIC: Final = 2
MAGIC_AT: Final = 16
"""Position of the magic in a batch of any format."""
SMALLEST_LEGACY_LENGTH: Final = 14
"""The v0 record overhead: a smaller batchLength is corrupt for any magic."""

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

NO_TIMESTAMP: Final = TimestampMs(-1)
NO_PRODUCER_ID: Final = -1
NO_SEQUENCE: Final = -1

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_LENGTH: Final = struct.Struct(">i")
_LENGTH_AT: Final = 8
_MAGIC: Final = struct.Struct(">b")
_MAGIC_AT: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordBatch:
    """The header of a record batch; fields as on disk.

    Attributes:
        batch_length: number of bytes after the batchLength field.
        attributes: the bits as on disk; see the properties.
        records_count: number of records in the batch; 0 in an emptied batch.
    """

    base_offset: Offset
    batch_length: int
    partition_leader_epoch: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: TimestampMs
    max_timestamp: TimestampMs
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size_bytes(self) -> ByteCount:
        """Size of the whole batch."""
        return ByteCount(self.batch_length + LOG_OVERHEAD_BYTES)

    @property
    def last_offset(self) -> Offset:
        """Offset of the last record at creation; compaction may have removed it."""
        return Offset(to_int64(self.base_offset + self.last_offset_delta))

    @property
    def next_offset(self) -> Offset:
        """First offset after the batch."""
        return Offset(to_int64(self.last_offset + 1))

    @property
    def codec(self) -> int:
        """Codec id, 0 to 7."""
        return self.attributes & CODEC_MASK

    @property
    def is_log_append_time(self) -> bool:
        """Whether every record has maxTimestamp as its timestamp."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        """Whether the batch is part of a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a control record."""
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon_ms(self) -> TimestampMs | None:
        """When its tombstones and markers may be removed (KIP-534); None if not set."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    @property
    def has_producer_id(self) -> bool:
        """Whether an idempotent or transactional producer wrote it."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record at creation, -1 if it has none."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSpan:
    """Position and size of a batch in a buffer, and its magic."""

    position: ByteCount
    bytes: ByteCount
    magic: int


def parse_batch(buffer: bytes | memoryview, position: int = 0) -> RecordBatch:
    """Parse the header at `position`; does not check the CRC or the length.

    Raises:
        CorruptBatch: fewer bytes than a header, or a length smaller than a header.
        UnsupportedFormatError: the magic is not 2.
    """
    if len(buffer) - position < HEADER_BYTES:
        raise CorruptBatch("the record batch's header is truncated.", position=position)
    fields = _HEADER.unpack_from(buffer, position)
    if fields[3] != MAGIC:
        raise unsupported_magic(fields[3], position)
    if fields[1] < HEADER_BYTES - LOG_OVERHEAD_BYTES:
        raise CorruptBatch(
            f"a record batch of {fields[1] + LOG_OVERHEAD_BYTES} bytes is shorter than its header.",
            position=position,
        )
    return RecordBatch(
        base_offset=Offset(fields[0]),
        batch_length=fields[1],
        partition_leader_epoch=fields[2],
        crc=fields[4],
        attributes=fields[5],
        last_offset_delta=fields[6],
        base_timestamp=TimestampMs(fields[7]),
        max_timestamp=TimestampMs(fields[8]),
        producer_id=fields[9],
        producer_epoch=fields[10],
        base_sequence=fields[11],
        records_count=fields[12],
    )


def serialize_header(batch: RecordBatch) -> bytes:
    """Return the 61 bytes of a header, with the length and CRC of `batch`."""
    return _HEADER.pack(
        batch.base_offset,
        batch.batch_length,
        batch.partition_leader_epoch,
        MAGIC,
        batch.crc,
        batch.attributes,
        batch.last_offset_delta,
        batch.base_timestamp,
        batch.max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        batch.records_count,
    )


def serialize_batch(batch: RecordBatch, payload: bytes | memoryview) -> bytes:
    """Return a whole batch; its length and CRC are computed, those of `batch` are ignored."""
    sized = replace(batch, batch_length=HEADER_BYTES - LOG_OVERHEAD_BYTES + len(payload), crc=0)
    content = bytearray(serialize_header(sized))
    content += payload
    struct.pack_into(">I", content, 17, crc32c(bytes(memoryview(content)[CRC_START:])))
    return bytes(content)


def emptied_batch(batch: RecordBatch) -> RecordBatch:
    """Return the empty batch that the cleaner writes for a batch that it retains without records.

    Source: DefaultRecordBatch.writeEmptyHeader. Codec and delete horizon bits are cleared.
    """
    return replace(
        batch,
        attributes=batch.attributes & (LOG_APPEND_TIME | TRANSACTIONAL | CONTROL),
        base_timestamp=NO_TIMESTAMP,
        records_count=0,
    )


def crc_is_valid(batch: RecordBatch, content: bytes | memoryview) -> bool:
    """Return whether the CRC of the whole batch `content` is correct (isValid, 4.3.0)."""
    return len(content) >= HEADER_BYTES and crc32c(memoryview(content)[CRC_START:]) == batch.crc


def walk_batches(buffer: bytes | memoryview, *, in_memory: bool = False) -> Iterator[BatchSpan]:
    """Yield the batches of a buffer, using only their length fields.

    Iteration ends without an error when 17 bytes or fewer are left (in memory fewer than 17, but a
    length is checked as soon as it can be read), and before a truncated batch: the bytes after the
    last span are a torn tail.

    Args:
        buffer: a segment's bytes.
        in_memory: behave like ByteBufferLogInputStream, which refuses a magic above 2, instead of
            FileLogInputStream, which leaves that to the reader of the batch.

    Raises:
        CorruptBatch: an invalid length (as in a zero-filled tail), with its position.
        UnsupportedFormatError: in memory, a magic outside 0 to 2.
    """
    total = len(buffer)
    position = 0
    smallest = LOG_OVERHEAD_BYTES if in_memory else HEADER_UP_TO_MAGIC_BYTES + 1
    while total - position >= smallest:
        (length,) = _LENGTH.unpack_from(buffer, position + _LENGTH_AT)
        if length < SMALLEST_LEGACY_LENGTH:
            raise CorruptBatch(f"a record batch's length is {length}.", position=position)
        if total - position < HEADER_UP_TO_MAGIC_BYTES:
            return
        (magic,) = _MAGIC.unpack_from(buffer, position + _MAGIC_AT)
        if in_memory and not 0 <= magic <= MAGIC:
            raise unsupported_magic(magic, position)
        size = length + LOG_OVERHEAD_BYTES
        if size > total - position:
            return
        yield BatchSpan(position=ByteCount(position), bytes=ByteCount(size), magic=magic)
        position += size


def unsupported_magic(magic: int, position: int) -> UnsupportedFormatError:
    """Return the error for a batch whose magic is not one that can be there."""
    return UnsupportedFormatError(
        f"the record batch's magic {magic} is unknown.",
        position=position,
        remedy="The log was not changed. Restore the segment.",
    )


def increment_sequence(sequence: int, increment: int) -> int:
    """Return an increased sequence; wraps around after the largest int32 (incrementSequence)."""
    if sequence > to_int32(INT32_MAX - increment):
        return to_int32(increment - (INT32_MAX - sequence) - 1)
    return to_int32(sequence + increment)


def decrement_sequence(sequence: int, decrement: int) -> int:
    """Return a decreased sequence; wraps around below 0 (decrementSequence)."""
    if sequence < decrement:
        return to_int32(INT32_MAX - (decrement - sequence) + 1)
    return to_int32(sequence - decrement)


def to_int32(value: int) -> int:
    """Wrap a number to 32 bits, like Java's int arithmetic."""
    return ((value + 0x8000_0000) & 0xFFFF_FFFF) - 0x8000_0000


def to_int64(value: int) -> int:
    """Return the value as a two's complement of 64 bits, like Java's long arithmetic."""
    return ((value + (1 << 63)) & 0xFFFF_FFFF_FFFF_FFFF) - (1 << 63)
