"""What an append that was interrupted left, and how it is brought to an end.

1. The marker lies aside and no broker has been there since: the log is cut back to what it was.
2. A broker, or a recovery, has been there: the list of batches tells what is in the log.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from logwright.errors import UncleanLogDir
from logwright.format.batch import parse_batch, walk_batches
from logwright.format.names import (
    CLEAN_SHUTDOWN_MARKER,
    LOG,
    MARKER_ASIDE,
    TopicPartition,
    segment_file_name,
)
from logwright.ingest.journal import Pending, read_batches, read_journal, write_journal
from logwright.ingest.steps import WATCHED, end_steps, undo_steps
from logwright.locks import lock_partition
from logwright.log.load import list_partitions
from logwright.log.mapped import map_file
from logwright.steps.filesystem import FileSystem, RealFileSystem
from logwright.steps.interpreter import execute
from logwright.steps.step import FsyncDir, Unlink

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from logwright.log.model import PartitionLog

_RECOVER: Final = (
    "Recover it with `logwright recover`, or start a broker on the directory and stop it cleanly;"
    " then run it again."
)


def stamps(log_dir: Path) -> tuple[tuple[str, int, int], ...]:
    """(name, inode, modification time) of the files that tell whether a broker ran."""
    found = []
    for name in WATCHED:
        try:
            status = (log_dir / name).lstat()
        except FileNotFoundError:
            found.append((name, 0, 0))
        else:
            found.append((name, status.st_ino, status.st_mtime_ns))
    return tuple(found)


def settle(log_dir: Path) -> tuple[TopicPartition, ...]:
    """Cut back what an interrupted append left. The directory and its checkpoints are locked.

    Effects: truncates logs and removes segments to what the journals say; puts the marker back.

    Returns:
        the partitions that were cut back.

    Raises:
        UncleanLogDir: a broker ran since and was not stopped cleanly.
        LogDirLocked: another process works on such a partition.
    """
    if not os.path.lexists(log_dir / MARKER_ASIDE):
        return ()
    with RealFileSystem(log_dir) as files:
        if os.path.lexists(log_dir / CLEAN_SHUTDOWN_MARKER):
            execute((Unlink(log_dir / MARKER_ASIDE), FsyncDir(log_dir)), files)
            return ()
        interrupted = []
        for partition in list_partitions(log_dir):
            journal = read_journal(log_dir / partition.directory_name)
            if journal.pending is not None:
                interrupted.append((partition, journal, journal.pending))
        now = stamps(log_dir)
        for partition, _, pending in interrupted:
            if pending.stamps != now:
                raise UncleanLogDir(
                    "a broker has worked here since an append was interrupted, and was not stopped"
                    " cleanly.",
                    path=log_dir / partition.directory_name,
                    remedy=_RECOVER,
                )
        for partition, _, pending in interrupted:
            with lock_partition(log_dir, partition):
                _cut_back(log_dir / partition.directory_name, pending, files)
        execute(end_steps(log_dir), files)
        for partition, journal, _ in interrupted:
            with lock_partition(log_dir, partition):
                directory = log_dir / partition.directory_name
                execute(write_journal(directory, journal.abandoned()), files)
    return tuple(partition for partition, _, _ in interrupted)


def _cut_back(directory: Path, pending: Pending, files: FileSystem) -> None:
    with os.scandir(directory) as entries:
        sizes = {
            entry.name: entry.stat(follow_symlinks=False).st_size
            for entry in entries
            if entry.is_file(follow_symlinks=False)
        }
    if pending.base_offset is not None:
        name = segment_file_name(pending.base_offset, LOG)
        if sizes.get(name, -1) < pending.log_bytes:
            raise UncleanLogDir(
                f"the log has {sizes.get(name, 0)} bytes, before the interrupted append it had"
                f" {pending.log_bytes}.",
                path=directory / name,
                remedy=_RECOVER,
            )
    execute(undo_steps(directory, pending, sizes), files)


def present_records(log: PartitionLog, pending: Pending) -> int | None:
    """How many records of a pending append are in the log, those skipped by it included; None for
    all of them. Effects: reads the batches' headers behind the old log end.

    Raises:
        UncleanLogDir: what was appended may have been compacted or deleted since, so that it cannot
            be told.
    """
    expected = [(int(base), int(crc)) for base, crc in read_batches(log.directory)]
    cleaned = log.cleaner_checkpoint or 0
    matched, end = 0, pending.log_end_offset
    for (base, crc), next_offset in _batches_from(log, pending.log_end_offset):
        if matched == len(expected) or (base, crc) != expected[matched]:
            break
        matched, end = matched + 1, next_offset
    if matched == len(expected):
        return None
    if max(cleaned, log.log_start_offset) > pending.log_end_offset:
        raise UncleanLogDir(
            "an ingest was interrupted here, and the log was compacted or cut since: what is there"
            " of it cannot be told.",
            path=log.directory,
            remedy="Look which records are there, then remove .logwright/ingest.json.",
        )
    return pending.skipped + (end - pending.log_end_offset)


def _batches_from(log: PartitionLog, offset: int) -> Iterator[tuple[tuple[int, int], int]]:
    """((base offset, CRC), next offset) of each batch at or behind an offset."""
    bases = [segment.base_offset for segment in log.segments]
    first = max((number for number, base in enumerate(bases) if base <= offset), default=0)
    for base in bases[first:]:
        content = map_file(log.directory / segment_file_name(base, LOG)).data
        for span in walk_batches(content):
            batch = parse_batch(content, span.position)
            if batch.base_offset >= offset:
                yield (batch.base_offset, batch.crc), batch.next_offset
