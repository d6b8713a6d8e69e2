"""Locks of an open file description (F_OFD_SETLK, Linux): what `logwright.locks` is made of."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from contextlib import suppress
from typing import Final, Literal

Kind = Literal["shared", "exclusive"]

_FLOCK: Final = struct.Struct("hhqqi0q")
"""struct flock: l_type, l_whence, l_start, l_len, l_pid; length 0 = to the end of any file."""


def try_lock(file: int, kind: Kind) -> bool:
    """Lock all of an open file; False if somebody excludes us. Effects: takes the lock.

    Raises:
        OSError: the file system cannot lock.
    """
    wanted = fcntl.F_RDLCK if kind == "shared" else fcntl.F_WRLCK
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, _FLOCK.pack(wanted, os.SEEK_SET, 0, 0, 0))
    except OSError as error:
        if error.errno in {errno.EAGAIN, errno.EACCES}:
            return False
        raise
    return True


def release(file: int) -> None:
    """Give a lock back: by name, not only by closing, since a forked child shares the open file."""
    fcntl.fcntl(file, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0))


def holder(directory: int, name: str) -> int | None:
    """Return the process that excludes a shared lock on a file, if the system reports it."""
    with suppress(OSError):
        file = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        try:
            request = _FLOCK.pack(fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
            answer = _FLOCK.unpack(fcntl.fcntl(file, fcntl.F_OFD_GETLK, request))
        finally:
            os.close(file)
        if answer[0] != fcntl.F_UNLCK and answer[4] > 0:
            return int(answer[4])
    return None
