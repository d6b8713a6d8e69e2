"""First pass of a cleaning: which records survive (Cleaner.buildOffsetMap and shouldRetainRecord,
Kafka 4.3.0).

1. The dirty section [first dirty, first uncleanable) goes into the offset map, segment by segment;
   the earlier of two records with one key is dead.
2. The clean section only asks the map.
3. A record without a key is dead; so is a tombstone whose batch's delete horizon is reached
   (KIP-534).
4. Past the latest offset of the map nothing is dead. The map ends early only when it must end where
   Kafka's would.
5. Control batches and the data of aborted transactions (`transactions`) are no part of 1 to 4.
6. If the keys do not fit, their hashes are cut into shards, and 1 and 2 are repeated for each.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil, floor
from typing import Final

import numpy as np
from numpy.typing import NDArray

from logwright.compaction import digest, mapping, offset_map
from logwright.compaction.model import CleanPlan, KeyFacts
from logwright.compaction.plan import group_segments
from logwright.compaction.recopy import discard_batches
from logwright.compaction.source import Source, open_source, open_window, row_ranges
from logwright.compaction.transactions import (
    TransactionIndexes,
    decide_fates,
    has_transactions,
    mark_unmapped,
)
from logwright.errors import PolicyError, invariant
from logwright.format.batch import CONTROL, DELETE_HORIZON
from logwright.format.index import AbortedTransaction
from logwright.format.scan import check_crcs
from logwright.format.walk import raise_for_status
from logwright.log.model import Segment

Progress = Callable[[str, int, int], None]
"""Told the phase and how many of how many bytes of it are done."""

_FIRST_OFFSET: Final = 0
_ROOMY_LOAD: Final = 0.75
"""Load of a map that does not need all its memory: inserts are twice as fast as at 0.9."""


@dataclass(slots=True, kw_only=True)
class Survivors:
    """What the first pass found.

    Attributes:
        groups: all segments that are rewritten, ascending, in the groups of which each becomes one.
        aborted: for each group the aborted transactions whose markers stay.
        dead: bitmap, uint8[(records + 7) / 8], one bit per ordinal.
        end_offset: latest mapped offset + 1: the next first dirty offset.
        removed_superseded, removed_tombstones, removed_null_keys, removed_aborted, removed_markers:
            dead records by cause.
        keys: what must survive, for the checks.
    """

    groups: list[list[tuple[Segment, Source]]]
    aborted: tuple[tuple[AbortedTransaction, ...], ...]
    dead: NDArray[np.uint8]
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
    keys: KeyFacts
    seconds: float


@dataclass(slots=True, kw_only=True)
class _Pass:
    """The state of the first pass while it runs."""

    plan: CleanPlan
    sources: list[Source]
    state: offset_map.MapState
    dead: NDArray[np.uint8]
    expired: NDArray[np.uint8]
    ends_when_full: bool
    shards: list[tuple[int, int]]
    progress: Progress
    notes: digest.Notes
    sample: digest.KeySample = field(default_factory=digest.KeySample)
    map_reads: int = 0
    distinct_keys: int = 0
    bytes_done: int = 0
    latest: int = -1
    groups: list[list[tuple[Segment, Source]]] = field(default_factory=list)
    aborted: tuple[tuple[AbortedTransaction, ...], ...] = ()


def find_survivors(plan: CleanPlan, *, progress: Progress) -> Survivors:
    """Read the keys below the first uncleanable offset and find the dead records. Effects: reads
    the segments.

    Raises:
        CorruptBatch, UnsupportedFormatError, UnreadableFile, StalePlan: the log is refused as it
        is.
        PolicyError: ``log.cleaner.dedupe.buffer.size`` has no room for one key.
    """
    started = time.perf_counter()
    sources = _open_sources(plan)
    records = sum(source.records for source in sources)
    bits = (records + 7) // 8
    task = _Pass(
        plan=plan,
        sources=sources,
        state=_new_map(plan, records=_dirty_records(plan, sources)),
        dead=np.zeros(bits, dtype=np.uint8),
        expired=np.zeros(bits, dtype=np.uint8),
        ends_when_full=plan.options.like_kafka,
        shards=[(0, offset_map.SHARD_SPACE)],
        progress=progress,
        notes=digest.new_notes(records),
    )
    if has_transactions(sources):
        mark_unmapped(sources, plan, TransactionIndexes(plan.log))
    while task.shards:
        _map_shard(task)
    null_keys = int(task.state.counters[offset_map.NULL_KEYS])
    superseded = int(np.bitwise_count(task.dead).sum(dtype=np.int64)) - null_keys
    tombstones = int(np.bitwise_count(task.expired & ~task.dead).sum(dtype=np.int64))
    end_offset = task.latest + 1
    dead = task.dead | task.expired
    discarded = np.zeros(2, dtype=np.int64)
    for _, source in (pair for group in task.groups for pair in group):
        discarded += discard_batches(source.batches, dead)
    return Survivors(
        groups=task.groups,
        aborted=task.aborted,
        dead=dead,
        last_mapped_offset=task.latest,
        end_offset=end_offset,
        map_reads=task.map_reads,
        map_records=int(task.state.counters[offset_map.OFFERED]),
        map_bytes=task.state.table.nbytes,
        distinct_keys=task.distinct_keys,
        removed_superseded=superseded,
        removed_tombstones=tombstones,
        removed_null_keys=null_keys,
        removed_aborted=int(discarded[0]),
        removed_markers=int(discarded[1]),
        keys=_key_facts(task),
        seconds=time.perf_counter() - started,
    )


def _open_sources(plan: CleanPlan) -> list[Source]:
    """All segments below the first uncleanable offset, their records numbered through."""
    segments = plan.rolled_log.segments
    sources: list[Source] = []
    ordinal = 0
    for segment, following in pairwise(segments):
        if segment.base_offset >= plan.compaction.first_uncleanable_offset:
            break
        source = open_source(
            plan.log.directory,
            segment,
            end_offset=following.base_offset,
            first_ordinal=ordinal,
        )
        ordinal += source.records
        sources.append(source)
    return sources


def _dirty_records(plan: CleanPlan, sources: list[Source]) -> int:
    """An upper bound of the keys that the map must take."""
    first_dirty = plan.compaction.first_dirty_offset
    return sum(
        int(
            source.batches["count"][source.batches["last_offset"] >= first_dirty].sum(
                dtype=np.int64
            )
        )
        for source in sources
    )


def _new_map(plan: CleanPlan, *, records: int) -> offset_map.MapState:
    """A map within the budget; under ``like_kafka`` one of exactly Kafka's capacity."""
    budget_slots = plan.cleaner.dedupe_buffer_bytes // offset_map.ENTRY_BYTES
    capacity = floor(budget_slots * plan.cleaner.load_factor)
    if budget_slots < 1 or (plan.options.like_kafka and capacity < 1):
        given = plan.cleaner.dedupe_buffer_bytes
        raise PolicyError(
            f"log.cleaner.dedupe.buffer.size={given} has no room for a key.",
            remedy=f"Give it {2 * offset_map.ENTRY_BYTES} bytes or more.",
        )
    wanted = max(ceil(records / _ROOMY_LOAD), 2)
    slots = max(min(budget_slots, wanted), 2)
    if plan.options.like_kafka:
        slots = max(slots, min(capacity, records) + 1)  # probing ends at an empty slot
    else:
        capacity = max(min(capacity, slots - 1), 1) if slots < wanted else slots - 1
    return offset_map.new_map(slots, capacity=capacity)


