"""Clean a log of which a whole copy does not fit on the disk, one group of segments at a time.

1. The keys of all groups are read, the newest group first, into one map of offsets, as a cleaning
   that is split does it (`logwright.compaction.split`).
2. Each group is built, checked and swapped, and its old files are removed, before the next one: at
   every moment one group at most is on the disk twice.
3. When all groups are done, the first dirty offset is recorded.

**The order.** The group goes first that needs least room. A group that loses tombstones or
transaction markers waits for all groups before it: as long as these have the older records, the
markers must stay. Otherwise an older value, or data of an aborted transaction, would be read again
after a run that ends between the two.

So what a run leaves that ends between two groups is what a cleaner leaves that is interrupted: no
record is gone that a later one, a tombstone or a marker in the log does not account for, and the
next cleaning reads the same dirty section again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.batches.runtime import Runtime, silent
from logwright.compaction import split
from logwright.compaction.build import rewrite
from logwright.compaction.record_limit import require_within_limit
from logwright.compaction.survivors import Survivors, open_sources
from logwright.errors import enough_memory
from logwright.format.batch import HEADER_BYTES
from logwright.format.siphash import HashKey
from logwright.keys.exchange import KEY_ROW, KeyRows, NewestKeys, Superseded
from logwright.keys.receipt import KeyFacts
from logwright.rewrite.staging import discard_staging, discarded_on_error, new_staging
from logwright.rewrite.unchanged import group_facts, unchanged_segment

if TYPE_CHECKING:
    from logwright.batches.source import Source
    from logwright.compaction.model import CleanPlan, StagedCleaning

ROOM: Final = 1 << 16
"""Bytes that a group takes more than its records: each file takes whole blocks."""
_NO_KEYS: Final = KeyFacts((0, 0), 0, 0, 0, 0)
_NO_INTERVALS: Final = np.zeros((0, 3), dtype=np.int64)


def with_margin(size: int) -> int:
    """Return the bytes that must be free for this many: a rebuilt batch may be larger than it
    was.
    """
    return size + size // 50 + ROOM


def with_smallest_need(plan: CleanPlan) -> tuple[list[split.Segments], int]:
    """Return the groups of a cleaning, and the bytes that the smallest one needs, at most. Pure."""
    groups = list(split.groups_of(plan))
    sizes = [
        sum(one.log_bytes + one.index_bytes + one.timeindex_bytes for one in group)
        for group in groups
    ]
    return groups, with_margin(min(sizes, default=0))


def smaller_groups(plan: CleanPlan, room: int) -> CleanPlan:
    """Return the plan with groups for which this many bytes are enough, as far as they have several
    segments. Pure.
    """
    most = max(min(plan.config.segment_bytes, (room - ROOM) * 50 // 51), 1)
    return plan._replace(config=plan.config.model_copy(update={"segment_bytes": most}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """A group whose records are decided.

    Attributes:
        need: bytes that must be free while it is on the disk twice, at most; 0: it stays as it is.
        waits: it loses tombstones or markers, and must not go before a group before it.
    """

    number: int
    need: int
    waits: bool


def in_turn(groups: Sequence[Weighed]) -> Iterator[Weighed]:
    """Yield groups, ascending by number, in the order in which they are to be done; one counts as
    done when the next one is asked for. Pure.
    """
    ready = [(each.need, each.number) for each in groups if not each.waits]
    heapify(ready)
    done = [False] * len(groups)
    first, reached = 0, -1
    for _ in groups:
        while done[first]:
            first += 1
        if groups[first].waits and first > reached:
            heappush(ready, (groups[first].need, first))
            reached = first
        _, number = heappop(ready)
        yield groups[number]
        done[number] = True


class BuiltGroup(NamedTuple):
    """A group that is staged.

    Attributes:
        plan: of this group. aborted: of `aborted_intervals`, for its checks.
    """

    plan: CleanPlan
    staged: StagedCleaning
    aborted: NDArray[np.int64]


@dataclass(slots=True, kw_only=True)
class GroupCleaning:
    """A cleaning in groups of a log on which nobody else works.

    Attributes:
        plan: of the log, without a roll, and one that can be split.
        groups: weighed, by number.
    """

    plan: CleanPlan
    groups: tuple[Weighed, ...] = field(init=False)
    _plans: list[CleanPlan] = field(init=False)
    _fates: tuple[split.Fates, ...] | None = field(init=False)
    _read: dict[int, split.ReadGroup] = field(default_factory=dict)
    _superseded: Superseded = field(init=False)
    _key: HashKey = field(default_factory=HashKey.random, repr=False)

    def read(self) -> None:
        """Decide about all records. Effects: reads the log.

        Raises:
            CorruptBatch, UnsupportedFormatError, UnreadableFile, StalePlan: the log is refused.
            CorruptIndex, CorruptProducerSnapshot: see `split.decide`.
            RecordAboveLimit: Kafka's cleaner would not read a record.
            OutOfMemory: it needs more memory than there is.
        """
        plan = self.plan
        groups = split.groups_of(plan)
        log_dir = plan.log.log_dir
        self._plans = [split.placed(split.plan_of_group(plan, each), log_dir) for each in groups]
        with enough_memory(plan.log.directory):
            self._superseded = self._find(*self._survey(groups))
            self.groups = tuple(map(self._weigh, range(len(groups))))

    def _survey(self, groups: Sequence[split.Segments]) -> tuple[NDArray[np.int64], int]:
        """Decide about transactions; return the records of each group, and how many in all are
        dirty.
        """
        first_dirty = self.plan.compaction.first_dirty_offset
        records = np.zeros(len(groups), dtype=np.int64)
        thin: list[NDArray[np.void]] = []
        dirty, has_transactions = 0, False
        for number, plan in enumerate(self._plans):
            sources = open_sources(plan)
            require_within_limit(plan.config, sources)
            thin += map(split.thin, sources)
            has_transactions |= split.has_transactions(sources)
            for source in sources:
                records[number] += source.records
                row = source.first_row("last_offset", first_dirty)
                dirty += source.records - source.records_before(row)
        indexed = any(each.txnindex_bytes for each in self.plan.log.segments)
        decided = split.decide(self.plan, groups, thin) if has_transactions or indexed else None
        self._fates = decided
        return records, dirty

    def _find(self, records: NDArray[np.int64], dirty: int) -> Superseded:
        """Find the superseded records of all groups."""
        superseded = NewestKeys(
            shard=0,
            shards=1,
            rows=lambda numbers: map(self._keys, numbers),
            counts=records,
            inserted=dirty,
            cleaner=self.plan.cleaner,
        ).find()
        for number in np.flatnonzero(records == 0).tolist():
            self._keys(number)
        return superseded

    def _open(self, number: int) -> list[Source]:
        sources = open_sources(self._plans[number])
        if self._fates is not None:
            split.set_fates(sources, self._fates[number])
        return sources

    def _keys(self, number: int) -> NDArray[np.void]:
        """Return the keys of a group, KEY_ROW[n], and keep what its batches show."""
        sources = self._open(number)
        rows: list[NDArray[np.void]] = []
        reader = KeyRows(
            records=sum(source.records for source in sources),
            key=self._key,
            shards=1,
            give=lambda some, _: rows.append(some),
        )
        reader.read(split.reading_of(self._plans[number], sources))
        self._read[number] = split.ReadGroup(
            reader.null_keys, reader.expired, split.notes_of(sources), _NO_KEYS
        )
        return np.concatenate([np.zeros(0, KEY_ROW), *rows])

    def _survivors(self, number: int) -> tuple[Survivors, NDArray[np.int64]]:
        """Return what survives of a group, and its intervals of aborted transactions."""
        sums = self._superseded.sums[number]
        key = (self._key.low, self._key.high)
        keys = KeyFacts(key, int(sums["digest"]), int(sums["records"]), 0, 0)
        fates = None if self._fates is None else self._fates[number]
        survivors = split.survivors_of_group(
            self._plans[number],
            self._open(number),
            self._read[number]._replace(keys=keys),
            [self._superseded.dead[number]] if number in self._superseded.dead else [],
            () if fates is None else fates.aborted,
        )
        return survivors, _NO_INTERVALS if fates is None else fates.intervals

    def _weigh(self, number: int) -> Weighed:
        plan, (survivors, _) = self._plans[number], self._survivors(number)
        (group,), (aborted,) = survivors.groups, survivors.aborted
        sources = [source for _, source in group]
        facts = group_facts(sources, survivors.dead, log_start_offset=plan.log.log_start_offset)
        interval_bytes = plan.config.index_interval_bytes
        stays = unchanged_segment(plan.log, group, facts, aborted, interval_bytes=interval_bytes)
        need = 0 if stays is not None else with_margin(_most_bytes(sources, survivors.dead))
        waits = survivors.removed_tombstones > 0 or survivors.removed_markers > 0
        return Weighed(number=number, need=need, waits=waits)

    @property
    def is_right(self) -> bool:
        """Whether a sample of the keys agrees with the map."""
        return self._superseded.sampled == self._superseded.expected

    @contextmanager
    def staging(self) -> Iterator[None]:
        """Keep the directory in which groups are staged, until all are done. Effects: makes it, and
        removes it on leaving.

        Raises:
            DiskFull, StepFailed: it cannot be made.
        """
        try:
            with discarded_on_error(self.plan), new_staging(self.plan):
                yield
        finally:
            discard_staging(self.plan)

    def build(self, number: int) -> BuiltGroup:
        """Build one group. Nothing is mapped any more when it returns. Effects: writes its staging
        directory, and removes it if an error is raised.

        Raises:
            DiskFull, StepFailed: it could not be written.
            CorruptBatch, UnsupportedFormatError, UnreadableFile, StalePlan: as `read`.
        """
        plan = self._plans[number]
        with enough_memory(plan.log.directory), discarded_on_error(plan):
            survivors, aborted = self._survivors(number)
            with new_staging(plan) as directory:
                staged = rewrite(plan, survivors, directory, silent, Runtime())
        del self._read[number]
        return BuiltGroup(plan, staged, aborted)


def _most_bytes(sources: Sequence[Source], dead: NDArray[np.uint8]) -> int:
    """Return what the batches that keep records have in bytes, and a header for each other one."""
    bits = np.unpackbits(dead, bitorder="little")
    most = 0
    for source in sources:
        batches = source.batches[source.batches["count"] > 0]
        kept = np.zeros(0, dtype=np.int64)
        if len(batches):
            first = int(batches["first_ordinal"][0])
            own = bits[first : first + source.records]
            gone = np.add.reduceat(own, batches["first_ordinal"] - first, dtype=np.int64)
            kept = batches["size"][gone < batches["count"]]
        most += int(kept.sum(dtype=np.int64)) + HEADER_BYTES * (len(source.batches) - len(kept))
    return most
