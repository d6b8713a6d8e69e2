"""Whether a broker has a log directory open. Its lock file is asked, not locked."""

from __future__ import annotations

import fcntl
import os
import struct
from typing import TYPE_CHECKING, Final

from logwright.errors import unreadable_file
from logwright.format.names import BROKER_LOCK
from logwright.place.files import open_log_dir

if TYPE_CHECKING:
    from pathlib import Path

FLOCK: Final = struct.Struct("hhqqi0q")
"""struct flock: l_type, l_whence, l_start, l_len, l_pid; length 0 = to the end of any file."""


def broker_process(log_dir: Path) -> int | None:
    """Return the process of the broker that has a log directory open, 0 if the system does not name
    it; None if there is none. Effects: opens its lock file for reading.

    Raises:
        NotALogDir: there is no such directory.
        UnreadableFile: the lock file may not be read.
    """
    with open_log_dir(log_dir) as directory:
        try:
            return lock_holder(directory.fd, BROKER_LOCK)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise unreadable_file(error, log_dir / BROKER_LOCK) from error


def lock_holder(directory: int, name: str, kind: int = fcntl.F_RDLCK) -> int | None:
    """Return the process that excludes a lock on a file of an open directory, 0 if the system does
    not name it; None if there is none. Effects: opens the file for reading.

    Args:
        kind: of the lock: F_RDLCK, a shared one, or F_WRLCK.

    Raises:
        OSError: it cannot be opened, or the file system knows no locks.
    """
    file = os.open(
        name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory
    )
    try:
        request = FLOCK.pack(kind, os.SEEK_SET, 0, 0, 0)
        answer = FLOCK.unpack(fcntl.fcntl(file, fcntl.F_OFD_GETLK, request))
    finally:
        os.close(file)
    if answer[0] == fcntl.F_UNLCK:
        return None
    return max(int(answer[4]), 0)
