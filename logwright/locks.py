"""Locks that keep brokers and other processes of ours away from what is worked on.

1. **The log directory**: a shared lock on ``<log dir>/.lock``, the file on which a broker holds an
   exclusive one while it runs. So no broker starts under us, none is worked under, and several of
   our processes may run.
2. **The partition**: an exclusive lock on ``<partition>/.logwright/lock``.
3. **The checkpoint files**, and the state file: an exclusive lock on
   ``<log dir>/.logwright-checkpoints.lock``, for the moment in which a file that all partitions
   share is read, changed and replaced.
4. **A process's plans**: an exclusive lock on ``<log dir>/.logwright-plans-<token>.lock``, held
   while the process has staged output there (`logwright.live_plans`). Nobody waits for it.

1 to 3 are taken in this order; the one of `logwright.steps.marker` between 1 and 2. All are locks
of an open file description (F_OFD_SETLK). They exclude a JVM's ``FileChannel.tryLock``, a POSIX
record lock, both ways, and hold between threads of one process; unlike POSIX locks, they are not
lost when another descriptor of the file is closed. ``flock`` does not see a JVM's lock.

A broker deletes ``.lock`` when it stops, so a lock may be had on a file that has no name any more
and that keeps nobody away. After locking, the descriptor is therefore compared with the name, and
the lock is taken anew if they differ. We delete lock files 2 to 4 on release, while we hold them
exclusively: everybody who locks them makes this comparison. ``.lock`` is never deleted: a broker
makes no comparison, and one that had opened the file just before would lock a file without a name.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from logwright.errors import DiskFull, LogDirLocked, NotALogDir, UnreadableFile
from logwright.format.names import BROKER_LOCK, WORK_DIRECTORY, TopicPartition
from logwright.ofd_lock import Kind, holder, release, try_lock
from logwright.owners import refuse_other_user

PARTITION_LOCK: Final = "lock"
CHECKPOINTS_LOCK: Final = ".logwright-checkpoints.lock"

CHECKPOINTS_WAIT_SECONDS: Final = 30.0
"""How long another process may rewrite a checkpoint file: it takes milliseconds."""

_ATTEMPTS: Final = 100
"""How often a lock file may vanish between opening and locking before we give up."""

_POLL_SECONDS: Final = 0.004
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def lock_log_dir(log_dir: Path) -> Iterator[None]:
    """Keep brokers out of a log directory. Effects: makes ``.lock`` if need be, and leaves it.

    Raises:
        LogDirLocked: a broker runs on it.
        NotALogDir: there is no such directory.
        UnreadableFile: the lock file is no regular file, or may not be opened or made by us.
    """
    directory = _open_log_dir(log_dir)
    try:
        path = log_dir / BROKER_LOCK
        file = _acquire(directory, path, "shared")
        if file is None:
            process = holder(directory, BROKER_LOCK)
            by = f" (process {process})" if process else ""
            raise LogDirLocked(
                f"a broker{by} holds this lock.",
                path=path,
                remedy="Stop the broker that uses this log directory, then run it again.",
            )
        with _held(file):
            yield
    finally:
        os.close(directory)


@contextmanager
def broker_kept_out(log_dir: Path) -> Iterator[None]:
    """`lock_log_dir` for who only reads: no ``.lock`` is made, without one no broker runs.

    Raises:
        LogDirLocked, NotALogDir, UnreadableFile: as `lock_log_dir`.
    """
    if not (log_dir / BROKER_LOCK).exists():
        yield
        return
    with lock_log_dir(log_dir):
        yield


@contextmanager
def lock_partition(log_dir: Path, partition: TopicPartition) -> Iterator[None]:
    """Keep other processes and threads of ours off a partition.
    Effects: makes ``.logwright`` (mode 0700) and the lock file in the partition's directory;
    removes the file on release, and the directory if nothing else is in it.

    Raises:
        LogDirLocked: somebody else holds it.
        NotALogDir: there is no such directory.
        UnreadableFile: something on the way is a link or no directory, or it is another user's.
    """
    with lock_partition_directory(log_dir / partition.directory_name):
        yield


@contextmanager
def lock_partition_directory(path: Path) -> Iterator[None]:
    """`lock_partition`, whatever name the partition's directory has during a move."""
    parent = _open_log_dir(path.parent)
    try:
        for _ in range(_ATTEMPTS):
            with _lock_open_directory(parent, path) as named:
                if named:
                    yield
                    return
    finally:
        os.close(parent)
    raise LogDirLocked("the directory does not stay.", path=path, remedy="Run it again.")


