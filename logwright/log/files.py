"""Opening and reading files of a log directory, which is untrusted: no symlinks, no FIFOs.

Everything is opened relative to a descriptor of its directory with O_NOFOLLOW, so that what was
checked is what is read, even if something is renamed in between.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from logwright.errors import NotALogDir, UnreadableFile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from logwright.format.names import TopicPartition

LARGEST_FILE_BYTES: Final = 2_147_483_647
"""No file of a segment is larger: Kafka's positions are int32 (LogSegment, FileRecords)."""

_ROOT_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
DIRECTORY_FLAGS: Final = _ROOT_FLAGS | os.O_NOFOLLOW
FILE_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_READ_BYTES: Final = 8 * 1024 * 1024

_NOT_REGULAR: Final = frozenset((errno.ELOOP, errno.EISDIR, errno.ESPIPE, errno.ENXIO))
"""Errors of opening, or reading at a position of, a symlink, a directory, a FIFO or a socket."""

_PERMISSION: Final = "Give this user read permission, or run as the broker's user."


class OpenDir(NamedTuple):
    """An open directory: its descriptor, and its path for messages, as text: making paths costs as
    much as reading the files. As a context manager it closes the descriptor on leaving.
    """

    fd: int
    name: str

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self.fd)

    @property
    def path(self) -> Path:
        """The directory's path."""
        return Path(self.name)

    def file(self, name: str) -> str:
        """Return the path of one of its files, as text."""
        return f"{self.name}/{name}"


def open_log_dir(log_dir: Path) -> OpenDir:
    """Open the log directory. It may be reached through symlinks: the operator named it.

    Effects: opens a descriptor.

    Raises:
        NotALogDir: it is missing, or not a directory.
        UnreadableFile: it may not be read.
    """
    try:
        fd = os.open(log_dir, _ROOT_FLAGS)
    except (FileNotFoundError, NotADirectoryError) as error:
        problem = "is not a directory." if log_dir.exists() else "does not exist."
        raise NotALogDir(
            f"the log directory {problem}", path=log_dir, remedy="Give a directory of log.dirs."
        ) from error
    except OSError as error:
        raise unreadable(error, log_dir) from error
    return OpenDir(fd, str(log_dir))


@contextmanager
def open_partition_dir(log_dir: Path, partition: TopicPartition) -> Iterator[OpenDir]:
    """Open a partition's directory. Effects: opens descriptors, closed on leaving.

    Raises:
        NotALogDir: the log directory or the partition's is missing, or not a directory.
        UnreadableFile: one may not be read, or the partition's is a symlink.
    """
    with open_log_dir(log_dir) as parent, open_child_dir(parent, partition) as directory:
        yield directory


def open_child_dir(parent: OpenDir, partition: TopicPartition) -> OpenDir:
    """Open a partition's directory in an open log directory; as `open_partition_dir`."""
    return open_named_dir(parent, partition.directory_name)


def open_named_dir(parent: OpenDir, name: str) -> OpenDir:
    """Open the directory of this name in an open log directory; as `open_partition_dir`."""
    path = parent.file(name)
    try:
        fd = os.open(name, DIRECTORY_FLAGS, dir_fd=parent.fd)
    except FileNotFoundError as error:
        raise NotALogDir(
            "there is no such partition directory.",
            path=path,
            remedy="Name a partition that is in this log directory.",
        ) from error
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            raise UnreadableFile(
                "the partition directory is a symlink, or no directory.",
                path=path,
                remedy="Symlinks are not followed; move the directory itself here.",
            ) from error
        raise unreadable(error, path) from error
    return OpenDir(fd, path)


def list_directory(directory: OpenDir) -> list[os.DirEntry[str]]:
    """Return all entries, in no order. Effects: reads the directory.

    Raises:
        UnreadableFile: it cannot be read.
    """
    try:
        with os.scandir(directory.fd) as entries:
            return list(entries)
    except OSError as error:
        raise unreadable(error, directory.path) from error


def file_names(directory: OpenDir) -> list[str]:
    """Return the names of all entries, sorted. Effects and errors: as `list_directory`."""
    try:
        return sorted(os.listdir(directory.fd))  # noqa: PTH208 -- of a descriptor
    except OSError as error:
        raise unreadable(error, directory.path) from error


