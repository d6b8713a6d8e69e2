"""The order of an erasure in one log directory: for the command line, which shows and asks between
the stages, and for Dagster, whose steps they are.

1. The caller chooses the live logs that requests apply to, without those that are held, and
   recovers what a crash has left.
2. `plan_logs`: what is to be erased of each. The caller asks.
3. `erase_logs`: log by log; one that fails does not stop the others.
4. `erase_directories`: the deleted, stray and future logs.
5. `logwright.erasure.remains`: a search of what is left, and the exit status that says so.

Each stage looks at the disk again, so that any of them can be repeated, also by another process: of
a log that is done it finds nothing to erase. `erase_log_dir` is stages 2 to 4 under one lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol

from logwright.batches.runtime import Runtime, Throttle, available_cores
from logwright.deletion.commit import plan_purge_deleted, purge_deleted
from logwright.erasure.erase.by_tombstones import (
    erase_by_rules,
    missing_tombstones,
    refuse_tombstones,
)
from logwright.erasure.erase.commit import (
    build_and_check,
    commit_erasure,
    needs_purge,
    note_absent,
    plan_erasure_of,
)
from logwright.erasure.erase.directories import (
    MarkedErasure,
    chosen_marked,
    matching_files,
    plan_marked,
    recover_marked,
    remove_deleted,
)
from logwright.erasure.outcome import (
    AtOnce,
    DeletedAtOnce,
    DirectoryResult,
    ErasedByTombstones,
    Failed,
    LeftDirectory,
    LogResult,
    PlannedTombstones,
    PurgedDirectory,
    Result,
)
from logwright.errors import LogwrightError, PreconditionError
from logwright.ingest.commit import prepare_log_dir
from logwright.locks import lock_log_dir
from logwright.place.model import AnyPlace_co
from logwright.reading import reading

if TYPE_CHECKING:
    from logwright.batches.runtime import Progress
    from logwright.config.topic import CleanerConfig, TopicConfig
    from logwright.erasure.erase.model import Erased, ErasePlan, Matcher
    from logwright.erasure.find.result import Settings
    from logwright.erasure.keys import KeySet
    from logwright.format.names import TopicPartition
    from logwright.recovery.directory_plan import TopicIds
    from logwright.units import TimestampMs


def silent(phase: str, done: int, total: int) -> None:
    """Show no progress."""
    del phase, done, total


def _unshown(name: str) -> AbstractContextManager[Progress]:
    del name
    return nullcontext(silent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure(Generic[AnyPlace_co]):
    """What is erased from one log directory, and how.

    Attributes:
        keys: the requests. is_wanted: whether a log may be changed.
        of_topic: a topic's settings. search: what a search of the directory asks of them; both read
            and raise LogwrightError. topic_ids: see `plan_directory` of a recovery.
        at_once: rebuild segments and unlink the old files, instead of appending tombstones.
        purge_unreadable: at once, retired, staged and cut files go also if they cannot be read.
        threads: for each log, at once. progress: shows that of a log, by its name.
        replicas_of: the node ids of a log's replicas by the cluster's metadata.
    """

    log_dir: AnyPlace_co
    keys: KeySet
    now_ms: TimestampMs
    of_topic: Callable[[str], tuple[TopicConfig, CleanerConfig]]
    search: Callable[[], Settings]
    topic_ids: TopicIds
    at_once: bool
    purge_unreadable: bool = False
    threads: int = field(default_factory=available_cores)
    is_wanted: Callable[[TopicPartition], bool] = lambda _: True
    replicas_of: Callable[[TopicPartition], Sequence[int]] = lambda _: ()
    progress: Callable[[str], AbstractContextManager[Progress]] = _unshown

    def runtime(self, cleaner: CleanerConfig) -> Runtime:
        """Return what a log is erased with."""
        return Runtime(threads=self.threads, throttle=Throttle(cleaner.io_max_bytes_per_second))


class Shell(Protocol):
    """Who calls an erasure."""

    def recover(self) -> Sequence[TopicPartition]:
        """Recover what a crash has left, under the lock; return the logs to continue with."""

    def ask(self, erasure: Erasure, logs: int, planned: Sequence[PlannedTombstones]) -> None:
        """Ask whether to continue, or raise.

        Args:
            logs: the number of logs. planned: what is to be appended; empty if it is at once.
        """

    def show(self, result: Result) -> None:
        """Show what became of a log."""


def erase_log_dir(erasure: Erasure, shell: Shell) -> bool:
    """Erase from a log directory; return whether it had records of the requests. Effects: changes
    the logs, under its lock.

    Raises:
        LogwrightError: the directory as a whole cannot be erased from.
    """
    had_matches = False
    with lock_log_dir(erasure.log_dir):
        logs = shell.recover()
        if not erasure.at_once:
            prepare_log_dir(erasure.log_dir)
            planned = []
            for plan in plan_logs(erasure, logs):
                if isinstance(plan, PlannedTombstones):
                    planned.append(plan)
                else:
                    shell.show(plan)
            shell.ask(erasure, len(logs), planned)
            logs = [plan.tombstones.log.partition for plan in planned]
            had_matches = any(plan.has_matches for plan in planned)
        else:
            shell.ask(erasure, len(logs), ())
        for stage in (erase_logs(erasure, logs), erase_directories(erasure)):
            for result in stage:
                shell.show(result)
                had_matches |= result.has_matches
    return had_matches


def plan_log_dir(erasure: Erasure, logs: Iterable[TopicPartition], shell: Shell) -> bool:
    """Show what would be erased; return whether there are records of the requests. Effects: reads.

    Raises:
        LogwrightError: the directory cannot be read, or a broker runs on it.
    """
    has_matches = False
    with reading(erasure.log_dir) if erasure.at_once else nullcontext():
        for stage in (plan_logs(erasure, logs), plan_directories(erasure)):
            for result in stage:
                shell.show(result)
                has_matches |= result.has_matches
    return has_matches


def plan_logs(erasure: Erasure, logs: Iterable[TopicPartition]) -> Iterator[LogResult]:
    """Yield what is to be erased of each live log. Effects: reads them."""
    for partition in logs:
        keys = erasure.keys.for_topic(partition.topic)
        try:
            if erasure.at_once:
                plan = _plan(erasure, partition, keys, silent)
                result: LogResult = AtOnce(name=str(partition), plan=plan, done=False, erased=None)
            else:
                config, _ = erasure.of_topic(partition.topic)
                tombstones = missing_tombstones(erasure.log_dir, partition, config, keys)
                refuse_tombstones(tombstones, erasure.replicas_of(partition))
                result = PlannedTombstones(name=str(partition), tombstones=tombstones)
        except LogwrightError as error:
            result = Failed(name=str(partition), partition=partition, error=error)
        yield result


def erase_logs(erasure: Erasure, logs: Iterable[TopicPartition]) -> Iterator[LogResult]:
    """Erase from each live log, and yield what was done. Effects: changes them; the caller holds
    the directory's lock, and has prepared it if tombstones are appended.
    """
    for partition in logs:
        try:
            if erasure.at_once:
                result = _erase_at_once(erasure, partition)
            else:
                result = _erase_by_rules(erasure, partition)
        except LogwrightError as error:
            result = Failed(name=str(partition), partition=partition, error=error)
        yield result


def _erase_by_rules(erasure: Erasure, partition: TopicPartition) -> LogResult:
    settings, keys = erasure.of_topic(partition.topic), erasure.keys.for_topic(partition.topic)
    erased = erase_by_rules(
        erasure.log_dir,
        partition,
        settings,
        keys,
        now_ms=erasure.now_ms,
        replicas=erasure.replicas_of(partition),
    )
    return ErasedByTombstones(name=str(partition), partition=partition, erased=erased)


def _erase_at_once(erasure: Erasure, partition: TopicPartition) -> LogResult:
    keys = erasure.keys.for_topic(partition.topic)
    with erasure.progress(str(partition)) as progress:
        plan = _plan(erasure, partition, keys, progress)
        erased = _commit(erasure, plan, keys, progress)
    return AtOnce(name=str(partition), plan=plan, done=True, erased=erased)


def plan_directories(erasure: Erasure) -> Iterator[DirectoryResult]:
    """Yield what is to be erased of the deleted, stray and future logs, or by the rules: what stays
    in them. Effects: reads them.
    """
    if not erasure.at_once:
        yield from _left_directories(erasure)
        return
    for plan in _plan_marked(erasure):
        yield plan if isinstance(plan, Failed) else _of_directory(plan, None, done=False)


def erase_directories(erasure: Erasure) -> Iterator[DirectoryResult]:
    """Erase from the deleted, stray and future logs; by the rules, remove the deleted ones that are
    due, and yield what stays in the others. Effects: changes them; the caller holds the lock.

    Raises:
        LogwrightError: the directory cannot be read, or a recovery fails.
    """
    if not erasure.at_once:
        yield from _purge_deleted(erasure)
        yield from _left_directories(erasure)
        return
    _recover_marked(erasure)
    plans: list[MarkedErasure] = []
    for planned in _plan_marked(erasure):
        if isinstance(planned, Failed):
            yield planned
        else:
            plans.append(planned)
    stay = remove_deleted(erasure.log_dir, [plan.name for plan in plans if plan.removed])
    for plan in plans:
        try:
            erased = None
            if plan.plan is not None:
                erased = _commit(erasure, plan.plan, plan.keys, silent)
            elif plan.name in stay:
                raise PreconditionError(
                    f"it stays: {stay[plan.name]}.",
                    path=erasure.log_dir / plan.name,
                    remedy="Remove what does not belong there, then run it again.",
                )
        except LogwrightError as error:
            yield Failed(name=plan.name, partition=None, error=error)
        else:
            yield _of_directory(plan, erased, done=True)


def _of_directory(plan: MarkedErasure, erased: Erased | None, *, done: bool) -> DirectoryResult:
    if plan.plan is None:
        return DeletedAtOnce(name=plan.name, marked=plan, done=done)
    return AtOnce(name=plan.name, plan=plan.plan, done=done, erased=erased)


def _plan(
    erasure: Erasure, partition: TopicPartition, keys: Matcher, progress: Progress
) -> ErasePlan:
    settings = erasure.of_topic(partition.topic)
    return plan_erasure_of(
        erasure.log_dir,
        partition,
        settings,
        keys,
        now_ms=erasure.now_ms,
        progress=progress,
        runtime=erasure.runtime(settings[1]),
        purge_unreadable=erasure.purge_unreadable,
    )


def _commit(erasure: Erasure, plan: ErasePlan, keys: Matcher, progress: Progress) -> Erased | None:
    """Erase one log if there is something to erase; return None otherwise."""
    runtime = erasure.runtime(plan.cleaner)
    if not plan.rebuilds and not plan.copies and not needs_purge(plan, keys, runtime=runtime):
        note_absent(plan, keys)
        return None
    staged = build_and_check(plan, keys, progress=progress, runtime=runtime)
    return commit_erasure(staged, keys, runtime=runtime)


def _plan_marked(erasure: Erasure) -> list[MarkedErasure | Failed]:
    """Plan the deleted, stray and future logs. Effects: reads them."""
    plans: list[MarkedErasure | Failed] = []
    for marked, keys in chosen_marked(erasure.log_dir, erasure.keys, erasure.is_wanted):
        try:
            settings = erasure.of_topic(marked.partition.topic)
            plan = plan_marked(
                erasure.log_dir,
                marked,
                settings,
                keys,
                now_ms=erasure.now_ms,
                progress=silent,
                runtime=erasure.runtime(settings[1]),
                purge_unreadable=erasure.purge_unreadable,
            )
        except LogwrightError as error:
            plans.append(Failed(name=marked.name, partition=None, error=error))
        else:
            plans.append(plan)
    return plans


def _recover_marked(erasure: Erasure) -> None:
    """Recover stray and future logs that an interruption has left. Effects: changes them."""
    chosen = chosen_marked(erasure.log_dir, erasure.keys, erasure.is_wanted)
    recover_marked(
        erasure.log_dir,
        [marked.name for marked, _ in chosen if marked.mark != "delete"],
        erasure.of_topic,
        now_ms=erasure.now_ms,
        topic_ids=erasure.topic_ids,
    )


def _purge_deleted(erasure: Erasure) -> Iterator[PurgedDirectory]:
    """Remove the deleted logs that are due. Effects: removes them."""
    log_dir, now_ms = erasure.log_dir, erasure.now_ms
    delay_ms = erasure.search().broker.file_delete_delay_ms
    due = [
        plan.directory
        for plan in plan_purge_deleted(log_dir, now_ms=now_ms, delay_ms=delay_ms)
        if plan.goes and not erasure.keys.for_topic(plan.partition.topic).is_empty
    ]
    if due:
        purge_deleted(log_dir, now_ms=now_ms, delay_ms=delay_ms, directories=due)
    for name in due:
        yield PurgedDirectory(name=name)


def _left_directories(erasure: Erasure) -> Iterator[Failed | LeftDirectory]:
    """Yield which deleted, stray and future logs have records of the requests. Effects: reads."""
    for marked, keys in chosen_marked(erasure.log_dir, erasure.keys, erasure.is_wanted):
        try:
            runtime = Runtime(threads=erasure.threads)
            files = matching_files(erasure.log_dir, marked, keys, runtime=runtime)
        except LogwrightError as error:
            yield Failed(name=marked.name, partition=None, error=error)
            continue
        if files:
            yield LeftDirectory(name=marked.name, files=files)
