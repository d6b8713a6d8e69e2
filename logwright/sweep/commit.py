"""Make what was planned and built the live log, for one partition or for many at once.

A commit waits for the disk a dozen times, and works little in between. Commits of different
partitions share nothing but the cleaner checkpoint, so they are made in groups, in parallel: one
journal commit of the file system then serves all of a group, and so does one writing of the
checkpoint. What they have in common, checkpoints and state file, is read once, when all of a group
are locked. Each partition's own steps stay in their order.

No process is forked for a part of the commits: the caller may have threads, as a gateway to a JVM
and Dagster have, and a lock that one of them holds stays locked in a forked process.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from logwright.compaction.model import CleanPlan, StagedCleaning
from logwright.errors import LogwrightError
from logwright.format.names import CLEANER_OFFSET_CHECKPOINT
from logwright.live_plans import end_plan
from logwright.locks import lock_checkpoints, lock_log_dir
from logwright.log.checkpoints import checkpoint_contents
from logwright.place.mapped import map_file
from logwright.rewrite.staging import discard_staging, require_complete
from logwright.rewrite.steps import swap_steps, unchanged_steps
from logwright.roll.commit import sealing_steps
from logwright.state.hold import end_quarantine, refuse_held
from logwright.state.model import LogDirState
from logwright.state.store import read_state
from logwright.steps.failed_output import forget_failed_output
from logwright.steps.filesystem import FileSystem, RealFileSystem
from logwright.steps.interpreter import execute
from logwright.steps.live import locked_partition, refuse_changed
from logwright.steps.set_checkpoints import set_offsets
from logwright.steps.step import FileStep
from logwright.steps.together import execute_together
from logwright.units import ByteCount, Offset

GROUP: Final = 32
"""Commits in parallel. More of them hardly wait less; each holds eight files open."""
SYNCING: Final = 8
"""Threads in which the commits of a group wait for the disk."""

_Work = tuple[CleanPlan, StagedCleaning | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """What a commit did.

    Attributes:
        rolled: the active segment was rolled.
        segments_swapped: cleaned segments that took the place of their sources.
        first_dirty_offset: as recorded now, None if there is no record.
        bytes_before, bytes_after: ``.log`` bytes of the whole partition.
        by_max_compaction_lag: it was compacted because ``max.compaction.lag.ms`` was exceeded.
        compaction_delay_ms: by how much it was exceeded when the commit was done; 0 if it was not.
    """

    rolled: bool
    segments_swapped: int
    first_dirty_offset: Offset | None
    bytes_before: ByteCount
    bytes_after: ByteCount
    by_max_compaction_lag: bool = False
    compaction_delay_ms: int = 0


def lag_metrics(results: Iterable[CommitResult]) -> dict[str, int]:
    """Return the metrics of KIP-354, by its names, over the logs of one sweep.

    ``num-logs-compacted-by-max-compaction-lag``; ``max-compaction-delay`` in ms, measured when the
    compaction is finished (Kafka 4.3 has neither: its gauge is read when a log is picked).
    """
    overdue = [result.compaction_delay_ms for result in results if result.by_max_compaction_lag]
    return {
        "num-logs-compacted-by-max-compaction-lag": len(overdue),
        "max-compaction-delay": max(overdue, default=0),
    }


def commit(plan: CleanPlan, staged: StagedCleaning | None) -> CommitResult:
    """Make a plan's outcome the live log: roll, swap group by group, record the first dirty offset.

    Effects: changes the log, under the locks of the log directory and the partition; removes the
    staging directory. However it ends the plan is over: a purge may take what is staged.

    Args:
        plan: decided by `plan_cleaning`.
        staged: built by `build` and judged by `examine`; None if there was nothing to clean.

    Raises:
        LogDirLocked: a broker or another process works on it. Nothing was changed.
        StalePlan: the log is not as it was planned. Nothing was changed.
        Paused: it was paused in the meantime. Nothing was changed.
        DiskFull, StepFailed: a step failed; the log is the old or the new one for a recovery.
    """
    try:
        (outcome,) = _commit_group([(plan, staged)], None)
    finally:
        end_plan(plan.log.log_dir, plan.plan_id)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """How one of many commits ended, and the seconds that its group took."""

    outcome: CommitResult | LogwrightError
    seconds: float


def commit_many(batches: Iterable[Sequence[_Work]]) -> Iterator[Committed]:
    """Commit plans of different partitions, several at a time. Effects: as `commit`.

    Args:
        batches: what is ready to be committed. The next one is asked for while those before are
            committed.

    Returns:
        in their order, as they end: what was done, or why not. An error of one does not stop the
        others; any other exception stops those that have not begun.
    """
    begun: list[_Work] = []
    try:
        yield from _commit_groups(batches, begun)
    finally:
        for plan, _ in begun:
            end_plan(plan.log.log_dir, plan.plan_id)


def _commit_groups(batches: Iterable[Sequence[_Work]], begun: list[_Work]) -> Iterator[Committed]:
    """Commit one group after the other.

    A group is committed by a thread, so that an interrupt waits for its end, and keeps its pool
    until then. The thread exists before: one that an interrupt finds starting is not waited for.
    """
    with ThreadPoolExecutor(SYNCING) as pool, ThreadPoolExecutor(1) as thread:
        thread.submit(int).result()
        running: Future[list[Committed]] | None = None
        for batch in batches:
            begun += batch
            for first in range(0, len(batch), GROUP):
                done = [] if running is None else running.result()
                running = thread.submit(_commit_timed, batch[first : first + GROUP], pool)
                yield from done
        if running is not None:
            yield from running.result()


def _commit_timed(work: Sequence[_Work], pool: Executor) -> list[Committed]:
    """Commit a group.

    Raises:
        Exception: one of them ended with another exception than a LogwrightError.
    """
    start = time.perf_counter()
    outcomes = _commit_group(work, pool)
    seconds = time.perf_counter() - start
    done = []
    for outcome in outcomes:
        if isinstance(outcome, Exception) and not isinstance(outcome, LogwrightError):
            raise outcome
        done.append(Committed(outcome=outcome, seconds=seconds))
    return done


@dataclass(slots=True)
class _Commit:
    """One of a group. `error` is what ended it."""

    plan: CleanPlan
    staged: StagedCleaning | None
    error: Exception | None = None


def _commit_group(work: Sequence[_Work], pool: Executor | None) -> list[CommitResult | Exception]:
    """Return the outcome of each; see `commit`. The pool's threads wait for the disk."""
    group = [_Commit(plan, staged) for plan, staged in work]
    with ExitStack() as locks:
        log_dirs: set[Path] = set()
        locked: list[tuple[_Commit, FileSystem]] = []
        for log_commit in group:
            with _outcome_of(log_commit):
                locked.append((log_commit, _lock(log_commit, locks, log_dirs)))
        look = cache(_look)
        for log_commit, _ in locked:
            with _outcome_of(log_commit):
                _refuse(log_commit, *look(log_commit.plan.log.log_dir))
        begun = [(one, files) for one, files in locked if one.error is None]
        ends = execute_together([(_steps(one), files) for one, files in begun], pool, SYNCING)
        for (log_commit, _), end in zip(begun, ends, strict=True):
            log_commit.error = end
        for log_dir in log_dirs:
            _record(log_dir, [one for one in group if one.plan.log.log_dir == log_dir])
        state_of = cache(read_state)
        for log_commit in group:
            if log_commit.error is None:
                with _outcome_of(log_commit):
                    _end(log_commit.plan, state_of(log_commit.plan.log.log_dir))
    return [one.error or _result(one.plan, one.staged) for one in group]


