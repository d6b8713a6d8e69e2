"""Read what an undo is decided from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logwright.format.checkpoints import parse_leader_epochs
from logwright.format.deletions import LEDGER
from logwright.format.names import LEADER_EPOCH_CHECKPOINT, WORK_DIRECTORY
from logwright.observe import observe_unlocked
from logwright.place.mapped import map_file
from logwright.steps.live import partition_file
from logwright.undo.plan import UndoPlan, plan_undo

if TYPE_CHECKING:
    from pathlib import Path

    from logwright.format.names import TopicPartition
    from logwright.log.committed import HighWatermark


def plan_undo_of(
    log_dir: Path, partition: TopicPartition, *, high_watermark: HighWatermark = "end"
) -> UndoPlan:
    """Plan to undo the last operation on a partition. Effects: reads the log, its ledger and its
    leader epochs.

    Raises:
        CannotUndo: there is nothing, or it is purged, or the log moved on.
        CorruptCheckpoint, UnreadableFile: a file cannot be read.
        LogwrightError: see `observe_unlocked`.
    """
    log = observe_unlocked(log_dir, partition, high_watermark=high_watermark)
    ledger = log.directory / WORK_DIRECTORY / LEDGER
    content = map_file(ledger).tobytes() if ledger.exists() else None
    epochs = partition_file(log.log_dir, log.partition, LEADER_EPOCH_CHECKPOINT)
    path = log.directory / LEADER_EPOCH_CHECKPOINT
    return plan_undo(log, content, parse_leader_epochs(epochs or b"", path))
