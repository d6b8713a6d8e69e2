"""The errors for what cannot be read."""

from __future__ import annotations

import errno
from typing import Final

from logwright.errors import NotALogDir, UnreadableFile

_NOT_REGULAR: Final = frozenset((errno.ELOOP, errno.ESPIPE, errno.ENXIO))
"""Errors of opening, or reading at a position of, a symlink, a FIFO or a socket."""


def not_regular(path: object) -> UnreadableFile:
    """Return the error for a symlink, FIFO, socket, device or directory in a file's place."""
    return UnreadableFile(
        "expected a regular file.",
        path=path,
        remedy="Symlinks are not followed. Put the file itself here.",
    )


def unreadable(error: OSError, path: object, position: int | None = None) -> UnreadableFile:
    """Return the error for a file or directory that the system cannot read."""
    name = errno.errorcode.get(error.errno or 0, "unknown error")
    what = f"{name}: {error.strerror}" if error.errno else str(error) or type(error).__name__
    remedy = "Check the device."
    if isinstance(error, PermissionError):
        remedy = "Give this user read permission, or run as the broker's user."
    elif isinstance(error, FileNotFoundError):
        remedy = "It vanished while it was read. Stop other programs that use this directory."
    return UnreadableFile(f"cannot be read ({what}).", path=path, position=position, remedy=remedy)


def unreadable_file(error: OSError, path: object) -> UnreadableFile:
    """Return the error for a file that cannot be opened, or is none."""
    if isinstance(error, IsADirectoryError) or error.errno in _NOT_REGULAR:
        return not_regular(path)
    return unreadable(error, path)


def no_directory(path: object) -> NotALogDir:
    """Return the error for a partition directory that is missing."""
    return NotALogDir(
        "there is no such partition directory.",
        path=path,
        remedy="Name a partition that is in this log directory.",
    )


def link_or_file(path: object) -> UnreadableFile:
    """Return the error for something else in a partition directory's place."""
    return UnreadableFile(
        "the partition directory is a symlink, or no directory.",
        path=path,
        remedy="Symlinks are not followed; move the directory itself here.",
    )
