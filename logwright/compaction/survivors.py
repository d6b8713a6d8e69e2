"""First pass of a cleaning: which records survive (Cleaner.buildOffsetMap, Kafka 4.3.0). The rules
are in `logwright.cleaner_rules`.

1. The dirty section [first dirty, first uncleanable) is inserted into the offset map, segment by
   segment.
2. The clean section is looked up in the map.
3. The map ends before the first uncleanable offset only if it must end where Kafka's would: then
   the records above its end are only read for tombstones.
4. Control batches and the data of aborted transactions (`transactions`) are left out of 1 and 2.
5. If the keys do not fit, their hashes are split into shards, and 1 and 2 are repeated for each.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.batches.runtime import Progress, Runtime
from logwright.batches.source import Source, open_source
from logwright.compaction.backward import Rebuilder, map_backwards, new_rebuilder
from logwright.compaction.legacy import mark_expired
from logwright.compaction.model import ReadablePlan
from logwright.compaction.plan import group_segments
from logwright.compaction.transactions import (
    UNMAPPED,
    TransactionIndexes,
    decide_fates,
    mark_unmapped,
)
from logwright.format.batch import CONTROL, DELETE_HORIZON
from logwright.format.index import AbortedTransaction
from logwright.keys import receipt as receipts
from logwright.keys.read import FLAG, PROBE
from logwright.keys.receipt import KeyFacts
from logwright.keys.rows import (
    MapMode,
    MapTask,
    Rows,
    begin_pass,
    end_pass,
    map_rows,
    rows_within,
)
from logwright.log.model import Segment
from logwright.place.mapped import MappedFiles
from logwright.rewrite.cache import CACHED_BATCH, NOTHING_REBUILT, Rebuilt
from logwright.rewrite.copy import discard_batches

_FIRST_OFFSET: Final = 0

Groups = list[list[tuple[Segment, Source]]]
"""The segments that are rewritten, ascending; each group becomes one."""


@dataclass(slots=True, kw_only=True)
class Survivors:
    """The result of the first pass.

    Attributes:
        groups: the segments that are rewritten, ascending; each group becomes one segment.
        aborted: for each group the aborted transactions whose markers stay.
        dead: bitmap, uint8[(records + 7) / 8], one bit per ordinal.
        tombstones: bitmap of the same size: what is dead only as a tombstone past its horizon.
        end_offset: latest mapped offset + 1: the next first dirty offset.
        removed_superseded, removed_tombstones, removed_null_keys, removed_aborted, removed_markers:
            dead records by cause.
        rebuilt: the batches that were rebuilt on the way.
        keys: the sums of what must survive, for the checks.
    """

    groups: Groups
    aborted: tuple[tuple[AbortedTransaction, ...], ...]
    dead: NDArray[np.uint8]
    tombstones: NDArray[np.uint8]
    last_mapped_offset: int
    end_offset: int
    map_reads: int
    map_records: int
    map_bytes: int
    distinct_keys: int
    removed_superseded: int
    removed_tombstones: int
    removed_null_keys: int
    removed_aborted: int
    removed_markers: int
    rebuilt: Rebuilt
    keys: KeyFacts
    seconds: float


@dataclass(slots=True, kw_only=True)
class _Pass:
    """The state of the first pass while it runs."""

    plan: ReadablePlan
    sources: list[Source]
    indexes: TransactionIndexes
    map: MapTask
    rebuilder: Rebuilder | None
    latest: int = -1
    groups: Groups = field(default_factory=list)
    aborted: tuple[tuple[AbortedTransaction, ...], ...] = ()


def open_sources(plan: ReadablePlan, files: MappedFiles | None = None) -> list[Source]:
    """Return all segments below the first uncleanable offset, with an ordinal for each record.
    Effects: maps them.
    """
    directory, segments = plan.log.readable, plan.rolled_log.segments
    sources: list[Source] = []
    files = MappedFiles()
    ordinal = 0
    for segment, following in pairwise(segments):
        if segment.base_offset >= plan.compaction.first_uncleanable_offset:
            break
        source = open_source(
            directory,
            segment,
            files,
            end_offset=following.base_offset,
            first_ordinal=ordinal,
        )
        mark_expired(source, segment, plan)
        ordinal += source.records
        sources.append(source)
    return sources


def open_log(
    plan: ReadablePlan, files: MappedFiles | None = None
) -> tuple[list[Source], TransactionIndexes]:
    """Return `open_sources`, with the batches marked that do not enter the map, and the log's
    transaction indexes. Effects: reads the log.

    Raises:
        CorruptIndex, UnsupportedFormatError: a transaction index contradicts the log.
    """
    sources, indexes = open_sources(plan, files), TransactionIndexes(plan.log)
    if any(source.attributes & UNMAPPED for source in sources):
        indexes.require_agreement(sources, end_offset=plan.compaction.first_uncleanable_offset)
        mark_unmapped(sources, plan, indexes)
    return sources, indexes


def grouped(
    plan: ReadablePlan, sources: Sequence[Source], indexes: TransactionIndexes, *, end: int
) -> tuple[Groups, tuple[tuple[AbortedTransaction, ...], ...]]:
    """Group the segments that begin below `end`, and decide which of their batches go or stay
    independently of the map; return the groups and, of each, what `decide_fates` returns.
    """
    by_base = {source.base_offset: source for source in sources if source.base_offset < end}
    rewritten = tuple(each for each in plan.rolled_log.segments if each.base_offset in by_base)
    bound = plan.compaction.first_uncleanable_offset
    segments = group_segments(rewritten, plan.config, first_uncleanable_offset=bound)
    groups = [[(each, by_base[each.base_offset]) for each in group] for group in segments]
    return groups, decide_fates([[own for _, own in group] for group in groups], plan, indexes)


def find_survivors(
    plan: ReadablePlan, *, progress: Progress, runtime: Runtime, rebuilds: bool = True
) -> Survivors:
    """Read the keys below the first uncleanable offset and find the dead records. Effects: reads
    the segments.

    Args:
        rebuilds: the second pass follows, so that batches may be rebuilt on the way.

    Raises:
        CorruptBatch, UnsupportedFormatError, UnreadableFile, StalePlan: the log cannot be
            cleaned.
        CorruptIndex, CorruptProducerSnapshot: a transaction index or a producer snapshot
            contradicts the log.
        PolicyError: ``log.cleaner.dedupe.buffer.size`` has no room for one key.
    """
    started = time.perf_counter()
    sources, indexes = open_log(plan, runtime.files)
    rebuilder = new_rebuilder(plan, sources, threads=runtime.threads) if rebuilds else None
    mapping = _map_task(plan, sources, progress, runtime, rebuilder)
    task = _Pass(plan=plan, sources=sources, indexes=indexes, map=mapping, rebuilder=rebuilder)
    try:
        while task.map.shards:
            _map_shard(task)
    finally:
        rebuilt = NOTHING_REBUILT if rebuilder is None else rebuilder.cache.close()
    return _survivors(task, rebuilt, started)


def _survivors(task: _Pass, rebuilt: Rebuilt, started: float) -> Survivors:
    """Return what the pass, begun at `started`, has found, with the dead records by cause. Effects:
    completes the bitmap.
    """
    dead, expired, state = task.map.dead, task.map.expired, task.map.state
    null_keys = int(state.counters["null_keys"][0])
    sources = [source for group in task.groups for _, source in group]
    removed = complete_dead(dead, expired, null_keys, sources)
    return Survivors(
        groups=task.groups,
        aborted=task.aborted,
        dead=dead,
        tombstones=expired,
        last_mapped_offset=task.latest,
        end_offset=task.latest + 1,
        map_reads=task.map.passes,
        map_records=int(state.counters["offered"][0]),
        map_bytes=state.table.entries.nbytes,
        distinct_keys=task.map.distinct_keys,
        removed_superseded=removed.superseded,
        removed_tombstones=removed.tombstones,
        removed_null_keys=null_keys,
        removed_aborted=removed.aborted,
        removed_markers=removed.markers,
        rebuilt=rebuilt,
        keys=_key_facts(task),
        seconds=time.perf_counter() - started,
    )


class Removed(NamedTuple):
    """How many records are dead, by cause."""

    superseded: int
    tombstones: int
    aborted: int
    markers: int


def complete_dead(
    dead: NDArray[np.uint8],
    expired: NDArray[np.uint8],
    null_keys: int,
    sources: Iterable[Source],
) -> Removed:
    """Add to the bitmap what goes independently of the keys. Effects: completes `dead`; what is
    left in `expired` is dead only as a tombstone past its horizon.

    Args:
        dead: what is superseded, and the records without a key, of which there are `null_keys`.
        expired: tombstones past their horizon.
        sources: what is rewritten; their `discard` is decided.
    """
    superseded = int(np.bitwise_count(dead).sum(dtype=np.int64)) - null_keys
    expired &= ~dead
    tombstones = int(np.bitwise_count(expired).sum(dtype=np.int64))
    dead |= expired
    discarded = np.zeros(2, dtype=np.int64)
    for source in sources:
        if source.attributes & UNMAPPED:
            discarded += discard_batches(source.batches, dead)
    return Removed(superseded, tombstones, int(discarded[0]), int(discarded[1]))


def _map_task(
    plan: ReadablePlan,
    sources: list[Source],
    progress: Progress,
    runtime: Runtime,
    rebuilder: Rebuilder | None,
) -> MapTask:
    """Return the state with an empty map."""
    first_dirty = plan.compaction.first_dirty_offset
    task = MapTask(
        sources=sources,
        cleaner=plan.cleaner,
        batch_bytes=0 if rebuilder is None else CACHED_BATCH.itemsize,
        runtime=runtime,
        progress=progress,
        total_bytes=sum(source.log.bytes for source in sources),
        records=sum(
            source.records - source.records_before(source.first_row("last_offset", first_dirty))
            for source in sources
        ),
        now_ms=plan.now_ms,
        removable_end=plan.removal.end,
        like_kafka=plan.options.like_kafka,
        presplits=rebuilder is None,
    )
    if rebuilder is not None:
        task.readers[0].workspace = rebuilder.workspace
    return task


def _map_shard(task: _Pass) -> None:
    """Insert the dirty and probe the clean section for the next shard of hashes."""
    plan, compaction, state = task.plan, task.plan.compaction, task.map.state
    primary = begin_pass(task.map)
    first_dirty = compaction.first_dirty_offset
    offsets = (first_dirty, compaction.first_uncleanable_offset)
    work = rows_within(task.sources, offsets)
    stopped_at = _map_once(task, work, MapMode(offsets=offsets, primary=primary))
    if stopped_at is None:
        stopped_at = (len(task.sources), 0)
    if primary:
        task.latest = _latest(task, stopped_at[0])
        task.groups, task.aborted = grouped(plan, task.sources, task.indexes, end=task.latest + 1)
    rewritten = [source for group in task.groups for _, source in group]
    clean = MapMode(offsets=(_FIRST_OFFSET, first_dirty), primary=primary, action=PROBE)
    probed = [(source, 0, source.first_row("base_offset", first_dirty)) for source in rewritten]
    _map_once(task, probed, clean)
    for source in rewritten:
        _probe_unmapped(task, source, primary=primary)
    if primary:
        _flag_unmapped(task, *stopped_at)
    receipt = task.map.readers[0].receipt
    receipts.sum_map(state.table, task.map.expired, _leaving(task), receipt.mask, receipt.totals)
    end_pass(task.map)


def _map_once(task: _Pass, work: list[Rows], mode: MapMode) -> tuple[int, int] | None:
    """Map rows that no other call maps in this shard's pass: what is read of them first may be
    rebuilt on the way. Return and errors: see `map_rows`.
    """
    if task.rebuilder is None or not mode.primary:
        return map_rows(task.map, work, mode)
    map_backwards(task.map, task.rebuilder, work, mode)
    return None


def _leaving(task: _Pass) -> receipts.Leaving:
    """Return which batches have tombstones that may go, by the receipt's own rule."""
    if not any(
        source.attributes & DELETE_HORIZON or source.is_converted for source in task.sources
    ):
        return receipts.NOTHING_LEAVES
    batches = [source.batches for source in task.sources]
    return receipts.leaving(batches, task.plan.now_ms, task.plan.removal.end)


