"""The file steps of deletions of whole logs (LogManager.asyncDelete, deleteLogs; Kafka 4.3.0).

**Deletion.** First the record; then the directory gets the name ``<topic>-<N>.<32 hex>-delete``,
which is the step that decides; then the four checkpoints lose the entry. A crash before the rename
leaves the log as it was. A crash after it leaves entries of a missing log: a broker drops
them when it writes the files, and so does the purge.

**Purge.** The ``.log`` files go first, synced. Then only a directory is left that a broker
loads: it deletes indexes without a log, but would recover a log without an index.

A purge must not stop at a full disk. Before the first file goes it is on record that nothing can be
restored, since an undo of half a log would lose the other half. If there is no room for that line,
the directory gets another name of the same kind, which needs no space: no record has that name, so
no undo finds it, and a purge that continues after a crash treats it like a broker's. Checkpoint
entries that cannot be removed before the files are removed after them.

**Concurrency.** Every step that decides is taken under the lock of the checkpoints, after a look at
what is there: record, rename and entries of a deletion; entries and rename of an undo; the purge's
record that nothing can be restored, or its rename. So an undo finds either a whole log or a record
that refuses it, and entries are removed only while there is no log of that name. Files are removed
without a lock: no undo restores the directory any more, its name belongs to one deletion, and a
second purge finds less to do. None of this creates a file that the others did not create before, so
a full disk does not stop it sooner.
"""

from __future__ import annotations

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

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from logwright.deletion.observe import DeletedDirectory


def delete_steps(log_dir: Path, deletion: DeletedLog) -> tuple[FileStep, ...]:
    """Return the steps of a deletion: the record and the rename."""
    source = log_dir / deletion.partition.directory_name
    return (
        *_append(log_dir, serialize_deletion(deletion)),
        RenameDir(source, log_dir / deletion.directory),
        FsyncDir(log_dir),
    )


def restore_steps(log_dir: Path, deletion: DeletedLog) -> tuple[FileStep, ...]:
    """Return the rename back. The checkpoint entries must exist before it."""
    target = log_dir / deletion.partition.directory_name
    return (RenameDir(log_dir / deletion.directory, target), FsyncDir(log_dir))


def mark_purging(log_dir: Path, directory: DeletedDirectory) -> tuple[FileStep, ...]:
    """Return the steps that record that nothing can be restored any more; none if that is recorded,
    or the deletion is not.
    """
    if directory.record is None or directory.record.purging:
        return ()
    return _append(log_dir, serialize_purging(directory.path.name))


def rename_steps(directory: DeletedDirectory, name: str) -> tuple[FileStep, ...]:
    """Return steps with the same effect that need no disk space: a name without a record."""
    path = directory.path
    return (RenameDir(path, path.with_name(name)), FsyncDir(path.parent))


def unlink_steps(directory: DeletedDirectory) -> tuple[FileStep, ...]:
    """Return the steps that remove a deleted log's directory, its ``.log`` files first."""
    path = directory.path
    steps: list[FileStep] = [Unlink(file, missing_ok=True) for file in directory.logs]
    steps.append(FsyncDir(path))
    steps += [Unlink(file, missing_ok=True) for file in directory.others]
    steps += [RemoveDir(inner, missing_ok=True) for inner in reversed(directory.directories)]
    return (*steps, RemoveDir(path, missing_ok=True), FsyncDir(path.parent))


def forget_steps(
    log_dir: Path, record: bytes | None, remaining: Mapping[str, DeletedLog]
) -> tuple[FileStep, ...]:
    """Return the steps that leave only these deletions on record; none if nothing changes."""
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
