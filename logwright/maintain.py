"""The order of operations for one partition: what the command line, Spark tasks and the platform
all call.

``plan_clean`` → ``build`` → ``examine`` → ``commit`` | ``discard``; and ``purge``, later, on its
own; ``prepare_log_dir`` → ``plan_append`` → ``stage_append`` → ``commit_append``. Only the commits
and ``purge`` change a live log, one at a time, under the locks.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from logwright.compaction.build import build, discard_staging, silent
from logwright.compaction.examine import examine
from logwright.compaction.model import (
    CleaningOptions,
    CleanPlan,
    StagedCleaning,
)
from logwright.compaction.plan import plan_compaction
from logwright.compaction.source import open_source
from logwright.config.topic import CleanerConfig, TopicConfig
from logwright.errors import StalePlan
from logwright.format.names import (
    BROKER_LOCK,
    CLEANER_OFFSET_CHECKPOINT,
    INDEX,
    LOG,
    TIMEINDEX,
    TopicPartition,
    segment_file_name,
)
from logwright.ingest.run import (
    commit_append,
    make_directory,
    plan_append,
    prepare_log_dir,
    stage_append,
)
from logwright.locks import lock_checkpoints, lock_log_dir, lock_partition
from logwright.log.load import Checkpoints, fingerprint, observe
from logwright.log.mapped import map_file
from logwright.log.model import PartitionLog
from logwright.purge.plan import PurgeResult
from logwright.purge.run import purge_partition
from logwright.roll.plan import plan_roll
from logwright.roll.steps import ActiveIndexes, roll_steps
from logwright.steps.filesystem import FileSystem, RealFileSystem
from logwright.steps.interpreter import execute
from logwright.steps.step import FileStep
from logwright.swap.plan import checkpoint_steps, swap_steps
from logwright.units import ByteCount, Offset, TimestampMs

HighWatermark = Literal["end", "checkpoint"]

__all__ = [
    "CommitResult",
    "build",
    "commit",
    "commit_append",
    "discard",
    "examine",
    "lag_metrics",
    "make_directory",
    "plan_append",
    "plan_clean",
    "prepare_log_dir",
    "purge",
    "silent",
    "stage_append",
]


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
    """The metrics that KIP-354 promises, by its names, over the logs of one sweep.

    ``num-logs-compacted-by-max-compaction-lag``; ``max-compaction-delay`` in ms, measured when the
    compaction is finished (Kafka 4.3 has neither: its gauge is read when a log is picked).
    """
    overdue = [result.compaction_delay_ms for result in results if result.by_max_compaction_lag]
    return {
        "num-logs-compacted-by-max-compaction-lag": len(overdue),
        "max-compaction-delay": max(overdue, default=0),
    }


def plan_clean(
    log_dir: Path,
    partition: TopicPartition,
    settings: tuple[TopicConfig, CleanerConfig],
    *,
    now_ms: TimestampMs,
    options: CleaningOptions,
    high_watermark: HighWatermark,
    checkpoints: Checkpoints | None = None,
) -> CleanPlan:
    """Look at a partition and decide about its active segment and its cleaning. Effects: reads.

    `checkpoints`: as `read_checkpoints` gives them, if they were read already for many partitions.

    Raises:
        LogDirLocked: a broker works on the directory.
        NotALogDir, UnreadableFile, UncleanLogDir, CorruptLogError, UnsupportedFormatError: see
        `observe`.
    """
    config, cleaner = settings
    if os.path.exists(f"{log_dir}/{BROKER_LOCK}"):  # noqa: PTH110 -- paths cost, for a fleet
        with lock_log_dir(log_dir):
            log = observe(
                log_dir, partition, high_watermark=high_watermark, checkpoints=checkpoints
            )
    else:
        log = observe(log_dir, partition, high_watermark=high_watermark, checkpoints=checkpoints)
    roll = plan_roll(log, config, now_ms=now_ms, like_kafka=options.like_kafka)
    compaction = plan_compaction(
        roll.applied_to(log), config, now_ms=now_ms, like_kafka=options.like_kafka
    )
    wanted = compaction.eligible or (options.force and config.compact)
    return CleanPlan(
        plan_id=f"{now_ms}-{secrets.token_hex(4)}",
        now_ms=now_ms,
        log=log,
        config=config,
        cleaner=cleaner,
        options=options,
        roll=roll,
        compaction=compaction,
        clean=wanted and compaction.cleanable_bytes > 0,
        planned_ns=time.time_ns(),
    )


def commit(plan: CleanPlan, staged: StagedCleaning | None) -> CommitResult:
    """Make a plan's outcome the live log: roll, swap group by group, record the first dirty offset.

    Effects: changes the log, under the locks of the log directory and the partition; removes the
    staging directory.

    Args:
        plan: decided by `plan_clean`.
        staged: built by `build` and judged by `examine`; None if there was nothing to clean.

    Raises:
        LogDirLocked: a broker or another process works on it. Nothing was changed.
        StalePlan: the log is not as it was planned. Nothing was changed.
        DiskFull, StepFailed: a step failed; the log is the old or the new one for a recovery.
    """
    log_dir, partition = plan.log.log_dir, plan.log.partition
    with (
        lock_log_dir(log_dir),
        lock_partition(log_dir, partition),
        RealFileSystem(log_dir) as files,
    ):
        _refuse_stale(plan)
        _refuse_incomplete(staged)
        execute(_roll_steps(plan), files)
        if staged is not None:
            for steps in _swaps(plan, staged):
                execute(steps, files)
        recorded = _record(plan, staged, files)
        discard_staging(plan)
    overdue = staged is not None and plan.compaction.need_compaction_now
    removed = 0 if staged is None else staged.stats.bytes_read - staged.stats.bytes_written
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


def discard(plan: CleanPlan) -> None:
    """Give a plan up: its staged files go. Effects: removes its staging directory."""
    discard_staging(plan)


def purge(
    log_dir: Path, partition: TopicPartition, config: TopicConfig, *, now_ms: TimestampMs
) -> PurgeResult:
    """Unlink the retired files whose ``file.delete.delay.ms`` is over. Effects and errors: see
    `purge_partition`.
    """
    return purge_partition(
        log_dir, partition, now_ms=now_ms, file_delete_delay_ms=config.file_delete_delay_ms
    )


def _refuse_stale(plan: CleanPlan) -> None:
    now = fingerprint(plan.log.log_dir, plan.log.partition)
    if now != plan.log.fingerprint:
        raise StalePlan(
            "the log changed after it was planned.",
            path=plan.log.directory,
            remedy="Nothing was changed. Plan again.",
        )


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


def _roll_steps(plan: CleanPlan) -> tuple[FileStep, ...]:
    if not plan.roll.due:
        return ()
    log = plan.log
    active = log.active
    source = open_source(log.directory, active, end_offset=log.log_end_offset, first_ordinal=0)
    timestamps = source.batches["max_timestamp"]
    largest = int(np.argmax(timestamps))
    indexes = ActiveIndexes(
        index=_content(log, INDEX),
        timeindex=_content(log, TIMEINDEX),
        largest_timestamp_ms=TimestampMs(int(timestamps[largest])),
        offset_of_largest=Offset(int(source.batches["last_offset"][largest])),
    )
    return roll_steps(log, plan.roll, indexes)


def _content(log: PartitionLog, suffix: str) -> bytes:
    return map_file(log.directory / segment_file_name(log.active.base_offset, suffix)).tobytes()


def _swaps(plan: CleanPlan, staged: StagedCleaning) -> Iterator[tuple[FileStep, ...]]:
    for segment in staged.segments:
        yield swap_steps(plan.rolled_log, segment, staged.directory, now_ms=plan.now_ms)


def _record(plan: CleanPlan, staged: StagedCleaning | None, files: FileSystem) -> Offset | None:
    """Write the cleaner checkpoint if it is to change; the offset that it holds."""
    log_dir, partition = plan.log.log_dir, plan.log.partition
    if staged is not None:
        offset = staged.end_offset
    elif plan.compaction.force_update_checkpoint:
        offset = plan.compaction.first_dirty_offset
    else:
        return plan.log.cleaner_checkpoint
    path = log_dir / CLEANER_OFFSET_CHECKPOINT
    with lock_checkpoints(log_dir):
        content = map_file(path).tobytes() if path.exists() else None
        execute(checkpoint_steps(log_dir, content, partition, offset), files)
    return offset