def _key_facts(task: _Pass) -> KeyFacts:
    totals, key = task.map.totals, task.map.state.key
    return KeyFacts(
        hash_key=(key.low, key.high),
        digest=int(totals["digest"][0]),
        records=int(totals["records"][0]),
        sample_digest=int(totals["sampled"][0]),
        expected_sample_digest=task.map.sample.expected(_leaving(task)),
    )


def _probe_unmapped(task: _Pass, source: Source, *, primary: bool) -> None:
    """Look up dirty data that was left out of the map as aborted but is not discarded: this happens
    where the first dirty offset is inside a transaction.
    """
    if not source.attributes & UNMAPPED:
        return
    first_dirty = task.plan.compaction.first_dirty_offset
    first = source.first_row("last_offset", first_dirty)
    batches = source.batches[first:]
    data = (batches["attributes"] & CONTROL) == 0
    rows = np.flatnonzero(batches["unmapped"] & data & ~batches["discard"]) + first
    offsets = (first_dirty, task.latest + 1)
    work = [(source, int(row), int(row) + 1) for row in rows]
    map_rows(task.map, work, MapMode(offsets=offsets, primary=primary, action=PROBE))


def _latest(task: _Pass, stopped_in: int) -> int:
    """Return the map's last offset. It covers gaps up to the next segment; for the last segment it
    is the first uncleanable offset - 1.
    """
    if stopped_in == len(task.sources):
        return task.plan.compaction.first_uncleanable_offset - 1
    source = task.sources[stopped_in]
    reached = int(task.map.state.counters["latest"][0])
    return max(reached, source.base_offset - 1, task.plan.compaction.first_dirty_offset - 1)


def _flag_unmapped(task: _Pass, stopped_in: int, row: int) -> None:
    """Read what is above the end of the map in the segments that are rewritten, for the batches
    that have tombstones.
    """
    for number, source in enumerate(task.sources[stopped_in:], start=stopped_in):
        if source.base_offset > task.latest:
            break
        work = [(source, row if number == stopped_in else 0, len(source.batches))]
        _map_once(task, work, MapMode(offsets=(0, 0), primary=True, action=FLAG))
