"""Start writing a file to the disk without waiting for it (sync_file_range(2), Linux)."""

from __future__ import annotations

import ctypes
from typing import Final

_SYNC_FILE_RANGE: Final = getattr(ctypes.CDLL(None), "sync_file_range", None)
_WRITE: Final = 2
"""SYNC_FILE_RANGE_WRITE of <fcntl.h>."""
_ALL: Final = 0

if _SYNC_FILE_RANGE is not None:
    _SYNC_FILE_RANGE.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)


def begin_writing(descriptor: int) -> None:
    """Let the system start to write an open file's content to the disk. Nothing is durable by that,
    and nothing depends on it: a later fsync waits less, and reports any error.
    """
    if _SYNC_FILE_RANGE is not None:
        _SYNC_FILE_RANGE(descriptor, _ALL, _ALL, _WRITE)
