"""Plan what is read of a log: the offsets that readers see, and ranges of about equal size.

1. Offsets: [log start offset, high watermark) for read_uncommitted, [log start offset, last stable
   offset) for read_committed, within what was asked for.
2. The position of the first and the last one, and of the divisions between, are found by the offset
   index, and verified; without a right entry reading begins at the segment's start.
3. Ranges are exact by offset. What the positions say only saves reading.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import ceil
from typing import NamedTuple

from logwright.batches.segment_file import SegmentPart
from logwright.log.model import ReadableLog
from logwright.records.model import ReadRequest, RecordsRange
from logwright.records.observe import IndexedSegment, first_offset_at, is_before, parts_of


class Cut(NamedTuple):
    """A part of a segment, and the first offset that belongs to it."""

    start_offset: int
    part: SegmentPart


def plan_records(log: ReadableLog, request: ReadRequest) -> tuple[RecordsRange, ...]:
    """Return the ranges that hold the wanted records, in order; none if there are no records.
    Effects: reads index entries and the batches that they name; for timestamps also headers.

    Raises:
        CorruptBatch, UnsupportedFormatError, StalePlan, UnreadableFile: see `first_offset_at` and
            `IndexedSegment`.
    """
    start, end = visible_offsets(log, request)
    if request.start_timestamp_ms is not None and start < end:
        reached = first_offset_at(log, request.start_timestamp_ms, request.on_corrupt)
        start = end if reached is None else max(start, reached)
    if request.end_timestamp_ms is not None and start < end:
        reached = first_offset_at(log, request.end_timestamp_ms, request.on_corrupt)
        end = end if reached is None else min(end, reached)
    if start >= end:
        return ()
    parts = parts_of(log, start, end)
    low = request.min_timestamp_ms
    if low is not None:
        early = {one.base_offset for one in log.segments if is_before(one, low)}
        parts = [part for part in parts if part.base_offset not in early]
    cuts: list[Cut] = []
    for part in parts:
        cuts += _cut(log, part, (start, end), request.range_bytes)
    return tuple(_ranges(log, request, grouped(cuts, request.range_bytes), end))


def visible_offsets(log: ReadableLog, request: ReadRequest) -> tuple[int, int]:
    """Return the offsets [start, end) that a reader sees, within what was asked for. Pure."""
    end = int(log.high_watermark)
    if request.isolation == "read_committed":
        end = min(end, log.last_stable_offset)
    if request.end_offset is not None:
        end = min(end, request.end_offset)
    return max(log.log_start_offset, request.start_offset or 0), end


def bytes_between(log: ReadableLog, start_offset: int, end_offset: int) -> int:
    """Return about how many bytes of segments hold the offsets [start, end). Effects and errors:
    see `IndexedSegment`.
    """
    size = 0
    for part in parts_of(log, start_offset, end_offset):
        begin, stop = part.start, part.end
        if start_offset > part.base_offset or end_offset < part.end_offset:
            begin, stop = _positions(IndexedSegment(log, part), part, start_offset, end_offset)
        size += stop - begin
    return size


def offset_after(log: ReadableLog, start_offset: int, end_offset: int, size: int) -> int:
    """Return an offset such that [start, it) takes about this many bytes of segments, at least one
    batch; at most the end. Effects and errors: see `IndexedSegment`.
    """
    for part in parts_of(log, start_offset, end_offset):
        indexed = IndexedSegment(log, part)
        begin, _ = _positions(indexed, part, start_offset, part.end_offset)
        if part.end - begin < size:
            size -= part.end - begin
            continue
        place = indexed.near(begin + size)
        while place is not None and place.offset <= start_offset:
            place = indexed.near(place.position + 1)
        return min(end_offset, part.end_offset if place is None else place.offset)
    return end_offset


def _positions(indexed: IndexedSegment, part: SegmentPart, start: int, end: int) -> tuple[int, int]:
    """Return the positions between which a segment has the offsets [start, end)."""
    before, after = indexed.before(start), indexed.after(end)
    begin = before.position if before is not None and start > part.base_offset else part.start
    stop = after.position if after is not None and end < part.end_offset else part.end
    return begin, max(stop, begin)


def _cut(
    log: ReadableLog, part: SegmentPart, offsets: tuple[int, int], range_bytes: int
) -> Iterator[Cut]:
    """Yield the parts of a segment that hold the offsets [start, end), of about this size."""
    start, end = offsets
    first = max(start, part.base_offset)
    is_inside = start <= part.base_offset and end >= part.end_offset
    if is_inside and part.end <= range_bytes:
        yield Cut(first, part)
        return
    indexed = IndexedSegment(log, part)
    begin, stop = _positions(indexed, part, start, end)
    size = stop - begin
    places = [(begin, first)]
    count = ceil(size / range_bytes)
    for number in range(1, count):
        place = indexed.near(begin + size * number // count)
        if place is None or not places[-1][0] < place.position < stop:
            continue
        if places[-1][1] < place.offset < end:
            places.append((place.position, place.offset))
    for (position, offset), (following, _) in pairwise([*places, (stop, end)]):
        yield Cut(offset, part._replace(start=position, end=following))


def grouped(cuts: Sequence[Cut], range_bytes: int) -> list[list[Cut]]:
    """Return the cuts in groups of at most this size, at least one in each. Pure."""
    groups: list[list[Cut]] = []
    size = 0
    for cut in cuts:
        own = cut.part.end - cut.part.start
        if not groups or size + own > range_bytes:
            groups.append([])
            size = 0
        groups[-1].append(cut)
        size += own
    return groups


def _ranges(
    log: ReadableLog, request: ReadRequest, groups: Sequence[Sequence[Cut]], end: int
) -> Iterator[RecordsRange]:
    starts = [group[0].start_offset for group in groups]
    for group, start, following in zip(groups, starts, [*starts, end][1:], strict=True):
        yield RecordsRange(
            log_dir=log.log_dir,
            partition=log.partition,
            parts=tuple(cut.part for cut in group),
            start_offset=start,
            end_offset=following,
            log_start_offset=log.log_start_offset,
            min_timestamp_ms=request.min_timestamp_ms,
            max_timestamp_ms=request.max_timestamp_ms,
            isolation=request.isolation,
            on_corrupt=request.on_corrupt,
        )
