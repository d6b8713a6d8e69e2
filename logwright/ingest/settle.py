"""Finish or roll back an interrupted append.

1. The renamed marker exists and no broker ran since: truncate the log to its state before.
2. A broker or a recovery ran since: the list of batches shows what is in the log.
3. Neither can be proven: do not restore the marker; the directory must be recovered.
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
from logwright.log.load import list_partitions, observe_one, share
from logwright.place.files import names_in, open_log_dir
from logwright.place.mapped import map_file
from logwright.steps.filesystem import FileSystem, RealFileSystem
from logwright.steps.interpreter import execute
from logwright.steps.marker import aside, discard_markers, lock_marker, markers_aside

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from logwright.log.model import PartitionLog


def stamps(log_dir: Path) -> tuple[tuple[str, int, int], ...]:
    """Return (name, inode, modification time) of the files that a running broker writes."""
    times = []
    for name in WATCHED:
        try:
            status = (log_dir / name).lstat()
        except FileNotFoundError:
            times.append((name, 0, 0))
        else:
            times.append((name, status.st_ino, status.st_mtime_ns))
    return tuple(times)


def settle(log_dir: Path) -> TopicPartition | None:
    """Finish or roll back an interrupted append. The caller holds the locks of directory and
    marker.

    The journal with the nonce of the renamed marker shows whether the append is complete; if not,
    the log is truncated. Then the marker is restored, unless no journal has that nonce, the
    checkpoints changed since, or a log is not in the state after a clean shutdown.

    Effects: truncates a log and removes segments; restores or removes the renamed marker.

    Returns:
        the partition that was rolled back, if any.

    Raises:
        UncleanLogDir: the directory must be recovered. Its logs were not changed.
        LogDirLocked: another process holds the partition's lock.
    """
    renamed = markers_aside(log_dir)
    if not renamed:
        return None
    with RealFileSystem(log_dir) as files:
        if os.path.lexists(log_dir / CLEAN_SHUTDOWN_MARKER):
            execute(discard_markers(log_dir), files)
            return None
        partition, journal, pending = _appended_to(log_dir, renamed)
        directory = log_dir / partition.directory_name
        if pending.stamps != stamps(log_dir):
            raise UncleanLogDir(
                "a broker ran since an append was interrupted, or another command changed the"
                " checkpoints, so the clean-shutdown marker is not restored.",
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
    """Call `settle` before a recovery, which would otherwise keep a part of the append; a later
    cleaning may then remove the evidence of how much. Does nothing if it cannot be settled. The
    caller holds the directory's lock.

    Effects: see `settle`.

    Returns:
        whether an append was settled, so that the directory has its marker again.

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


def _appended_to(log_dir: Path, renamed: Sequence[Path]) -> tuple[TopicPartition, Journal, Pending]:
    """Return the only partition whose journal has the nonce of the only renamed marker."""
    matching = []
    for partition in list_partitions(log_dir):
        try:
            journal = read_journal(log_dir / partition.directory_name)
        except LogwrightError:
            continue  # unreadable, so it does not match
        last = journal.pending
        if last is not None and last.nonce and [log_dir / aside(last.nonce)] == list(renamed):
            matching.append((partition, journal, last))
    if len(matching) != 1:
        raise UncleanLogDir(
            "an append in this directory was interrupted, but no journal belongs to it: the log was"
            " deleted or moved, or its journal was removed. The clean-shutdown marker is not"
            " restored.",
            path=renamed[0],
            remedy=RECOVER,
        )
    return matching[0]


def _look_at(log_dir: Path, partitions: Iterable[TopicPartition]) -> None:
    """Check that these logs are in the state after a clean shutdown. Effects: reads.

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
                f"an append was interrupted, and the marker is not restored: {error.problem}",
                path=error.path,
                position=error.position,
                remedy=RECOVER,
            ) from error


def refuse_start_offset(log_dir: Path, partition: TopicPartition) -> None:
    """Refuse a log with a directory but without segments whose log start offset is above 0: a
    broker would drop records below it. Without a directory the log was deleted, and the entry is
    obsolete.
    Effects: reads the checkpoints.

    Raises:
        UncleanLogDir: it has such a log start offset.
    """
    start = read_checkpoints(log_dir).log_start_offset.get(partition, 0)
    if start > 0 and os.path.lexists(log_dir / partition.directory_name):
        raise UncleanLogDir(
            f"{partition} has no segment, but its log start offset is {start}.",
            path=log_dir / LOG_START_OFFSET_CHECKPOINT,
            remedy="Run `logwright recover`: the log then starts at that offset.",
        )


def has_log(directory: Path) -> bool:
    """Return whether a log exists: an interrupted creation leaves a directory without segments."""
    if directory.is_symlink():
        return True
    return any(name.endswith(SEGMENT_SUFFIXES) for name in names_in(directory))


def _cut_back(directory: Path, pending: Pending, files: FileSystem) -> None:
    with os.scandir(directory) as entries:
        present = {
            entry.name: Found(status.st_size, status.st_ino)
            for entry in entries
            if entry.is_file(follow_symlinks=False)
            and (status := entry.stat(follow_symlinks=False))
        }
    prove_cut(directory, pending, _listed(directory, pending) or [], present)
    sizes = {name: one.bytes for name, one in present.items()}
    execute(undo_steps(directory, pending, sizes), files)


def _listed(directory: Path, pending: Pending) -> list[tuple[int, int]] | None:
    rows = read_batches(directory, pending)
    return None if rows is None else [(int(base), int(crc)) for base, crc in rows]


def present_records(log: PartitionLog, pending: Pending) -> int | None:
    """Return how many records of a pending append are in the log, including those it skipped; None
    for all. Effects: reads the batch headers after the old log end.

    Raises:
        UncleanLogDir: a compaction or retention since then may have removed some, so that the
            number is unknown.
    """
    if log.log_end_offset <= pending.log_end_offset:
        return pending.skipped
    listed = _listed(log.directory, pending)
    batches = _batches_from(log, pending.log_end_offset)
    end = None if listed is None else kept_end(listed, batches, pending, log.log_end_offset)
    if end is None:
        raise UncleanLogDir(
            "an ingest was interrupted here, and the log was compacted or truncated since, or its"
            " list of batches is missing: which records are in the log is unknown.",
            path=log.directory,
            remedy="Check which records are in the log, then remove .logwright/ingest.json.",
        )
    if end == pending.end_offset:
        return None
    return pending.skipped + (end - pending.log_end_offset)


def _batches_from(log: PartitionLog, offset: int) -> Iterator[tuple[tuple[int, int], int]]:
    """Yield ((base offset, CRC), next offset) of each batch at or after an offset."""
    bases = [segment.base_offset for segment in log.segments]
    first = max((number for number, base in enumerate(bases) if base <= offset), default=0)
    for base in bases[first:]:
        content = map_file(log.directory / segment_file_name(base, LOG)).data
        for span in walk_batches(content):
            batch = parse_batch(content, span.position)
            if batch.base_offset >= offset:
                yield (batch.base_offset, batch.crc), batch.next_offset
