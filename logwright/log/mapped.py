"""Files as arrays of bytes, mapped into memory without following symbolic links."""

from __future__ import annotations

import mmap
import os
import stat
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from logwright.errors import StalePlan, UnreadableFile

_NOTHING = np.zeros(0, dtype=np.uint8)


def map_file(path: Path, *, expected_bytes: int | None = None) -> NDArray[np.uint8]:
    """uint8[n] over a regular file, without following a symbolic link. Effects: maps it.

    Raises:
        UnreadableFile: it cannot be opened, or is no regular file.
        StalePlan: it has not the expected size any more.
    """
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
        if status.st_size == 0:
            return _NOTHING
        mapped = mmap.mmap(descriptor, status.st_size, access=mmap.ACCESS_READ)
        return np.frombuffer(mapped, dtype=np.uint8)
    finally:
        os.close(descriptor)
