"""Delete whole logs, restore them, and purge them."""

from __future__ import annotations

import logging
import os
import re
import uuid
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from logwright.config.kept import forget_topic_locked, read_kept
from logwright.deletion.observe import DeletedDirectory, DeletedListing, list_deleted
from logwright.deletion.plan import (
    PurgedLog,
    cannot_restore,
    find_restorable,
    plan_purge_log,
    plan_purge_logs,
)
from logwright.deletion.steps import (
    delete_steps,
    forget_steps,
    mark_purging,
    rename_steps,
    restore_steps,
    unlink_steps,
)
from logwright.errors import CannotUndo, DiskFull, NotALogDir, StepFailed
from logwright.format.deleted_logs import DeletedLog
from logwright.format.names import (
    DELETE_DIRECTORY,
    LOG,
    LOG_START_OFFSET_CHECKPOINT,
    TopicPartition,
    marked_directory_name,
)
from logwright.locks import lock_checkpoints, lock_log_dir, lock_partition
from logwright.log.checkpoints import CHECKPOINT_FILES, read_checkpoints
from logwright.place.files import names_in, open_partition_dir
from logwright.state.model import PartitionState
from logwright.state.store import change_state_locked, read_state
from logwright.steps.filesystem import FileSystem, RealFileSystem
from logwright.steps.interpreter import execute
from logwright.steps.live import set_offsets_locked
from logwright.steps.marker import APPEND_WAIT_SECONDS, doubt, lock_marker
from logwright.steps.room import room_or_without

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from logwright.units import TimestampMs

_LOG = logging.getLogger(__name__)
_SEGMENT: Final = re.compile(rf"[0-9]{{20,}}{re.escape(LOG)}")


def delete_log(
    log_dir: Path, partition: TopicPartition, *, now_ms: TimestampMs, delay_ms: int = 0
) -> DeletedLog:
    """Delete a whole log. Effects: renames its directory; removes its checkpoint entries, pauses
    and quarantine, and with the topic's last log the saved settings; writes a record; takes the
    broker epoch away from the marker (`logwright.steps.marker.doubt`). An undo restores only the
    entries.

    Args:
        log_dir, partition: the log.
        now_ms: the clock.
        delay_ms: the broker's `log.segment.delete.delay.ms`, for the record; 0: it has none.

    Raises:
        LogDirLocked: a broker or another process works on it. Nothing was changed.
        NotALogDir, UnreadableFile: it is not there, or no directory; the state file or that of
            kept settings is malformed. Nothing was changed.
        CorruptCheckpoint, UnsupportedFormatError: a checkpoint file is malformed. Nothing was
            changed.
        DiskFull, StepFailed: a step failed.
    """
    with (
        lock_log_dir(log_dir),
        lock_marker(log_dir, wait_seconds=APPEND_WAIT_SECONDS),
        open_partition_dir(log_dir, partition),
        lock_partition(log_dir, partition),
        RealFileSystem(log_dir) as files,
        lock_checkpoints(log_dir),
    ):
        entries = dict(read_checkpoints(log_dir).of(partition))
        deletion = DeletedLog(
            at_ms=now_ms,
            directory=marked_directory_name(partition, uuid.uuid4().hex, DELETE_DIRECTORY),
            partition=partition,
            checkpoints=entries,
            elsewhere=_begins_elsewhere(log_dir, partition, entries),
            delay_ms=delay_ms,
        )
        # What cannot be read is refused before anything is changed.
        read_state(log_dir)
        read_kept(log_dir)
        execute((*doubt(log_dir), *delete_steps(log_dir, deletion)), files)
        _drop_entries(log_dir, partition, files)
    _LOG.info("deleted topic_partition=%s directory=%s", partition, deletion.directory)
    return deletion


def finish_deletion(log_dir: Path, partition: TopicPartition) -> DeletedLog:
    """Finish an interrupted deletion: remove the checkpoint entries of a log that has its new name
    already. Effects: replaces checkpoint files.

    Raises:
        LogDirLocked: a broker works on the directory. Nothing was changed.
        NotALogDir: no deletion of it is on record either.
        DiskFull, StepFailed: a step failed.
    """
    with (
        lock_log_dir(log_dir),
        RealFileSystem(log_dir) as files,
        lock_checkpoints(log_dir),
    ):
        try:
            deletion = find_deleted(log_dir, partition)
        except CannotUndo as error:
            raise NotALogDir(
                f"has no partition {partition}.",
                path=log_dir,
                remedy="`logwright inspect` lists what is there.",
            ) from error
        _drop_entries(log_dir, partition, files)
    return deletion


