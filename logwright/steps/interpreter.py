"""Executes file steps, one after the other: the only place where a live log changes.

A step that fails ends the run. Each module that makes steps describes the state after every prefix
of them. Nothing is rolled back and nothing is retried.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import Final, assert_never

from logwright.errors import DiskFull, LogwrightError, StepFailed
from logwright.steps.filesystem import FileSystem
from logwright.steps.step import (
    AnyPath,
    Append,
    CopyRange,
    FileStep,
    FsyncDir,
    FsyncFile,
    Link,
    MakeDir,
    RemoveDir,
    Rename,
    RenameDir,
    SetMtime,
    SetOwner,
    Truncate,
    Unlink,
    WriteFile,
)

_LOG = logging.getLogger(__name__)

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_REMEDIES: Final = {
    errno.ENOSPC: "Free space on this file system, then run the command again.",
    errno.EDQUOT: "Raise the quota or free space, then run the command again.",
    errno.EACCES: "Run it as the owner of the log directory.",
    errno.EPERM: "Run it as the owner of the log directory.",
    errno.EROFS: "Mount the file system for writing.",
    errno.EMFILE: "Raise the limit of open files.",
    errno.ENFILE: "Raise the limit of open files.",
    errno.ESTALE: "Stop other programs that use this log, then run the command again.",
    errno.EIO: "Check the disk before anything else is written to it.",
}
_REMEDY: Final = "Inspect the partition before it is changed again."


def execute(steps: Iterable[FileStep], fs: FileSystem) -> None:
    """Execute the steps in their order. Effects: those of the steps.

    Raises:
        DiskFull: a step found no space or no quota (ENOSPC, EDQUOT).
        StepFailed: a step failed in another way. Both name the step, its number from 1, the path
            and the errno.
    """
    _do_all(enumerate(steps, start=1), fs)


def until_synced(steps: Iterable[FileStep], fs: FileSystem) -> Iterator[Callable[[], None]]:
    """Execute the steps in their order, but leave waiting for the disk to the caller.

    Yields consecutive fsyncs as one call, which the caller makes before it asks for the next one.
    The step after them is generated before they are made, so what generates the steps must not rely
    on what is durable. Effects and errors, of this and of the calls: as `execute`.
    """
    for syncs, numbered in groupby(enumerate(steps, start=1), _is_sync):
        if syncs:
            yield partial(_do_all, tuple(numbered), fs)
        else:
            _do_all(numbered, fs)


def _is_sync(numbered: tuple[int, FileStep]) -> bool:
    return isinstance(numbered[1], FsyncFile | FsyncDir)


def _do_all(numbered: Iterable[tuple[int, FileStep]], fs: FileSystem) -> None:
    noted = _LOG.isEnabledFor(logging.DEBUG)
    for number, step in numbered:
        if noted:
            kind, path = type(step).__name__, step_path(step)
            _LOG.debug("step number=%d kind=%s path=%s", number, kind, path)
        try:
            _apply(step, fs)
        except OSError as error:
            raise _failure(number, step, error) from error


def step_path(step: FileStep) -> AnyPath:
    """Return the path that a step changes: of a rename, link or copy, the new name."""
    match step:
        case Link() | Rename() | RenameDir() | CopyRange():
            return step.target
        case _:
            return step.path


def _apply(step: FileStep, fs: FileSystem) -> None:  # noqa: C901, PLR0912 -- one case for each kind
    match step:
        case WriteFile():
            fs.write_file(step.path, step.content, like=step.like)
        case Append():
            fs.append(step.path, step.content, create=step.create)
        case Truncate():
            fs.truncate(step.path, step.bytes)
        case Link():
            fs.link(step.source, step.target)
        case Rename():
            fs.rename(step.source, step.target)
        case Unlink():
            with suppress(*((FileNotFoundError,) if step.missing_ok else ())):
                fs.unlink(step.path)
        case RemoveDir():
            _remove_dir(step, fs)
        case MakeDir():
            fs.make_dir(step.path, like=step.like)
        case RenameDir():
            fs.rename_dir(step.source, step.target)
        case CopyRange():
            fs.copy_range(step.source, step.target, step.position, step.bytes)
        case FsyncFile():
            fs.fsync_file(step.path)
        case FsyncDir():
            fs.fsync_dir(step.path)
        case SetMtime():
            fs.set_mtime(step.path, step.modified_ns)
        case SetOwner():
            fs.set_owner(step.path, like=step.like)
        case _:
            assert_never(step)


def _remove_dir(step: RemoveDir, fs: FileSystem) -> None:
    try:
        fs.remove_dir(step.path)
    except OSError as error:
        missing = step.missing_ok and error.errno == errno.ENOENT
        full = step.full_ok and error.errno in {errno.ENOTEMPTY, errno.EEXIST}
        if not missing and not full:
            raise


def _failure(number: int, step: FileStep, error: OSError) -> LogwrightError:
    name = errno.errorcode.get(error.errno or 0, "EUNKNOWN")
    kind = type(step).__name__
    problem = f"step {number} ({kind}) failed with {name}: {error.strerror}."
    remedy = _REMEDIES.get(error.errno or 0, _REMEDY)
    path = step_path(step)
    if error.errno in _NO_ROOM:
        return DiskFull(problem, path=path, remedy=remedy)
    failed = StepFailed(problem, path=path, remedy=remedy)
    failed.step_number = number
    failed.step = kind
    failed.errno_name = name
    return failed
