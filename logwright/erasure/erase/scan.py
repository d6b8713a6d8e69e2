"""Find the records of some keys in the live segments of a log, or in any file of batches."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.batches.runtime import Progress, Runtime
from logwright.batches.source import Source, Window, open_source, open_window, row_ranges
from logwright.checks.latest import require_readable
from logwright.erasure.erase.model import Matcher, Scan, SegmentMatches
from logwright.erasure.erase.scan_kernels import KeyList, list_keys
from logwright.erasure.keys import Keys
from logwright.format.batch import CODEC_MASK
from logwright.format.scan import check_crcs
from logwright.format.walk import OK
from logwright.log.mapped import MappedFiles
from logwright.units import Offset

if TYPE_CHECKING:
    from logwright.log.model import PartitionLog


class Matches(NamedTuple):
    """Matching records.

    Attributes:
        ordinals, offsets: int64[n], ascending.
        requests: int32[n], number of the request. tombstones: bool[n].
    """

    ordinals: NDArray[np.int64]
    offsets: NDArray[np.int64]
    requests: NDArray[np.int32]
    tombstones: NDArray[np.bool_]


def open_segments(log: PartitionLog) -> list[Source]:
    """Map all segments of a log and read their batch headers; the active one too. Effects: maps
    them.

    Raises:
        CorruptBatch, UnsupportedFormatError, UnreadableFile, StalePlan: see `open_source`.
    """
    files, sources, ordinal = MappedFiles(), [], 0
    ends = [following.base_offset for _, following in pairwise(log.segments)]
    for segment, end in zip(log.segments, [*ends, log.log_end_offset], strict=True):
        source = open_source(
            log.directory_text, segment, files, end_offset=end, first_ordinal=ordinal
        )
        ordinal += source.records
        sources.append(source)
    return sources


def scan_log(
    log: PartitionLog, keys: Matcher, *, progress: Progress, runtime: Runtime | None = None
) -> Scan:
    """Scan all segments of a log. Effects: reads them.

    Raises:
        CorruptBatch, UnsupportedFormatError, UnreadableFile, StalePlan: a segment cannot be read.
    """
    sources = open_segments(log)
    records = sum(source.records for source in sources)
    matching = np.zeros((records + 7) // 8, dtype=np.uint8)
    segments, requests = [], set[int]()
    total, done = sum(source.log.bytes for source in sources), 0
    for segment, source in zip(log.segments, sources, strict=True):
        count, first = 0, -1
        for found in matches_of(source, keys, runtime=runtime or Runtime()):
            if len(found.ordinals):
                bits = np.left_shift(1, found.ordinals & 7).astype(np.uint8)
                np.bitwise_or.at(matching, found.ordinals >> 3, bits)
                first = int(found.offsets[0]) if first < 0 else first
                count += len(found.ordinals)
                requests.update(np.unique(found.requests).tolist())
        done += source.log.bytes
        progress("scan", done, total)
        if count:
            segments.append(
                SegmentMatches(segment.base_offset, segment.log_bytes, count, Offset(first))
            )
    return Scan(
        sources=sources,
        matching=matching,
        segments=tuple(segments),
        requests=frozenset(requests),
    )


def matches_of(source: Source, keys: Matcher, *, runtime: Runtime) -> Iterator[Matches]:
    """Yield the matches of a source, window by window, in their order. Effects: reads it, on as
    many threads as there are.

    Raises:
        CorruptBatch: a batch cannot be read.
    """
    ranges = list(row_ranges(source, first=0, last=len(source.batches)))

    def matches(rows: tuple[int, int]) -> Matches:
        first, last = rows
        check_crcs(source.data, source.batches, source.path, first=first, last=last)
        found = window_matches(source, open_window(source, slice(first, last)), keys)
        runtime.throttle.observe(source.bytes_before(last) - source.bytes_before(first))
        return found

    if runtime.threads == 1 or len(ranges) == 1:
        yield from map(matches, ranges)
        return
    with ThreadPoolExecutor(runtime.threads) as pool:
        yield from pool.map(matches, ranges)


def window_matches(source: Source, window: Window, keys: Matcher) -> Matches:
    """Return the matches of a window.

    Raises:
        CorruptBatch: a batch cannot be read.
    """
    parts = [
        Matches(matched.ordinals, matched.offsets, requests, matched.tombstones)
        for _, matched, requests in matching_keys(source, window, keys)
    ]
    return _joined(parts)


def matching_keys(
    source: Source, window: Window, keys: Matcher
) -> Iterator[tuple[NDArray[np.uint8], KeyList, NDArray[np.int32]]]:
    """Yield the matching keys of a window, first of the batches that are not compressed: uint8[n]
    that holds them, where they are, and int32[m], the request of each.

    Raises:
        CorruptBatch: a batch cannot be read.
    """
    batches = window.batches
    compressed = (batches["attributes"] & CODEC_MASK) != 0
    room = KeyList.room(int(batches["count"].sum(dtype=np.int64)))
    for packed, buffer in ((False, source.data), (True, window.scratch)):
        if not (compressed == packed).any():
            continue
        count, row, status = list_keys(buffer, batches, window.spans, packed, room)
        if status != OK:
            require_readable(source, window, row, status)
        listed = room.first(int(count))
        requests = keys.match(Keys(buffer, listed.starts, listed.lengths))
        rows = np.flatnonzero(requests >= 0)
        yield buffer, KeyList._make(column[rows] for column in listed), requests[rows]


def _joined(parts: list[Matches]) -> Matches:
    """Return the matches of both kinds of batches in the order of the log."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        none = np.zeros(0, dtype=np.int64)
        return Matches(none, none, none.astype(np.int32), none.astype(np.bool_))
    ordinals, offsets, requests, tombstones = (
        np.concatenate(columns) for columns in zip(*parts, strict=True)
    )
    order = np.argsort(ordinals)
    return Matches(ordinals[order], offsets[order], requests[order], tombstones[order])
