"""Lock a log and check that it is as it was planned, so that steps may be executed on it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from logwright.errors import (
    CorruptLogError,
    DiskFull,
    NotALogDir,
    StalePlan,
    UnreadableFile,
    UnsupportedFormatError,
)
from logwright.locks import lock_checkpoints, lock_log_dir, lock_partition
from logwright.log.load import fingerprint
from logwright.place.files import open_log_dir, open_partition_dir
from logwright.steps import set_checkpoints
from logwright.steps.filesystem import FileSystem, RealFileSystem
from logwright.steps.interpreter import execute

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from logwright.format.names import TopicPartition
    from logwright.log.model import PartitionLog
    from logwright.place.model import OpenDir

Log = TypeVar("Log")


@contextmanager
def live_log(log: PartitionLog) -> Iterator[FileSystem]:
    """Lock a log that is as it was observed, and yield its file system.

    Effects: holds the locks of the log directory and the partition until it is left.

    Raises:
        LogDirLocked: a broker or another process works on it.
        StalePlan: the log is not as it was observed. Nothing was changed.
    """
    with lock_log_dir(log.log_dir), locked_partition(log) as files:
        refuse_changed(log)
        yield files


@contextmanager
def locked_partition(log: PartitionLog) -> Iterator[FileSystem]:
    """Lock a partition, without the check of `refuse_changed`, and yield its file system; see
    `live_log`. The caller holds the lock of the log directory.
    """
    with lock_partition(log.log_dir, log.partition), RealFileSystem(log.log_dir) as files:
        yield files


def refuse_changed(log: PartitionLog, contents: Mapping[str, bytes] | None = None) -> None:
    """Raise unless a locked log is as it was observed. Effects: reads.

    `contents`: of its log directory's checkpoints, if they were read since it was locked.

    Raises:
        StalePlan: it is not.
    """
    if fingerprint(log.log_dir, log.partition, contents) != log.fingerprint:
        raise StalePlan(
            "the log changed after it was planned.",
            path=log.directory,
            remedy="Nothing was changed. Plan again.",
        )


def look_twice(
    look: Callable[[TopicPartition], Log], log_dir: Path, partition: TopicPartition
) -> Log:
    """Read a log without a lock; if it seems wrong, read again under the partition's lock, since
    another logwright process may have changed it. Effects: reads; takes the lock.

    Raises:
        LogDirLocked: it seems wrong, and another process works on it.
        LogwrightError: whatever `look` raises; of the first one, where it cannot be locked.
    """
    try:
        return look(partition)
    except (CorruptLogError, UnsupportedFormatError) as error:
        try:
            with lock_partition(log_dir, partition):
                return look(partition)
        except (NotALogDir, UnreadableFile, DiskFull):
            raise error from None


def set_offsets(
    log_dir: Path,
    partition: TopicPartition,
    offsets: Mapping[str, int | None],
    files: FileSystem,
) -> None:
    """Give a partition these entries in offset checkpoint files, one file after the other.

    Effects: holds the checkpoints' lock; replaces the files whose entry differs.
    A caller that holds that lock uses `set_offsets_locked`.

    Args:
        offsets: file name to offset; None removes the entry.

    Raises:
        LogDirLocked: another process rewrites the checkpoints for too long.
        CorruptCheckpoint, UnsupportedFormatError: a file is malformed, or of another version.
        DiskFull, StepFailed: a step failed.
    """
    with lock_checkpoints(log_dir):
        set_offsets_locked(log_dir, partition, offsets, files)


def set_offsets_locked(
    log_dir: Path,
    partition: TopicPartition,
    offsets: Mapping[str, int | None],
    files: FileSystem,
) -> None:
    """Set offsets like `set_offsets`; the caller holds the checkpoints' lock."""
    for name, offset in offsets.items():
        with open_log_dir(log_dir) as directory:
            content = _content(directory, name)
        steps = set_checkpoints.set_offsets(log_dir / name, content, {partition: offset})
        execute(steps, files)


def partition_file(log_dir: Path, partition: TopicPartition, name: str) -> bytes | None:
    """Return the content of a plain file of a partition, None if it does not exist. Effects: reads
    it.

    Raises:
        UnreadableFile: it cannot be read, or is not a regular file.
    """
    with open_partition_dir(log_dir, partition) as directory:
        return _content(directory, name)


def _content(directory: OpenDir, name: str) -> bytes | None:
    if not directory.exists(name):
        return None
    return directory.read(name)