def find_deleted(log_dir: Path, partition: TopicPartition) -> DeletedLog:
    """Return the last deletion of a log, if it can be undone. Effects: reads.

    Raises:
        CannotUndo: there is none on record, or it is purged.
    """
    return find_restorable(list_deleted(log_dir), partition)


def restore_log(log_dir: Path, deletion: DeletedLog) -> None:
    """Restore a deleted log. Effects: gives it its checkpoint entries and its name; takes the
    broker epoch away from the marker: the broker may have had another log of this name since.

    Raises:
        LogDirLocked: a broker works on the directory. Nothing was changed.
        CannotUndo: it is purged, or there is a log of that name. Nothing was changed.
        DiskFull, StepFailed: a step failed.
    """
    partition = deletion.partition
    with (
        lock_log_dir(log_dir),
        lock_marker(log_dir, wait_seconds=APPEND_WAIT_SECONDS),
        RealFileSystem(log_dir) as files,
        lock_checkpoints(log_dir),
    ):
        listing = list_deleted(log_dir)
        if find_restorable(listing, partition) != deletion:
            raise cannot_restore(log_dir, partition, "it was deleted again since.")
        execute(doubt(log_dir), files)
        set_offsets_locked(log_dir, partition, deletion.checkpoints, files)
        execute(restore_steps(log_dir, deletion), files)
        _forget(listing, {deletion.directory}, files)
    _LOG.info("restored topic_partition=%s directory=%s", partition, deletion.directory)


def plan_purge_deleted(
    log_dir: Path,
    *,
    now_ms: TimestampMs,
    delay_ms: int,
    named: Collection[TopicPartition] | None = None,
    force: bool = False,
) -> tuple[PurgedLog, ...]:
    """Plan a purge of deleted logs; the arguments as for `purge_deleted`. Effects: reads."""
    listing = list_deleted(log_dir)
    return plan_purge_logs(listing, now_ms=now_ms, delay_ms=delay_ms, named=named, force=force)


def purge_deleted(
    log_dir: Path,
    *,
    now_ms: TimestampMs,
    delay_ms: int,
    named: Collection[TopicPartition] | None = None,
    directories: Collection[str] | None = None,
    force: bool = False,
) -> tuple[PurgedLog, ...]:
    """Remove the deleted logs whose delay is over. Effects: takes the lock of the log directory,
    removes files.

    Args:
        log_dir: the log directory.
        now_ms: the clock.
        delay_ms: the broker's `log.segment.delete.delay.ms`.
        named: only these partitions; None: all.
        directories: only those of these names; None: all.
        force: this delay alone counts, and not that of the settings of the deletion.

    Raises:
        LogDirLocked: a broker works on it.
        NotALogDir, UnreadableFile: it cannot be read.
        DiskFull: there is no room for a lock, or after the purge none for a checkpoint.
        StepFailed: a step failed; the next purge continues.
    """
    with lock_log_dir(log_dir), RealFileSystem(log_dir) as files:
        return purge_deleted_locked(
            log_dir,
            files,
            now_ms=now_ms,
            delay_ms=delay_ms,
            named=named,
            directories=directories,
            force=force,
        )


def purge_deleted_locked(
    log_dir: Path,
    files: FileSystem,
    *,
    now_ms: TimestampMs,
    delay_ms: int,
    named: Collection[TopicPartition] | None = None,
    directories: Collection[str] | None = None,
    force: bool = False,
) -> tuple[PurgedLog, ...]:
    """Purge like `purge_deleted`; the caller holds a lock of the log directory."""
    listing = list_deleted(log_dir)
    decide = partial(plan_purge_log, now_ms=now_ms, delay_ms=delay_ms, force=force)
    plans = plan_purge_logs(
        listing, now_ms=now_ms, delay_ms=delay_ms, named=named, directories=directories, force=force
    )
    done = tuple(_purge(log_dir, plan, files, decide) if plan.goes else plan for plan in plans)
    gone = {plan.directory for plan in done if plan.goes}
    with lock_checkpoints(log_dir), room_or_without("compacting the record of deletions"):
        _forget(list_deleted(log_dir), gone, files)
    return done


