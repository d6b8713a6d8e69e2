"""Directories of this machine in which working copies are, and are removed again.

Each has a lock file next to it, held while it is used. What a killed process left has a lock that
nobody holds, and is removed by the next one that uses the same scratch directory.
"""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from logwright import durable
from logwright.errors import DiskFull, unreadable
from logwright.locks import acquire, held
from logwright.place.files import open_log_dir
from logwright.place.local import LocalDir
from logwright.units import ByteCount

_NAME: Final = "logwright-copy-{}"
_OURS: Final = re.compile(r"logwright-copy-[0-9a-f]{16}")
_LOCK: Final = "{}.lock"


@contextmanager
def working_directory(scratch: Path, needed: ByteCount) -> Iterator[Path]:
    """Give a directory of its own, which is removed on leaving. Effects: makes the scratch
    directory, and removes what killed processes left there.

    Args:
        scratch: where.
        needed: bytes that must be free there.

    Raises:
        DiskFull: they are not.
        UnreadableFile: the scratch directory cannot be made or used.
        LogDirLocked: see `logwright.locks.acquire`.
    """
    try:
        durable.make_directory(scratch)
    except OSError as error:
        raise unreadable(error, scratch) from error
    with open_log_dir(scratch) as directory:
        _remove_left(directory, scratch)
        free = shutil.disk_usage(scratch).free
        if free < needed:
            raise DiskFull(
                f"the working copy needs {needed} bytes, and {free} are free.",
                path=scratch,
                remedy="Nothing was changed. Give another directory (--scratch DIR), or free some"
                " space.",
            )
        name = _NAME.format(secrets.token_hex(8))
        lock = _LOCK.format(name)
        file = acquire(directory, lock, "exclusive")
        while file is None:  # somebody looks whether it is left
            file = acquire(directory, lock, "exclusive")
        path = scratch / name
        with held(file, remove=(directory, lock)):
            try:
                path.mkdir(mode=0o700)
                yield path
            finally:
                shutil.rmtree(path, ignore_errors=True)


def _remove_left(directory: LocalDir, scratch: Path) -> None:
    """Remove what killed processes left. Effects: as said."""
    for name in directory.names():
        if _OURS.fullmatch(name):
            lock = _LOCK.format(name)
            file = acquire(directory, lock, "exclusive")
            if file is not None:
                with held(file, remove=(directory, lock)):
                    shutil.rmtree(scratch / name, ignore_errors=True)
