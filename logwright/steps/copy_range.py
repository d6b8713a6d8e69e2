"""Copying bytes from one open file to another, in the kernel where that is possible."""

from __future__ import annotations

import errno
import os
from typing import Final

_NOT_HERE: Final = frozenset(
    (errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.ETXTBSY)
)
"""copy_file_range(2) is not for these two file systems; sendfile(2) is for all."""


def copy_bytes(source: int, target: int, position: int, length_bytes: int) -> None:
    """Copy `length_bytes` from `position` on, to the same place. Effects: moves the target's file
    position.

    Raises:
        OSError: as the calls do; ESTALE if the source ends before.
    """
    end = position + length_bytes
    while position < end:
        copied = _copy_some(source, target, position, end - position)
        if copied == 0:
            raise OSError(errno.ESTALE, "the file that is copied became shorter")
        position += copied


def _copy_some(source: int, target: int, position: int, most: int) -> int:
    try:
        copied = os.copy_file_range(source, target, most, position, position)
    except OSError as error:
        if error.errno not in _NOT_HERE:
            raise
        copied = 0
    if copied:  # some file systems return 0 though there is something to copy
        return copied
    os.lseek(target, position, os.SEEK_SET)
    return os.sendfile(target, source, position, most)
