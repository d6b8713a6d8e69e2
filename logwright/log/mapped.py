"""Files as arrays of bytes, mapped into memory without following symbolic links."""

from __future__ import annotations

import mmap
import os
import stat
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Final

import numpy as np
from numpy.typing import NDArray

from logwright.errors import StalePlan, UnreadableFile
from logwright.log.model import FileStamp

MOST_MAPPED: Final = 64
"""How many files of a `MappedFiles` stay mapped. A map holds a descriptor, of which a process often
has at most 1,024, and logs may have 100,000 segments.
"""

_NOTHING: Final = np.frombuffer(b"", dtype=np.uint8)
"""As read-only as a mapped file: kernels are compiled for that."""
_Stamp = tuple[int, int, int, int]


def map_file(path: Path | str, *, expected_bytes: int | None = None) -> NDArray[np.uint8]:
    """Map a regular file as uint8[n], without following a symbolic link. Effects: maps it.

    Raises:
        UnreadableFile: it cannot be opened, or is not a regular file.
        StalePlan: its size is not the expected one.
    """
    return _map(path, expected_bytes)[0]


class MappedFiles:
    """Any number of files, of which those that were used last are mapped, each once: the pages of a
    map cost time when they are first touched. For several threads.
    """

    def __init__(self) -> None:
        self._mapped: OrderedDict[Path | str, tuple[NDArray[np.uint8], _Stamp]] = OrderedDict()
        self._turn = Lock()

    def open(self, path: Path | str, *, expected_bytes: int | None = None) -> MappedFile:
        """Map a file, unless it is mapped. Effects and errors: see `map_file`."""
        with self._turn:
            known = self._mapped.get(path)
        data, stamp = mapped = _map(path, expected_bytes, known)
        self._keep(path, mapped)
        return MappedFile(path=path, bytes=len(data), _stamp=stamp, _files=self)

    def find(self, path: Path | str) -> NDArray[np.uint8] | None:
        """Return the bytes of a file if it is mapped."""
        with self._turn:
            mapped = self._mapped.get(path)
            if mapped is None:
                return None
            self._mapped.move_to_end(path)
            return mapped[0]

    def map_again(self, path: Path | str, stamp: _Stamp) -> NDArray[np.uint8]:
        """Map the file again. Effects: maps the file.

        Raises:
            UnreadableFile: as `map_file`.
            StalePlan: it is not the file that was opened.
        """
        data, found = mapped = _map(path, None)
        if found != stamp:
            raise StalePlan("has been written or replaced.", path=path, remedy="Plan again.")
        self._keep(path, mapped)
        return data

    def _keep(self, path: Path | str, mapped: tuple[NDArray[np.uint8], _Stamp]) -> None:
        with self._turn:
            self._mapped[path] = mapped
            self._mapped.move_to_end(path)
            if len(self._mapped) > MOST_MAPPED:
                self._mapped.popitem(last=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedFile:
    """One of `MappedFiles`.

    Attributes:
        bytes: its size.
    """

    path: Path | str
    bytes: int
    _stamp: _Stamp
    _files: MappedFiles

    @property
    def data(self) -> NDArray[np.uint8]:
        """uint8[bytes], read-only; mapped as long as somebody holds it. Effects: may map the file
        again; errors: see `MappedFiles.map_again`.
        """
        found = self._files.find(self.path)
        return self._files.map_again(self.path, self._stamp) if found is None else found

    def require(self, planned: FileStamp) -> None:
        """Require that it is the file that was planned.

        Raises:
            StalePlan: it has been written or replaced since.
        """
        _, inode, size, modified_ns = self._stamp
        if (inode, size, modified_ns) != (planned.inode, planned.bytes, planned.modified_ns):
            raise StalePlan("has been written or replaced.", path=self.path, remedy="Plan again.")


def _map(
    path: Path | str,
    expected_bytes: int | None,
    known: tuple[NDArray[np.uint8], _Stamp] | None = None,
) -> tuple[NDArray[np.uint8], _Stamp]:
    """Return a file's bytes and its stamp; `known` is taken if it is of that file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UnreadableFile(
            f"cannot be opened: {error.strerror}.",
            path=path,
            remedy="Check that it is a regular file that this user may read.",
        ) from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableFile("is not a regular file.", path=path, remedy="Remove it.")
        if expected_bytes is not None and status.st_size != expected_bytes:
            raise StalePlan(
                f"has {status.st_size} bytes, not {expected_bytes} as planned.",
                path=path,
                remedy="Plan again.",
            )
        stamp = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        if known is not None and known[1] == stamp:
            return known
        if status.st_size == 0:
            return _NOTHING, stamp
        mapped = mmap.mmap(descriptor, status.st_size, access=mmap.ACCESS_READ)
        return np.frombuffer(mapped, dtype=np.uint8), stamp
    finally:
        os.close(descriptor)
