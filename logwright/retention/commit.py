"""Execute a retention."""

from __future__ import annotations

import logging
import secrets
from typing import TYPE_CHECKING

from logwright.format.checkpoints import parse_leader_epochs, trimmed_epochs
from logwright.format.deletions import Origin
from logwright.format.names import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from logwright.log.listing import stamp_files
from logwright.observe import observe_unlocked
from logwright.place.files import open_partition_dir
from logwright.retention.account import RetentionAccount, account_of
from logwright.retention.plan import RetentionPlan, plan_retention
from logwright.retention.steps import retire_segments, undo_facts
from logwright.retention.times import require_old
from logwright.state.hold import refuse_held
from logwright.steps.interpreter import execute
from logwright.steps.live import live_log, partition_file, set_offsets
from logwright.steps.room import room_or_without
from logwright.steps.set_checkpoints import set_leader_epochs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from logwright.config.topic import TopicConfig
    from logwright.format.names import TopicPartition
    from logwright.log.committed import HighWatermark
    from logwright.log.model import PartitionLog
    from logwright.place.model import AnyPlace
    from logwright.steps.filesystem import FileSystem
    from logwright.steps.step import FileStep
    from logwright.units import TimestampMs

_LOG = logging.getLogger(__name__)


def plan_retention_of(
    log_dir: AnyPlace,
    partition: TopicPartition,
    config: TopicConfig,
    *,
    now_ms: TimestampMs,
    high_watermark: HighWatermark,
    delete_records_before: int | None = None,
    force: bool = False,
) -> RetentionPlan[AnyPlace]:
    """Observe a partition and decide which of its segments go. Effects: reads.

    Raises:
        PolicyError: see `plan_retention`.
        LogwrightError: see `observe_unlocked`.
    """
    log = observe_unlocked(log_dir, partition, high_watermark=high_watermark)
    return plan_retention(
        log, config, now_ms=now_ms, delete_records_before=delete_records_before, force=force
    )


def retain_partition(
    plan: RetentionPlan, roll: Callable[[PartitionLog], tuple[FileStep, ...]]
) -> RetentionAccount:
    """Execute the plan; return what was looked at, and what is on the disk now. Effects: changes
    the log, under the locks, in the order of `logwright.retention.steps`.

    Args:
        plan: as `plan_retention` made it.
        roll: gives the steps of a roll, which is needed when every segment goes.

    Raises:
        LogDirLocked: a broker or another process works on it. Nothing was changed.
        StalePlan: the log is not as it was planned. Nothing was changed.
        Paused: it was paused in the meantime, or it is compacted and in quarantine. Nothing was
            changed.
        CorruptLogError, UnsupportedFormatError, UnreadableFile: the active segment, the leader
            epochs or a checkpoint are malformed, or a time index makes a segment older than it is.
        DiskFull: there is no room for a roll or a new log start offset.
        StepFailed: a step failed; the log is the old one, the new one, or the old one without some
            of its oldest segments.
    """
    with live_log(plan.log) as files:
        return retain_locked(plan, roll, files)


def retain_locked(
    plan: RetentionPlan,
    roll: Callable[[PartitionLog], tuple[FileStep, ...]],
    files: FileSystem,
    *,
    undoable: bool = True,
) -> RetentionAccount:
    """Execute the plan like `retain_partition`; the caller keeps everybody else off the log.

    Args:
        undoable: record what an undo needs. Without it nothing is written to the ledger.
    """
    log = plan.log
    log_dir, partition = log.log_dir, log.partition
    entries = dict(log.fingerprint.checkpoints)
    refuse_held(log_dir, partition, plan.now_ms, force=plan.past_quarantine)
    newest_ms = require_old(plan)
    path = log.directory / LEADER_EPOCH_CHECKPOINT
    content = partition_file(log_dir, partition, LEADER_EPOCH_CHECKPOINT)
    epochs = parse_leader_epochs(content or b"", path)
    if plan.rolls:
        execute(roll(log), files)
    if plan.checkpointed_start not in {None, entries[LOG_START_OFFSET_CHECKPOINT]}:
        start = {LOG_START_OFFSET_CHECKPOINT: plan.checkpointed_start}
        set_offsets(log_dir, partition, start, files)
    with open_partition_dir(log_dir, partition) as directory:
        present = stamp_files(directory)
    identity = f"{plan.now_ms}-{secrets.token_hex(4)}"
    facts = undo_facts(plan, epochs, entries)
    delay_ms = plan.file_delete_delay_ms
    origin = Origin(operation="retain", id=identity, delay_ms=delay_ms, facts=facts)
    record, renames = retire_segments(plan, present, origin)
    if undoable:
        with room_or_without("the record for an undo"):
            execute(record, files)
    execute(renames, files)
    trimmed = trimmed_epochs(epochs, plan.log_start_offset)
    with room_or_without("trimming the leader epochs"):
        execute(set_leader_epochs(log.directory, content, trimmed), files)
    with room_or_without("the recovery point"):
        set_offsets(log_dir, partition, _final_offsets(plan, entries), files)
    with open_partition_dir(log_dir, partition) as directory:
        account = account_of(log, stamp_files(directory), newest_ms)
    _LOG.info(
        "retained topic_partition=%s deleted=%d bytes=%d log_start_offset=%d",
        partition,
        len(plan.deleted),
        plan.freed_bytes,
        plan.log_start_offset,
    )
    return account


def _final_offsets(plan: RetentionPlan, before: Mapping[str, int | None]) -> dict[str, int | None]:
    """Return the entries of the offset checkpoints that change after the deletion, by file name."""
    final: dict[str, int | None] = {LOG_START_OFFSET_CHECKPOINT: plan.checkpointed_start}
    recovery_point = before[RECOVERY_POINT_CHECKPOINT]
    if recovery_point is not None and recovery_point < plan.log_start_offset:
        final[RECOVERY_POINT_CHECKPOINT] = plan.log_start_offset
    return final
