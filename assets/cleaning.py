"""The steps of a cleaning on a wave of logs: what the ops do, without Dagster.

Each takes a wave and returns one in which more is known of each log. What goes wrong with one log
becomes its `failure`, and the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from logwright import maintain
from logwright.assets.wave import LogWork, Wave
from logwright.compaction.model import CleaningOptions, CleanPlan
from logwright.config.sources import DirectorySettings
from logwright.errors import LogwrightError, StepFailed
from logwright.locks import lock_log_dir
from logwright.log.checkpoints import read_checkpoints
from logwright.recovery.model import RecoveryOptions
from logwright.resources.log_dirs import MaintainedLog
from logwright.spark.sweep import build_partitions, examine_partitions
from logwright.state.model import Hold
from logwright.units import TimestampMs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from logwright.maintain import CommitResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Swapped:
    """What a commit did to one log, and how long it took, with those that went side by side."""

    work: LogWork
    result: CommitResult
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """What was recovered before a cleaning.

    Attributes:
        findings: by key, what was done to a log and why.
        failures: by key, why a log could not be recovered.
    """

    findings: Mapping[str, tuple[str, ...]]
    failures: Mapping[str, LogwrightError]


class Planner:
    """Decides about logs by the policies of their topics at one moment. A topic's settings are
    parsed once, and a directory's checkpoints are read once.
    """

    def __init__(
        self,
        settings: DirectorySettings,
        *,
        now_ms: TimestampMs,
        options: CleaningOptions | None = None,
    ) -> None:
        self._settings = settings
        self._high_watermark = settings.policies.high_watermark
        self._now_ms = now_ms
        self._options = replace(options or CleaningOptions(), checks=settings.policies.checks)
        self._checkpoints = cache(read_checkpoints)

    def plan(self, log: MaintainedLog) -> CleanPlan:
        """Decide about one log. Effects: reads the log directory.

        Raises:
            LogwrightError: the log cannot be planned as it is.
        """
        return maintain.plan_clean(
            log.log_dir,
            log.partition,
            self._settings.of(log.log_dir, log.partition.topic),
            now_ms=self._now_ms,
            options=self._options,
            high_watermark=self._high_watermark,
            checkpoints=self._checkpoints(log.log_dir),
        )

    def plan_many(self, logs: Iterable[MaintainedLog]) -> dict[str, CleanPlan | LogwrightError]:
        """Decide about many logs: the plan or the error of each, by key. Effects: as `plan`."""
        found: dict[str, CleanPlan | LogwrightError] = {}
        for log_dir, members in _by_directory(logs).items():
            try:
                outcomes = maintain.plan_many(
                    log_dir,
                    [log.partition for log in members],
                    partial(self._settings.of, log_dir),
                    now_ms=self._now_ms,
                    options=self._options,
                    high_watermark=self._high_watermark,
                )
            except LogwrightError as error:
                outcomes = [error] * len(members)
            found |= {log.key: one for log, one in zip(members, outcomes, strict=True)}
        return found


def _by_directory(logs: Iterable[MaintainedLog]) -> dict[Path, list[MaintainedLog]]:
    found: dict[Path, list[MaintainedLog]] = {}
    for log in logs:
        found.setdefault(log.log_dir, []).append(log)
    return found


def recover_logs(
    logs: Iterable[MaintainedLog], settings: DirectorySettings, *, now_ms: TimestampMs
) -> Recovered:
    """Recover what a cleaning would refuse: a directory without the clean-shutdown marker whole,
    else the logs with leftovers. Nothing is dropped. Effects: changes log directories, under the
    locks.
    """
    findings: dict[str, tuple[str, ...]] = {}
    failures: dict[str, LogwrightError] = {}
    for log_dir, members in _by_directory(logs).items():
        try:
            damaged = maintain.partitions_to_recover(log_dir, [log.partition for log in members])
            if not damaged:
                continue
            result = maintain.recover(
                log_dir,
                damaged,
                partial(settings.topic, log_dir),
                now_ms=now_ms,
                options=RecoveryOptions(),
            )
        except LogwrightError as error:
            failures |= {log.key: error for log in members}
            continue
        done = {plan.partition: plan for plan in result.recovered}
        for log in members:
            if log.partition in result.failures:
                failures[log.key] = result.failures[log.partition]
            elif log.partition in done:
                findings[log.key] = tuple(
                    f"{one.action} {', '.join(one.files)}: {one.reason}"
                    for one in done[log.partition].findings
                )
    return Recovered(findings=findings, failures=failures)


def plan_wave(
    logs: Iterable[MaintainedLog],
    settings: DirectorySettings,
    *,
    now_ms: TimestampMs,
    options: CleaningOptions,
    held: Mapping[str, Hold | LogwrightError],
) -> Wave:
    """Decide about each log but those that are left alone. Effects: reads the log directories.

    `held`: of `logwright.assets.holds.holds_of`; and why others could not be recovered.
    """
    chosen = tuple(logs)
    free = [log for log in chosen if held.get(log.key) is None]
    outcomes = Planner(settings, now_ms=now_ms, options=options).plan_many(free)
    works = []
    for log in chosen:
        work = LogWork(key=log.key, log=log, now_ms=now_ms)
        found = held.get(log.key) or outcomes[log.key]
        if isinstance(found, LogwrightError):
            works.append(replace(work, failure=found))
        elif isinstance(found, CleanPlan):
            works.append(replace(work, plan=found))
        else:
            works.append(replace(work, held=found))
    return Wave(works=tuple(works))


def dedupe_wave(wave: Wave, session: Callable[[], SparkSession]) -> Wave:
    """Build the compacted output of every log that is to be cleaned, in one Spark job, while no
    broker can start on them. Effects: staged files; locks.
    """
    due = [work for work in wave.going_on if work.plan is not None and work.plan.clean]
    with brokers_kept_out(due) as (works, changed):
        plans = [work.plan for work in works if work.plan is not None]
        results = build_partitions(plans, session()) if plans else ()
        for work, built in zip(works, results, strict=True):
            changed[work.key] = (
                replace(work, failure=built)
                if isinstance(built, LogwrightError)
                else replace(work, staged=built)
            )
    return wave.with_works(changed)


def examine_wave(wave: Wave, session: Callable[[], SparkSession]) -> Wave:
    """Read the staged output of every log back, in one Spark job, while no broker can start on
    them. Effects: locks.
    """
    staged = [work for work in wave.going_on if work.staged is not None]
    with brokers_kept_out(staged) as (works, changed):
        pairs = [
            (work.plan, work.staged)
            for work in works
            if work.plan is not None and work.staged is not None
        ]
        results = examine_partitions(pairs, session()) if pairs else ()
        for work, facts in zip(works, results, strict=True):
            changed[work.key] = (
                replace(work, failure=facts)
                if isinstance(facts, LogwrightError)
                else replace(work, facts=facts)
            )
    return wave.with_works(changed)


@contextmanager
def brokers_kept_out(
    works: Iterable[LogWork],
) -> Iterator[tuple[list[LogWork], dict[str, LogWork]]]:
    """Hold the shared lock of each log directory, which no broker can then start on.

    Yields:
        the works whose directory could be locked; by key, those of the others, marked as failed.
    """
    refused: dict[Path, LogwrightError | None] = {}
    locked: list[LogWork] = []
    failed: dict[str, LogWork] = {}
    with ExitStack() as stack:
        for work in works:
            if work.plan is None:
                continue
            log_dir = work.plan.log.log_dir
            if log_dir not in refused:
                refused[log_dir] = _lock(stack, log_dir)
            failure = refused[log_dir]
            if failure is None:
                locked.append(work)
            else:
                failed[work.key] = replace(work, failure=failure)
        yield locked, failed


def _lock(stack: ExitStack, log_dir: Path) -> LogwrightError | None:
    """Take the lock for as long as the stack lives; the error if that is refused."""
    try:
        stack.enter_context(lock_log_dir(log_dir))
    except LogwrightError as error:
        return error
    return None


def with_failures(wave: Wave, failures: Mapping[str, LogwrightError]) -> Wave:
    """Mark logs as failed, by key."""
    return wave.with_works(
        {
            work.key: replace(work, failure=failures[work.key])
            for work in wave.works
            if work.key in failures
        }
    )


def discard_failed(wave: Wave) -> None:
    """Remove what failed logs have staged. Effects: unlinks staged files; nothing live is touched.

    Where a file step failed in the midst of a swap, all is left as it is for recovery.
    """
    _discard(work for work in wave.works if not isinstance(work.failure, StepFailed | None))


@contextmanager
def unstaged_on_error(wave: Wave) -> Iterator[None]:
    """Leave no staged files behind when a step breaks down as a whole. Effects: as
    `discard_failed`, for all logs.
    """
    try:
        yield
    except Exception:
        _discard(wave.works)
        raise


def _discard(works: Iterable[LogWork]) -> None:
    for work in works:
        if work.plan is not None and work.plan.clean:
            maintain.discard(work.plan)


def swap_wave(wave: Wave) -> tuple[Wave, tuple[Swapped, ...]]:
    """Commit: roll, swap, checkpoint; some logs at the same time. Effects: changes live logs,
    under the locks.

    Returns:
        the wave, with those that could not be committed marked as failed, and what was done.
    """
    swapped = []
    failures: dict[str, LogwrightError] = {}
    works = [work for work in wave.going_on if work.due]
    plans = [(work.plan, work.staged) for work in works if work.plan is not None]
    for work, done in zip(works, maintain.commit_many(plans), strict=True):
        if isinstance(done.outcome, LogwrightError):
            failures[work.key] = done.outcome
        else:
            swapped.append(Swapped(work=work, result=done.outcome, seconds=done.seconds))
    return with_failures(wave, failures), tuple(swapped)
