"""Making what was planned and built the live log, for one partition or for many at once.

A commit waits for the disk a dozen times, and works little in between. Commits of different
partitions share nothing but the cleaner checkpoint, so they are made by some threads together: one
journal commit of the file system then serves many of them. Each partition's own steps stay in their
order; the entries of the checkpoint are written for a group of them. The threads of one process
wait for Python's lock as soon as the disk is quick, so many commits are made by a process for each
core.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event, Lock
from typing import Final

from logwright.compaction.build import discard_staging
from logwright.compaction.means import available_cores
from logwright.compaction.model import CleanPlan, StagedCleaning
from logwright.errors import LogwrightError, StalePlan
from logwright.forked import forked_map
from logwright.format.names import (
    CLEANER_OFFSET_CHECKPOINT,
    LOG,
    TopicPartition,
    segment_file_name,
)
from logwright.locks import lock_checkpoints
from logwright.log.mapped import map_file
from logwright.roll.run import sealing_steps
from logwright.state.hold import end_quarantine, refuse_held
from logwright.steps.filesystem import FileSystem
from logwright.steps.interpreter import execute
from logwright.steps.live import live_log
from logwright.steps.step import FileStep
from logwright.swap.plan import checkpoint_steps, standing_steps, swap_steps
from logwright.units import ByteCount, Offset

COMMIT_THREADS: Final = 32
"""Commits that wait for the disk together: more of them hardly wait less (measured on ext4)."""
RECORDED_TOGETHER: Final = COMMIT_THREADS // 2
"""Entries of the cleaner checkpoint that are written at once. The other half of the threads work on
meanwhile."""
WORTH_A_PROCESS: Final = 100
"""Commits that take longer than it takes to fork a process for them."""


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


class CheckpointRecord:
    """The cleaner checkpoint of one log directory, to which threads add entries at the same time.

    Commits wait for each other here: who completes a group writes for all of it, so that the file
    is read and replaced once for many. A group is complete when it has `together` entries,
    or when every other commit that began has recorded its own or come to its end.
    """

    def __init__(self, log_dir: Path, *, together: int = RECORDED_TOGETHER) -> None:
        self._log_dir = log_dir
        self._together = together
        self._turn = Lock()
        self._guard = Lock()
        self._expected = 0
        self._waiting: list[_Entry] = []

    @contextmanager
    def joined(self) -> Iterator[Recorder]:
        """Take part, from the beginning of a commit to its end.

        What it gives records a first dirty offset, once at most; it is durable on return. Effects:
        takes the checkpoint files' lock, replaces the file. It raises a LogwrightError if it could
        not be written, with whichever entries it was to be.
        """
        recorded = False

        def put(partition: TopicPartition, offset: Offset, files: FileSystem) -> None:
            nonlocal recorded
            recorded = True
            entry = _Entry(partition=partition, offset=offset, files=files)
            self._go_on(entry)
            entry.tried.wait()
            if entry.error is not None:
                raise entry.error

        with self._guard:
            self._expected += 1
        try:
            yield put
        finally:
            if not recorded:
                self._go_on(None)

    def _go_on(self, entry: _Entry | None) -> None:
        """One less is expected. Write what waits, if nothing is to be waited for any more."""
        with self._guard:
            self._expected -= 1
            self._waiting += [] if entry is None else [entry]
            if self._expected and len(self._waiting) < self._together:
                return
        with self._turn:
            with self._guard:
                entries, self._waiting = self._waiting, []
            if entries:
                self._write_all(entries)

    def _write_all(self, entries: list[_Entry]) -> None:
        error: BaseException | None = None
        try:
            self._write({entry.partition: entry.offset for entry in entries}, entries[0].files)
        except BaseException as failure:  # noqa: BLE001 -- each who waits raises it
            error = failure
        for entry in entries:
            entry.error = error
            entry.tried.set()

    def _write(self, offsets: dict[TopicPartition, Offset], files: FileSystem) -> None:
        path = self._log_dir / CLEANER_OFFSET_CHECKPOINT
        with lock_checkpoints(self._log_dir):
            content = map_file(path).tobytes() if path.exists() else None
            execute(checkpoint_steps(self._log_dir, content, offsets), files)


Recorder = Callable[[TopicPartition, Offset, FileSystem], None]


@dataclass(slots=True, kw_only=True)
class _Entry:
    """One that waits to be written; `files` is of the commit that waits."""

    partition: TopicPartition
    offset: Offset
    files: FileSystem
    tried: Event = field(default_factory=Event)
    error: BaseException | None = None


def commit(
    plan: CleanPlan, staged: StagedCleaning | None, *, record: CheckpointRecord | None = None
) -> CommitResult:
    """Make a plan's outcome the live log: roll, swap group by group, record the first dirty offset.

    Effects: changes the log, under the locks of the log directory and the partition; removes the
    staging directory.

    Args:
        plan: decided by `plan_clean`.
        staged: built by `build` and judged by `examine`; None if there was nothing to clean.
        record: shared with the other commits that are made at the same time.

    Raises:
        LogDirLocked: a broker or another process works on it. Nothing was changed.
        StalePlan: the log is not as it was planned. Nothing was changed.
        Paused: it was paused in the meantime. Nothing was changed.
        DiskFull, StepFailed: a step failed; the log is the old or the new one for a recovery.
    """
    log_dir, partition = plan.log.log_dir, plan.log.partition
    record = record or CheckpointRecord(log_dir)
    with record.joined() as put, live_log(plan.log) as files:
        refuse_held(log_dir, partition, plan.now_ms, force=plan.options.force)
        _refuse_incomplete(staged)
        execute(sealing_steps(plan.log, plan.roll), files)
        if staged is not None:
            execute(standing_steps(plan.rolled_log, staged.standing), files)
            for steps in _swaps(plan, staged):
                execute(steps, files)
        recorded = _record(plan, staged, put, files)
        discard_staging(plan)
        end_quarantine(log_dir, partition)
    overdue = staged is not None and plan.compaction.need_compaction_now
    removed = 0 if staged is None else staged.stats.bytes_removed
    return CommitResult(
        rolled=plan.roll.due,
        segments_swapped=0 if staged is None else len(staged.segments),
        first_dirty_offset=recorded,
        bytes_before=plan.log.log_bytes,
        bytes_after=ByteCount(plan.log.log_bytes - removed),
        by_max_compaction_lag=overdue,
        compaction_delay_ms=_delay_at_finish(plan) if overdue else 0,
    )


def _delay_at_finish(plan: CleanPlan) -> int:
    """The delay at the plan's clock, and the time that has passed since the plan was made."""
    passed_ms = max(time.time_ns() - plan.planned_ns, 0) // 1_000_000
    return plan.compaction.compaction_delay_ms + passed_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """How one of many commits ended, and the seconds it took."""

    outcome: CommitResult | LogwrightError
    seconds: float


