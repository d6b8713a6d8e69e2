"""The stages of a sweep between its recovery and its retention, each from one state to the next."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from logwright.checks.model import refusal
from logwright.errors import LogwrightError, QualityError
from logwright.locks import lock_log_dir
from logwright.rewrite.staging import discard_staging, staging_directory
from logwright.steps.failed_output import FailedOutput, keep_failed_output
from logwright.sweep.build import build, examine
from logwright.sweep.commit import commit_many
from logwright.sweep.executor import call_builds
from logwright.sweep.model import LogWork, Rolled, planned
from logwright.sweep.order import plans_of
from logwright.sweep.plan import plan_cleanings
from logwright.units import TimestampMs

if TYPE_CHECKING:
    from pathlib import Path

    from logwright.compaction.model import CleaningOptions, CleanPlan, StagedCleaning
    from logwright.log.committed import HighWatermark
    from logwright.place.model import AnyPlace
    from logwright.sweep.executor import Executor
    from logwright.sweep.model import LogSettings, SweepState


def plan_all(
    state: SweepState[AnyPlace],
    settings: LogSettings,
    *,
    options: CleaningOptions,
    high_watermark: HighWatermark,
) -> SweepState[AnyPlace]:
    """Decide about each log that is not held. Effects: reads the log directories."""
    free = [work for work in state.going_on if work.held is None]
    for log_dir in dict.fromkeys(work.log_dir for work in free):
        members = [work for work in free if work.log_dir == log_dir]
        try:
            planned = plan_directory(
                log_dir,
                members,
                settings,
                now_ms=state.now_ms,
                options=options,
                high_watermark=high_watermark,
            )
        except LogwrightError as error:
            planned = [work.failed(error) for work in members]
        state = state.with_works(planned)
    return state


def plan_directory(
    log_dir: AnyPlace,
    works: Sequence[LogWork[AnyPlace]],
    settings: LogSettings,
    *,
    now_ms: TimestampMs,
    options: CleaningOptions,
    high_watermark: HighWatermark,
) -> list[LogWork[AnyPlace]]:
    """Decide about the logs of one directory. Effects: reads it.

    Raises:
        LogwrightError: the directory cannot be read, see `plan_cleanings`.
    """
    outcomes = plan_cleanings(
        log_dir,
        [work.partition for work in works],
        partial(settings.of, log_dir),
        now_ms=now_ms,
        options=options,
        high_watermark=high_watermark,
    )
    return [
        work.failed(outcome) if isinstance(outcome, LogwrightError) else replace(work, plan=outcome)
        for work, outcome in zip(works, outcomes, strict=True)
    ]


def roll_all(
    state: SweepState, settings: LogSettings, *, high_watermark: HighWatermark
) -> SweepState:
    """Roll the active segments that are due, by themselves, then decide again about their logs: a
    plan is of the log as it was. A broker rolls independently of its cleaner, too. Effects: changes
    live logs, under the locks; reads them.
    """
    due = [work for work in state.going_on if work.plan is not None and work.plan.roll.due]
    if not due:
        return state
    options = planned(due[0]).options
    alone = [replace(work, plan=planned(work)._replace(clean=False)) for work in due]
    rolled = [work if work.failure is not None else _rolled(work) for work in commit_each([alone])]
    again = plan_all(
        replace(state, works=tuple(rolled)),
        settings,
        options=options,
        high_watermark=high_watermark,
    )
    return state.with_works(again.works)


def _rolled(work: LogWork) -> LogWork:
    """Return the work of a log that was rolled, without its plan."""
    done = planned(work)
    rolled = Rolled(decision=done.roll, log_bytes=done.log.log_bytes, seconds=work.commit_seconds)
    return replace(work, rolled=rolled, plan=None, result=None, commit_seconds=0.0)


def build_all(state: SweepState, executor: Executor) -> SweepState:
    """Build the compacted output of every log that is to be cleaned, while no broker can start on
    them. Effects: staged files; locks.
    """
    changed: list[LogWork] = []
    with brokers_kept_out(to_clean(state), changed) as works:
        by_plan = {work.plan.plan_id: work for work in works if work.plan is not None}
        for outcomes in call_builds(executor, build, plans_of(works)):
            for plan, result in outcomes:
                work = by_plan[plan.plan_id]
                changed.append(
                    work.failed(result)
                    if isinstance(result, LogwrightError)
                    else replace(work, staged=result)
                )
    return state.with_works(changed)


def examine_all(state: SweepState, executor: Executor) -> SweepState:
    """Read the staged output of every log back, while no broker can start on them. Effects:
    locks.
    """
    changed: list[LogWork] = []
    staged = [work for work in state.going_on if work.staged is not None]
    with brokers_kept_out(staged, changed) as works:
        left = iter(works)
        for results in executor.call_each(examine, [(work.plan, work.staged) for work in works]):
            for result in results:
                work = next(left)
                changed.append(
                    work.failed(result)
                    if isinstance(result, LogwrightError)
                    else replace(work, facts=result)
                )
    return state.with_works(changed)


Judge: TypeAlias = Callable[[LogWork], LogWork]
"""Decides about a log that was examined: returns it, with a failure if it is not to be swapped."""


def judged(work: LogWork) -> LogWork:
    """Return an examined log: with a failure if its output breaks a check."""
    if work.facts is None or work.plan is None or not work.facts.failed:
        return work
    return work.failed(refusal(work.plan, (check.sentence for check in work.facts.failed)))


def commit_all(state: SweepState) -> SweepState:
    """Commit: roll, swap, checkpoint; some logs at the same time. Effects: changes live logs, under
    the locks.
    """
    works = [work for work in state.going_on if work.due]
    return state.with_works(commit_each([works]))


def commit_each(batches: Iterable[Iterable[LogWork]]) -> Generator[LogWork, None, None]:
    """Commit logs as they become ready; return them in their order, as they end. Effects: as
    `commit_all`. What is staged for a log that fails is left to the caller.
    """
    begun: list[LogWork] = []

    def pairs() -> Iterator[list[tuple[CleanPlan, StagedCleaning | None]]]:
        for batch in batches:
            ready = [(work, work.plan) for work in batch if work.plan is not None]
            begun.extend(work for work, _ in ready)
            yield [(one, work.staged) for work, one in ready]

    for number, done in enumerate(commit_many(pairs())):
        work = replace(begun[number], commit_seconds=done.seconds)
        if isinstance(done.outcome, LogwrightError):
            yield work.failed(done.outcome)
        else:
            yield replace(work, result=done.outcome)


def discard_failed(state: SweepState) -> None:
    """Remove what failed logs have staged, or keep it as `discard` does. Effects: unlinks or
    renames staged files; nothing live is touched.

    A recovery after a failed swap needs none of it: it continues with files that are in the
    partition directory already.
    """
    discard(work for work in state.works if work.failure is not None)


@contextmanager
def unstaged_on_error(state: SweepState) -> Iterator[None]:
    """Remove all staged files when a stage fails as a whole, or when its run is canceled. Effects:
    as `discard`.
    """
    try:
        yield
    except BaseException:
        discard(state.works)
        raise


def discard(works: Iterable[LogWork]) -> None:
    """Give the plans of logs up: their staged files go, or are kept for inspection if they failed a
    check and the options say so. Effects: unlinks or renames them.
    """
    for work in works:
        plan = work.plan
        if plan is None or not plan.clean:
            continue
        if isinstance(work.failure, QualityError) and plan.options.keep_failed_output_ms > 0:
            due_at_ms = TimestampMs(plan.now_ms + plan.options.keep_failed_output_ms)
            output = FailedOutput(due_at_ms=due_at_ms, plan_id=plan.plan_id)
            if staging_directory(plan).is_dir():
                keep_failed_output(plan.log.directory, output)
        discard_staging(plan)


def to_clean(state: SweepState) -> list[LogWork]:
    """Return the logs whose plan says that they are cleaned."""
    return [work for work in state.going_on if work.plan is not None and work.plan.clean]


@contextmanager
def brokers_kept_out(works: Iterable[LogWork], failed: list[LogWork]) -> Iterator[list[LogWork]]:
    """Hold the shared lock of each log directory, so that no broker can start on it.

    Args:
        works: the logs.
        failed: gets the logs whose directory could not be locked.

    Yields:
        the others.
    """
    refused: dict[Path, LogwrightError | None] = {}
    locked: list[LogWork] = []
    with ExitStack() as stack:
        for work in works:
            if work.log_dir not in refused:
                refused[work.log_dir] = _lock(stack, work.log_dir)
            failure = refused[work.log_dir]
            if failure is None:
                locked.append(work)
            else:
                failed.append(work.failed(failure))
        yield locked


def _lock(stack: ExitStack, log_dir: Path) -> LogwrightError | None:
    """Take the lock for as long as the stack lives; return the error if that is refused."""
    try:
        stack.enter_context(lock_log_dir(log_dir))
    except LogwrightError as error:
        return error.as_value()
    return None
