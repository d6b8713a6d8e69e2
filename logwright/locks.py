"""Locks that keep brokers and other logwright processes away from what is worked on.

1. **The log directory**: a shared lock on ``<log dir>/.lock``, the file that a broker locks
   exclusively while it runs. So no broker starts while we work, we do not work while one runs, and
   several logwright processes may run.
2. **The partition**: an exclusive lock on ``<partition>/.logwright/lock``.
3. **The checkpoint files**, and the state file: an exclusive lock on
   ``<log dir>/.logwright-checkpoints.lock``, for the moment in which a file that all partitions
   share is read, changed and replaced.
4. **A process's plans**: an exclusive lock on ``<log dir>/.logwright-plans-<token>.lock``, held
   while the process has staged output there (`logwright.live_plans`). Nobody waits for it.

1 to 3 are taken in this order; the one of `logwright.steps.marker` between 1 and 2. All are locks
of an open file description (F_OFD_SETLK). They exclude a JVM's ``FileChannel.tryLock``, which is a
POSIX record lock, in both directions, and they hold between threads of one process. Unlike POSIX
locks they survive the closing of another descriptor of the file. ``flock`` does not see a JVM's
lock.

Lock files 2 to 4 are deleted on release, under the exclusive lock. So one may be removed between
opening and locking it, and then keeps nobody away: after locking, the descriptor is compared with
the name, and the lock is taken again if they differ (`acquire`). We never delete ``.lock``. A
broker does when it stops, and does not check: it could lock a file that has no name any more.

Only root and the broker's user may make files in a log directory (`refuse_other_user`). They must
keep their owner: a broker that may not open its own lock file, or a checkpoint's ``.tmp``, does not
start or takes the log directory offline, and only root may give files to another user (chown(2)).
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal, TypeVar

from logwright.errors import DiskFull, LogDirLocked, NotALogDir, UnreadableFile
from logwright.format.names import (
    BROKER_LOCK,
    RECOVERY_POINT_CHECKPOINT,
    WORK_DIRECTORY,
    TopicPartition,
)
from logwright.place.files import open_log_dir
from logwright.place.local import DIRECTORY_FLAGS, LocalDir, is_named
from logwright.running.broker import FLOCK, lock_holder

PARTITION_LOCK: Final = "lock"
CHECKPOINTS_LOCK: Final = ".logwright-checkpoints.lock"

CHECKPOINTS_WAIT_SECONDS: Final = 30.0
"""How long another process may rewrite a checkpoint file: it takes milliseconds."""

ATTEMPTS: Final = 100
"""How often a lock file may vanish between opening and locking before we give up."""

_POLL_SECONDS: Final = 0.004
_T = TypeVar("_T")

_ROOT: Final = 0

Kind = Literal["shared", "exclusive"]


@contextmanager
def lock_log_dir(log_dir: Path) -> Iterator[None]:
    """Keep brokers out of a log directory. Effects: creates ``.lock`` if necessary, and leaves it.

    Raises:
        LogDirLocked: a broker runs on it.
        NotALogDir: there is no such directory.
        UnreadableFile: the lock file is not a regular file, or we may not open or make it.
    """
    with open_log_dir(log_dir) as directory:
        file = acquire(directory, BROKER_LOCK, "shared")
        if file is None:
            process = None
            with suppress(OSError):
                process = lock_holder(directory.fd, BROKER_LOCK)
            raise held_by_broker(log_dir, process)
        with held(file):
            yield


def held_by_broker(log_dir: Path, process: int | None) -> LogDirLocked:
    """Return the error for a log directory that a broker uses.

    Args:
        process: of the broker; 0 or None: not known.
    """
    by = f" (process {process})" if process else ""
    return LogDirLocked(
        f"a broker{by} holds this lock.",
        path=log_dir / BROKER_LOCK,
        remedy="Stop the broker that uses this log directory, then run it again.",
    )


@contextmanager
def lock_partition(log_dir: Path, partition: TopicPartition) -> Iterator[None]:
    """Keep other logwright processes and threads off a partition.

    Effects: makes ``.logwright`` (mode 0700) and the lock file in the partition directory; removes
    the file on release, and the directory if nothing else is in it.

    Raises:
        LogDirLocked: somebody else holds it.
        NotALogDir: there is no such directory.
        UnreadableFile: something on the way is a link or not a directory, or belongs to another
            user.
    """
    with lock_partition_directory(log_dir / partition.directory_name):
        yield


@contextmanager
def lock_partition_directory(path: Path) -> Iterator[None]:
    """Lock a partition by its directory, which has another name during a move; see
    `lock_partition`.
    """
    with open_log_dir(path.parent) as parent:
        for _ in range(ATTEMPTS):
            with _lock_open_directory(parent, path.name) as named:
                if named:
                    yield
                    return
    raise LogDirLocked("the directory does not stay.", path=path, remedy="Run it again.")


@contextmanager
def _lock_open_directory(parent: LocalDir, name: str) -> Iterator[bool]:
    """Lock the directory that has this name now; yields whether it still has it when it is locked.
    A lock stays with its directory when that is renamed; another one that gets the name is not
    locked.
    """
    with parent.open_dir(name) as directory:
        refuse_other_user(directory.fd, directory.path / WORK_DIRECTORY / PARTITION_LOCK)
        work, file = _acquire_in_work_directory(directory)
        try:
            with work, held(file, remove=(work, PARTITION_LOCK)):
                yield is_named(directory.fd, parent, name)
        finally:
            with suppress(OSError):  # not empty, or in use by somebody else already
                os.rmdir(WORK_DIRECTORY, dir_fd=directory.fd)


@contextmanager
def lock_checkpoints(log_dir: Path) -> Iterator[None]:
    """Hold the lock for rewriting this directory's checkpoint files, against other logwright
    processes. Waits for its turn. Effects: makes the lock file and removes it on release.

    Raises:
        LogDirLocked: it was not free for `CHECKPOINTS_WAIT_SECONDS`.
    """
    with lock_file(log_dir, CHECKPOINTS_LOCK, wait_seconds=CHECKPOINTS_WAIT_SECONDS):
        yield


@contextmanager
def lock_file(log_dir: Path, name: str, *, wait_seconds: float) -> Iterator[None]:
    """Hold an exclusive lock on a file in the log directory's root, waiting at most this long.
    Effects and errors: as `lock_checkpoints`.
    """
    with open_log_dir(log_dir) as directory:
        file = acquire_in_time(directory, name, wait_seconds)
        with held(file, remove=(directory, name)):
            yield


def take_lock(log_dir: Path, name: str) -> int:
    """Make a file in the log directory and lock it until `give_lock_back` gets its descriptor.

    Raises:
        LogDirLocked, NotALogDir, DiskFull, UnreadableFile: it cannot be made or locked.
    """
    with open_log_dir(log_dir) as directory:
        return acquire_in_time(directory, name, CHECKPOINTS_WAIT_SECONDS)


def give_lock_back(log_dir: Path, name: str, file: int) -> None:
    """End what `take_lock` began. Effects: removes the file, as far as it is still there."""
    try:
        directory = open_log_dir(log_dir)
    except (NotALogDir, UnreadableFile):
        release(file)
        os.close(file)
        return
    with directory, held(file, remove=(directory, name)):
        pass


def _acquire_in_work_directory(directory: LocalDir) -> tuple[LocalDir, int]:
    """Return the open work directory of a partition, and a descriptor of the locked lock file in
    it.
    """
    path = directory.path / WORK_DIRECTORY / PARTITION_LOCK
    for _ in range(ATTEMPTS):
        try:
            work = _open_work_directory(directory)
        except FileNotFoundError:
            continue
        try:
            file = acquire(work, PARTITION_LOCK, "exclusive")
        except DirectoryVanishedError:  # its last user removed it while we opened the file
            work.close()
            continue
        except BaseException:
            work.close()
            raise
        if file is None:
            work.close()
            raise LogDirLocked(
                "another logwright process works on this partition.",
                path=path,
                remedy="Wait for it to end, then run it again.",
            )
        return work, file
    raise LogDirLocked("the lock file does not stay.", path=path, remedy="Run it again.")


def _open_work_directory(directory: LocalDir) -> LocalDir:
    """Open ``.logwright``; make it, mode 0700, if there is none. Root gives it to the partition's
    owner, because a broker removes it with the partition.

    Raises:
        FileNotFoundError: its last user removed it in between.
        DiskFull, UnreadableFile: it cannot be made, or is a link or not a directory.
    """
    path = directory.path / WORK_DIRECTORY
    made = True
    try:
        os.mkdir(WORK_DIRECTORY, 0o700, dir_fd=directory.fd)
    except FileExistsError:
        made = False
    except OSError as error:
        raise unlockable(path, error) from error
    try:
        work = os.open(WORK_DIRECTORY, DIRECTORY_FLAGS, dir_fd=directory.fd)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise unlockable(path, error) from error
    if made and os.geteuid() == 0:
        owner = os.fstat(directory.fd)
        os.fchown(work, owner.st_uid, owner.st_gid)
    return LocalDir(work, str(path))


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


def refuse_other_user(directory: int, path: Path) -> None:
    """Refuse a user whose files the owner of a directory could not replace. Effects: reads.

    The owner of a log directory is the broker's user, which owns
    ``recovery-point-offset-checkpoint``: a broker writes that file each minute. If root owns the
    directory, any user with the right to may create files, since root can open and replace them.

    Args:
        directory: a descriptor of a log directory, or of a directory in one.
        path: the file or directory to create.

    Raises:
        UnreadableFile: this process is neither root's nor the owner's.
    """
    user = os.geteuid()
    if user == _ROOT:
        return
    owner = _owner(directory)
    if owner not in {user, _ROOT}:
        raise UnreadableFile(
            f"user {user} cannot give it to the broker's user, {owner}.",
            path=path,
            remedy=f"Nothing was changed. Run it as the broker's user (uid {owner}).",
        )


def _owner(directory: int) -> int:
    try:
        status = os.stat(RECOVERY_POINT_CHECKPOINT, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        status = os.fstat(directory)
    return status.st_uid


def try_lock(file: int, kind: Kind) -> bool:
    """Lock all of an open file; False if somebody excludes us. Effects: takes the lock.

    Raises:
        OSError: the file system cannot lock.
    """
    wanted = fcntl.F_RDLCK if kind == "shared" else fcntl.F_WRLCK
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, FLOCK.pack(wanted, os.SEEK_SET, 0, 0, 0))
    except OSError as error:
        if error.errno in {errno.EAGAIN, errno.EACCES}:
            return False
        raise
    return True


def release(file: int) -> None:
    """Give a lock back: by name, not only by closing, since a forked child shares the open file."""
    fcntl.fcntl(file, fcntl.F_OFD_SETLK, FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0))


def is_held(log_dir: Path) -> bool:
    """Return whether a broker, or a logwright process that works on a stopped one's logs, holds the
    lock of a log directory. Effects: looks; takes no lock, not even for an instant.

    Raises:
        NotALogDir: there is no such directory.
        UnreadableFile: the lock file may not be read.
    """
    with open_log_dir(log_dir) as directory:
        try:
            return lock_holder(directory.fd, BROKER_LOCK, fcntl.F_WRLCK) is not None
        except FileNotFoundError:
            return False
        except OSError as error:
            raise unlockable(log_dir / BROKER_LOCK, error) from error
