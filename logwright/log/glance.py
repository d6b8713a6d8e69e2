"""What a plan needs of many partition directories: their files' stamps, and the few bytes that it
reads of them.

For a fleet Python takes longer to ask than the system to answer. So the system is asked in a
kernel, by Linux's own calls with their fixed layouts (getdents64(2), statx(2)), which are found in
the C library by name.

It is what `logwright.log.listing.stamp_files` and `logwright.log.files.read_part` do, for the
ordinary case. Where a call is missing or fails, or there are more files than there is room for,
nothing is said of a directory: those look at it, and have the words for what is wrong.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from logwright.format.batch import HEADER_BYTES
from logwright.format.crc import load_u64
from logwright.format.index import TIME_ENTRY_BYTES
from logwright.format.native import address, call
from logwright.kernel import kernel
from logwright.log.files import DIRECTORY_FLAGS, FILE_FLAGS, OpenDir
from logwright.log.kinds import is_of_a_log
from logwright.log.listing import stamp

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from numpy.typing import NDArray

    from logwright.log.model import FileStamp

_FUNCTIONS: Final = ("openat", "getdents64", "statx", "pread", "close")
_OPENAT: Final = 0
_GETDENTS: Final = 1
_STATX: Final = 2
_PREAD: Final = 3
_CLOSE: Final = 4

TOGETHER: Final = 64
"""Directories that are looked at by one call."""
MOST_FILES: Final = 1 << 14
"""Of all directories that are looked at together."""
MOST_BYTES: Final = 128
"""That are read of a file. Snapshots of more than two producers are larger."""
_NAMES_BYTES: Final = 1 << 19
_ENTRIES_BYTES: Final = 1 << 14

# Where the fields of a struct linux_dirent64 and a struct statx are.
_ENTRY_LENGTH: Final = 16
_ENTRY_NAME: Final = 19
_STATUS_BYTES: Final = 256
_MODE: Final = 28
_INODE: Final = 32
_SIZE: Final = 40
_MODIFIED_S: Final = 112
_MODIFIED_NS: Final = 120

_NO_FOLLOW: Final = 0x100
_WANTED: Final = 0x343
"""STATX_TYPE, STATX_MODE, STATX_MTIME, STATX_INO and STATX_SIZE."""
_KIND: Final = 0o170000
_REGULAR: Final = 0o100000
_INT: Final = 0xFFFFFFFF
_NEGATIVE: Final = 0x80000000
_DOT: Final = ord(".")

# The rows of what is found of a file.
_BYTES: Final = 0
_MODIFIED: Final = 1
_INODE_NUMBER: Final = 2
_READ: Final = 3
_ROWS: Final = 4
# And the cells of a directory.
_DESCRIPTOR: Final = 0
_FILES_END: Final = 1
_NAMES_END: Final = 2
_CELLS: Final = 3


class Glance(NamedTuple):
    """A directory that was looked at.

    Attributes:
        directory: open; `OpenDir.seen` holds the first header of each ``.log``, the last two
            entries of each ``.timeindex`` (or its one) and each small ``.snapshot``.
        stamps: as `logwright.log.listing.stamp_files` gives them.
    """

    directory: OpenDir
    stamps: dict[str, FileStamp]


def glances(
    parent: OpenDir, directories: Sequence[str], *, in_kernel: bool
) -> Generator[tuple[Glance | None, ...], None, None]:
    """What is seen of the directories of an open one, in their order, of `TOGETHER` at a time; None
    of one that must be looked at in the other way. A thread looks at the next ones meanwhile.
    Effects: reads; holds a descriptor for each that is seen, until the next are asked for.

    Args:
        in_kernel: False: nothing is said of any. The first kernel of a process takes long to load.
    """
    groups = [directories[at : at + TOGETHER] for at in range(0, len(directories), TOGETHER)]
    functions = _find_functions() if in_kernel else None
    if functions is None:
        yield from ((None,) * len(some) for some in groups)
        return
    rooms = _Room(functions), _Room(functions)
    begun: deque[Future[_Look]] = deque()
    with ThreadPoolExecutor(1) as thread:
        try:
            for number in range(len(groups) + 1):
                if number < len(groups):
                    begun.append(thread.submit(_look, rooms[number % 2], parent, groups[number]))
                if number:
                    yield tuple(begun[0].result().told())
                    begun.popleft().result().close()
        finally:
            for look in begun:
                look.result().close()


class _Room:
    """Where a kernel puts what it finds, of one group of directories after the other."""

    def __init__(self, functions: NDArray[np.int64]) -> None:
        self.functions = functions
        self.answers = np.empty(_ENTRIES_BYTES, np.uint8), np.empty(_STATUS_BYTES, np.uint8)
        self.names: NDArray[np.uint8] = np.empty(_NAMES_BYTES, np.uint8)
        self.contents: NDArray[np.uint8] = np.empty(MOST_FILES * MOST_BYTES, np.uint8)
        self.rows: NDArray[np.int64] = np.empty((_ROWS, MOST_FILES), np.int64)


class _Look(NamedTuple):
    """A group of directories that was looked at; `cells` as `_look_at_all` fills them."""

    room: _Room
    parent: OpenDir
    directories: Sequence[str]
    cells: NDArray[np.int64]

    def told(self) -> Iterator[Glance | None]:
        """What the kernel found, in Python's terms."""
        files, length = self.cells[-1, _FILES_END:].tolist()
        names = os.fsdecode(self.room.names[:length].tobytes()).split("/")
        contents = self.room.contents[: files * MOST_BYTES].tobytes()
        sizes, modified, inodes, read = self.room.rows[:, :files].tolist()
        begin = 0
        for name, (descriptor, end, _) in zip(self.directories, self.cells.tolist(), strict=True):
            if descriptor < 0:
                yield None
                continue
            seen = {
                names[file]: contents[file * MOST_BYTES : file * MOST_BYTES + read[file]]
                for file in range(begin, end)
                if read[file]
            }
            some = slice(begin, end)
            rows = sorted(zip(names[some], sizes[some], modified[some], inodes[some], strict=True))
            stamps = {row[0]: stamp(row) for row in rows}
            known = min(sizes[some], default=0) >= 0 or _only_others(stamps)
            directory = OpenDir(descriptor, self.parent.file(name), seen)
            yield Glance(directory, stamps) if known else None
            begin = end

    def close(self) -> None:
        """Give the descriptors back."""
        for descriptor in self.cells[:, _DESCRIPTOR].tolist():
            if descriptor >= 0:
                os.close(descriptor)