def commit_many(
    work: Sequence[tuple[CleanPlan, StagedCleaning | None]],
) -> Iterator[Committed]:
    """Commit plans of different partitions, several at a time. Effects: as `commit`.

    Returns:
        in their order, as they end: what was done, or why not. One's error does not stop the
        others; any other exception stops those that have not begun.
    """
    processes = min(COMMIT_THREADS, available_cores(), len(work) // WORTH_A_PROCESS)
    if processes > 1:
        share = partial(_commit_together, threads=COMMIT_THREADS // processes)
        yield from forked_map(share, work, processes=processes)
    else:
        yield from _commit_together(work, Event(), threads=COMMIT_THREADS)


def _commit_together(
    work: Sequence[tuple[CleanPlan, StagedCleaning | None]], stop: Event, *, threads: int
) -> Iterator[Committed]:
    """Some commits at a time, by threads; when `stop` is set none begins any more."""
    records: dict[Path, CheckpointRecord] = {}
    for plan, _ in work:
        log_dir = plan.log.log_dir
        records.setdefault(log_dir, CheckpointRecord(log_dir, together=max(threads // 2, 1)))

    def one(plan: CleanPlan, staged: StagedCleaning | None) -> Committed:
        if stop.is_set():
            raise CancelledError
        outcome: CommitResult | LogwrightError
        start = time.perf_counter()
        try:
            outcome = commit(plan, staged, record=records[plan.log.log_dir])
        except LogwrightError as error:
            outcome = error
        return Committed(outcome=outcome, seconds=time.perf_counter() - start)

    pool = ThreadPoolExecutor(min(threads, max(len(work), 1)))
    try:
        yield from pool.map(one, *zip(*work, strict=True)) if work else ()
    finally:
        pool.shutdown(cancel_futures=True)


def _refuse_incomplete(staged: StagedCleaning | None) -> None:
    """All of the staged output must be there before the first step: a purge may have taken it for
    that of a dead plan.
    """
    if staged is None:
        return
    for segment in staged.segments:
        path = staged.directory / segment_file_name(segment.base_offset, LOG)
        try:
            found = path.lstat().st_size
        except FileNotFoundError:
            found = None
        if found != segment.log_bytes:
            raise StalePlan(
                f"the staged output is not there: {found} of {segment.log_bytes} bytes.",
                path=path,
                remedy="Nothing was changed. Run it again.",
            )


def _swaps(plan: CleanPlan, staged: StagedCleaning) -> Iterator[tuple[FileStep, ...]]:
    for segment in staged.segments:
        yield swap_steps(plan.rolled_log, segment, staged.directory, now_ms=plan.now_ms)


def _record(
    plan: CleanPlan, staged: StagedCleaning | None, put: Recorder, files: FileSystem
) -> Offset | None:
    """Write the cleaner checkpoint if it is to change; the offset that it holds."""
    if staged is not None:
        offset = staged.end_offset
    elif plan.compaction.force_update_checkpoint:
        offset = plan.compaction.first_dirty_offset
    else:
        return plan.log.cleaner_checkpoint
    put(plan.log.partition, offset, files)
    return offset
