"""A cleaning of one log by many tasks, each of which reads one group of segments or one shard of
the keys' hashes. What is written is what `build` writes, byte for byte.

A group is what becomes one segment (`plan.group_segments`); it is known from the plan alone. Its
ordinals begin at 0. The steps, with what goes from one to the next:

1. For each group: its headers are read, and its keys, by shard (`keys.exchange.KeyRows`). If it has
   transactions its keys wait for 2: it gives the headers of their batches, and of the last batch of
   each segment (`thin`).
2. Once, if there are transactions: those headers of all groups are walked through as a whole, by
   the same code as in a cleaning by one task (`decide`). A walk needs no other batch: those without
   a transaction change nothing in it.
3. For each shard: which records a later one of their key supersedes (`keys.exchange.NewestKeys`).
4. For each group: the dead bitmap (`survivors_of_group`), then `build.rewrite` and the checks, as
   if the log were this group.

Each group is checked by itself: what it holds against what the shards say of it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from logwright.batches.outcomes import aborted_intervals
from logwright.batches.source import Source
from logwright.compaction.model import NO_BOUND, ReadablePlan
from logwright.compaction.plan import group_segments
from logwright.compaction.survivors import Survivors, complete_dead
from logwright.compaction.transactions import (
    UNMAPPED,
    TransactionIndexes,
    decide_transactions,
    mark_unmapped,
    set_kept_ends,
)
from logwright.errors import invariant
from logwright.format.batch import CONTROL
from logwright.format.scan import BATCH
from logwright.keys.exchange import Reading, set_dead
from logwright.keys.rows import rows_within
from logwright.live_plans import new_plan_id
from logwright.log.model import Fingerprint
from logwright.place.mapped import MappedFile, MappedFiles
from logwright.rewrite.cache import NOTHING_REBUILT

if TYPE_CHECKING:
    from pathlib import Path

    from logwright.compaction.model import CleanPlan
    from logwright.format.index import AbortedTransaction
    from logwright.keys.receipt import KeyFacts
    from logwright.log.model import PartitionLog, Segment

Segments = tuple["Segment", ...]

NOTED: Final = ("min_timestamp", "keys_digest", "mapped", "tombstones", "has_tombstone")
"""What the first pass notes of a batch, and the second one needs."""
NOTES: Final = np.dtype([(name, BATCH[name]) for name in NOTED], align=True)

FATE_UNMAPPED, FATE_DISCARD, FATE_EMPTY_MARKER = 1, 2, 4
"""Flags of a batch of `thin`, by `decide`."""


class Fates(NamedTuple):
    """What transactions decide about one group.

    Attributes:
        flags: of each segment, of the batches of `thin`, uint8[n].
        aborted: the transactions whose ABORT markers stay.
        intervals: of aborted transactions, by their markers, see `aborted_intervals`.
    """

    flags: tuple[NDArray[np.uint8], ...]
    aborted: tuple[AbortedTransaction, ...]
    intervals: NDArray[np.int64]


def why_whole(plan: ReadablePlan) -> str | None:
    """Return why a cleaning cannot be split, None if it can."""
    if plan.options.like_kafka:
        return "the map of --like-kafka ends where Kafka's does, in the order of the log"
    if plan.options.checks == "thorough":
        return "thorough checks read all keys of the log again"
    if plan.removal.end != NO_BOUND.end:
        return "it is coordinated with other replicas"
    return None


def groups_of(plan: ReadablePlan) -> tuple[Segments, ...]:
    """Return the groups of a cleaning. Pure."""
    bound = plan.compaction.first_uncleanable_offset
    sealed = plan.rolled_log.segments[:-1]
    below = tuple(each for each in sealed if each.base_offset < bound)
    return group_segments(below, plan.config, first_uncleanable_offset=bound)


def plan_of_group(plan: ReadablePlan, group: Segments) -> ReadablePlan:
    """Return the plan of a cleaning of this group alone. Pure.

    Its log ends with the segment after the group, which is not read. What is decided by offsets is
    decided by those of the whole log.
    """
    segments = plan.rolled_log.segments
    first = bisect_left(segments, group[0].base_offset, key=attrgetter("base_offset"))
    following = segments[first + len(group)]
    log, roll = plan.log, plan.roll
    if group[-1].base_offset == log.active.base_offset:
        invariant(roll.new_base_offset == following.base_offset, "the active segment is rolled")
        own = group
    else:
        own, why = (*group, following), "the active segment is not of this group"
        roll = roll._replace(cause=None, new_base_offset=None, due_at_ms=None, reason=why)
    return plan._replace(
        log=log._replace(segments=own, fingerprint=Fingerprint((), ()), snapshot_offsets=()),
        roll=roll,
    )


def placed(plan: ReadablePlan, log_dir: Path) -> CleanPlan:
    """Return the plan of a group for a log directory of this machine that has its segments."""
    log = plan.log
    local = cast("PartitionLog", log._replace(log_dir=log_dir))
    return cast("CleanPlan", plan._replace(log=local, plan_id=new_plan_id(plan.now_ms)))


def reading_of(plan: ReadablePlan, sources: Sequence[Source]) -> Reading:
    """Return which of a group's records are inserted, and which are only looked up; the same as
    `survivors` does with those of a log.
    """
    first_dirty = plan.compaction.first_dirty_offset
    dirty = (first_dirty, plan.compaction.first_uncleanable_offset)
    clean = [(source, 0, source.first_row("base_offset", first_dirty)) for source in sources]
    left_out = [
        (source, int(row), int(row) + 1)
        for source in sources
        if source.attributes & UNMAPPED
        for row in _left_out(source, first_dirty)
    ]
    return Reading(
        inserted=(rows_within(sources, dirty), dirty),
        looked_up=((clean, (0, first_dirty)), (left_out, dirty)),
        now_ms=plan.now_ms,
        removable_end=plan.removal.end,
    )


def _left_out(source: Source, first_dirty: int) -> NDArray[np.int64]:
    """Return the rows of dirty data that is not inserted as aborted, and not discarded."""
    first = source.first_row("last_offset", first_dirty)
    batches = source.batches[first:]
    data = (batches["attributes"] & CONTROL) == 0
    rows: NDArray[np.int64] = np.flatnonzero(batches["unmapped"] & data & ~batches["discard"])
    return rows + first


def has_transactions(sources: Iterable[Source]) -> bool:
    """Return whether there are batches that a walk over the transactions decides about."""
    return any(source.attributes & UNMAPPED for source in sources)


def _is_thin(batches: NDArray[np.void]) -> NDArray[np.bool_]:
    """Return which batches, BATCH[n], a walk over transactions needs; bool[n]."""
    needed: NDArray[np.bool_] = (batches["attributes"] & UNMAPPED) != 0
    needed[-1:] = True
    return needed


def thin(source: Source) -> NDArray[np.void]:
    """Return the batches of a segment that a walk over the transactions needs, BATCH[n]."""
    return source.batches[_is_thin(source.batches)]


def decide(
    plan: ReadablePlan, groups: Sequence[Segments], batches: Sequence[NDArray[np.void]]
) -> tuple[Fates, ...]:
    """Decide about the transactions of a log, for each group. Effects: reads its transaction
    indexes, and headers of segments after those of the cleaning.

    Args:
        plan: of the whole log.
        groups: of `groups_of`.
        batches: of each segment in order, of `thin`.

    Raises:
        CorruptIndex, CorruptProducerSnapshot, UnsupportedFormatError: an index or a snapshot
            contradicts the log.
    """
    segments = [segment for group in groups for segment in group]
    sources = [
        Source(base_offset=segment.base_offset, log=_not_opened(segment), batches=rows)
        for segment, rows in zip(segments, batches, strict=True)
    ]
    indexes, bound = TransactionIndexes(plan.log), plan.compaction.first_uncleanable_offset
    if has_transactions(sources):
        indexes.require_agreement(sources, end_offset=bound)
        mark_unmapped(sources, plan, indexes)
    left = iter(sources)
    grouped = [[next(left) for _ in group] for group in groups]
    aborted = decide_transactions(grouped, plan, indexes)
    intervals = aborted_intervals(plan.log, sources)
    ends = [*(group[0].base_offset for group in groups[1:]), bound]
    return tuple(
        Fates(
            flags=tuple(_flags(source.batches) for source in own),
            aborted=entries,
            intervals=_between(intervals, group[0].base_offset, end),
        )
        for group, own, entries, end in zip(groups, grouped, aborted, ends, strict=True)
    )


def _not_opened(segment: Segment) -> MappedFile:
    """Return the file of a segment of which only headers are known."""
    return MappedFile(path="", bytes=segment.log_bytes, _seen=(0, 0, 0), _files=MappedFiles())


def _flags(batches: NDArray[np.void]) -> NDArray[np.uint8]:
    flags = np.zeros(len(batches), dtype=np.uint8)
    flags[batches["unmapped"]] |= FATE_UNMAPPED
    flags[batches["discard"]] |= FATE_DISCARD
    flags[batches["empty_marker"]] |= FATE_EMPTY_MARKER
    return flags


def _between(intervals: NDArray[np.int64], start: int, end: int) -> NDArray[np.int64]:
    """Return the intervals that have an offset within [start, end)."""
    return intervals[(intervals[:, 1] < end) & (intervals[:, 2] >= start)]


def set_fates(sources: Sequence[Source], fates: Fates) -> None:
    """Set in the batches of a group what `decide` decided."""
    for source, flags in zip(sources, fates.flags, strict=True):
        rows = np.flatnonzero(_is_thin(source.batches))
        invariant(len(rows) == len(flags), "the segment has other batches than when it was read")
        source.batches["unmapped"][rows] = flags & FATE_UNMAPPED != 0
        source.batches["discard"][rows] = flags & FATE_DISCARD != 0
        source.batches["empty_marker"][rows] = flags & FATE_EMPTY_MARKER != 0


def notes_of(sources: Sequence[Source]) -> NDArray[np.void]:
    """Return what was noted of the batches of a group, NOTES[n]."""
    notes = np.zeros(sum(len(source.batches) for source in sources), dtype=NOTES)
    for name in NOTED:
        notes[name] = np.concatenate([source.batches[name] for source in sources])
    return notes


def set_notes(sources: Sequence[Source], notes: NDArray[np.void]) -> None:
    """Set in the batches of a group what was noted of them."""
    at = 0
    for source in sources:
        own = notes[at : at + len(source.batches)]
        invariant(len(own) == len(source.batches), "there are notes of every batch")
        for name in NOTED:
            source.batches[name] = own[name]
        at += len(own)
    invariant(at == len(notes), "all notes are of a batch")


class ReadGroup(NamedTuple):
    """What was read of a group's keys.

    Attributes:
        null_keys, expired: bitmaps by ordinal, see `KeyRows`.
        notes: NOTES[n] of its batches.
        keys: the sums of what must survive.
    """

    null_keys: NDArray[np.uint8]
    expired: NDArray[np.uint8]
    notes: NDArray[np.void]
    keys: KeyFacts


def survivors_of_group(
    plan: ReadablePlan,
    sources: Sequence[Source],
    read: ReadGroup,
    superseded: Iterable[NDArray[np.uint32]],
    aborted: tuple[AbortedTransaction, ...],
) -> Survivors:
    """Return which records of a group survive. Effects: sets in its batches what is known of them.

    Args:
        plan: of the group.
        sources: its segments; what transactions decide is set.
        superseded: ordinals, from all shards.
        aborted: of `Fates`.

    Raises:
        CorruptProducerSnapshot: a producer has a later batch than the snapshots.
    """
    set_notes(sources, read.notes)
    set_kept_ends(sources, plan)
    dead = read.null_keys.copy()
    null_keys = int(np.bitwise_count(dead).sum(dtype=np.int64))
    records = sum(source.records for source in sources)
    for ordinals in superseded:
        invariant(bool(set_dead(dead, ordinals, records)), "a shard names records of the group")
    expired = read.expired.copy()
    removed = complete_dead(dead, expired, null_keys, sources)
    segments = plan.rolled_log.segments[: len(sources)]
    last = plan.compaction.first_uncleanable_offset - 1
    return Survivors(
        groups=[list(zip(segments, sources, strict=True))],
        aborted=(aborted,),
        dead=dead,
        tombstones=expired,
        last_mapped_offset=last,
        end_offset=last + 1,
        map_reads=0,
        map_records=0,
        map_bytes=0,
        distinct_keys=0,
        removed_superseded=removed.superseded,
        removed_tombstones=removed.tombstones,
        removed_null_keys=null_keys,
        removed_aborted=removed.aborted,
        removed_markers=removed.markers,
        rebuilt=NOTHING_REBUILT,
        keys=read.keys,
        seconds=0.0,
    )
