"""The file steps that set entries of checkpoint files, each by an atomic replacement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logwright.format.checkpoints import (
    LeaderEpoch,
    parse_leader_epochs,
    parse_offset_checkpoint,
    serialize_leader_epochs,
    serialize_offset_checkpoint,
)
from logwright.format.names import LEADER_EPOCH_CHECKPOINT, TopicPartition
from logwright.steps.replace import replace_file
from logwright.steps.step import FileStep

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def set_offsets(
    path: Path, content: bytes | None, offsets: Mapping[TopicPartition, int | None]
) -> tuple[FileStep, ...]:
    """Return the steps that set or remove these entries; none if nothing changes.

    Args:
        path: of an offset checkpoint file in a log directory's root.
        content: its bytes, read under `logwright.locks.lock_checkpoints`, which is held until the
            steps are done: all partitions share the file. None if there is no file.
        offsets: by partition; None removes its entry. Other entries stay.

    Raises:
        CorruptCheckpoint: the file is malformed.
        UnsupportedFormatError: it is of another version.
    """
    entries = parse_offset_checkpoint(content or b"", path)
    if all(entries.get(partition) == offset for partition, offset in offsets.items()):
        return ()
    wanted: dict[TopicPartition, int] = {**entries}
    for partition, offset in offsets.items():
        if offset is None:
            wanted.pop(partition, None)
        else:
            wanted[partition] = offset
    like = path.parent if content is None else path
    return replace_file(path, serialize_offset_checkpoint(wanted), like=like)


def set_leader_epochs(
    directory: Path, content: bytes | None, epochs: Sequence[LeaderEpoch]
) -> tuple[FileStep, ...]:
    """Return the steps that give a partition these leader epochs; none if it has them.

    Args:
        directory: the partition's.
        content: of its leader-epoch-checkpoint, None if there is none.
        epochs: ascending.

    Raises:
        CorruptCheckpoint, UnsupportedFormatError: the file is malformed or of another version.
    """
    path = directory / LEADER_EPOCH_CHECKPOINT
    if tuple(epochs) == parse_leader_epochs(content or b"", path):
        return ()
    like = directory if content is None else path
    return replace_file(path, serialize_leader_epochs(epochs), like=like)
