"""Small files outside of log directories: keys and certificates."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from logwright.errors import PreconditionError, UnreadableFile
from logwright.log.files import not_regular, unreadable

_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
"""Of files that the operator names: they may be symlinks, as those of mounted secrets are."""
_DIRECTORY_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def read_small(path: Path, *, most: int) -> tuple[bytes, os.stat_result]:
    """Return the content of a regular file, and its status. Effects: reads it.

    Raises:
        UnreadableFile: it is not a regular file, cannot be read, or has more than `most` bytes.
    """
    try:
        fd = os.open(path, _FLAGS)
    except OSError as error:
        raise unreadable(error, path) from error
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise not_regular(path)
        try:
            content = file.read(most + 1)
        except OSError as error:
            raise unreadable(error, path) from error
    if len(content) > most:
        raise UnreadableFile(f"has more than {most:,} bytes.", path=path)
    return content, status


def write_new(path: Path, content: bytes, *, mode: int) -> None:
    """Write a file that must not exist, with this mode from the start. Effects: the file, synced;
    on failure there is none.

    Raises:
        PreconditionError: it exists, or cannot be written.
    """
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    except OSError as error:
        raise PreconditionError(f"cannot be made: {error.strerror}.", path=path) from error
    try:
        with os.fdopen(fd, "wb") as file:
            os.fchmod(fd, mode)
            file.write(content)
            file.flush()
            os.fsync(fd)
        _sync_directory(path.parent)
    except OSError as error:
        with suppress(OSError):
            path.unlink()
        raise PreconditionError(f"cannot be written: {error.strerror}.", path=path) from error


def replace(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old or the new one. Effects: the file, synced.

    Raises:
        PreconditionError: it cannot be written; the old one is as it was.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_directory(path.parent)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise PreconditionError(f"cannot be written: {error.strerror}.", path=path) from error


def _sync_directory(path: Path) -> None:
    fd = os.open(path, _DIRECTORY_FLAGS)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
