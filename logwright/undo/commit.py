"""Execute an undo."""

from __future__ import annotations

import logging
import secrets
from typing import TYPE_CHECKING

from logwright.format.names import LEADER_EPOCH_CHECKPOINT
from logwright.format.snapshot import serialize_snapshot
from logwright.format.valid import valid_batches
from logwright.log.producers import Replay, replay_batches
from logwright.place.mapped import map_file
from logwright.state.hold import refuse_held
from logwright.steps.interpreter import execute
from logwright.steps.live import live_log, partition_file, set_offsets
from logwright.steps.set_checkpoints import set_leader_epochs
from logwright.undo.plan import UndoPlan
from logwright.undo.steps import snapshot_steps, undo_steps

if TYPE_CHECKING:
    from logwright.units import TimestampMs

_LOG = logging.getLogger(__name__)


def undo_partition(plan: UndoPlan, *, now_ms: TimestampMs) -> None:
    """Execute an undo. Effects: changes the log, under the locks, as `logwright.undo.steps` says.

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
        # the epochs first: a record that is visible again must have one
        if plan.epochs is not None:
            content = partition_file(log.log_dir, log.partition, LEADER_EPOCH_CHECKPOINT)
            execute(set_leader_epochs(log.directory, content or None, plan.epochs), files)
        set_offsets(log.log_dir, log.partition, plan.checkpoints, files)
        if plan.replayed:
            execute(snapshot_steps(log, _producers(plan)), files)
        identity = f"{now_ms}-{secrets.token_hex(4)}"
        execute(undo_steps(plan, identity, now_ms=now_ms), files)
    _LOG.info(
        "undone topic_partition=%s operation=%s segments=%d",
        log.partition,
        plan.operation,
        len(plan.bases),
    )


def _producers(plan: UndoPlan) -> bytes:
    """Return a snapshot of the producers at the log's end. Effects: reads the headers of all
    batches of `plan.replayed`.
    """
    replay = Replay(entries={})
    for live, name in plan.replayed.items():
        data = map_file(plan.log.directory / name)
        valid = valid_batches(data, base_offset=int(live[:20]), check_crcs=False)
        replay_batches(replay, data, valid.batches)
    return serialize_snapshot([replay.entries[producer] for producer in sorted(replay.entries)])
