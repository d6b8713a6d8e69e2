"""Deleting whole logs, and what goes for good when (LogManager.asyncDelete, deleteLogs; 4.3.0).

**Deletion.** The record; then the directory gets the name ``<topic>-<N>.<32 hex>-delete``, which is
the one step that decides; then the four checkpoints lose the entry. A crash before the rename
leaves the log as it was. After it, entries of a log that is not there are left: a broker drops them
when it writes the files, and so does the purge.

**Purge**, ``file.delete.delay.ms`` of the *broker* after that (Kafka ignores the topic's here), by
the record; of a directory that a broker left, by the directory's own times. The ``.log`` files go
first, synced: what is left of the directory is then one that a broker loads, since indexes without
a log are deleted at load, and a log without an index would be recovered. A directory that holds
anything that no log has is left alone.

A purge must not stop at a full disk. Before the first file goes it is on record that nothing can be
brought back: an undo of half a log would lose the other half. Where there is no room for that line,
the directory gets another name of its kind, which takes none: no record knows that one, so that no
undo finds it, and a purge that goes on after a crash takes it for a broker's. Checkpoint entries
that cannot be taken away before are taken away after.

**At once.** Whatever decides is done under the lock of the checkpoints, after a look at what is
there: the record, the rename and the entries of a deletion; the entries and the rename of an undo;
the purge's record that nothing comes back, or its rename. So an undo meets either a whole log or a
record that refuses it, and entries are taken away only while there is no log of that name. The
files go without a lock: by then no undo brings the directory back, its name is of one deletion, and
a second purge finds less to do. None of this makes a file that the others did not make before: a
full disk stops it no sooner.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from logwright.format.deleted_logs import (
    DeletedLog,
    serialize_deletion,
    serialize_deletions,
    serialize_purging,
)
from logwright.format.names import DELETED_LOGS
from logwright.steps.replace import replace_file
from logwright.steps.step import (
    Append,
    FileStep,
    FsyncDir,
    FsyncFile,
    RemoveDir,
    RenameDir,
    Unlink,
)
from logwright.units import ByteCount, TimestampMs

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from logwright.deletion.observe import DeletedDirectory, DeletedListing
    from logwright.format.names import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgedLog:
    """A deleted log and why it goes or stays.

    Attributes:
        due_at_ms: when it may go.
        goes: it is due and holds nothing foreign.
        reason: one sentence.
    """

    directory: str
    partition: TopicPartition
    bytes: ByteCount
    due_at_ms: TimestampMs
    goes: bool
    reason: str


def delete_steps(log_dir: Path, deletion: DeletedLog) -> tuple[FileStep, ...]:
    """The record and the rename."""
    source = log_dir / deletion.partition.directory_name
    return (
        *_append(log_dir, serialize_deletion(deletion)),
        RenameDir(source, log_dir / deletion.directory),
        FsyncDir(log_dir),
    )


def restore_steps(log_dir: Path, deletion: DeletedLog) -> tuple[FileStep, ...]:
    """The rename back. The checkpoint entries must be there before it."""
    target = log_dir / deletion.partition.directory_name
    return (RenameDir(log_dir / deletion.directory, target), FsyncDir(log_dir))


def plan_purge_logs(
    listing: DeletedListing,
    *,
    now_ms: TimestampMs,
    delay_ms: int,
    named: Collection[TopicPartition] | None,
) -> tuple[PurgedLog, ...]:
    """Decide which deleted logs go.

    Args:
        listing: the log directory.
        now_ms: the clock.
        delay_ms: the broker's `log.segment.delete.delay.ms`.
        named: only these partitions; None: all.
    """
    return tuple(
        plan_purge_log(directory, now_ms=now_ms, delay_ms=delay_ms)
        for directory in listing.directories.values()
        if named is None or directory.partition in named
    )


def plan_purge_log(directory: DeletedDirectory, *, now_ms: TimestampMs, delay_ms: int) -> PurgedLog:
    """Decide about one deleted log; the arguments as for `plan_purge_logs`."""
    due_at_ms = TimestampMs(directory.at_ms + delay_ms)
    whose = "deleted" if directory.record is not None else "deleted by a broker, last touched"
    reason = f"{whose} {now_ms - directory.at_ms} ms ago, log.segment.delete.delay.ms={delay_ms}"
    if directory.foreign:
        reason = f"it holds {directory.foreign[0]}, which no log has"
    return PurgedLog(
        directory=directory.path.name,
        partition=directory.partition,
        bytes=directory.bytes,
        due_at_ms=due_at_ms,
        goes=due_at_ms <= now_ms and not directory.foreign,
        reason=reason,
    )


def mark_purging(log_dir: Path, directory: DeletedDirectory) -> tuple[FileStep, ...]:
    """The record that from now on nothing can be brought back; none if it is there, or without a
    record.
    """
    if directory.record is None or directory.record.purging:
        return ()
    return _append(log_dir, serialize_purging(directory.path.name))


def rename_steps(directory: DeletedDirectory, name: str) -> tuple[FileStep, ...]:
    """What does the same without room: the directory has a name that is not on record."""
    path = directory.path
    return (RenameDir(path, path.with_name(name)), FsyncDir(path.parent))


def unlink_steps(directory: DeletedDirectory) -> tuple[FileStep, ...]:
    """The steps that remove a deleted log's directory, its ``.log`` files first."""
    path = directory.path
    steps: list[FileStep] = [Unlink(file, missing_ok=True) for file in directory.logs]
    steps.append(FsyncDir(path))
    steps += [Unlink(file, missing_ok=True) for file in directory.others]
    steps += [RemoveDir(inner, missing_ok=True) for inner in reversed(directory.directories)]
    return (*steps, RemoveDir(path, missing_ok=True), FsyncDir(path.parent))


def forget_steps(
    log_dir: Path, record: bytes | None, remaining: Mapping[str, DeletedLog]
) -> tuple[FileStep, ...]:
    """The steps that leave only these deletions on record; none if it is so already."""
    path = log_dir / DELETED_LOGS
    if record is None:
        return ()
    if not remaining:
        return (Unlink(path), FsyncDir(log_dir))
    wanted = serialize_deletions(remaining.values())
    if wanted == record:
        return ()
    return replace_file(path, wanted, like=path)


def _append(log_dir: Path, content: bytes) -> tuple[FileStep, ...]:
    path = log_dir / DELETED_LOGS
    return (Append(path, content, create=True), FsyncFile(path), FsyncDir(log_dir))