@contextmanager
def _outcome_of(log_commit: _Commit) -> Iterator[None]:
    """Record an error as the outcome of this one; it does not stop the others."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 -- reported to the caller
        log_commit.error = error


def _lock(log_commit: _Commit, locks: ExitStack, log_dirs: set[Path]) -> FileSystem:
    """Lock it; `log_dirs` are locked already."""
    log = log_commit.plan.log
    if log.log_dir not in log_dirs:
        locks.enter_context(lock_log_dir(log.log_dir))
        log_dirs.add(log.log_dir)
    return locks.enter_context(locked_partition(log))


def _look(log_dir: Path) -> tuple[dict[str, bytes], LogDirState]:
    """Return what all of a group have in common; read when all of them are locked."""
    return checkpoint_contents(log_dir), read_state(log_dir)


def _refuse(log_commit: _Commit, checkpoints: Mapping[str, bytes], state: LogDirState) -> None:
    """Raise unless everything is as it was planned."""
    plan, log = log_commit.plan, log_commit.plan.log
    refuse_changed(log, checkpoints)
    force = plan.options.force
    refuse_held(log.log_dir, log.partition, plan.now_ms, force=force, state=state)
    if log_commit.staged is not None:
        require_complete(plan, log_commit.staged.segments)


def _steps(log_commit: _Commit) -> Iterator[FileStep]:
    plan, staged = log_commit.plan, log_commit.staged
    yield from sealing_steps(plan.log, plan.roll)
    if staged is not None:
        yield from unchanged_steps(plan.rolled_log, staged.unchanged)
        for segment in staged.segments:
            yield from swap_steps(
                plan.rolled_log,
                segment,
                staged.directory,
                now_ms=plan.now_ms,
                file_delete_delay_ms=plan.config.file_delete_delay_ms,
            )


def _record(log_dir: Path, group: Sequence[_Commit]) -> None:
    """Write the cleaner checkpoint of a log directory, if it is to change, for all of a group."""
    entries = [(one, _new_checkpoint(one.plan, one.staged)) for one in group if one.error is None]
    offsets = {one.plan.log.partition: new for one, new in entries if new is not None}
    if not offsets:
        return
    path = log_dir / CLEANER_OFFSET_CHECKPOINT
    try:
        with lock_checkpoints(log_dir), RealFileSystem(log_dir) as files:
            content = map_file(path).tobytes() if path.exists() else None
            execute(set_offsets(path, content, offsets), files)
    except Exception as error:  # noqa: BLE001 -- it is the outcome of each that is not recorded
        for log_commit, new in entries:
            log_commit.error = error if new is not None else None


def _new_checkpoint(plan: CleanPlan, staged: StagedCleaning | None) -> Offset | None:
    """Return the first dirty offset to record; None if the recorded one stays."""
    if staged is not None:
        return staged.end_offset
    compaction = plan.compaction
    return compaction.first_dirty_offset if compaction.force_update_checkpoint else None


def _end(plan: CleanPlan, state: LogDirState) -> None:
    discard_staging(plan)
    if plan.clean:
        forget_failed_output(plan.log.directory)
    if plan.clean or not plan.config.compact:  # of a compacted log a roll reads no record
        end_quarantine(plan.log.log_dir, plan.log.partition, state)


def _result(plan: CleanPlan, staged: StagedCleaning | None) -> CommitResult:
    overdue = staged is not None and plan.compaction.need_compaction_now
    removed = 0 if staged is None else staged.stats.bytes_removed
    recorded = _new_checkpoint(plan, staged)
    return CommitResult(
        rolled=plan.roll.due,
        segments_swapped=0 if staged is None else len(staged.segments),
        first_dirty_offset=plan.log.cleaner_checkpoint if recorded is None else recorded,
        bytes_before=plan.log.log_bytes,
        bytes_after=ByteCount(plan.log.log_bytes - removed),
        by_max_compaction_lag=overdue,
        compaction_delay_ms=_delay_at_finish(plan) if overdue else 0,
    )


def _delay_at_finish(plan: CleanPlan) -> int:
    """Return the delay at the plan's clock, plus the time since the plan was made."""
    passed_ms = max(time.time_ns() - plan.planned_ns, 0) // 1_000_000
    return plan.compaction.compaction_delay_ms + passed_ms
