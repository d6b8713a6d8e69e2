"""What other replicas of a partition allow a cleaning to remove: read from their log directories
(`logwright.compaction.coordination`; docs/adr/0030).

Only headers are read: of all replicas to see whether they are replicas of the same log at all, and
of the others for the transactions whose data they still hold.

The brokers of the others may run. Each replica is then read as it was at one moment, up to its high
watermark (docs/adr/0045), with a cleaner checkpoint of before that moment. That is safe: below the
checkpoint the replica was clean, and stays so; what its own cleaner removes meanwhile can only make
the bound lower than it could be.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.batches.invariant_sum import sum_headers
from logwright.batches.outcomes import is_data
from logwright.batches.source import each_source
from logwright.compaction.coordination import lowest_clean_offset
from logwright.compaction.model import RemovalBound
from logwright.errors import PreconditionError
from logwright.observe import holds, observe_unlocked
from logwright.place.model import ReadOnlyPlace
from logwright.reading import reading

if TYPE_CHECKING:
    from logwright.batches.source import Source
    from logwright.log.committed import HighWatermark
    from logwright.log.model import ReadableLog
    from logwright.place.model import Place


class Headers(NamedTuple):
    """The batches of a replica below its high watermark, ascending.

    Attributes:
        offsets: int64[n], base offsets.
        sums: uint64[n], of what no cleaning changes in a header: last offset, leader epoch,
            producer, its epoch and sequence, and kind.
    """

    offsets: NDArray[np.int64]
    sums: NDArray[np.uint64]


def removal_bound(
    log: ReadableLog, directories: Sequence[Place], *, high_watermark: HighWatermark
) -> RemovalBound:
    """Return what a cleaning may remove of a log so that no other replica needs it. Effects: reads
    the headers of all replicas.

    Args:
        log: as observed.
        directories: the other log directories, those that brokers have open as `as_it_runs` shows
            them; those that lack the partition do not count.

    Raises:
        PreconditionError: a directory is the log's own; or the replicas have diverged: cleaning one
            would remove what shows it.
        LogDirLocked, UncleanLogDir: a broker has begun to work on a directory, or it needs a
            recovery.
        Unsettled: a replica of a running broker keeps changing, is truncated while it is read, or
            has no usable high watermark; or its broker ended meanwhile.
        LogwrightError: a log cannot be read, see `observe_unlocked` and `each_source`.
    """
    with ExitStack() as stack:
        for directory in directories:
            if isinstance(directory, ReadOnlyPlace):
                stack.enter_context(reading(directory))  # its history stays the same
        others = [
            _other(log, directory, high_watermark)
            for directory in directories
            if holds(directory, log.partition)
        ]
        end = lowest_clean_offset([log, *others])
        own = headers_of(log) if others else None
        data = [np.zeros((0, 2), dtype=np.int64)]
        for other in others:
            assert own is not None  # noqa: S101 -- for the type
            difference = first_difference(own, headers_of(other))
            if difference is not None:
                raise _diverged(log, other, difference)
            data += [_data(source, other.log_start_offset, end) for source in each_source(other)]
    rows = np.concatenate(data)
    return RemovalBound(end, np.ascontiguousarray(rows[np.lexsort((rows[:, 1], rows[:, 0]))]))


def _other(log: ReadableLog, directory: Place, high_watermark: HighWatermark) -> ReadableLog:
    if Path(str(directory)).samefile(str(log.log_dir)):
        raise PreconditionError(
            "a log directory cannot be coordinated with itself.",
            path=directory,
            remedy="Give the log directories of other brokers.",
        )
    return observe_unlocked(directory, log.partition, high_watermark=high_watermark)


def _data(source: Source, log_start_offset: int, end: int) -> NDArray[np.int64]:
    """Return int64[n, 2] of producer id and base offset of transactional data below an end."""
    rows = source.batches[is_data(source.batches, log_start_offset)]
    rows = rows[rows["base_offset"] < end]
    return np.stack([rows["producer_id"], rows["base_offset"]], axis=1)


def headers_of(log: ReadableLog) -> Headers:
    """Return the sums of the headers at or above the log start offset and below the high watermark.
    Effects: reads the headers of all segments.

    Raises:
        CorruptBatch, UnsupportedFormatError, UnreadableFile, StalePlan: see `each_source`.
    """
    offsets: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)]
    sums: list[NDArray[np.uint64]] = [np.zeros(0, dtype=np.uint64)]
    for source in each_source(log):
        batches = source.batches
        shown = batches["base_offset"] >= log.log_start_offset
        batches = batches[shown & (batches["last_offset"] < log.high_watermark)]
        summed = np.zeros(len(batches), dtype=np.uint64)
        sum_headers(source.data, batches, summed)
        offsets.append(batches["base_offset"].copy())
        sums.append(summed)
    return Headers(np.concatenate(offsets), np.concatenate(sums))


def first_difference(headers: Headers, other: Headers) -> int | None:
    """Return the lowest offset at which two replicas have different batches, None without one.
    Batches that only one of them has do not count: a cleaning removes batches. Pure.
    """
    both, rows, other_rows = np.intersect1d(
        headers.offsets, other.offsets, assume_unique=True, return_indices=True
    )
    differs = np.flatnonzero(headers.sums[rows] != other.sums[other_rows])
    return int(both[differs[0]]) if len(differs) else None


def _diverged(log: ReadableLog, other: ReadableLog, offset: int) -> PreconditionError:
    return PreconditionError(
        f"{log.partition} has another batch at offset {offset} than the replica in"
        f" {other.log_dir}: the replicas have diverged.",
        path=log.directory,
        remedy="Nothing was changed. `logwright audit` shows what differs; decide which replica is"
        " right before any of them is cleaned.",
    )
