"""A table's directory: its lock, and what is in it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from logwright.bucket.store import is_in_bucket
from logwright.durable import make_directory
from logwright.errors import LogDirLocked
from logwright.locks import release, try_lock
from logwright.tables.files import TableFiles
from logwright.tables.model import UnknownTable

WORK: Final = ".logwright"
"""Directory of a table for what readers do not see. Engines leave out names with a dot."""

_LOCK: Final = "lock"


@contextmanager
def lock_table(directory: Path) -> Iterator[None]:
    """Be the only process that updates a table. Effects: makes the directory and the lock file,
    which stays.

    Raises:
        LogDirLocked: another process updates it.
        OSError: the file cannot be made.
    """
    work = directory / WORK
    make_directory(work)
    path = work / _LOCK
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        if not try_lock(file, "exclusive"):
            raise LogDirLocked(
                "another process updates this table.",
                path=path,
                remedy="Wait for it to end, then run it again.",
            )
        yield
        release(file)
    finally:
        os.close(file)


def refuse_others(files: TableFiles, known: re.Pattern[str]) -> None:
    """Refuse a place that has other files than a killed first update leaves. Effects: lists it.

    Args:
        files: where a table is to be made.
        known: names of its entries. Names with a dot in front do not count.

    Raises:
        UnknownTable: it has others.
    """
    names = [name for name in files.names() if not name.startswith(".")]
    others = [name for name in names if not known.fullmatch(name)]
    if others:
        raise UnknownTable(
            f"the directory {files} has {len(others)} entries, but no table of logwright."
            if is_in_bucket(files.location)
            else f"the directory has {len(others)} entries, but no table of logwright.",
            path=None if is_in_bucket(files.location) else Path(files.location),
            remedy="Give the path of a directory that does not exist, or is empty.",
        )
