"""The order of operations for one partition: what the command line, Spark tasks and the platform
all call.

``plan_clean`` → ``build`` → ``examine`` → ``commit`` | ``discard``; and ``purge``, later, on its
own; ``prepare_log_dir`` → ``plan_append`` → ``stage_append`` → ``commit_append``. Only the commits
and ``purge`` change a live log, one at a time, under the locks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from logwright.checks import examine as examining
from logwright.checks.model import OutputFacts
from logwright.committing import CommitResult, commit, commit_many
from logwright.compaction import build as building
from logwright.compaction.build import discard_staging, give_up, silent
from logwright.compaction.keys.state import Progress
from logwright.compaction.model import CleanPlan, StagedCleaning
from logwright.compaction.runtime import Runtime
from logwright.config.topic import TopicConfig
from logwright.deletion.commit import (
    delete_log,
    find_deleted,
    finish_deletion,
    plan_purge_deleted,
    purge_deleted,
    restore_log,
)
from logwright.errors import LogwrightError, OutOfMemory, enough_memory
from logwright.format.names import TopicPartition
from logwright.ingest.commit import (
    commit_append,
    plan_append,
    prepare_log_dir,
    stage_append,
)
from logwright.ingest.settle import settle_before_recovery
from logwright.ingest.staging import staging
from logwright.locks import lock_log_dir
from logwright.log.model import PartitionLog
from logwright.move.commit import abandon_move, look_at_move, move_partition
from logwright.planning import HighWatermark, observe_unlocked, plan_clean, plan_many
from logwright.planning import Settings as CleaningSettings
from logwright.purge.commit import purge_partition
from logwright.purge.plan import PurgeResult
from logwright.recovery.commit import commit_directory
from logwright.recovery.directory_plan import Settings, partitions_to_recover, plan_directory
from logwright.recovery.model import DirectoryResult, RecoveryOptions
from logwright.retention.commit import retain_partition
from logwright.retention.plan import RetentionPlan, retention_hold
from logwright.retention.plan import plan_retention as decide_retention
from logwright.roll.commit import roll_partition, sealing_steps
from logwright.roll.plan import RollDecision, force_roll
from logwright.roll.plan import plan_roll as decide_roll
from logwright.state.hold import holds, quarantine_failure
from logwright.state.model import NOTHING
from logwright.state.store import read_state
from logwright.undo.commit import undo_partition
from logwright.undo.observe import decide_undo
from logwright.undo.plan import UndoPlan
from logwright.units import TimestampMs

__all__ = [
    "CommitResult",
    "abandon_move",
    "build",
    "commit",
    "commit_append",
    "commit_many",
    "delete_log",
    "discard",
    "examine",
    "find_deleted",
    "finish_deletion",
    "give_up",
    "holds",
    "lag_metrics",
    "look_at_move",
    "move_partition",
    "partitions_to_recover",
    "plan_append",
    "plan_clean",
    "plan_many",
    "plan_purge_deleted",
    "plan_retention",
    "plan_roll",
    "plan_undo",
    "prepare_log_dir",
    "purge",
    "purge_deleted",
    "quarantine_failure",
    "recover",
    "restore_log",
    "retain",
    "retain_compacted",
    "retention_hold",
    "roll_partition",
    "settle_before_recovery",
    "silent",
    "stage_append",
    "staging",
    "undo_partition",
]


def build(
    plan: CleanPlan, *, progress: Progress = silent, runtime: Runtime | None = None
) -> StagedCleaning:
    """Build what a partition will hold. Effects and errors: see `compaction.build.build`.

    Raises:
        OutOfMemory: the log needs more memory than there is. The staging directory is gone.
    """
    try:
        with enough_memory(plan.log.directory):
            return building.build(plan, progress=progress, runtime=runtime)
    except OutOfMemory:
        discard_staging(plan)
        raise


def examine(
    plan: CleanPlan, staged: StagedCleaning, *, runtime: Runtime | None = None
) -> OutputFacts:
    """Judge what was built. Effects and errors: see `checks.examine.examine`.

    Raises:
        OutOfMemory: the log needs more memory than there is.
    """
    with enough_memory(plan.log.directory):
        return examining.examine(plan, staged, runtime=runtime)


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


def plan_retention(
    log_dir: Path,
    partition: TopicPartition,
    config: TopicConfig,
    *,
    now_ms: TimestampMs,
    high_watermark: HighWatermark,
    delete_records_before: int | None = None,
    force: bool = False,
) -> RetentionPlan:
    """Look at a partition and decide which of its segments go. Effects: reads.

    Raises:
        PolicyError: see `logwright.retention.plan`.
        LogwrightError: see `observe`.
    """
    log = observe_unlocked(log_dir, partition, high_watermark=high_watermark)
    return decide_retention(
        log, config, now_ms=now_ms, delete_records_before=delete_records_before, force=force
    )


def retain(plan: RetentionPlan) -> None:
    """Do a retention. Effects and errors: see `retain_partition`."""
    retain_partition(plan, lambda log: sealing_steps(log, force_roll(log, cause="emptied")))


def retain_compacted(
    log_dir: Path,
    partitions: Iterable[TopicPartition],
    settings: Callable[[str], CleaningSettings],
    *,
    now_ms: TimestampMs,
    high_watermark: HighWatermark,
    force: bool = False,
) -> Iterator[tuple[TopicPartition, RetentionPlan | LogwrightError]]:
    """The retention of compacted logs that belongs to a sweep, after its compactions: Kafka's
    cleaner does it in the same loop (LogCleaner.cleanupLogs, 4.3.0). Effects: as `retain`.

    Args:
        log_dir: the log directory.
        partitions: those of the sweep whose cleaning did not fail; others than compacted ones are
            passed over, and so is what `retention_hold` leaves alone.
        settings: of a topic.
        now_ms: the clock.
        high_watermark: what counts as committed.
        force: see `retention_hold`.

    Returns:
        as they end: what was done, perhaps nothing, or why it could not be.

    Raises:
        NotALogDir, UnreadableFile: the log directory or its state file cannot be read.
    """
    state = read_state(log_dir)
    for partition in partitions:
        known = state.get(partition, NOTHING)
        try:
            config, cleaner = settings(partition.topic)
            hold = retention_hold(config, cleaner, known, now_ms=now_ms, force=force)
            if hold is not None or not config.compact:
                continue
            plan = plan_retention(
                log_dir,
                partition,
                config,
                now_ms=now_ms,
                high_watermark=high_watermark,
                force=force,
            )
            if plan.deleted:
                retain(plan)
        except LogwrightError as error:
            yield partition, error
        else:
            yield partition, plan


def plan_roll(
    log_dir: Path,
    partition: TopicPartition,
    config: TopicConfig,
    *,
    now_ms: TimestampMs,
    force: bool,
) -> tuple[PartitionLog, RollDecision]:
    """Look at a partition and decide about its active segment. Effects: reads.

    Raises:
        LogwrightError: see `observe`.
    """
    log = observe_unlocked(log_dir, partition, high_watermark="end")
    decision = decide_roll(log, config, now_ms=now_ms, like_kafka=False)
    if force and not decision.due:
        decision = force_roll(log, cause="forced")
    return log, decision


def plan_undo(
    log_dir: Path, partition: TopicPartition, *, high_watermark: HighWatermark = "end"
) -> UndoPlan:
    """Look at what the last operation on a partition retired. Effects: reads.

    Raises:
        CannotUndo: it cannot be undone.
        LogwrightError: see `observe`.
    """
    return decide_undo(observe_unlocked(log_dir, partition, high_watermark=high_watermark))


def recover(
    log_dir: Path,
    partitions: Iterable[TopicPartition],
    settings: Settings,
    *,
    now_ms: TimestampMs,
    options: RecoveryOptions,
) -> DirectoryResult:
    """Plan and do the recovery of some partitions of a log directory, while no broker can start on
    it. An append that was interrupted is cut back first, unless it is to be done as Kafka does it.
    Effects and errors: see `settle_before_recovery`, `plan_directory` and `commit_directory`.
    """
    with lock_log_dir(log_dir):
        if not options.like_kafka:
            settle_before_recovery(log_dir)
        return commit_directory(
            plan_directory(log_dir, partitions, settings, now_ms=now_ms, options=options)
        )
