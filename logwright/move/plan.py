"""Decide what a move copies and between which directories (KIP-113, offline).

`logwright.move.steps` has the order of a move and what a crash inside it leaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from logwright.format.names import (
    DELETE_DIRECTORY,
    FUTURE_DIRECTORY,
    WORK_DIRECTORY,
    TopicPartition,
    marked_directory_name,
)
from logwright.place.model import FileStamp

COPY: Final = "copy"
MOVED_DIRECTORY: Final = "-moved"
"""Not one of Kafka's suffixes: see `logwright.move.steps`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The directories of one move.

    Attributes:
        source, destination: the two log directories.
        move_id: 32 hexadecimal digits.
    """

    source: Path
    destination: Path
    partition: TopicPartition
    move_id: str

    @property
    def live(self) -> Path:
        """The partition's directory in the source."""
        return self.source / self.partition.directory_name

    @property
    def moved(self) -> Path:
        """The same during the switch."""
        return self._marked(self.source, MOVED_DIRECTORY)

    @property
    def deleted(self) -> Path:
        """The same after the switch."""
        return self._marked(self.source, DELETE_DIRECTORY)

    @property
    def future(self) -> Path:
        """The directory in the destination that contains the copy."""
        return self._marked(self.destination, FUTURE_DIRECTORY)

    @property
    def work(self) -> Path:
        """The work directory in it."""
        return self.future / WORK_DIRECTORY

    @property
    def copy(self) -> Path:
        """The copy itself."""
        return self.work / COPY

    @property
    def copy_work(self) -> Path:
        """The copy's work directory: for the partition's records of ingests, and the mark of the
        last erasure.
        """
        return self.copy / WORK_DIRECTORY

    @property
    def placed(self) -> Path:
        """The partition's directory in the destination."""
        return self.destination / self.partition.directory_name

    def _marked(self, log_dir: Path, suffix: str) -> Path:
        return log_dir / marked_directory_name(self.partition, self.move_id, suffix)


def files_to_copy(
    wanted: Mapping[str, FileStamp], there: Mapping[str, FileStamp], again: frozenset[str]
) -> tuple[FileStamp, ...]:
    """Return the source's files that the copy does not have, or has with another size or time.

    Args:
        wanted, there: files of the source and of the copy, by name.
        again: names of files whose bytes are known to differ.
    """
    return tuple(
        stamp
        for name, stamp in wanted.items()
        if name in again or name not in there or not _alike(stamp, there[name])
    )


def _alike(stamp: FileStamp, other: FileStamp) -> bool:
    return (stamp.bytes, stamp.modified_ns) == (other.bytes, other.modified_ns)
