"""Files as arrays of bytes: those of this machine mapped into memory, others read."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Final

import numpy as np
from numpy.typing import NDArray

from logwright.errors import DiskFull, StalePlan
from logwright.place.files import open_bytes
from logwright.place.model import FileStamp, PlaceOrText

MOST_MAPPED: Final = 64
"""How many files of a `MappedFiles` stay mapped. A map holds a descriptor, of which a process often
has at most 1,024, and logs may have 100,000 segments.
"""
MOST_READ: Final = 2
"""How many stay in memory that cannot be mapped."""

_Seen = tuple[int, int, int]


def map_file(path: PlaceOrText, *, expected_bytes: int | None = None) -> NDArray[np.uint8]:
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
        self._mapped: OrderedDict[PlaceOrText, tuple[NDArray[np.uint8], _Seen]] = OrderedDict()
        self._turn = Lock()

    def open(self, path: PlaceOrText, *, expected_bytes: int | None = None) -> MappedFile:
        """Map a file, unless it is mapped. Effects and errors: see `map_file`."""
        with self._turn:
            known = self._mapped.get(path)
        data, seen = mapped = _map(path, expected_bytes, known)
        self._keep(path, mapped)
        return MappedFile(path=path, bytes=len(data), _seen=seen, _files=self)

    def find(self, path: PlaceOrText) -> NDArray[np.uint8] | None:
        """Return the bytes of a file if it is mapped."""
        with self._turn:
            mapped = self._mapped.get(path)
            if mapped is None:
                return None
            self._mapped.move_to_end(path)
            return mapped[0]

    def map_again(self, path: PlaceOrText, seen: _Seen) -> NDArray[np.uint8]:
        """Map the file again. Effects: maps the file.

        Raises:
            UnreadableFile: as `map_file`.
            StalePlan: it is not the file that was opened.
        """
        data, seen_now = mapped = _map(path, None)
        if seen_now != seen:
            raise StalePlan("has been written or replaced.", path=path, remedy="Plan again.")
        self._keep(path, mapped)
        return data

    def forget(self, path: PlaceOrText) -> None:
        """Keep this file no longer. It is unmapped when nobody holds its bytes any more."""
        with self._turn:
            self._mapped.pop(path, None)

    def _keep(self, path: PlaceOrText, mapped: tuple[NDArray[np.uint8], _Seen]) -> None:
        most = MOST_MAPPED if isinstance(path, str | Path) else MOST_READ
        with self._turn:
            self._mapped[path] = mapped
            self._mapped.move_to_end(path)
            if len(self._mapped) > most:
                self._mapped.popitem(last=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedFile:
    """One of `MappedFiles`.

    Attributes:
        bytes: its size.
    """

    path: PlaceOrText
    bytes: int
    _seen: _Seen
    _files: MappedFiles

    @property
    def data(self) -> NDArray[np.uint8]:
        """uint8[bytes], read-only; mapped as long as somebody holds it. Effects: may map the file
        again; errors: see `MappedFiles.map_again`.
        """
        data = self._files.find(self.path)
        return self._files.map_again(self.path, self._seen) if data is None else data

    def release(self) -> None:
        """Unmap the file, if nobody else holds its bytes, and let the system reuse the memory that
        caches it: nobody will read it soon. A hint; the file can be read as before.
        """
        self._files.forget(self.path)
        if not isinstance(self.path, str | Path):
            return
        with suppress(OSError):
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)

    def with_content(self, content: NDArray[np.uint8]) -> ConvertedFile:
        """Return the file with other bytes, uint8[n]."""
        return ConvertedFile(
            path=self.path,
            bytes=len(content),
            _seen=self._seen,
            _files=self._files,
            content=content,
        )

    def require(self, planned: FileStamp) -> None:
        """Require that it is the file that was planned.

        Raises:
            StalePlan: it has been written or replaced since.
        """
        if self._seen != planned[1:]:
            raise StalePlan("has been written or replaced.", path=self.path, remedy="Plan again.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedFile(MappedFile):
    """A segment whose bytes are others than its file's: those in format v2.

    Attributes:
        content: uint8[bytes].
    """

    content: NDArray[np.uint8]

    @property
    def data(self) -> NDArray[np.uint8]:
        """uint8[bytes], read-only."""
        return self.content

    def release(self) -> None:
        """Do nothing: they are in no file with a name."""


def in_a_file(contents: Iterable[bytes]) -> NDArray[np.uint8]:
    """Return some bytes as uint8[n], read-only, that are mapped from an unnamed temporary file.
    Effects: writes it; the system removes it when nobody holds the array.

    Raises:
        DiskFull: there is no room for it.
    """
    directory = tempfile.gettempdir()
    try:
        with tempfile.TemporaryFile(dir=directory) as file:
            size = sum(map(file.write, contents))
            file.flush()
            if not size:
                return np.zeros(0, dtype=np.uint8)
            return np.frombuffer(mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ), np.uint8)
    except OSError as error:
        raise DiskFull(
            f"no temporary file could be written for a log of an old message format ({error}).",
            path=directory,
            remedy="Make room there, or set TMPDIR to another directory.",
        ) from error


def _map(
    path: PlaceOrText,
    expected_bytes: int | None,
    known: tuple[NDArray[np.uint8], _Seen] | None = None,
) -> tuple[NDArray[np.uint8], _Seen]:
    """Return a file's bytes and its stamp; `known` is taken if it is of that file."""
    with open_bytes(path) as file:
        size = file.seen[0]
        if expected_bytes is not None and size != expected_bytes:
            raise StalePlan(
                f"has {size} bytes, not {expected_bytes} as planned.",
                path=path,
                remedy="Plan again.",
            )
        if known is not None and known[1] == file.seen:
            return known
        return file.whole(), file.seen
