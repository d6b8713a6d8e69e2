"""A directory of this machine, and its files: opened relative to a descriptor with O_NOFOLLOW, so
that what was checked is what is read, even if something is renamed in between.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from logwright.errors import (
    StalePlan,
    link_or_file,
    no_directory,
    not_regular,
    unreadable,
    unreadable_file,
)
from logwright.place.model import RANGE_BYTES, Bytes, Entry, FileStamp, Kind, OpenDir
from logwright.units import ByteCount

if TYPE_CHECKING:
    from numpy.typing import NDArray

ROOT_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
DIRECTORY_FLAGS: Final = ROOT_FLAGS | os.O_NOFOLLOW
FILE_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_KINDS: Final[dict[int, Kind]] = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "named pipe",
    stat.S_IFSOCK: "socket",
}
_EMPTY: Final = np.frombuffer(b"", dtype=np.uint8)
"""As read-only as a mapped file: kernels are compiled for that."""


class LocalDir(OpenDir):
    """An open directory of this machine.

    Attributes:
        fd: its descriptor.
    """

    __slots__ = ("fd",)

    def __init__(self, fd: int, name: str) -> None:
        self.fd = fd
        self.name = name

    @property
    def path(self) -> Path:
        """The directory's path."""
        return Path(self.name)

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self.fd)

    def open_dir(self, name: str) -> LocalDir:
        """Open one of its directories; see `OpenDir.open_dir`."""
        path = self.file(name)
        try:
            fd = os.open(name, DIRECTORY_FLAGS, dir_fd=self.fd)
        except FileNotFoundError as error:
            raise no_directory(path) from error
        except OSError as error:
            if error.errno in (errno.ENOTDIR, errno.ELOOP):
                raise link_or_file(path) from error
            raise unreadable(error, path) from error
        return LocalDir(fd, path)

    def kinds(self) -> dict[str, Kind]:
        """See `OpenDir.kinds`; no entry is asked for its status."""
        try:
            with os.scandir(self.fd) as entries:
                return {entry.name: _kind_of(entry) for entry in entries}
        except OSError as error:
            raise unreadable(error, self.name) from error

    def names(self) -> list[str]:
        """See `OpenDir.names`."""
        try:
            return sorted(os.listdir(self.fd))  # noqa: PTH208 -- of a descriptor
        except OSError as error:
            raise unreadable(error, self.name) from error

    def entries(self) -> list[Entry]:
        """See `OpenDir.entries`; what vanishes meanwhile is left out."""
        entries = []
        for name in self.names():
            try:
                status = os.stat(name, dir_fd=self.fd, follow_symlinks=False)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise unreadable(error, self.file(name)) from error
            entries.append(entry_of(name, status))
        return entries

    def exists(self, name: str) -> bool:
        """See `OpenDir.exists`."""
        try:
            os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise unreadable(error, self.file(name)) from error
        return True

    def open(self, name: str) -> LocalBytes:
        """See `OpenDir.open`."""
        return open_local(name, self.file(name), self.fd)

    def read_part(self, name: str, position: int, size: int) -> bytes:
        """See `OpenDir.read_part`. What took the file's place since it was listed is not checked
        as `open` does: a FIFO or a directory cannot be read at a position.
        """
        try:
            fd = os.open(name, FILE_FLAGS, dir_fd=self.fd)
            try:
                return os.pread(fd, size, position)
            finally:
                os.close(fd)
        except OSError as error:
            raise unreadable_file(error, self.file(name)) from error


class LocalBytes(Bytes):
    """An open file of this machine."""

    __slots__ = ("fd",)

    def __init__(self, fd: int, path: object, seen: tuple[int, int, int]) -> None:
        self.path = path
        self.seen = seen
        self.fd = fd

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self.fd)

    def entry(self) -> Entry:
        """See `Bytes.entry`."""
        return entry_of("", os.fstat(self.fd))

    def read_into(self, data: NDArray[np.uint8], position: int) -> int:
        """See `Bytes.read_into`."""
        return os.preadv(self.fd, [data.data], position)

    def span(self, position: int, size: int) -> bytes:
        """See `Bytes.span`; small ones take no detour."""
        if size > RANGE_BYTES:
            return super().span(position, size)
        try:
            part = os.pread(self.fd, size, position)
        except OSError as error:
            raise unreadable(error, self.path, position) from error
        return part if len(part) in (0, size) else super().span(position, size)

    def whole(self) -> NDArray[np.uint8]:
        """Map the file; see `Bytes.whole`."""
        size = self.seen[0]
        if size == 0:
            return _EMPTY
        try:
            mapped = mmap.mmap(self.fd, size, access=mmap.ACCESS_READ)
        except ValueError as error:  # of Python's mmap: the file has fewer bytes
            raise StalePlan("became shorter.", path=self.path, remedy="Plan again.") from error
        return np.frombuffer(mapped, dtype=np.uint8)


def is_named(file: int, directory: LocalDir, name: str) -> bool:
    """Return whether an open file or directory is still the one with this name. Effects: reads."""
    try:
        named = os.stat(name, dir_fd=directory.fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(file), named)


def entry_of(name: str, status: os.stat_result) -> Entry:
    """Return an entry from its status."""
    mode = status.st_mode
    kind = _KINDS.get(stat.S_IFMT(mode), "device")
    size = ByteCount(status.st_size if kind == "file" else 0)
    stamp = FileStamp(name, size, status.st_mtime_ns, status.st_ino)
    return Entry(kind, stamp, status.st_ctime_ns, status.st_nlink, status.st_dev)


def _kind_of(entry: os.DirEntry[str]) -> Kind:
    if entry.is_file(follow_symlinks=False):
        return "file"
    if entry.is_dir(follow_symlinks=False):
        return "directory"
    return "link" if entry.is_symlink() else "device"


def open_local(name: str | Path, path: object, dir_fd: int | None) -> LocalBytes:
    """Open a regular file of a directory's descriptor; see `OpenDir.open`."""
    try:
        fd = os.open(name, FILE_FLAGS, dir_fd=dir_fd)
    except OSError as error:
        raise unreadable_file(error, path) from error
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        os.close(fd)
        raise not_regular(path)
    return LocalBytes(fd, path, (status.st_size, status.st_mtime_ns, status.st_ino))
