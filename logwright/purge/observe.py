"""What a purge looks at: the plain files of a partition, its ledger, its staging directories."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from logwright.errors import NotALogDir, UnreadableFile
from logwright.format.deletions import LEDGER
from logwright.format.names import (
    CLEANED,
    DELETED,
    SEGMENT_SUFFIXES,
    SNAPSHOT,
    SWAP,
    WORK_DIRECTORY,
)
from logwright.live_plans import plan_is_alive
from logwright.units import ByteCount

STAGING: Final = "staging"
"""Directory of the plans' staging directories, in the work directory."""

LARGEST_LEDGER_BYTES: Final = 1 << 28
"""Some two million records; a larger file is no ledger of ours."""

_NS_PER_MS: Final = 1_000_000
_LOG_FILE_SUFFIXES: Final = (*SEGMENT_SUFFIXES, SNAPSHOT, CLEANED, SWAP, DELETED)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainFile:
    """One file of the partition's directory.

    Attributes:
        links: how many names it has.
        touched_ms: the later of its change and modification time, ms since the epoch.
    """

    name: str
    bytes: ByteCount
    links: int
    touched_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingDirectory:
    """One plan's staging directory.

    Attributes:
        files: all files below it.
        directories: all directories below it, each before those inside it.
        held: its plan is alive.
    """

    path: Path
    files: tuple[Path, ...]
    directories: tuple[Path, ...]
    held: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionListing:
    """A partition's directory as a purge sees it.

    Attributes:
        ledger: content of the ledger, None if there is none.
        has_staging: there is a directory of staging directories; a build that died may have left it
            empty.
    """

    directory: Path
    files: tuple[PlainFile, ...]
    ledger: bytes | None
    staging: tuple[StagingDirectory, ...]
    has_staging: bool


def list_partition(directory: Path) -> PartitionListing:
    """Read what a purge needs to know. Effects: reads only.

    Raises:
        NotALogDir: there is no such partition directory.
        UnreadableFile: what has the name of a log's file is no regular file. An index beside a
            ``.log`` that is a link would else be taken for one without a log, and removed.
    """
    if not directory.is_dir() or directory.is_symlink():
        raise NotALogDir(
            "it is no partition directory.", path=directory, remedy="Name a partition of this log."
        )
    files = []
    with os.scandir(directory) as entries:
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                files.append(_plain_file(entry.name, status))
            elif entry.name.endswith(_LOG_FILE_SUFFIXES):
                raise _not_regular(directory / entry.name)
    work = directory / WORK_DIRECTORY
    log_dir = directory.parent
    return PartitionListing(
        directory=directory,
        files=tuple(sorted(files, key=lambda file: file.name)),
        ledger=_read_ledger(work / LEDGER),
        staging=_staging_directories(log_dir, work / STAGING),
        has_staging=(work / STAGING).is_dir(),
    )


def _plain_file(name: str, status: os.stat_result) -> PlainFile:
    return PlainFile(
        name=name,
        bytes=ByteCount(status.st_size),
        links=status.st_nlink,
        touched_ms=max(status.st_ctime_ns, status.st_mtime_ns) // _NS_PER_MS,
    )


def _read_ledger(path: Path) -> bytes | None:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableFile(
            f"it cannot be opened: {error.strerror}.", path=path, remedy="Remove it."
        ) from error
    with os.fdopen(file, "rb") as opened:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_LEDGER_BYTES:
            raise _not_regular(path)
        return opened.read()


def _staging_directories(log_dir: Path, parent: Path) -> tuple[StagingDirectory, ...]:
    """Those that are there when they are looked at: each goes with the end of its plan."""
    try:
        paths = sorted(parent.iterdir())
    except FileNotFoundError:
        return ()
    found = []
    for path in paths:
        if path.is_symlink() or not path.is_dir():
            if not os.path.lexists(path):
                continue
            raise _not_regular(path)
        found.append(_staging_directory(log_dir, path))
    return tuple(found)


def _staging_directory(log_dir: Path, path: Path) -> StagingDirectory:
    files: list[Path] = []
    directories: list[Path] = []
    for parent, below, names in os.walk(path, followlinks=False):
        directories += [Path(parent) / name for name in below]
        files += [Path(parent) / name for name in names]
    for one in (*files, *directories):
        if one.is_symlink():
            raise _not_regular(one)
    return StagingDirectory(
        path=path,
        files=tuple(sorted(files)),
        directories=tuple(directories),
        held=plan_is_alive(log_dir, path.name),
    )


def _not_regular(path: Path) -> UnreadableFile:
    return UnreadableFile(
        "it is not what a log directory holds under this name.",
        path=path,
        remedy="Look at it and remove it; nothing was changed.",
    )
