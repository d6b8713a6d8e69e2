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

Lock files 2 to 4 are deleted on release, under the exclusive lock: everybody who locks them checks
that the file still has its name (`logwright.lock_files`). We never delete ``.lock``. A broker does
when it stops, and does not check: it could lock a file that has no name any more.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from logwright.errors import LogDirLocked, NotALogDir, UnreadableFile
from logwright.format.names import BROKER_LOCK, WORK_DIRECTORY, TopicPartition
from logwright.lock_files import (
    ATTEMPTS,
    DirectoryVanishedError,
    acquire,
    acquire_in_time,
    held,
    is_named,
    unlockable,
)
from logwright.ofd_lock import holder, release
from logwright.owners import refuse_other_user
from logwright.place.files import open_log_dir
from logwright.place.local import DIRECTORY_FLAGS, LocalDir
from logwright.place.model import Place

PARTITION_LOCK: Final = "lock"
CHECKPOINTS_LOCK: Final = ".logwright-checkpoints.lock"

CHECKPOINTS_WAIT_SECONDS: Final = 30.0
"""How long another process may rewrite a checkpoint file: it takes milliseconds."""


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
            process = holder(directory.fd, BROKER_LOCK)
            by = f" (process {process})" if process else ""
            raise LogDirLocked(
                f"a broker{by} holds this lock.",
                path=log_dir / BROKER_LOCK,
                remedy="Stop the broker that uses this log directory, then run it again.",
            )
        with held(file):
            yield


@contextmanager
def broker_kept_out(log_dir: Place) -> Iterator[None]:
    """Lock the log directory for reading; see `lock_log_dir`. Creates no ``.lock``, since without
    one no broker runs. A place that can only be read has no lock, and no broker.

    Raises:
        LogDirLocked, NotALogDir, UnreadableFile: as `lock_log_dir`.
    """
    if not isinstance(log_dir, Path) or not (log_dir / BROKER_LOCK).exists():
        yield
        return
    with lock_log_dir(log_dir):
        yield


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