@contextmanager
def _lock_open_directory(parent: int, path: Path) -> Iterator[bool]:
    """Lock the directory that has this name now; whether it has it still when it is locked. A lock
    stays with its directory when that is renamed; another one that gets the name is not locked.
    """
    directory = _open_directory(parent, path)
    try:
        path = path / WORK_DIRECTORY / PARTITION_LOCK
        refuse_other_user(directory, path)
        work, file = _acquire_in_work_directory(directory, path)
        try:
            with _held(file, remove=(work, PARTITION_LOCK)):
                yield _is_named(directory, parent, path.parents[1].name)
        finally:
            os.close(work)
            with suppress(OSError):  # not empty, or in use by somebody else already
                os.rmdir(WORK_DIRECTORY, dir_fd=directory)
    finally:
        os.close(directory)


@contextmanager
def lock_checkpoints(log_dir: Path) -> Iterator[None]:
    """Be the only one of ours who rewrites this directory's checkpoint files. Waits for its turn.
    Effects: makes the lock file and removes it on release.

    Raises:
        LogDirLocked: it was not free for `CHECKPOINTS_WAIT_SECONDS`.
    """
    with lock_file(log_dir, CHECKPOINTS_LOCK, wait_seconds=CHECKPOINTS_WAIT_SECONDS):
        yield


@contextmanager
def lock_file(log_dir: Path, name: str, *, wait_seconds: float) -> Iterator[None]:
    """Hold an exclusive lock on a file in the log directory's root, waiting for it as long as this.
    Effects and errors: as `lock_checkpoints`.
    """
    directory = _open_log_dir(log_dir)
    try:
        path = log_dir / name
        file = _acquire_in_time(directory, path, wait_seconds)
        with _held(file, remove=(directory, path.name)):
            yield
    finally:
        os.close(directory)


def _acquire_in_time(directory: int, path: Path, wait_seconds: float) -> int:
    deadline = time.monotonic() + wait_seconds
    while (file := _acquire(directory, path, "exclusive")) is None:
        if time.monotonic() >= deadline:
            raise LogDirLocked(
                "another logwright process has held this lock for too long.",
                path=path,
                remedy="End that process, then run it again.",
            )
        time.sleep(_POLL_SECONDS)
    return file


def take_lock(log_dir: Path, name: str) -> int:
    """Make a file in the log directory and lock it until `give_lock_back` gets its descriptor.

    Raises:
        LogDirLocked, NotALogDir, DiskFull, UnreadableFile: it cannot be made or locked.
    """
    directory = _open_log_dir(log_dir)
    try:
        return _acquire_in_time(directory, log_dir / name, CHECKPOINTS_WAIT_SECONDS)
    finally:
        os.close(directory)


def give_lock_back(log_dir: Path, name: str, file: int) -> None:
    """End what `take_lock` began. Effects: removes the file, as far as it is still there."""
    try:
        directory = _open_log_dir(log_dir)
    except (NotALogDir, UnreadableFile):
        release(file)
        os.close(file)
        return
    try:
        with _held(file, remove=(directory, name)):
            pass
    finally:
        os.close(directory)


def _acquire_in_work_directory(directory: int, path: Path) -> tuple[int, int]:
    """Descriptors of the partition's work directory and of its lock file, locked."""
    for _ in range(_ATTEMPTS):
        try:
            work = _open_work_directory(directory, path.parent)
        except FileNotFoundError:
            continue
        try:
            file = _acquire(work, path, "exclusive")
        except _Vanished:  # its last user removed the work directory while we opened the file
            os.close(work)
            continue
        except BaseException:
            os.close(work)
            raise
        if file is None:
            os.close(work)
            raise LogDirLocked(
                "another logwright process works on this partition.",
                path=path,
                remedy="Wait for it to end, then run it again.",
            )
        return work, file
    raise LogDirLocked("the lock file does not stay.", path=path, remedy="Run it again.")


