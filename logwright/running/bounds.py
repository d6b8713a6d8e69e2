"""Where the shown part of a running log ends: in its last segment, and in that segment's indexes.

Nothing at or beyond the bound is taken for data: torn batches are there, and the zeros of
``preallocate=true`` and of preallocated indexes. An index is only a hint where to begin.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

from logwright.errors import CorruptBatch
from logwright.format.batch import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MAGIC_AT,
    crc_is_valid,
    parse_batch,
)
from logwright.format.control import ControlType, parse_control_key
from logwright.format.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, TXN_ENTRY_BYTES
from logwright.format.legacy import SMALLEST_BYTES, is_whole, legacy_batch_at, legacy_records
from logwright.format.record import read_records
from logwright.units import INT64_MAX, Offset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from logwright.format.checkpoints import LeaderEpoch
    from logwright.place.model import Bytes

_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")
_TXN_LAST_OFFSET: Final = struct.Struct(">18xq8x")
_START: Final = struct.Struct(">qii")
"""Base offset, batchLength and partitionLeaderEpoch."""


class End(NamedTuple):
    """Where what is shown of a segment ends.

    Attributes:
        size: bytes of its ``.log``, whole batches.
        following: the offset after the last of them; the segment's base offset without one.
        offset: what is below is shown. Beyond `following` there is nothing: a cleaner removed it.
        reached: what follows is at or beyond the bound; if not, the whole batches end before.
    """

    size: int
    following: Offset
    offset: Offset
    reached: bool


def end_of_log(log: Bytes, index: Bytes | None, *, base_offset: int, bound: int = INT64_MAX) -> End:
    """Return the end of the whole batches of a segment that are below an offset. Effects: reads the
    batches after the last index entry below it, or all of them if that is of no use.

    Args:
        log, index: the segment's files.
        bound: batches that reach it, or begin beyond it, are left out.

    Raises:
        UnreadableFile: the device fails.
    """
    size = log.seen[0]
    entry = _last_entry(index, base_offset=base_offset, bound=bound, size=size)
    if entry is not None:
        offset, position = entry
        end = _walk(log, position, base_offset, bound, named=offset)
        if end is not None:
            return end
    end = _walk(log, 0, base_offset, bound)
    first = Offset(base_offset)
    return End(0, first, first, reached=first >= bound) if end is None else end


def _last_entry(
    index: Bytes | None, *, base_offset: int, bound: int, size: int
) -> tuple[int, int] | None:
    """Return (last offset, position) of the last batch below the bound that has an index entry."""
    if index is None:
        return None
    rows = range(index.seen[0] // OFFSET_ENTRY_BYTES)
    most = _entries(index, base_offset=base_offset, size=size, bound=bound, rows=rows)
    if not most:
        return None
    offset, position = _offset_entry(index, most - 1)
    return base_offset + offset, position


def _offset_entry(index: Bytes, row: int) -> tuple[int, int]:
    entry = index.span(row * OFFSET_ENTRY_BYTES, OFFSET_ENTRY_BYTES)
    return _OFFSET_ENTRY.unpack(entry) if len(entry) == OFFSET_ENTRY_BYTES else (0, 0)


def _entries(index: Bytes, *, base_offset: int, size: int, bound: int, rows: range) -> int:
    """Return how many entries of an offset index are of batches below a size and an offset; those
    of a preallocated file are followed by zeros.
    """

    def is_beyond(row: int) -> bool:
        offset, position = _offset_entry(index, row)
        return not 0 < position < size or base_offset + offset >= bound

    return bisect_left(rows, True, key=is_beyond)  # noqa: FBT003 -- of a bisection


def _walk(
    log: Bytes, position: int, base_offset: int, bound: int, named: int | None = None
) -> End | None:
    """Return the end of the whole batches from a position on; None if not even one is there, or it
    is not the one that an index entry names by its last offset.
    """
    size, expected, first = log.seen[0], base_offset, True
    while position < size:
        header = log.span(position, HEADER_BYTES)
        if len(header) <= MAGIC_AT or header[MAGIC_AT] > MAGIC:
            break
        offset, length, _ = _START.unpack_from(header)
        whole = LOG_OVERHEAD_BYTES + length
        is_old = header[MAGIC_AT] < MAGIC
        smallest = min(SMALLEST_BYTES) if is_old else HEADER_BYTES
        if whole < smallest or position + whole > size:
            break
        last = offset if is_old else parse_batch(header).last_offset
        # An entry may name a later batch that was appended with this one; of an old format an
        # earlier message, which no header has (`logwright.format.lookup`).
        is_named = not first or named is None or is_old or offset <= named
        if offset < expected or last < offset or not is_named:
            break
        if last >= bound:
            start = _first_offset(log.span(position, whole), expected) if is_old else offset
            return End(position, Offset(expected), Offset(min(bound, start)), reached=True)
        content = memoryview(log.span(position, whole))
        if not (is_whole(content) if is_old else crc_is_valid(parse_batch(header), content)):
            break
        position, expected, first = position + whole, last + 1, False
    if first:
        return None
    return End(position, Offset(expected), Offset(expected), reached=expected >= bound)


def _first_offset(content: bytes, expected: int) -> int:
    """Return the first offset of a batch of an old format, which may be torn: else the first that
    it can have.
    """
    old = memoryview(content)
    try:
        return legacy_records(legacy_batch_at(old))[0].offset if is_whole(old) else expected
    except CorruptBatch:
        return expected


def has_abort(log: Bytes, size: int) -> bool:
    """Return whether the first bytes of a segment, whole batches, have a marker that aborts a
    transaction. Effects: reads all headers.
    """
    position = 0
    while position < size:
        header = log.span(position, HEADER_BYTES)
        if header[MAGIC_AT] < MAGIC:  # of an old format, which has no markers
            position += LOG_OVERHEAD_BYTES + int.from_bytes(header[8:12], "big")
            continue
        batch = parse_batch(header)
        whole = LOG_OVERHEAD_BYTES + batch.batch_length
        if batch.is_control and batch.records_count:
            records = read_records(batch, log.span(position, whole))
            if parse_control_key(records[0].key) is ControlType.ABORT:
                return True
        position += whole
    return False


def size_of_index(index: Bytes, *, base_offset: int, end: End) -> int:
    """Return the bytes of an offset index whose entries name shown batches. Effects: reads some."""
    rows = range(index.seen[0] // OFFSET_ENTRY_BYTES)
    count = _entries(index, base_offset=base_offset, size=end.size, bound=end.offset, rows=rows)
    return count * OFFSET_ENTRY_BYTES


def size_of_timeindex(timeindex: Bytes, *, base_offset: int, end: End) -> int:
    """Return the bytes of a time index whose entries name shown records. Effects: reads some."""

    def is_beyond(row: int) -> bool:
        entry = timeindex.span(row * TIME_ENTRY_BYTES, TIME_ENTRY_BYTES)
        timestamp, offset = _TIME_ENTRY.unpack(entry) if len(entry) == TIME_ENTRY_BYTES else (0, 0)
        return (timestamp, offset) == (0, 0) or base_offset + offset >= end.offset

    rows = range(timeindex.seen[0] // TIME_ENTRY_BYTES)
    return bisect_left(rows, True, key=is_beyond) * TIME_ENTRY_BYTES  # noqa: FBT003 -- as above


def size_of_txnindex(txnindex: Bytes, *, end: End) -> int:
    """Return the bytes of a transaction index whose transactions have a shown marker. Effects:
    reads it.
    """
    content = txnindex.span(0, txnindex.seen[0])
    rows = range(len(content) // TXN_ENTRY_BYTES)

    def is_beyond(row: int) -> bool:
        (last_offset,) = _TXN_LAST_OFFSET.unpack_from(content, row * TXN_ENTRY_BYTES)
        return bool(last_offset >= end.offset)

    return bisect_left(rows, True, key=is_beyond) * TXN_ENTRY_BYTES  # noqa: FBT003 -- as above


def holding(bases: Sequence[int], bound: int) -> int:
    """Return the index of the segment in which a log ends that is cut at an offset: the last that
    begins at or below it; the first if none does. Pure.

    Args:
        bases: base offsets, ascending, at least one.
    """
    return max(bisect_right(bases, bound) - 1, 0)


def first_epoch(log: Bytes) -> tuple[int, int] | None:
    """Return (base offset, partitionLeaderEpoch) of a segment's first batch; None if it has none.
    Effects: reads its header.
    """
    header = log.span(0, _START.size)
    if len(header) < _START.size:
        return None
    offset, _, epoch = _START.unpack(header)
    return offset, epoch


def is_of(epochs: Sequence[LeaderEpoch], offset: int, epoch: int) -> bool:
    """Return whether a batch can be of a log with these leader epochs (KIP-101); if they do not say
    it, it can. Pure.
    """
    if epoch < 0:
        return True
    passed = [each.epoch for each in epochs if each.start_offset <= offset]
    return not passed or passed[-1] == epoch


def same_history(before: Sequence[LeaderEpoch], after: Sequence[LeaderEpoch], bound: int) -> bool:
    """Return whether a log with these leader epochs, first and now, was not truncated below an
    offset: epochs may have begun at or above it, and the first ones may have gone or moved up with
    the log start. Pure.
    """
    old = [each for each in before if each.start_offset < bound]
    new = [each for each in after if each.start_offset < bound]
    if not new:
        return not old or (bool(after) and after[0].epoch >= old[-1].epoch)
    kept = [each for each in old if each.epoch >= new[0].epoch]
    if not kept:
        return False
    moved = kept[0].epoch == new[0].epoch and kept[0].start_offset <= new[0].start_offset
    return moved and kept[1:] == new[1:]
