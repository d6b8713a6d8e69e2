"""Find the segments that a cleaning leaves as they are, and sum up what becomes of all batches.

Kafka rewrites every segment of the cleaned range. A segment keeps its files if it is a group by
itself, loses nothing, and would get the same bytes in ``.log``, ``.index``, ``.timeindex`` and
``.txnindex``; the modification time would be the same too. That is known before the copy, from the
dead bitmap, the headers, and the indexes, which are made once more in memory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from logwright.batches.source import Source
from logwright.cleaner_rules import RETAIN, RETAIN_EMPTY, batch_fate, has_delete_horizon
from logwright.format.batch import CODEC_MASK, CONTROL, HEADER_BYTES
from logwright.format.index import AbortedTransaction, serialize_txn_index
from logwright.format.names import INDEX, TIMEINDEX, TXNINDEX, segment_file_name
from logwright.kernel import inline_kernel, kernel
from logwright.keys.offset_map import count_dead
from logwright.keys.receipt import mix_batch
from logwright.log.model import PartitionLog, Segment
from logwright.place.mapped import map_file
from logwright.rewrite.model import GroupFacts, UnchangedSegment
from logwright.rewrite.output import index_files, new_output, note_batch
from logwright.units import INT64_MAX, ByteCount, TimestampMs

_SUMS: Final = np.dtype(
    [
        ("batches", "<u8"),
        ("digest", "<u8"),
        ("aborted", "<u8"),
        ("changes", "<i8"),
        ("mapped", "<i8"),
        ("tombstones", "<i8"),
        ("min_timestamp", "<i8"),
    ]
)
"""Sums over the batches of a group, the fields of `GroupFacts`."""


@inline_kernel
def _is_emptied(batch: Any) -> Any:
    """Decide whether an empty batch is written as it is: see `batch.finish_batch`."""
    return (
        batch.size == HEADER_BYTES
        and batch.attributes & CODEC_MASK == 0
        and batch.base_timestamp == -1
        and not has_delete_horizon(batch)
    )


@kernel
def _sum_batches(batches: Any, dead: Any, log_start: int, sums: Any) -> Any:
    """Add the batches of a source to the sums. Return how many of its records are not dead.

    log_start: the log start offset. sums: _SUMS.
    """
    kept = np.int64(0)
    for row in range(len(batches)):
        batch = batches[row]
        alive = batch.count - count_dead(dead, batch.first_ordinal, batch.count)
        kept += alive
        is_data = batch.attributes & CONTROL == 0 and batch.count > 0
        if batch.discard and is_data and batch.last_offset >= log_start:
            sums.aborted += mix_batch(batch)
        fate = batch_fate(batch, alive)
        stays = fate == RETAIN or (fate == RETAIN_EMPTY and _is_emptied(batch))
        if not stays:
            sums.changes += 1
        elif batch.count > 0:
            sums.min_timestamp = min(sums.min_timestamp, batch.min_timestamp)
            sums.batches += mix_batch(batch)
            sums.digest += batch.keys_digest
            sums.mapped += batch.mapped
            sums.tombstones += batch.tombstones
    return kept


def group_facts(
    sources: list[Source],
    dead: NDArray[np.uint8],
    *,
    log_start_offset: int,
) -> GroupFacts:
    """Sum up what becomes of the batches of a group, by the dead bitmap."""
    sums: np.void = np.zeros(1, dtype=_SUMS)[0]
    sums["min_timestamp"] = INT64_MAX
    kept = [int(_sum_batches(source.batches, dead, log_start_offset, sums)) for source in sources]
    smallest = int(sums["min_timestamp"])
    return GroupFacts(
        kept_records=tuple(kept),
        changes=int(sums["changes"]),
        summed_set=int(sums["batches"]),
        summed_digest=int(sums["digest"]),
        summed_mapped=int(sums["mapped"]),
        summed_tombstones=int(sums["tombstones"]),
        verbatim_min_timestamp_ms=None if smallest == INT64_MAX else TimestampMs(smallest),
        aborted_set=int(sums["aborted"]),
    )


def unchanged_segment(
    log: PartitionLog,
    group: list[tuple[Segment, Source]],
    facts: GroupFacts,
    aborted: tuple[AbortedTransaction, ...],
    *,
    interval_bytes: int,
) -> UnchangedSegment | None:
    """Return the segment of a group if it stays as it is, None if it must be rewritten. Effects:
    reads its indexes.

    Args:
        log: as observed: the indexes of a segment that is active there are not final.
        interval_bytes: ``index.interval.bytes``.
    """
    segment, source = group[0]
    if len(group) > 1 or facts.changes or source.is_converted:
        return None
    if segment.base_offset == log.active.base_offset:
        return None
    path = log.directory / segment_file_name(segment.base_offset, TXNINDEX)
    entries = serialize_txn_index(aborted) if aborted else None
    if entries != (map_file(path).tobytes() if segment.txnindex_bytes is not None else None):
        return None
    if not _indexes_are_right(log.directory, source, interval_bytes):
        return None
    return UnchangedSegment(
        base_offset=segment.base_offset,
        log_bytes=ByteCount(source.log.bytes),
        records=source.records,
        facts=facts,
    )


@kernel
def _index_batches(batches: Any, interval: int, output: Any) -> None:
    """Add the index entries of batches that are copied as they are."""
    for row in range(len(batches)):
        batch = batches[row]
        note_batch(output, interval, batch.last_offset, batch.size, batch.max_timestamp)


def _indexes_are_right(directory: Path, source: Source, interval_bytes: int) -> bool:
    """Decide whether the index files hold what those of a rewritten segment would."""
    base = source.base_offset
    output = new_output(batches=len(source.batches))
    _index_batches(source.batches, interval_bytes, output)
    index, timeindex = index_files(output, base)
    return _holds(directory / segment_file_name(base, INDEX), index) and _holds(
        directory / segment_file_name(base, TIMEINDEX), timeindex
    )


def _holds(path: Path, entries: NDArray[np.void]) -> bool:
    return path.exists() and map_file(path).tobytes() == entries.tobytes()
