"""Directories of this machine in which working copies are, and are removed again.

Each has a lock file next to it, held while it is used. What a killed process left has a lock that
nobody holds, and is removed by the next one that uses the same scratch directory.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from logwright import durable
from logwright.errors import DiskFull, LogwrightError, PolicyError, unreadable
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
        scratch: where. Nobody but this user and root may be able to rename what is in it: what
            they put in the place of a working copy would be committed.
        needed: bytes that must be free there.

    Raises:
        DiskFull: they are not.
        PolicyError: others may rename what is there.
        UnreadableFile: the scratch directory cannot be made or used.
        LogDirLocked: see `logwright.locks.acquire`.
    """
    try:
        durable.make_directory(scratch)
    except OSError as error:
        raise unreadable(error, scratch) from error
    scratch = scratch.resolve()
    with open_log_dir(scratch) as directory:
        _require_own(directory, scratch)
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
                _make(path)
                yield path
            finally:
                shutil.rmtree(path, ignore_errors=True)


def own_temporary() -> Path:
    """Return where working copies are made if nothing else is said: of this user alone."""
    return Path(tempfile.gettempdir()) / f"logwright-{os.geteuid()}"


def _require_own(directory: LocalDir, scratch: Path) -> None:
    """Refuse a directory in which others may rename what is there. Effects: looks."""
    status = os.fstat(directory.fd)
    others_write = bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    if status.st_uid not in {os.geteuid(), 0} or (
        others_write and not status.st_mode & stat.S_ISVTX
    ):
        raise PolicyError(
            "others may change what is in the scratch directory.",
            path=scratch,
            remedy="Give a directory of your own (--scratch DIR).",
        )


def _make(path: Path) -> None:
    """Make the directory of a working copy, for this user alone. Effects: as said."""
    try:
        path.mkdir(mode=0o700)
    except OSError as error:
        raise no_room_or_unreadable(error, path, path) from error


def no_room_or_unreadable(error: OSError, path: Path, source: object) -> LogwrightError:
    """Return the error for a file of a working copy that could not be written.

    Args:
        source: what was read for it, for messages.
    """
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return DiskFull(
            "there is no room for the working copy.",
            path=path,
            remedy="Nothing was changed. Give another directory (--scratch DIR).",
        )
    return unreadable(error, source)


def _remove_left(directory: LocalDir, scratch: Path) -> None:
    """Remove what killed processes left. Effects: as said."""
    for name in directory.names():
        if _OURS.fullmatch(name):
            lock = _LOCK.format(name)
            file = acquire(directory, lock, "exclusive")
            if file is not None:
                with held(file, remove=(directory, lock)):
                    shutil.rmtree(scratch / name, ignore_errors=True)
