"""A cleaning that is split, step by step. What is here runs in the process that calls the tasks."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from math import ceil
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

from logwright.bucket.commit import Conflict, TooLate
from logwright.bucket.store import Bucket
from logwright.checks.model import LATEST_VALUE_PER_KEY, CheckResult, refusal
from logwright.compaction.split import groups_of, plan_of_group, why_whole
from logwright.errors import LogwrightError, NotALogDir, StalePlan
from logwright.format.names import SEGMENT_SUFFIXES, segment_file_name
from logwright.format.siphash import HashKey
from logwright.maintenance.maintain import Maintained
from logwright.maintenance.split.finish import FinishTask, MapFigures, finish
from logwright.maintenance.split.model import (
    GroupBuilt,
    GroupTask,
    Job,
    KeysRead,
    RewriteTask,
    ShardFound,
    ShardTask,
    TransactionsTask,
)
from logwright.maintenance.split.tasks import (
    decide_transactions,
    find_superseded,
    parts_of,
    read_keys,
    rewrite_group,
    superseded_of,
)
from logwright.maintenance.sweep import BucketSweep, Swept, whole
from logwright.place.bucket import Session
from logwright.sweep.model import LogWork, SweepState
from logwright.sweep.stages import plan_all
from logwright.units import ByteCount

if TYPE_CHECKING:
    from logwright.bucket.manifest import Manifest
    from logwright.compaction.model import CleanPlan, ReadablePlan

_LOG = logging.getLogger(__name__)
_Value = TypeVar("_Value")
_ATTEMPTS: Final = 5
SHARD_BYTES: Final = 1 << 30
"""Bytes of a log for each shard of its keys."""
_MOST_SHARDS: Final = 4096
_AT_ONCE: Final = 8
"""Objects that are removed at once."""


class Caller(Protocol):
    """Calls tasks, in this process or elsewhere."""

    def call_sized(
        self,
        function: Callable[..., _Value],
        arguments: Sequence[tuple[Any, ...]],
        sizes: Sequence[int],
        *,
        bytes_per_second: float,
    ) -> Iterator[_Value | LogwrightError]:
        """Call a function of a module once for each tuple of arguments. Effects: those of the
        function.

        Args:
            sizes: bytes that each reads.
            bytes_per_second: that all of them together may read and write.

        Returns:
            the result or the error of each call, in their order.
        """


def is_split(plan: ReadablePlan, split_bytes: int, *, retains: bool) -> bool:
    """Return whether a log is cleaned by many tasks.

    Args:
        split_bytes: the largest log that is not.
        retains: retention is applied afterwards, in the same working copy.
    """
    deletes = retains and plan.config.delete
    return plan.log.log_bytes > split_bytes and not deletes and why_whole(plan) is None


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitSweep:
    """A cleaning of one log by many tasks; `run` is all of it.

    Attributes:
        sweep: what is done; its passes and its retention are not: one pass leaves nothing dirty.
        shards: of the keys; None: by the size of the log.
    """

    sweep: BucketSweep
    shards: int | None = None

    def run(self, caller: Caller) -> Maintained[Swept] | None:
        """Clean. Effects: changes the log in the bucket.

        Raises:
            QualityError: an output failed its checks. Nothing was changed.
            LogwrightError: a task failed, or as `Maintenance.run`. Nothing was changed.
        """
        for attempt in range(_ATTEMPTS):
            try:
                done = self._attempt(caller)
            except (Conflict, TooLate, StalePlan) as error:
                if attempt + 1 == _ATTEMPTS:
                    raise
                _LOG.warning("begun again topic_partition=%s: %s", self.sweep.partition, error)
                continue
            self.sweep.end_quarantine(done)
            return done
        return None

    def _attempt(self, caller: Caller) -> Maintained[Swept] | None:
        sweep = self.sweep
        session = Session(Bucket.of(sweep.url))
        base = session.manifest(sweep.partition.directory_name)
        if base is None:
            raise NotALogDir(
                f"has no partition {sweep.partition}.",
                path=sweep.url,
                remedy="`logwright inspect` lists the partitions.",
            )
        version = base.version_of(sweep.id)
        if version is not None:
            return Maintained(result=None, version=version, sent_bytes=ByteCount(0))
        plan = self._plan(session)
        steps = _Steps(sweep, base, plan, caller, self._job(plan))
        return steps.run()

    def _plan(self, session: Session) -> ReadablePlan:
        """Return the plan of the version that the session shows. Effects: reads it."""
        sweep, place = self.sweep, session.place
        work = LogWork(key=str(sweep.partition), log_dir=place, partition=sweep.partition)
        state = plan_all(
            SweepState(works=(work,), now_ms=sweep.now_ms),
            sweep,
            options=sweep.options,
            high_watermark=sweep.high_watermark,
        )
        (planned_work,) = whole(state.works)
        return cast("ReadablePlan", planned_work.plan)

    def _job(self, plan: ReadablePlan) -> Job:
        by_size = min(max(ceil(plan.log.log_bytes / SHARD_BYTES), 1), _MOST_SHARDS)
        sweep = self.sweep
        return Job(
            url=sweep.url,
            partition=sweep.partition,
            id=sweep.id,
            scratch=sweep.scratch,
            key=HashKey.random(),
            shards=by_size if self.shards is None else self.shards,
        )


class _Steps:
    """The steps of one attempt."""

    def __init__(
        self, sweep: BucketSweep, base: Manifest, plan: ReadablePlan, caller: Caller, job: Job
    ) -> None:
        self._sweep = sweep
        self._base = base
        self._plan = plan
        self._caller = caller
        self._job = job
        self._groups = groups_of(plan) if plan.clean else ()
        self._sizes = [sum(each.log_bytes for each in group) for group in self._groups]
        self._tasks = [
            GroupTask(job=job, plan=plan_of_group(plan, group), files=self._files(number))
            for number, group in enumerate(self._groups)
        ]
        self._left: list[str] = []

    def run(self) -> Maintained[Swept] | None:
        """Do all of them; see `SplitSweep.run`. However it ends, the objects of the job that are
        known here are removed: no manifest names them, whatever became of the change.
        """
        try:
            return self._run()
        finally:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                pool.map(self._remove, self._left)

    def _remove(self, key: str) -> None:
        """Remove an object of the job. Effects: as said; a purge does it later if it fails."""
        with suppress(OSError):
            self._job.directory.delete(key)

    def _run(self) -> Maintained[Swept] | None:
        read = self._read()
        shards = self._find(read)
        began = time.monotonic()
        built = self._rewrite(read, shards)
        figures = MapFigures(
            map_reads=max((each.reads for each in shards), default=1),
            map_records=sum(each.offered for each in read),
            map_bytes=max((each.table_bytes for each in shards), default=0),
            distinct_keys=sum(each.distinct for each in shards),
        )
        task = FinishTask(
            sweep=self._sweep,
            base=self._base,
            built=tuple(built),
            figures=figures,
            began_ms_ago=int((time.monotonic() - began) * 1000),
        )
        (ended,) = self._call(finish, [(task,)], [0])
        return ended

    def _call(
        self,
        function: Callable[..., _Value],
        arguments: Sequence[tuple[Any, ...]],
        sizes: Sequence[int],
    ) -> list[_Value]:
        """Call a task for each of the arguments.

        Raises:
            LogwrightError: of the first that failed.
        """
        if not arguments:
            return []
        began = time.monotonic()
        rate = self._plan.cleaner.io_max_bytes_per_second
        results = []
        for result in self._caller.call_sized(function, arguments, sizes, bytes_per_second=rate):
            if isinstance(result, LogwrightError):
                raise result
            results.append(result)
        _LOG.info(
            "split topic_partition=%s step=%s calls=%d seconds=%.1f",
            self._sweep.partition,
            function.__name__,
            len(arguments),
            time.monotonic() - began,
        )
        return results

    def _files(self, number: int) -> dict[str, tuple[Any, int]]:
        """Return the files of a group's segments."""
        known = self._base.state.files
        names = (
            segment_file_name(segment.base_offset, suffix)
            for segment in self._groups[number]
            for suffix in SEGMENT_SUFFIXES
        )
        return {name: known[name] for name in names if name in known}

    def _read(self) -> list[KeysRead]:
        """Read the keys of all groups; first of those without transactions."""
        read = self._read_keys(range(len(self._tasks)))
        indexed = any(each.txnindex_bytes for each in self._plan.log.segments)
        if not self._groups or not (indexed or any(each.has_transactions for each in read)):
            return read
        transactions = TransactionsTask(
            job=self._job,
            plan=self._plan,
            groups=self._groups,
            thin=tuple(each.thin for each in read),
        )
        size = sum(each.thin.bytes for each in read)
        (fates,) = self._call(decide_transactions, [(transactions,)], [size])
        self._left += [each.key for each in fates]
        waiting = [number for number, each in enumerate(read) if each.has_transactions]
        for number in waiting:
            self._tasks[number] = replace(self._tasks[number], fates=fates[number])
        for number, each in zip(waiting, self._read_keys(waiting), strict=True):
            read[number] = each
        return read

    def _read_keys(self, numbers: Sequence[int]) -> list[KeysRead]:
        """Read the keys of some groups."""
        tasks, sizes = self._tasks, self._sizes
        read = self._call(
            read_keys,
            [(tasks[number],) for number in numbers],
            [sizes[number] for number in numbers],
        )
        for each in read:
            self._left += [each.thin.key, *(piece.key for piece in each.pieces)]
            self._left += [] if each.read is None else [each.read.key]
        return read

    def _find(self, read: Sequence[KeysRead]) -> list[ShardFound]:
        """Find in each shard what is superseded.

        Raises:
            QualityError: a sample of the keys contradicts a table.
        """
        parts = [[parts_of(piece) for piece in each.pieces] for each in read]
        inserted = sum(piece.counts[1] for each in read for piece in each.pieces)
        tasks = [
            ShardTask(
                job=self._job,
                shard=shard,
                cleaner=self._plan.cleaner,
                parts=tuple(tuple(piece[shard] for piece in pieces) for pieces in parts),
                inserted=0 if isinstance(inserted, int) else int(inserted[shard]),
            )
            for shard in range(self._job.shards if self._groups else 0)
        ]
        sizes = [sum(part.bytes for part in chain(*task.parts)) for task in tasks]
        shards = self._call(find_superseded, [(task,) for task in tasks], sizes)
        self._left += [each.key for each in shards]
        if not all(each.is_right for each in shards):
            wrong = sum(not each.is_right for each in shards)
            raise self._refused([CheckResult(LATEST_VALUE_PER_KEY, wrong)])
        return shards

    def _rewrite(self, read: Sequence[KeysRead], shards: Sequence[ShardFound]) -> list[GroupBuilt]:
        """Rewrite each group.

        Raises:
            QualityError: an output failed a check.
        """
        superseded = [superseded_of(each) for each in shards]
        tasks = []
        for number, (group, keys) in enumerate(zip(self._tasks, read, strict=True)):
            if keys.read is None:
                raise StalePlan("a group has other batches now.", path=self._sweep.partition)
            tasks.append(
                RewriteTask(
                    group=group,
                    read=keys.read,
                    superseded=tuple(each[number] for each in superseded),
                    digest=sum(int(each.sums["digest"][number]) for each in shards),
                    records=sum(int(each.sums["records"][number]) for each in shards),
                )
            )
        built = self._call(rewrite_group, [(task,) for task in tasks], self._sizes)
        failed = [check for each in built for check in each.facts.failed]
        if failed:
            raise self._refused(failed)
        return built

    def _refused(self, failed: Sequence[CheckResult]) -> LogwrightError:
        plan = cast("CleanPlan", self._plan)  # only named
        return refusal(plan, (check.sentence for check in failed))
