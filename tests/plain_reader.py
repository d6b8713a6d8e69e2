"""What a segment must be like to be cleaned, checked as plainly as can be: the twin of the kernels
that scan and walk.
"""

from __future__ import annotations

from logwright.errors import CorruptLogError, UnsupportedFormatError
from logwright.format.batch import HEADER_BYTES, RecordBatch, crc_is_valid, parse_batch
from logwright.format.codec import CODEC_NAMES
from logwright.format.control import parse_control_key
from logwright.format.record import Record, read_records
from logwright.units import INT32_MAX


def is_readable(content: bytes, *, base_offset: int, end_offset: int) -> bool:
    """Whether every batch and record of a segment's log is right."""
    position, next_offset = 0, base_offset
    while position < len(content):
        if len(content) - position < HEADER_BYTES:
            return False
        try:
            batch = parse_batch(content, position)
            whole = content[position : position + batch.size_bytes]
            if len(whole) < batch.size_bytes or not crc_is_valid(batch, whole):
                return False
            if not _header_is_right(batch, base_offset, next_offset, end_offset):
                return False
            records = read_records(batch, whole)
            if batch.is_control and records:
                parse_control_key(records[0].key)
        except (CorruptLogError, UnsupportedFormatError):
            return False
        if not _offsets_ascend(batch, records):
            return False
        position += batch.size_bytes
        next_offset = batch.next_offset
    return True


def _header_is_right(
    batch: RecordBatch, base_offset: int, next_offset: int, end_offset: int
) -> bool:
    return (
        batch.codec < len(CODEC_NAMES)
        and 0 <= batch.last_offset_delta
        and 0 <= batch.records_count <= batch.last_offset_delta + 1
        and next_offset <= batch.base_offset <= batch.last_offset < end_offset
        and batch.last_offset - base_offset <= INT32_MAX
        and not (batch.is_control and batch.codec and batch.records_count)
    )


def _offsets_ascend(batch: RecordBatch, records: tuple[Record, ...]) -> bool:
    offsets = [record.offset for record in records]
    return offsets == sorted(set(offsets)) and all(
        batch.base_offset <= offset <= batch.last_offset for offset in offsets
    )
