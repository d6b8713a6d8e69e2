"""Find the records of some keys in the live segments of a log, or in any file of batches."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.batches.projection import Records, project
from logwright.batches.runtime import Progress, Runtime, in_order
from logwright.batches.source import Source, open_source, row_ranges
from logwright.erasure.erase.model import Matcher, Scan, SegmentMatches
from logwright.erasure.erase.search import search_batches
from logwright.format.legacy import NOT_LEGACY
from logwright.format.scan import check_crcs
from logwright.place.mapped import MappedFiles
from logwright.units import Offset

if TYPE_CHECKING:
    from logwright.log.model import PartitionLog


class Matches(NamedTuple):
    """Matching records of a window.

    Attributes:
        records: only these. requests: int32[n], number of each one's request.
        undecoded: see `logwright.erasure.keys.Matched`.
    """

    records: Records
    requests: NDArray[np.int32]
    undecoded: bool

    def key(self, row: int) -> bytes:
        """Return the key of a match."""
        return self.records.bytes_of(row, "key") or b""


def matches(source: Source, rows: slice | NDArray[np.int64], keys: Matcher) -> Matches:
    """Return the records of some batches that have one of the keys; markers have none. Only batches
    with a match become rows.

    Raises:
        CorruptBatch: as `search_batches`.
    """
    window, matching = search_batches(source, rows, keys)
    counts = window.batches["count"].astype(np.int64)
    has_match = np.bincount(matching.rows, minlength=len(counts)) > 0
    left_out = np.cumsum(np.where(has_match, 0, counts))
    records = project(source, window.only(has_match))
    chosen = matching.numbers - left_out[matching.rows]
    return Matches(records.only(chosen), matching.requests, matching.undecoded)


def open_segments(log: PartitionLog) -> list[Source]:
    """Map all segments of a log and read their batch headers; the active one too. Effects: maps
    them, see `open_source`.

    Raises:
        CorruptBatch, UnsupportedFormatError, UnreadableFile, StalePlan: see `open_source`.
    """
    files, sources, ordinal = MappedFiles(), [], 0
    ends = [following.base_offset for _, following in pairwise(log.segments)]
    for segment, end in zip(log.segments, [*ends, log.log_end_offset], strict=True):
        source = open_source(
            log.directory_text, segment, files, end_offset=end, first_ordinal=ordinal
        )
        # As a batch of format v2 it keeps its first and last offset, whatever is erased.
        source.batches["legacy"] = NOT_LEGACY
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
    segments, requests, undecoded = [], set[int](), False
    total, done = sum(source.log.bytes for source in sources), 0
    for segment, source in zip(log.segments, sources, strict=True):
        count, first = 0, -1
        for hits in matches_of(source, keys, runtime=runtime or Runtime()):
            rows = hits.records.rows
            undecoded |= hits.undecoded
            if len(rows):
                bits = np.left_shift(1, rows["ordinal"] & 7).astype(np.uint8)
                np.bitwise_or.at(matching, rows["ordinal"] >> 3, bits)
                first = int(rows["offset"][0]) if first < 0 else first
                count += len(rows)
                requests.update(np.unique(hits.requests).tolist())
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
        undecoded=undecoded,
    )


def matches_of(source: Source, keys: Matcher, *, runtime: Runtime) -> Iterator[Matches]:
    """Yield the matches of a source, window by window, in their order; batches that the caller has
    marked as discarded have none. Effects: reads it, on as many threads as there are.

    Raises:
        CorruptBatch: a batch cannot be read.
    """
    ranges = list(row_ranges(source, first=0, last=len(source.batches)))

    def read(rows: tuple[int, int]) -> Matches:
        first, last = rows
        kept: slice | NDArray[np.int64] = slice(first, last)
        discarded = source.batches["discard"][first:last]
        if discarded.any():
            check_crcs(source.data, source.batches, source.path, first=first, last=last)
            kept = np.flatnonzero(~discarded) + first
        hits = matches(source, kept, keys)
        runtime.throttle.observe(source.bytes_before(last) - source.bytes_before(first))
        return hits

    tasks = (partial(read, rows) for rows in ranges)
    yield from in_order(tasks, threads=min(runtime.threads, len(ranges) or 1))
