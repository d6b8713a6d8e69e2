"""Which segments a cleaning leaves as they are, and what it says of the others' batches.

Kafka rewrites every segment of the cleaned range. One that is a group by itself, loses nothing and
would get the same bytes in ``.log``, ``.index``, ``.timeindex`` and ``.txnindex`` keeps its files:
the time of the cleaned segment would be its own as well. That is known before the copy, from the
dead bitmap, the headers, and the indexes, which are made again in memory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from logwright.compaction.model import CleanPlan, GroupFacts, UnchangedSegment
from logwright.compaction.receipt import keeps_most, mix_batch
from logwright.compaction.rewrite import copy as copying
from logwright.compaction.source import Source
from logwright.format.batch import CODEC_MASK, CONTROL, DELETE_HORIZON, HEADER_BYTES
from logwright.format.index import AbortedTransaction, serialize_txn_index
from logwright.format.names import INDEX, TIMEINDEX, TXNINDEX, segment_file_name
from logwright.kernel import kernel
from logwright.log.mapped import map_file
from logwright.log.model import Segment
from logwright.units import INT64_MAX, ByteCount, TimestampMs

# The cells of what is summed over the batches of a group, uint64[SUM_CELLS].
_SET: Final = 0
_DIGEST: Final = 1
_ABORTED: Final = 2
_SUM_CELLS: Final = 3
# And the counts, int64[COUNT_CELLS].
_CHANGES: Final = 0
_MAPPED: Final = 1
_TOMBSTONES: Final = 2
_MIN_TIMESTAMP: Final = 3
_COUNT_CELLS: Final = 4


@kernel
def _sum_batches(batches: Any, dead: Any, limits: Any, sums: Any, counts: Any) -> Any:
    """Add the batches of a source to `sums` and `counts`; its records that are not dead.

    limits: the log start offset, the map's last offset.
    """
    log_start, last_mapped = limits
    kept = np.int64(0)
    for row in range(len(batches)):
        batch = batches[row]
        alive = batch.count - copying.count_dead(dead, batch.first_ordinal, batch.count)
        kept += alive
        is_data = batch.attributes & CONTROL == 0 and batch.count > 0
        if batch.discard and is_data and batch.last_offset >= log_start:
            sums[_ABORTED] += mix_batch(batch)
        has_horizon = batch.attributes & DELETE_HORIZON != 0
        if batch.count == 0:
            stays = (
                batch.keep_empty
                and batch.size == HEADER_BYTES
                and batch.attributes & CODEC_MASK == 0
                and batch.base_timestamp == -1
                and not has_horizon
            )
        else:
            sets_horizon = (batch.tombstones > 0 or batch.empty_marker) and not has_horizon
            stays = alive == batch.count and not sets_horizon
        if not stays:
            counts[_CHANGES] += 1
        elif batch.count > 0:
            counts[_MIN_TIMESTAMP] = min(counts[_MIN_TIMESTAMP], batch.min_timestamp)
        is_packed = batch.attributes & CODEC_MASK != 0
        if batch.count > 0 and (stays or (not is_packed and keeps_most(alive, batch, last_mapped))):
            sums[_SET] += mix_batch(batch)
            sums[_DIGEST] += batch.keys_digest
            counts[_MAPPED] += batch.mapped
            counts[_TOMBSTONES] += batch.tombstones
    return kept


def group_facts(
    sources: list[Source],
    dead: NDArray[np.uint8],
    *,
    log_start_offset: int,
    last_mapped_offset: int,
) -> GroupFacts:
    """What becomes of the batches of a group by the dead bitmap and the map's end."""
    limits = (log_start_offset, last_mapped_offset)
    sums = np.zeros(_SUM_CELLS, dtype=np.uint64)
    counts = np.zeros(_COUNT_CELLS, dtype=np.int64)
    counts[_MIN_TIMESTAMP] = INT64_MAX
    kept = [int(_sum_batches(source.batches, dead, limits, sums, counts)) for source in sources]
    smallest = int(counts[_MIN_TIMESTAMP])
    return GroupFacts(
        first_ordinals=tuple(
            int(source.batches["first_ordinal"][0]) if len(source.batches) else 0
            for source in sources
        ),
        kept_records=tuple(kept),
        changes=int(counts[_CHANGES]),
        summed_set=int(sums[_SET]),
        summed_digest=int(sums[_DIGEST]),
        summed_mapped=int(counts[_MAPPED]),
        summed_tombstones=int(counts[_TOMBSTONES]),
        verbatim_min_timestamp_ms=None if smallest == INT64_MAX else TimestampMs(smallest),
        aborted_set=int(sums[_ABORTED]),
    )


def unchanged_segment(
    plan: CleanPlan,
    group: list[tuple[Segment, Source]],
    facts: GroupFacts,
    aborted: tuple[AbortedTransaction, ...],
) -> UnchangedSegment | None:
    """The segment of a group that stays as it is; None if it must be rewritten. Effects: reads its
    indexes.
    """
    segment, source = group[0]
    if len(group) > 1 or facts.changes or _is_being_rolled(plan, segment):
        return None
    path = plan.log.directory / segment_file_name(segment.base_offset, TXNINDEX)
    entries = serialize_txn_index(aborted) if aborted else None
    if entries != (map_file(path).tobytes() if segment.txnindex_bytes is not None else None):
        return None
    if not _indexes_are_right(plan, segment, source):
        return None
    return UnchangedSegment(
        base_offset=segment.base_offset,
        log_bytes=ByteCount(source.log.bytes),
        records=source.records,
        facts=facts,
    )


def _is_being_rolled(plan: CleanPlan, segment: Segment) -> bool:
    """Its indexes are still an active segment's."""
    return plan.roll.due and segment.base_offset == plan.rolled_log.sealed[-1].base_offset


@kernel
def _index_batches(batches: Any, interval: int, indexes: Any, state: Any) -> None:
    """Fill the indexes as a copy of all batches does."""
    for row in range(len(batches)):
        batch = batches[row]
        copying.note_batch(state, indexes, interval, batch, (batch.size, batch.max_timestamp))
    copying.index_time(state, indexes[1])


def _indexes_are_right(plan: CleanPlan, segment: Segment, source: Source) -> bool:
    """Whether the index files hold what a rewritten segment's would."""
    rows, base = len(source.batches), segment.base_offset
    indexes = np.zeros((rows, 2), dtype=np.int64), np.zeros((rows + 1, 2), dtype=np.int64)
    state = np.zeros(copying.STATE_CELLS, dtype=np.int64)
    state[copying.LARGEST_TIMESTAMP] = -1
    state[copying.LAST_INDEXED_TIMESTAMP] = -1
    _index_batches(source.batches, plan.config.index_interval_bytes, indexes, state)
    entries = np.empty(int(state[copying.INDEX_ENTRIES]), dtype=[("o", ">i4"), ("p", ">i4")])
    entries["o"] = indexes[0][: len(entries), 0] - base
    entries["p"] = indexes[0][: len(entries), 1]
    times = np.empty(int(state[copying.TIMEINDEX_ENTRIES]), dtype=[("t", ">i8"), ("o", ">i4")])
    times["t"] = indexes[1][: len(times), 0]
    times["o"] = indexes[1][: len(times), 1] - base
    return _holds(plan.log.directory / segment_file_name(base, INDEX), entries) and _holds(
        plan.log.directory / segment_file_name(base, TIMEINDEX), times
    )


def _holds(path: Path, entries: NDArray[np.void]) -> bool:
    return path.exists() and map_file(path).tobytes() == entries.tobytes()
