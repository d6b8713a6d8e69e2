"""logwright's directories inside a partition directory: created, written and removed through
descriptors.

From the log directory down each directory is opened in the one before it, with O_NOFOLLOW: the
owner of a partition may replace a directory by a link at any time; links are not followed.
"""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, Self

from logwright.errors import UnreadableFile

_ATTEMPTS: Final = 1000
"""How often a directory may vanish before we have opened it: its other users remove it when it is
empty.
"""

_ROOT: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_DIRECTORY: Final = _ROOT | os.O_NOFOLLOW
_NEW_FILE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class PrivateDirectory(NamedTuple):
    """An open directory of logwright. As a context manager it closes the descriptor on leaving.

    Attributes:
        path: for messages, and to open it again.
    """

    fd: int
    path: Path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)

    def create(self, name: str) -> int:
        """Create a new file in it; return a descriptor for writing, mode 0600. Effects: creates the
        file.

        Raises:
            OSError: it cannot be created; with the file's path.
        """
        try:
            return os.open(name, _NEW_FILE, 0o600, dir_fd=self.fd)
        except OSError as error:
            error.filename = f"{self.path}/{name}"
            raise


def make_private(partition: Path | str, *below: str) -> PrivateDirectory:
    """Make a directory below a partition's, and those on the way, for the log's owner alone.
    Effects: makes directories; opens the last one, which the caller closes.

    Args:
        partition: the partition's directory.
        below: one name after the other.

    Raises:
        UnreadableFile: something on the way is a link or not a directory.
        OSError: the partition's directory does not exist, or one cannot be made.
    """
    path = str(partition)  # as text: paths cost, for a fleet
    for _ in range(_ATTEMPTS):
        directory = _open_partition(path)
        try:
            return PrivateDirectory(_make_below(directory, path, below), Path(path, *below))
        except FileNotFoundError:
            continue
        finally:
            os.close(directory)
    raise OSError(errno.EBUSY, "the directory does not stay", "/".join((path, *below)))


def remove_private(partition: Path | str, *below: str) -> None:
    """Remove a directory below a partition's with all its content, and those on the way that are
    then empty. Links, files in the place of directories, and whatever cannot be removed stay.
    Effects: unlinks files.
    """
    opened: list[int] = []
    try:
        with suppress(OSError, UnreadableFile):
            opened.append(_open_partition(str(partition)))
            for name in below[:-1]:
                opened.append(os.open(name, _DIRECTORY, dir_fd=opened[-1]))
            try:
                os.rmdir(below[-1], dir_fd=opened[-1])  # a commit has left nothing in it
            except OSError:
                shutil.rmtree(below[-1], ignore_errors=True, dir_fd=opened[-1])
        for parent, name in reversed(list(zip(opened, below[:-1], strict=False))):
            with suppress(OSError):  # others stage or lock there
                os.rmdir(name, dir_fd=parent)
    finally:
        for directory in opened:
            os.close(directory)


def move_private(partition: Path | str, source: tuple[str, ...], target: tuple[str, ...]) -> None:
    """Rename a directory below a partition's, and remove the directory that it was in, if that is
    empty then. Effects: makes the target's parent; renames.

    Args:
        partition: the partition's directory.
        source, target: one name after the other.

    Raises:
        UnreadableFile: something on the way is a link or not a directory.
        OSError: it cannot be renamed.
    """
    with (
        make_private(partition, *target[:-1]) as after,
        make_private(partition, *source[:-1]) as before,
    ):
        os.rename(source[-1], target[-1], src_dir_fd=before.fd, dst_dir_fd=after.fd)
        os.fsync(after.fd)
    remove_private(partition, *source)


def _open_partition(path: str) -> int:
    """Open the partition's directory. The log directory may be reached through links: the operator
    named it.
    """
    log_dir, _, name = path.rpartition("/")
    parent = os.open(log_dir or ("/" if path.startswith("/") else "."), _ROOT)
    try:
        return os.open(name, _DIRECTORY, dir_fd=parent)
    except OSError as error:
        raise _refused(error, path) from error
    finally:
        os.close(parent)


def _make_below(directory: int, path: str, below: tuple[str, ...]) -> int:
    """Make the directories on the way; return a descriptor of the last one.

    Raises:
        FileNotFoundError: one of them was removed in between.
    """
    owner = os.fstat(directory)
    current = os.dup(directory)
    for name in below:
        path = f"{path}/{name}"
        try:
            inner = _make(current, name, owner)
        except OSError as error:
            raise _refused(error, path) from error
        finally:
            os.close(current)
        current = inner
    return current


def _make(directory: int, name: str, owner: os.stat_result) -> int:
    made = False
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=directory)
        made = True
    inner = os.open(name, _DIRECTORY, dir_fd=directory)
    try:
        if made and os.geteuid() == 0:
            status = os.fstat(inner)
            if (status.st_uid, status.st_gid) != (owner.st_uid, owner.st_gid):
                os.fchown(inner, owner.st_uid, owner.st_gid)
    except OSError:
        os.close(inner)
        raise
    return inner


def _refused(error: OSError, path: str) -> OSError | UnreadableFile:
    """Return the error with the whole path."""
    if error.errno in {errno.ELOOP, errno.ENOTDIR}:
        return UnreadableFile(
            "expected a directory, not a link or a file.",
            path=path,
            remedy="Remove it; nothing was changed.",
        )
    return OSError(error.errno, error.strerror, path)
