"""Lock files: opened or made without following links, locked, and still the files of their names.

A lock file may be removed between opening and locking it, and then keeps nobody away. After
locking, the descriptor is therefore compared with the name, and the lock is taken again if they
differ.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, TypeVar

from logwright.errors import DiskFull, LogDirLocked, UnreadableFile
from logwright.ofd_lock import Kind, release, try_lock
from logwright.owners import refuse_other_user

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from logwright.place.local import LocalDir

ATTEMPTS: Final = 100
"""How often a lock file may vanish between opening and locking before we give up."""

_POLL_SECONDS: Final = 0.004
_T = TypeVar("_T")


class DirectoryVanishedError(Exception):
    """The directory of a lock file was removed while the file was being opened."""


def wait_for(attempt: Callable[[], _T | None], wait_seconds: float) -> _T | None:
    """Return the first value that is not None of repeated attempts, at least one; None if there is
    none in this time. Effects: those of `attempt`; sleeps in between.
    """
    deadline = time.monotonic() + wait_seconds
    while (result := attempt()) is None and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    return result


def acquire(directory: LocalDir, name: str, kind: Kind) -> int | None:
    """Return a descriptor of a locked file; None if somebody excludes us. Effects: makes the file
    if there is none, and takes the lock.

    Raises:
        DirectoryVanishedError: the directory was removed.
        LogDirLocked: the file does not stay.
        DiskFull, UnreadableFile: the file cannot be made or opened, or is not a regular file.
    """
    for _ in range(ATTEMPTS):
        try:
            file = _open(directory, name)
        except (FileNotFoundError, FileExistsError):
            continue  # somebody removed or made it in between
        try:
            locked = try_lock(file, kind)
            if locked and is_named(file, directory, name):
                return file
        except OSError:
            os.close(file)
            raise
        os.close(file)
        if not locked:
            return None
    raise LogDirLocked(
        "the lock file does not stay.", path=directory.path / name, remedy="Run it again."
    )


def acquire_in_time(directory: LocalDir, name: str, wait_seconds: float) -> int:
    """Return a descriptor of an exclusively locked file, waiting for it as long as this. Effects
    and errors: as `acquire`.

    Raises:
        LogDirLocked: it was not free in this time.
    """
    file = wait_for(lambda: acquire(directory, name, "exclusive"), wait_seconds)
    if file is None:
        raise LogDirLocked(
            "another logwright process has held this lock for too long.",
            path=directory.path / name,
            remedy="End that process, then run it again.",
        )
    return file


@contextmanager
def held(file: int, *, remove: tuple[LocalDir, str] | None = None) -> Iterator[None]:
    """Hold a lock. Effects: on leaving, removes the file of this name if it is still this one, then
    releases the lock.

    Closing alone would not release it: a forked child shares the open file.
    """
    try:
        yield
    finally:
        if remove is not None:
            directory, name = remove
            with suppress(OSError):  # a lock file that stays does no harm
                if is_named(file, directory, name):
                    os.unlink(name, dir_fd=directory.fd)
        release(file)
        os.close(file)


def is_named(file: int, directory: LocalDir, name: str) -> bool:
    """Return whether an open file or directory is still the one with this name. Effects: reads."""
    try:
        named = os.stat(name, dir_fd=directory.fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(file), named)


def unlockable(path: Path, error: OSError) -> UnreadableFile | DiskFull:
    """Return the error for a lock file, or its directory, that cannot be created or opened."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return DiskFull(
            f"there is no room for a lock: {error.strerror}.",
            path=path,
            remedy="Nothing was changed. Free some space, then run it again.",
        )
    return UnreadableFile(
        f"it cannot be opened: {error.strerror}.",
        path=path,
        remedy="Run it as the owner of the log directory, and remove links that took its place.",
    )


def _open(directory: LocalDir, name: str) -> int:
    """Open a lock file; make it if there is none.

    Raises:
        FileNotFoundError, FileExistsError: it vanished or was made in between.
        DirectoryVanishedError, DiskFull, UnreadableFile: as `acquire`.
    """
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    path = directory.path / name
    try:
        try:
            file = os.open(name, flags, dir_fd=directory.fd)
        except FileNotFoundError:
            return _make(directory, name)
    except FileNotFoundError as error:
        if os.fstat(directory.fd).st_nlink == 0:
            raise DirectoryVanishedError from error
        raise
    except FileExistsError:
        raise
    except OSError as error:
        raise unlockable(path, error) from error
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise UnreadableFile("it is not a regular file.", path=path, remedy="Remove it.")
    return file


def _make(directory: LocalDir, name: str) -> int:
    """Make a lock file with the directory's owner and mode, so that the directory's owner can lock
    it too. Without root's rights it gets at least the directory's group, if this user is in it.

    What is right already is not set, since that would change the inode. A file whose owner or mode
    cannot be set is removed: nobody else could open it.
    """
    refuse_other_user(directory.fd, directory.path / name)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    file = os.open(name, flags, 0o600, dir_fd=directory.fd)
    try:
        made, owner = os.fstat(file), os.fstat(directory.fd)
        if os.geteuid() == 0 and (made.st_uid, made.st_gid) != (owner.st_uid, owner.st_gid):
            os.fchown(file, owner.st_uid, owner.st_gid)
        elif made.st_gid != owner.st_gid:
            with suppress(PermissionError):
                os.fchown(file, -1, owner.st_gid)
        mode = stat.S_IMODE(owner.st_mode) & 0o666
        if stat.S_IMODE(made.st_mode) != mode:
            os.fchmod(file, mode)
    except OSError:
        os.close(file)
        os.unlink(name, dir_fd=directory.fd)
        raise
    return file