def _map_shard(task: _Pass) -> None:
    """Insert the dirty and probe the clean section for the next shard of hashes."""
    compaction = task.plan.compaction
    primary = task.map_reads == 0
    task.map_reads += 1
    if not primary:
        task.state.table[:] = 0
        task.state.counters[offset_map.DISTINCT] = 0
    first_dirty = compaction.first_dirty_offset
    offsets = (first_dirty, compaction.first_uncleanable_offset)
    stopped_at = (len(task.sources), 0)
    for number, source in enumerate(task.sources):
        first = int(np.searchsorted(source.batches["last_offset"], first_dirty, side="left"))
        row = _map_rows(task, source, (first, len(source.batches)), offsets, primary=primary)
        if row < len(source.batches):
            stopped_at = (number, row)
            break
    if primary:
        task.latest = _latest(task, stopped_at[0])
        _decide_fates(task)
    clean = (_FIRST_OFFSET, first_dirty)
    for _, source in (pair for group in task.groups for pair in group):
        last = int(np.searchsorted(source.batches["base_offset"], first_dirty, side="left"))
        _map_rows(task, source, (0, last), clean, primary=primary, mode=mapping.PROBE)
        _probe_unmapped(task, source, primary=primary)
    if primary:
        _flag_unmapped(task, *stopped_at)
    digest.sum_map(
        task.state.table, task.expired, _leaving(task), task.notes.mask, task.notes.totals
    )
    task.distinct_keys += int(task.state.counters[offset_map.DISTINCT])
    task.shards.pop(0)


def _leaving(task: _Pass) -> digest.Leaving:
    """Of all batches where the first record's ordinal is, whether their tombstones may go, and
    whether they go whole; nothing if there are none of either.
    """
    batches = [source.batches for source in task.sources]
    has_horizon = [(each["attributes"] & DELETE_HORIZON) != 0 for each in batches]
    reached = [
        has & (each["base_timestamp"] <= task.plan.now_ms)
        for has, each in zip(has_horizon, batches, strict=True)
    ]
    discarded = [each["discard"] & (each["mapped"] > 0) for each in batches]
    if not any(bool(each.any()) for each in (*reached, *discarded)):
        return digest.NOTHING_LEAVES
    firsts = np.concatenate([each["first_ordinal"] for each in batches])
    return firsts, np.concatenate(reached), np.concatenate(discarded)