def _purge(
    log_dir: Path,
    plan: PurgedLog,
    files: FileSystem,
    decide: Callable[[DeletedDirectory], PurgedLog],
) -> PurgedLog:
    """Remove one deleted log, if it is still there and due. Effects: as `purge_deleted`.

    The directory is opened by the first step: from then on nothing can restore it.
    """
    name, partition = plan.directory, plan.partition
    with lock_checkpoints(log_dir):
        directory = list_deleted(log_dir, only=name).directories.get(name)
        if directory is None:
            return replace(plan, goes=False, reason="it no longer exists")
        plan = decide(directory)
        if not plan.goes:
            return plan
        marked = _beyond_undo(directory, files)
        if directory.record is not None:
            with room_or_without("removing its checkpoint entries, which is done after its files"):
                _drop_entries(log_dir, partition, files)
    try:
        execute(unlink_steps(marked), files)
    except StepFailed as error:
        if error.errno_name != "ENOENT" or os.path.lexists(marked.path):
            raise  # otherwise another purge has removed the rest
    if directory.record is not None:
        with lock_checkpoints(log_dir):
            _drop_entries(log_dir, partition, files)
    _LOG.info("purged deleted log directory=%s bytes=%d", name, directory.bytes)
    return plan


def _beyond_undo(directory: DeletedDirectory, files: FileSystem) -> DeletedDirectory:
    """Make a restore impossible; return the directory as it is then. Effects: appends to the
    record, or renames the directory.
    """
    log_dir = directory.path.parent
    try:
        execute(mark_purging(log_dir, directory), files)
    except DiskFull as error:
        name = marked_directory_name(directory.partition, uuid.uuid4().hex, DELETE_DIRECTORY)
        _LOG.warning("disk full: renamed to %s instead of recording the purge: %s", name, error)
        execute(rename_steps(directory, name), files)
        return list_deleted(log_dir).directories[name]
    return directory


def _drop_entries(log_dir: Path, partition: TopicPartition, files: FileSystem) -> None:
    """Remove the checkpoint entries and state of a log that does not exist, and the saved settings
    of its topic if that has no other log. The caller holds the checkpoints' lock. Effects: replaces
    checkpoint files, the state file and the saved settings.
    """
    if not os.path.lexists(log_dir / partition.directory_name):
        set_offsets_locked(log_dir, partition, dict.fromkeys(CHECKPOINT_FILES), files)
        change_state_locked(log_dir, partition, _without_holds, files)
        if not _has_log(log_dir, partition.topic):
            forget_topic_locked(log_dir, partition.topic, files)


def _has_log(log_dir: Path, topic: str) -> bool:
    """Return whether the topic has a partition here. Effects: lists the log directory."""
    partitions = map(TopicPartition.parse, names_in(log_dir))
    return any(one is not None and one.topic == topic for one in partitions)


def _without_holds(state: PartitionState) -> PartitionState:
    """Return the state without pauses and quarantine, which belong to the deleted log and not to a
    new one with its name. An open move stays.
    """
    return PartitionState(move=state.move)


def _begins_elsewhere(
    log_dir: Path, partition: TopicPartition, entries: Mapping[str, int | None]
) -> bool:
    """Return whether a log starts before its first segment. Effects: lists its directory."""
    start = entries.get(LOG_START_OFFSET_CHECKPOINT)
    names = names_in(log_dir / partition.directory_name)
    bases = [int(one[: -len(LOG)]) for one in names if _SEGMENT.fullmatch(one)]
    return start is not None and (not bases or start < min(bases))


def _forget(listing: DeletedListing, gone: Collection[str], files: FileSystem) -> None:
    """Drop the records of these directories and of those that do not exist; but what says that
    records are elsewhere stays.
    """
    remaining = {
        name: deletion
        for name, deletion in listing.deletions.items()
        if deletion.elsewhere or (name not in gone and name in listing.directories)
    }
    execute(forget_steps(listing.log_dir, listing.record, remaining), files)