def _look(room: _Room, parent: OpenDir, directories: Sequence[str]) -> _Look:
    """Effects: opens the directories and reads."""
    wanted = np.frombuffer(os.fsencode("\0".join([*directories, ""])), np.uint8)
    cells: NDArray[np.int64] = np.empty((len(directories), _CELLS), np.int64)
    found = room.names, room.contents, room.rows
    _look_at_all(room.functions, parent.fd, wanted, room.answers, found, cells)
    return _Look(room, parent, directories, cells)


def _only_others(stamps: dict[str, FileStamp]) -> bool:
    """Take out what is no regular file; False if one has the name of a log's file."""
    others = [name for name, found in stamps.items() if found.bytes < 0]
    for name in others:
        del stamps[name]
    return not any(is_of_a_log(name) for name in others)


def _find_functions() -> NDArray[np.int64] | None:
    """Their addresses; None where one is missing."""
    if not sys.platform.startswith("linux"):
        return None
    library = ctypes.CDLL(None)
    try:
        found = [getattr(library, name) for name in _FUNCTIONS]
    except AttributeError:
        return None
    return np.array([ctypes.cast(each, ctypes.c_void_p).value for each in found], np.int64)


@kernel
def _look_at_all(
    functions: Any, parent: int, wanted: Any, answers: Any, found: Any, cells: Any
) -> None:
    """Look at each directory; what is found of it follows what was found of those before.

    Args:
        functions: int64[5], their addresses.
        parent: descriptor of the directory that holds them.
        wanted: uint8, names of the directories with a 0 behind each.
        answers: room for the system's: uint8[_ENTRIES_BYTES], uint8[_STATUS_BYTES].
        found: of each file its name with a `/` behind it, uint8[_NAMES_BYTES]; what was read of it,
            uint8[MOST_FILES * MOST_BYTES]; its rows, int64[_ROWS, MOST_FILES].
        cells: int64[directories, _CELLS]: a descriptor, -1 if nothing is said of it; the ends of
            its files and of their names.
    """
    at = np.int64(0)
    files = np.int64(0)
    length = np.int64(0)
    for number in range(len(cells)):
        name = address(wanted, at)
        directory = call(functions[_OPENAT], (parent, name, np.int64(DIRECTORY_FLAGS))) & _INT
        cells[number, _DESCRIPTOR] = -1
        if directory & _NEGATIVE == 0:
            now = _list_files(functions, directory, answers, found, (files, length))
            if now[0] < 0:
                call(functions[_CLOSE], (directory,))
            else:
                cells[number, _DESCRIPTOR] = directory
                files, length = now
        cells[number, _FILES_END] = files
        cells[number, _NAMES_END] = length
        while wanted[at]:
            at += 1
        at += 1