def _key_facts(task: _Pass) -> KeyFacts:
    totals = task.notes.totals
    return KeyFacts(
        hash_key=(task.state.key.low, task.state.key.high),
        digest=int(totals[digest.KEYS]),
        records=int(totals[digest.RECORDS]),
        sample_digest=int(totals[digest.SAMPLED]),
        expected_sample_digest=task.sample.expected(_leaving(task)),
    )


def _decide_fates(task: _Pass) -> None:
    """Group what is rewritten, and decide which of its batches go or stay whatever the map says."""
    plan = task.plan
    by_base = {source.base_offset: source for source in task.sources}
    rewritten = tuple(
        each
        for each in plan.rolled_log.segments
        if each.base_offset in by_base and each.base_offset <= task.latest
    )
    bound = plan.compaction.first_uncleanable_offset
    groups = group_segments(rewritten, plan.config, first_uncleanable_offset=bound)
    task.groups = [[(each, by_base[each.base_offset]) for each in group] for group in groups]
    sources = [[source for _, source in group] for group in task.groups]
    task.aborted = decide_fates(sources, plan, TransactionIndexes(plan.log)).aborted


def _probe_unmapped(task: _Pass, source: Source, *, primary: bool) -> None:
    """Ask the map about dirty data that was taken for aborted while mapping, and stays all the
    same.

    Only where the first dirty offset lies inside a transaction.
    """
    first_dirty = task.plan.compaction.first_dirty_offset
    first = int(np.searchsorted(source.batches["last_offset"], first_dirty, side="left"))
    batches = source.batches[first:]
    data = (batches["attributes"] & CONTROL) == 0
    offsets = (first_dirty, task.latest + 1)
    for row in np.flatnonzero(batches["unmapped"] & data & ~batches["discard"]) + first:
        rows = (int(row), int(row) + 1)
        _map_rows(task, source, rows, offsets, primary=primary, mode=mapping.PROBE)


def _map_rows(
    task: _Pass,
    source: Source,
    rows: tuple[int, int],
    offsets: tuple[int, int],
    *,
    primary: bool,
    mode: int = mapping.INSERT,
) -> int:
    """Map rows [first, last) of a source; the row at which the map ended, `last` if it did not."""
    state = task.state
    key = np.array([state.key.low, state.key.high], dtype=np.uint64)
    limits = np.array([state.capacity, task.ends_when_full], dtype=np.int64)
    for first, last in row_ranges(source, first=rows[0], last=rows[1]):
        check_crcs(source.data, source.batches, source.path, first=first, last=last)
        window = open_window(source, slice(first, last))
        digest.make_room(task.notes, window.batches)
        while True:
            bounds = np.array(
                [*offsets, task.plan.now_ms, primary, *task.shards[0], mode], dtype=np.int64
            )
            row, status = mapping.map_window(
                source.data,
                window.scratch,
                window.batches,
                window.spans,
                bounds,
                limits,
                state.table,
                key,
                (task.dead, task.expired),
                state.counters,
                task.notes.for_kernels(),
                task.notes.totals,
            )
            if status != 0:
                batch = source.batches[first + row]
                raise_for_status(
                    status,
                    path=source.path,
                    position=int(batch["position"]),
                    base_offset=int(batch["base_offset"]),
                )
            if not state.counters[offset_map.FULL]:
                break
            if task.ends_when_full:
                task.sample.add(task.notes, probed=False)
                return first + int(row)
            _split_shard(task)
        if primary:
            task.sample.add(task.notes, probed=mode == mapping.PROBE)
        task.bytes_done += int(window.batches["size"].sum())
        task.progress("map", task.bytes_done, sum(len(each.data) for each in task.sources))
    return rows[1]


def _split_shard(task: _Pass) -> None:
    """The map is full: keep the lower half of its hashes, and read the keys again for the upper
    half later.
    """
    start, end = task.shards[0]
    middle = (start + end) // 2
    invariant(middle > start, "a shard of hashes cannot be halved any more")
    task.shards[0:1] = [(start, middle), (middle, end)]
    dropped = offset_map.evict_upper(task.state.table, middle)
    task.state.counters[offset_map.DISTINCT] -= dropped


def _latest(task: _Pass, stopped_in: int) -> int:
    """The map's latest offset: gaps up to the next segment are covered; the last one's is the bound
    - 1.
    """
    if stopped_in == len(task.sources):
        return task.plan.compaction.first_uncleanable_offset - 1
    source = task.sources[stopped_in]
    reached = int(task.state.counters[offset_map.LATEST])
    return max(reached, source.base_offset - 1, task.plan.compaction.first_dirty_offset - 1)


def _flag_unmapped(task: _Pass, stopped_in: int, row: int) -> None:
    """Read what lies past the end of the map in the segments that are rewritten: tombstones are to
    be known.
    """
    for number, source in enumerate(task.sources[stopped_in:], start=stopped_in):
        if source.base_offset > task.latest:
            break
        first = row if number == stopped_in else 0
        rows = (first, len(source.batches))
        _map_rows(task, source, rows, (0, 0), primary=True, mode=mapping.FLAG)
