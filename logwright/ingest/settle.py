"""What an append that was interrupted left, and how it is brought to an end.

1. The marker lies aside and no broker has been there since: the log is cut back to what it was.
2. A broker, or a recovery, has been there: the list of batches tells what is in the log.
3. Which of them it is cannot be told: the marker stays away, and the directory is recovered.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from logwright.errors import LogwrightError, UncleanLogDir
from logwright.format.batch import parse_batch, walk_batches
from logwright.format.names import (
    CLEAN_SHUTDOWN_MARKER,
    LOG,
    LOG_START_OFFSET_CHECKPOINT,
    SEGMENT_SUFFIXES,
    TopicPartition,
    segment_file_name,
)
from logwright.ingest.journal import (
    Journal,
    Pending,
    read_batches,
    read_journal,
    write_journal,
)
from logwright.ingest.proof import RECOVER, Found, kept_end, prove_cut
from logwright.ingest.steps import WATCHED, end_steps, undo_steps
from logwright.locks import lock_partition
from logwright.log.checkpoints import read_checkpoints, read_open_checkpoints
from logwright.log.files import names_in, open_log_dir
from logwright.log.load import list_partitions, observe_one, share
from logwright.log.mapped import map_file
from logwright.steps.filesystem import FileSystem, RealFileSystem
from logwright.steps.interpreter import execute
from logwright.steps.marker import aside, discard_markers, lock_marker, markers_aside

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from logwright.log.model import PartitionLog


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


def settle(log_dir: Path) -> TopicPartition | None:
    """Bring an append that was interrupted to its end. The directory and its marker are locked.

    The journal with the nonce of the marker that lies aside says whether the append is complete. If
    it is not, the log is cut back. Then the marker is put back; but not if no journal has that
    nonce, if the checkpoints changed since, or if any log is not as a clean stop leaves it.

    Effects: truncates a log and removes segments; renames or removes the marker that lies aside.

    Returns:
        the partition that was cut back, if one was.

    Raises:
        UncleanLogDir: the directory must be recovered. Its logs are left as they are.
        LogDirLocked: another process works on that partition.
    """
    found = markers_aside(log_dir)
    if not found:
        return None
    with RealFileSystem(log_dir) as files:
        if os.path.lexists(log_dir / CLEAN_SHUTDOWN_MARKER):
            execute(discard_markers(log_dir), files)
            return None
        partition, journal, pending = _appended_to(log_dir, found)
        directory = log_dir / partition.directory_name
        if pending.stamps != stamps(log_dir):
            raise UncleanLogDir(
                "a broker has worked here since an append was interrupted, or another command"
                " changed the checkpoints; so the marker is not put back.",
                path=directory,
                remedy=RECOVER,
            )
        _look_at(log_dir, [one for one in list_partitions(log_dir) if one != partition])
        with lock_partition(log_dir, partition):
            if not pending.complete:
                _cut_back(directory, pending, files)
            _look_at(log_dir, [partition])
            execute(end_steps(log_dir, pending.nonce), files)
            if not pending.complete:
                execute(write_journal(directory, journal.abandoned()), files)
    return None if pending.complete else partition


def settle_before_recovery(log_dir: Path) -> bool:
    """`settle` where a recovery comes next, which would keep a part of the append: a cleaning after
    it may leave nothing that tells how much. The directory is locked. Where it cannot be settled
    nothing is done: the recovery does what is to be done.

    Effects: see `settle`.

    Returns:
        whether an append was brought to its end, so that the directory has its marker again.

    Raises:
        LogDirLocked: another process appends or recovers.
    """
    if not markers_aside(log_dir):
        return False
    with lock_marker(log_dir):
        try:
            settle(log_dir)
        except UncleanLogDir:
            return False
    return True


def _appended_to(log_dir: Path, found: Sequence[Path]) -> tuple[TopicPartition, Journal, Pending]:
    """The one partition whose journal has the nonce of the one marker that lies aside."""
    matching = []
    for partition in list_partitions(log_dir):
        try:
            journal = read_journal(log_dir / partition.directory_name)
        except LogwrightError:
            continue  # what it says is not known, so it is not the one
        last = journal.pending
        if last is not None and last.nonce and [log_dir / aside(last.nonce)] == list(found):
            matching.append((partition, journal, last))
    if len(matching) != 1:
        raise UncleanLogDir(
            "an append to a log of this directory was interrupted, and no journal says which log it"
            " is: the log was deleted or moved, or its journal is gone. So the marker that lies"
            " aside is not put back.",
            path=found[0],
            remedy=RECOVER,
        )
    return matching[0]


def _look_at(log_dir: Path, partitions: Iterable[TopicPartition]) -> None:
    """Stop unless these logs are as a clean stop leaves them. Effects: reads.

    Raises:
        UncleanLogDir: one is not.
    """
    with open_log_dir(log_dir) as opened:
        try:
            shared = share(log_dir, opened, "end", read_open_checkpoints(opened))
            for partition in partitions:
                if has_log(log_dir / partition.directory_name):
                    observe_one(shared._replace(clean_shutdown=True), partition)
        except LogwrightError as error:
            raise UncleanLogDir(
                f"an append was interrupted, and the marker is not put back: {error.problem}",
                path=error.path,
                position=error.position,
                remedy=RECOVER,
            ) from error


def refuse_start_offset(log_dir: Path, partition: TopicPartition) -> None:
    """Stop if a log that has a directory, but no segment, is to begin at a later offset than 0: a
    broker would drop what is below. Without a directory the log was deleted, and the entry says
    nothing of the next one. Effects: reads the checkpoints.

    Raises:
        UncleanLogDir: it is.
    """
    start = read_checkpoints(log_dir).log_start_offset.get(partition, 0)
    if start > 0 and os.path.lexists(log_dir / partition.directory_name):
        raise UncleanLogDir(
            f"there is no segment of {partition}, and its log start offset is {start}.",
            path=log_dir / LOG_START_OFFSET_CHECKPOINT,
            remedy="Run `logwright recover`: the log begins at that offset.",
        )


def has_log(directory: Path) -> bool:
    """Whether there is anything of a log: what an interrupted creation leaves has no segment."""
    if directory.is_symlink():
        return True
    return any(name.endswith(SEGMENT_SUFFIXES) for name in names_in(directory))


def _cut_back(directory: Path, pending: Pending, files: FileSystem) -> None:
    with os.scandir(directory) as entries:
        found = {
            entry.name: Found(status.st_size, status.st_ino)
            for entry in entries
            if entry.is_file(follow_symlinks=False)
            and (status := entry.stat(follow_symlinks=False))
        }
    prove_cut(directory, pending, _listed(directory, pending) or [], found)
    sizes = {name: one.bytes for name, one in found.items()}
    execute(undo_steps(directory, pending, sizes), files)


def _listed(directory: Path, pending: Pending) -> list[tuple[int, int]] | None:
    rows = read_batches(directory, pending)
    return None if rows is None else [(int(base), int(crc)) for base, crc in rows]


def present_records(log: PartitionLog, pending: Pending) -> int | None:
    """How many records of a pending append are in the log, those skipped by it included; None for
    all of them. Effects: reads the batches' headers behind the old log end.

    Raises:
        UncleanLogDir: what was appended may have been compacted or deleted since, so that it cannot
            be told.
    """
    if log.log_end_offset <= pending.log_end_offset:
        return pending.skipped
    listed = _listed(log.directory, pending)
    found = _batches_from(log, pending.log_end_offset)
    end = None if listed is None else kept_end(listed, found, pending, log.log_end_offset)
    if end is None:
        raise UncleanLogDir(
            "an ingest was interrupted here, and the log was compacted or cut since, or its list of"
            " batches is gone: what is there of it cannot be told.",
            path=log.directory,
            remedy="Look which records are there, then remove .logwright/ingest.json.",
        )
    if end == pending.end_offset:
        return None
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