@kernel
def _list_files(functions: Any, directory: int, answers: Any, found: Any, before: Any) -> Any:
    """Append a directory's files to those that were found; how many there are then, and the bytes
    of their names; (-1, 0) if not all can be told.
    """
    entries, status = answers
    names, contents, rows = found
    files, length = before
    while True:
        size = call(functions[_GETDENTS], (directory, address(entries, 0), len(entries)))
        if size == 0:
            return files, length
        position = np.int64(0)
        while position < size:
            name = position + _ENTRY_NAME
            position += np.int64(entries[position + _ENTRY_LENGTH]) | (
                np.int64(entries[position + _ENTRY_LENGTH + 1]) << 8
            )
            end = name
            while entries[end]:
                end += 1
            if entries[name] == _DOT and (
                end == name + 1 or (end == name + 2 and entries[name + 1] == _DOT)
            ):
                continue
            if files == MOST_FILES or length + end - name >= _NAMES_BYTES:
                return np.int64(-1), np.int64(0)
            path = address(entries, name)
            arguments = (directory, path, _NO_FOLLOW, _WANTED, address(status, 0))
            if call(functions[_STATX], arguments) & _INT:
                return np.int64(-1), np.int64(0)
            mode = np.int64(status[_MODE]) | np.int64(status[_MODE + 1]) << 8
            is_regular = mode & _KIND == _REGULAR
            file_bytes = np.int64(load_u64(status, _SIZE)) if is_regular else np.int64(-1)
            seconds = np.int64(load_u64(status, _MODIFIED_S))
            nanoseconds = np.int64(load_u64(status, _MODIFIED_NS)) & _INT
            rows[_BYTES, files] = file_bytes
            rows[_MODIFIED, files] = seconds * 1_000_000_000 + nanoseconds
            rows[_INODE_NUMBER, files] = np.int64(load_u64(status, _INODE))
            part = _part_to_read(end - name, entries[end - 1], file_bytes)
            target = address(contents, files * MOST_BYTES)
            rows[_READ, files] = _read(functions, directory, path, part, target)
            while name < end:
                names[length] = entries[name]
                length += 1
                name += 1
            names[length] = ord("/")
            length += 1
            files += 1
        if size < 0:
            return np.int64(-1), np.int64(0)


@kernel
def _part_to_read(name_bytes: Any, last: Any, file_bytes: Any) -> Any:
    """(position, bytes) of what a plan reads of a file, 0 bytes of most; judged by its name's
    length and last letter: what is read in vain does no harm.
    """
    if file_bytes > 0:
        if name_bytes == 24 and last == ord("g"):
            return np.int64(0), np.int64(min(file_bytes, HEADER_BYTES))
        if name_bytes == 30 and last == ord("x"):
            size = min(file_bytes, 2 * TIME_ENTRY_BYTES)
            return np.int64(file_bytes - size), np.int64(size)
        if name_bytes == 29 and last == ord("t") and file_bytes <= MOST_BYTES:
            return np.int64(0), np.int64(file_bytes)
    return np.int64(0), np.int64(0)


@kernel
def _read(functions: Any, directory: int, path: int, part: Any, target: int) -> Any:
    """Bytes that were read of a file; 0 if that are not all."""
    position, size = part
    if size == 0:
        return np.int64(0)
    file = call(functions[_OPENAT], (directory, path, np.int64(FILE_FLAGS))) & _INT
    if file & _NEGATIVE:
        return np.int64(0)
    read = call(functions[_PREAD], (file, target, size, position))
    call(functions[_CLOSE], (file,))
    return size if read == size else np.int64(0)
