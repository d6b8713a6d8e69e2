"""Files that somebody else writes: never mapped, and read without filling the page cache."""

from __future__ import annotations

import errno
import os
import stat
import weakref
from typing import TYPE_CHECKING, Final

from logwright.errors import not_regular
from logwright.place.local import FILE_FLAGS, entry_of
from logwright.place.model import Bytes, Entry
from logwright.units import ByteCount

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from logwright.batches.runtime import Throttle


_STEP_BYTES: Final = 128 * 1024
"""Bytes that count as cached or not by the first of them."""


class HeldFile:
    """An open file, closed by `close`, or when nobody uses it any more.

    Attributes:
        status: of the file when it was opened.
    """

    __slots__ = ("__weakref__", "close", "fd", "status")

    def __init__(self, name: str, dir_fd: int | None, path: str) -> None:
        """Open a regular file, of an open directory if there is one. Effects: a descriptor.

        Raises:
            OSError: it cannot be opened. UnreadableFile: it is not a regular file.
        """
        fd = os.open(name, FILE_FLAGS, dir_fd=dir_fd)
        self.close = weakref.finalize(self, os.close, fd)
        self.fd = fd
        self.status = os.fstat(fd)
        if not stat.S_ISREG(self.status.st_mode):
            raise not_regular(path)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)  # nothing is read ahead, see `read_into`


class RunningBytes(Bytes):
    """A file that a broker may write, cut or delete: its first bytes, as they were when it was
    opened. A map of it would end the process when the file becomes shorter (SIGBUS).
    """

    __slots__ = ("_held", "_throttle")

    def __init__(self, held: HeldFile, path: str, size: int, throttle: Throttle) -> None:
        """Show the first `size` bytes."""
        super().__init__(path, (size, held.status.st_mtime_ns, held.status.st_ino))
        self._held = held
        self._throttle = throttle

    def entry(self) -> Entry:
        """See `Bytes.entry`; it does not change."""
        return shown(self._held.status, "", self.seen[0])

    def read_into(self, data: NDArray[np.uint8], position: int) -> int:
        """See `Bytes.read_into`. What was not in the page cache is dropped from it again: the
        consumers of the broker need the rest. What the broker had there stays.
        """
        wanted = min(len(data), self.seen[0] - position)
        done = 0
        while done < wanted:
            step = data.data[done : min(wanted, done + _STEP_BYTES)]
            count = self._read_step(step, position + done)
            done += count
            if count < len(step):
                break
        return done

    def _read_step(self, into: memoryview, position: int) -> int:
        fd = self._held.fd
        is_cached = _is_cached(fd, position)
        warm = _read_cached(fd, into, position) if is_cached else 0
        if warm == len(into):
            return warm
        cold = os.preadv(fd, [into[warm:]], position + warm)
        if is_cached is None:  # not known: what is there may be the broker's
            self._throttle.observe(cold)
        elif cold:
            os.posix_fadvise(fd, position + warm, cold, os.POSIX_FADV_DONTNEED)
            self._throttle.observe(cold)
        return warm + cold


class MemoryBytes(Bytes):
    """A small file that was read at once."""

    __slots__ = ("_content", "_status")

    def __init__(self, content: bytes, path: str, status: os.stat_result) -> None:
        super().__init__(path, (len(content), status.st_mtime_ns, status.st_ino))
        self._content = content
        self._status = status

    def entry(self) -> Entry:
        """See `Bytes.entry`."""
        return shown(self._status, "", self.seen[0])

    def read_into(self, data: NDArray[np.uint8], position: int) -> int:
        """See `Bytes.read_into`."""
        part = self._content[position : position + len(data)]
        data.data[: len(part)] = part
        return len(part)


def shown(status: os.stat_result, name: str, size: int) -> Entry:
    """Return the entry of a file of which `size` bytes are shown."""
    entry = entry_of(name, status)
    return entry._replace(stamp=entry.stamp._replace(bytes=ByteCount(size)))


def _is_cached(fd: int, position: int) -> bool | None:
    """Return whether a byte is in the page cache; None if the file system cannot say it. The kernel
    begins to read what is asked for and not there: so this asks for one byte.
    """
    try:
        return os.preadv(fd, [bytearray(1)], position, os.RWF_NOWAIT) == 1
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in {errno.EOPNOTSUPP, errno.EINVAL}:
            return None
        raise


def _read_cached(fd: int, into: memoryview, position: int) -> int:
    """Read what is in the page cache from a position on; return how many bytes that were."""
    try:
        return os.preadv(fd, [into], position, os.RWF_NOWAIT)
    except BlockingIOError:
        return 0
