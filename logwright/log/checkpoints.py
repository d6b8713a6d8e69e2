"""The four offset checkpoint files of a log directory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from logwright.format import names
from logwright.format.checkpoints import parse_offset_checkpoint
from logwright.place.files import open_log_dir
from logwright.place.model import OpenDir
from logwright.units import Offset

if TYPE_CHECKING:
    from collections.abc import Mapping

    from logwright.format.names import TopicPartition
    from logwright.place.model import Place

CHECKPOINT_FILES: Final = (
    names.RECOVERY_POINT_CHECKPOINT,
    names.LOG_START_OFFSET_CHECKPOINT,
    names.HIGH_WATERMARK_CHECKPOINT,
    names.CLEANER_OFFSET_CHECKPOINT,
)
_Entry = tuple[str, Offset | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """The four offset checkpoint files of a log directory; a missing file has no entries."""

    recovery_point: Mapping[TopicPartition, Offset]
    log_start_offset: Mapping[TopicPartition, Offset]
    high_watermark: Mapping[TopicPartition, Offset]
    cleaner_offset: Mapping[TopicPartition, Offset]

    def of(self, partition: TopicPartition) -> tuple[_Entry, _Entry, _Entry, _Entry]:
        """Return (file name, this partition's entry or None) of each file."""
        return (
            (names.RECOVERY_POINT_CHECKPOINT, self.recovery_point.get(partition)),
            (names.LOG_START_OFFSET_CHECKPOINT, self.log_start_offset.get(partition)),
            (names.HIGH_WATERMARK_CHECKPOINT, self.high_watermark.get(partition)),
            (names.CLEANER_OFFSET_CHECKPOINT, self.cleaner_offset.get(partition)),
        )


NO_ENTRIES: Final = Checkpoints(
    recovery_point={}, log_start_offset={}, high_watermark={}, cleaner_offset={}
)


def read_checkpoints(log_dir: Place) -> Checkpoints:
    """Return the four offset checkpoint files. Effects: reads them.

    Raises:
        NotALogDir: the directory is missing, or not a directory.
        UnreadableFile: a file is there but cannot be read, or is not a regular file.
        CorruptCheckpoint: a file is malformed.
        UnsupportedFormatError: a file has another version than 0.
    """
    with open_log_dir(log_dir) as directory:
        return read_open_checkpoints(directory)


def checkpoint_contents(log_dir: Place) -> dict[str, bytes]:
    """Return the contents of the existing offset checkpoint files, by name. Effects: reads them.

    Raises:
        NotALogDir, UnreadableFile: as `read_checkpoints`.
    """
    with open_log_dir(log_dir) as parent:
        there = [name for name in CHECKPOINT_FILES if parent.exists(name)]
        return {name: parent.read(name) for name in there}


def read_open_checkpoints(directory: OpenDir) -> Checkpoints:
    """Return the offset checkpoints of an open log directory; see `read_checkpoints`."""
    recovery, start, watermark, cleaner = (
        parse_offset_checkpoint(directory.read(name), directory.path / name)
        if directory.exists(name)
        else {}
        for name in CHECKPOINT_FILES
    )
    return Checkpoints(
        recovery_point=recovery,
        log_start_offset=start,
        high_watermark=watermark,
        cleaner_offset=cleaner,
    )
