"""Small files outside of log directories: keys and certificates."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from logwright.errors import PreconditionError, UnreadableFile, not_regular, unreadable

_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
"""Of files that the operator names: they may be symlinks, as those of mounted secrets are."""


def read_small(path: Path, *, most: int) -> tuple[bytes, os.stat_result]:
    """Return the content of a regular file, and its status. Effects: reads it.

    Raises:
        UnreadableFile: it is not a regular file, cannot be read, or has more than `most` bytes.
    """
    try:
        fd = os.open(path, _FLAGS)
    except FileNotFoundError as error:
        raise UnreadableFile("there is no such file.", path=path) from error
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


@contextmanager
def written(path: Path) -> Iterator[None]:
    """Refuse what cannot be written in the block.

    Raises:
        PreconditionError: instead of an OSError.
    """
    try:
        yield
    except OSError as error:
        raise PreconditionError(f"cannot be written: {error.strerror}.", path=path) from error