def _open_work_directory(directory: int, path: Path) -> int:
    """Open ``.logwright``; make it, mode 0700, if there is none.
    Root gives it to the partition's owner: a broker removes it with the partition.

    Raises:
        FileNotFoundError: its last user removed it in between.
        UnreadableFile: it is a link or no directory.
    """
    made = True
    try:
        os.mkdir(path.name, 0o700, dir_fd=directory)
    except FileExistsError:
        made = False
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        work = os.open(path.name, _DIRECTORY, dir_fd=directory)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise _unreadable(path, error) from error
    if made and os.geteuid() == 0:
        owner = os.fstat(directory)
        os.fchown(work, owner.st_uid, owner.st_gid)
    return work


class _Vanished(UnreadableFile):
    """The directory of a lock file was removed while the file was being opened."""


def _acquire(directory: int, path: Path, kind: Kind) -> int | None:
    """A descriptor of the lock file with the lock on it; None if somebody excludes us."""
    for _ in range(_ATTEMPTS):
        try:
            file = _open_lock_file(directory, path)
        except (FileNotFoundError, FileExistsError):
            continue  # somebody removed or made it in between
        try:
            locked = try_lock(file, kind)
            if locked and _is_named(file, directory, path.name):
                return file
        except OSError:
            os.close(file)
            raise
        os.close(file)
        if not locked:
            return None
    raise LogDirLocked("the lock file does not stay.", path=path, remedy="Run it again.")


def _open_lock_file(directory: int, path: Path) -> int:
    """Open a lock file; make it if there is none.

    Raises:
        FileNotFoundError, FileExistsError: it vanished or was made in between.
        _Vanished: so did its directory.
        UnreadableFile: it cannot be opened or is no regular file.
    """
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        try:
            file = os.open(path.name, flags, dir_fd=directory)
        except FileNotFoundError:
            return _make_lock_file(directory, path)
    except FileNotFoundError as error:
        if os.fstat(directory).st_nlink == 0:
            raise _Vanished("its directory was removed.", path=path) from error
        raise
    except FileExistsError:
        raise
    except OSError as error:
        raise _unreadable(path, error) from error
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise UnreadableFile("it is not a regular file.", path=path, remedy="Remove it.")
    return file


def _make_lock_file(directory: int, path: Path) -> int:
    """With the directory's owner and mode, so that whoever owns the directory can lock it too; of
    who is not root with its group at least, if he is in it. What is right already is not set: that
    would change the inode. A file that does not become so is removed: nobody else could open it.
    """
    refuse_other_user(directory, path)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    file = os.open(path.name, flags, 0o600, dir_fd=directory)
    try:
        made, owner = os.fstat(file), os.fstat(directory)
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
        os.unlink(path.name, dir_fd=directory)
        raise
    return file


def _is_named(file: int, directory: int, name: str) -> bool:
    """Whether this open file is still the one that has the name."""
    try:
        named = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(file), named)


@contextmanager
def _held(file: int, *, remove: tuple[int, str] | None = None) -> Iterator[None]:
    """Hold a lock; on leaving, remove the file if told, then let go.

    The lock is given back by name, not only by closing: a forked child shares the open file.
    """
    try:
        yield
    finally:
        if remove is not None:
            with suppress(OSError):  # a lock file that stays does no harm
                if _is_named(file, *remove):
                    os.unlink(remove[1], dir_fd=remove[0])
        release(file)
        os.close(file)


def _open_log_dir(log_dir: Path) -> int:
    """The root itself may be reached through symbolic links: the operator named it."""
    try:
        return os.open(log_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotALogDir(
            f"it cannot be opened: {error.strerror}.", path=log_dir, remedy="Name a log directory."
        ) from error
    except OSError as error:
        raise _unreadable(log_dir, error) from error


def _open_directory(parent: int | None, path: Path) -> int:
    try:
        return os.open(path if parent is None else path.name, _DIRECTORY, dir_fd=parent)
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> UnreadableFile | DiskFull:
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
