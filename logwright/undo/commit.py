"""An undo from beginning to end."""

from __future__ import annotations

import logging
import secrets
from operator import itemgetter
from typing import TYPE_CHECKING

from logwright.format.checkpoints import parse_leader_epochs
from logwright.format.deletions import LEDGER
from logwright.format.names import (
    LEADER_EPOCH_CHECKPOINT,
    LOG,
    SNAPSHOT,
    WORK_DIRECTORY,
    segment_file_name,
)
from logwright.format.snapshot import serialize_snapshot
from logwright.format.valid import valid_batches
from logwright.log.mapped import map_file
from logwright.log.producers import Replay, replay_batches
from logwright.state.hold import refuse_held
from logwright.steps.interpreter import execute
from logwright.steps.live import live_log, partition_file, set_offsets
from logwright.steps.replace import replace_file
from logwright.steps.set_checkpoints import set_leader_epochs
from logwright.undo.plan import UndoPlan, plan_undo
from logwright.undo.steps import undo_steps

if TYPE_CHECKING:
    from pathlib import Path

    from logwright.log.model import PartitionLog
    from logwright.steps.step import FileStep
    from logwright.units import TimestampMs

_LOG = logging.getLogger(__name__)


def decide_undo(log: PartitionLog) -> UndoPlan:
    """What an undo would bring back. Effects: reads the ledger and the leader epochs.

    Raises:
        CannotUndo: there is nothing, or it is purged, or the log moved on.
        CorruptCheckpoint, UnreadableFile: a file cannot be read.
    """
    ledger = log.directory / WORK_DIRECTORY / LEDGER
    content = map_file(ledger).tobytes() if ledger.exists() else None
    return plan_undo(log, content, parse_leader_epochs(*_epochs(log)))


def undo_partition(plan: UndoPlan, *, now_ms: TimestampMs) -> None:
    """Bring it back. Effects: changes the log, under the locks, as `logwright.undo.steps` says.

    Raises:
        LogDirLocked: a broker or another process works on it. Nothing was changed.
        StalePlan: the log is not as it was planned. Nothing was changed.
        CorruptBatch, UnsupportedFormatError: a control batch cannot be read.
        Paused: it was paused in the meantime. Nothing was changed.
        DiskFull, StepFailed: a step failed.
    """
    log = plan.log
    with live_log(log) as files:
        refuse_held(log.log_dir, log.partition, now_ms, force=True)
        # the epochs first: a record that is seen again must have one
        if plan.epochs is not None:
            content, _ = _epochs(log)
            execute(set_leader_epochs(log.directory, content or None, plan.epochs), files)
        set_offsets(log.log_dir, log.partition, plan.checkpoints, files)
        execute(_producer_snapshot(plan), files)
        identity = f"{now_ms}-{secrets.token_hex(4)}"
        execute(undo_steps(plan, identity, now_ms=now_ms), files)
    _LOG.info(
        "undone topic_partition=%s operation=%s segments=%d",
        log.partition,
        plan.operation,
        len(plan.bases),
    )


def _producer_snapshot(plan: UndoPlan) -> tuple[FileStep, ...]:
    """What is known of the producers at the log's end, if no snapshot says it: where a retention
    took every record, a recovery drops all snapshots, as Kafka does. Effects: reads the headers of
    all batches.
    """
    log = plan.log
    coming = [live for group in plan.groups for live in group.names]
    snapshots = [name for name in (*coming, *plan.snapshots) if name.endswith(SNAPSHOT)]
    if plan.operation != "retain" or log.snapshot_offsets or snapshots:
        return ()
    logs = {name: live for group in plan.groups for live, name in group.names.items()}
    logs |= {name: name for name in (segment_file_name(s.base_offset, LOG) for s in log.segments)}
    replay = Replay(entries={})
    for name, live in sorted(logs.items(), key=itemgetter(1)):
        if live.endswith(LOG):
            data = map_file(log.directory / name)
            found = valid_batches(data, base_offset=int(live[:20]), check_crcs=False)
            replay_batches(replay, data, found.batches)
    known = [replay.entries[producer] for producer in sorted(replay.entries)]
    path = log.directory / segment_file_name(log.log_end_offset, SNAPSHOT)
    active = log.directory / segment_file_name(log.active.base_offset, LOG)
    return replace_file(path, serialize_snapshot(known), like=active)


def _epochs(log: PartitionLog) -> tuple[bytes, Path]:
    content = partition_file(log.log_dir, log.partition, LEADER_EPOCH_CHECKPOINT)
    return content or b"", log.directory / LEADER_EPOCH_CHECKPOINT
