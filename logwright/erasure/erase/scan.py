"""Find the records of some keys in the live segments of a log, or in any file of batches."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

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
from logwright.place.mapped import MappedFiles
from logwright.units import Offset

if TYPE_CHECKING:
    from logwright.log.model import PartitionLog


_NONE: Final = tuple(
    np.zeros(0, dtype=dtype)
    for dtype in (np.int64, np.int64, np.int32, np.bool_, np.int64, np.int64, np.int64)
)
"""The columns of a window without a match."""


class Matches(NamedTuple):
    """Matching records of a window.

    Attributes:
        ordinals, offsets: int64[n], ascending.
        requests: int32[n], number of the request. tombstones: bool[n].
        starts, lengths: int64[n], where a key is in its buffer, bytes.
        packed: int64[n], the index of its buffer. buffers: of the file, and what was decompressed.
    """

    ordinals: NDArray[np.int64]
    offsets: NDArray[np.int64]
    requests: NDArray[np.int32]
    tombstones: NDArray[np.bool_]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    packed: NDArray[np.int64]
    buffers: tuple[NDArray[np.uint8], NDArray[np.uint8]]

    def key(self, row: int) -> bytes:
        """Return the key of a match."""
        start = int(self.starts[row])
        return self.buffers[self.packed[row]][start : start + int(self.lengths[row])].tobytes()


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
    """Yield the matches of a source, window by window, in their order; batches that the caller has
    marked as discarded have none. Effects: reads it, on as many threads as there are.

    Raises:
        CorruptBatch: a batch cannot be read.
    """
    ranges = list(row_ranges(source, first=0, last=len(source.batches)))

    def matches(rows: tuple[int, int]) -> Matches:
        first, last = rows
        check_crcs(source.data, source.batches, source.path, first=first, last=last)
        hits = _window_matches(source, open_window(source, slice(first, last)), keys)
        runtime.throttle.observe(source.bytes_before(last) - source.bytes_before(first))
        return hits

    if runtime.threads == 1 or len(ranges) == 1:
        yield from map(matches, ranges)
        return
    with ThreadPoolExecutor(runtime.threads) as pool:
        yield from pool.map(matches, ranges)


def _window_matches(source: Source, window: Window, keys: Matcher) -> Matches:
    """Return the matches of a window.

    Raises:
        CorruptBatch: a batch cannot be read.
    """
    if window.batches["discard"].any():
        window = window.only(~window.batches["discard"])
    batches, buffers = window.batches, (source.data, window.scratch)
    compressed = (batches["attributes"] & CODEC_MASK) != 0
    room = KeyList.room(int(batches["count"].sum(dtype=np.int64)))
    parts = [_NONE]
    for packed, buffer in enumerate(buffers):
        if not (compressed == bool(packed)).any():
            continue
        count, row, status = list_keys(buffer, batches, window.spans, bool(packed), room)
        if status != OK:
            require_readable(source, window, row, status)
        listed = room.first(int(count))
        requests = keys.match(Keys(buffer, listed.starts, listed.lengths))
        rows = np.flatnonzero(requests >= 0)
        parts.append(
            (
                listed.ordinals[rows],
                listed.offsets[rows],
                requests[rows],
                listed.tombstones[rows],
                listed.starts[rows],
                listed.lengths[rows],
                np.full(len(rows), packed),
            )
        )
    ordinals, *others = (np.concatenate(column) for column in zip(*parts, strict=True))
    # Packed and plain batches take turns in a log: back to its order.
    order = np.argsort(ordinals, kind="stable")
    offsets, requests, tombstones, starts, lengths, packed_ones = (each[order] for each in others)
    return Matches(
        ordinals[order], offsets, requests, tombstones, starts, lengths, packed_ones, buffers
    )
