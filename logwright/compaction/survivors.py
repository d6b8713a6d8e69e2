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
from typing import Final

import numpy as np
from numpy.typing import NDArray

from logwright.compaction import digest, mapping, offset_map, reading
from logwright.compaction.model import CleanPlan, KeyFacts
from logwright.compaction.plan import group_segments
from logwright.compaction.preparing import dirty_records, new_map, open_sources
from logwright.compaction.recopy import discard_batches
from logwright.compaction.source import Source, decompress_batch, row_ranges
from logwright.compaction.transactions import (
    TransactionIndexes,
    decide_fates,
    has_transactions,
    mark_unmapped,
)
from logwright.compaction.unpacking import NOT_GIVEN, Workspace
from logwright.errors import invariant
from logwright.format.batch import CONTROL, DELETE_HORIZON
from logwright.format.index import AbortedTransaction
from logwright.format.scan import check_crcs
from logwright.format.walk import OK, raise_for_status
from logwright.log.model import Segment

Progress = Callable[[str, int, int], None]
"""Told the phase and how many of how many bytes of it are done."""

STEP_BYTES: Final = 16 * 1024 * 1024
"""Bytes of log that one call of the kernels goes through: then progress is told."""

_FIRST_OFFSET: Final = 0


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
    workspace: Workspace
    found: reading.Found
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
    sources = open_sources(plan)
    records = sum(source.records for source in sources)
    bits = (records + 7) // 8
    task = _Pass(
        plan=plan,
        sources=sources,
        state=new_map(plan, records=dirty_records(plan, sources)),
        dead=np.zeros(bits, dtype=np.uint8),
        expired=np.zeros(bits, dtype=np.uint8),
        ends_when_full=plan.options.like_kafka,
        shards=[(0, offset_map.SHARD_SPACE)],
        progress=progress,
        notes=digest.new_notes(records),
        workspace=Workspace(),
        found=reading.room_for_records(reading.FOUND_RECORDS),
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
        _map_rows(task, source, (0, last), clean, primary=primary, mode=reading.PROBE)
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
        _map_rows(task, source, rows, offsets, primary=primary, mode=reading.PROBE)


def _map_rows(
    task: _Pass,
    source: Source,
    rows: tuple[int, int],
    offsets: tuple[int, int],
    *,
    primary: bool,
    mode: int = reading.INSERT,
) -> int:
    """Map rows [first, last) of a source; the row at which the map ended, `last` if it did not."""
    total = sum(len(each.data) for each in task.sources)
    for first, last in row_ranges(source, first=rows[0], last=rows[1], window_bytes=STEP_BYTES):
        row, given = first, NOT_GIVEN
        counts = source.batches["count"][first:last]
        digest.make_room(task.notes, int(counts.sum(dtype=np.int64)))
        while row < last:
            bounds = [*offsets, task.plan.now_ms, primary, *task.shards[0], mode]
            row, given, status = _map_batches(task, source, (row, last), given, bounds)
            if status == OK and task.state.counters[offset_map.FULL]:
                if task.ends_when_full:
                    task.sample.add(task.notes, probed=False)
                    return row
                _split_shard(task)
        if primary:
            task.sample.add(task.notes, probed=mode == reading.PROBE)
        task.notes.sampled[0] = 0
        task.bytes_done += int(source.batches["size"][first:last].sum())
        task.progress("map", task.bytes_done, total)
    return rows[1]


def _map_batches(
    task: _Pass, source: Source, rows: tuple[int, int], given: int, bounds: list[int]
) -> tuple[int, int, int]:
    """Map batches until the end or an obstacle, which is removed; (row to go on from, bytes of its
    records that the scratch memory holds, status).
    """
    state, space = task.state, task.workspace
    row, status = mapping.map_batches(
        source.data,
        source.batches,
        rows,
        given,
        np.array(bounds, dtype=np.int64),
        np.array([state.capacity, task.ends_when_full], dtype=np.int64),
        state.table,
        np.array([state.key.low, state.key.high], dtype=np.uint64),
        (task.dead, task.expired),
        state.counters,
        task.found,
        space.scratch,
        space.cells,
        (task.notes.mask, task.notes.sample, task.notes.sampled),
        task.notes.totals,
        reading.room_for_sums(rows[1] - rows[0]),
    )
    row = int(row)
    if status == OK:
        return row, NOT_GIVEN, status
    batch = source.batches[row]
    match status:
        case reading.SCRATCH_FULL:
            space.double_scratch()
        case reading.NOT_UNPACKED:
            space.release_scratch()
            return row, space.fill(decompress_batch(source, batch)), status
        case reading.MANY_RECORDS:
            task.found = reading.room_for_records(int(batch["count"]))
        case reading.WRONG_CRC:
            check_crcs(source.data, source.batches, source.path, first=row, last=row + 1)
        case _:
            raise_for_status(
                status,
                path=source.path,
                position=int(batch["position"]),
                base_offset=int(batch["base_offset"]),
            )
    return row, NOT_GIVEN, status


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
        _map_rows(task, source, rows, (0, 0), primary=True, mode=reading.FLAG)