def names_in(directory: Path) -> list[str]:
    """Return the names of all entries of a directory, sorted; none if it does not exist. Effects:
    reads it.

    Raises:
        UnreadableFile: it cannot be read.
    """
    try:
        return sorted(os.listdir(directory))  # noqa: PTH208 -- names are enough
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unreadable(error, directory) from error


def exists(directory: OpenDir, name: str) -> bool:
    """Return whether something has this name. Effects: asks the file system.

    Raises:
        UnreadableFile: the device fails.
    """
    try:
        os.stat(name, dir_fd=directory.fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise unreadable(error, directory.path / name) from error
    return True


def is_regular(path: Path) -> bool:
    """Return whether this is a regular file; a symlink to one is not. Effects: asks the file
    system.

    Raises:
        UnreadableFile: it is missing, or the device fails.
    """
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError as error:
        raise unreadable(error, path) from error


def open_file(directory: OpenDir, name: str) -> int:
    """Open a regular file for reading; the caller closes the descriptor.

    Raises:
        UnreadableFile: it is missing, may not be read, or is not a regular file.
    """
    return _open_regular(directory, name)[0]


def read_part(directory: OpenDir, name: str, position: int, size: int) -> bytes:
    """Read a small part of a file that was listed as a regular one. Effects: reads it.

    What took its place since is not checked as `open_file` does: a FIFO or a directory cannot be
    read at a position.

    Raises:
        UnreadableFile: it is missing, may not be read, is not a regular file any more, or the
            device fails.
    """
    try:
        fd = os.open(name, FILE_FLAGS, dir_fd=directory.fd)
        try:
            return os.pread(fd, size, position)
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno in _NOT_REGULAR:
            raise not_regular(directory.path / name) from error
        raise unreadable(error, directory.path / name) from error


def _open_regular(directory: OpenDir, name: str) -> tuple[int, int]:
    """Open a regular file; return its descriptor and size."""
    try:
        fd = os.open(name, FILE_FLAGS, dir_fd=directory.fd)
    except OSError as error:
        if error.errno in _NOT_REGULAR:
            raise not_regular(directory.path / name) from error
        raise unreadable(error, directory.path / name) from error
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode):
        os.close(fd)
        raise not_regular(directory.path / name)
    return fd, found.st_size


def read_file(directory: OpenDir, name: str) -> bytes:
    """Return a regular file's content. Effects: reads it.

    Raises:
        UnreadableFile: as `open_file`; or it is larger than any file of a log may be, or cannot be
            read completely.
    """
    fd, size = _open_regular(directory, name)
    try:
        if size > LARGEST_FILE_BYTES:
            raise UnreadableFile(
                f"the file has {size} bytes, which no file of a log has.",
                path=directory.path / name,
                remedy="Kafka cannot open it either; restore it.",
            )
        return read_span(fd, 0, size, directory.file(name))
    finally:
        os.close(fd)


def read_span(fd: int, position: int, size: int, path: str) -> bytes:
    """Read `size` bytes from `position` on; fewer only at the end of the file. Effects: reads.

    Raises:
        UnreadableFile: the device fails.
    """
    try:
        first = os.pread(fd, min(size, _READ_BYTES), position)
        if len(first) == size or not first:
            return first
        found = bytearray(first)
        while len(found) < size:
            part = os.pread(fd, min(size - len(found), _READ_BYTES), position + len(found))
            if not part:
                break
            found += part
    except OSError as error:
        raise unreadable(error, path, position) from error
    return bytes(found)


def not_regular(path: Path) -> UnreadableFile:
    """Return the error for a symlink, FIFO, socket, device or directory in a file's place."""
    return UnreadableFile(
        "expected a regular file.",
        path=path,
        remedy="Symlinks are not followed. Put the file itself here.",
    )


def unreadable(error: OSError, path: Path | str, position: int | None = None) -> UnreadableFile:
    """Return the error for a file or directory that the system cannot read."""
    name = errno.errorcode.get(error.errno or 0, "unknown error")
    problem = f"cannot be read ({name}: {error.strerror})."
    remedy = _PERMISSION if error.errno in (errno.EACCES, errno.EPERM) else "Check the device."
    if error.errno == errno.ENOENT:
        remedy = "It vanished while it was read. Stop other programs that use this directory."
    return UnreadableFile(problem, path=path, position=position, remedy=remedy)
