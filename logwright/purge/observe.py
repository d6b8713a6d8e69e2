"""Observe what a purge needs: a partition's plain files, its ledger, its staging directories."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from logwright.errors import NotALogDir, UnreadableFile
from logwright.format.deletions import LEDGER
from logwright.format.names import FAILED, STAGING, WORK_DIRECTORY
from logwright.live_plans import plan_is_alive
from logwright.log.inventory import file_place
from logwright.log.kinds import file_kinds
from logwright.log.listing import read_listing
from logwright.log.missing import reached_by
from logwright.log.tree import list_tree
from logwright.place.files import names_in, open_log_dir
from logwright.steps.failed_output import FailedOutput, parse_failed_output
from logwright.units import ByteCount

LARGEST_LEDGER_BYTES: Final = 1 << 28
"""Some two million records; a larger file is not a ledger."""

_NS_PER_MS: Final = 1_000_000


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
        held: its plan is alive. bytes: of its files.
    """

    path: Path
    files: tuple[Path, ...]
    directories: tuple[Path, ...]
    held: bool
    bytes: ByteCount


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptOutput:
    """An output that failed its checks and is kept for inspection.

    Attributes:
        output: what its name says.
        directory: its files; `held` is false.
    """

    output: FailedOutput
    directory: StagingDirectory

    @property
    def bytes(self) -> ByteCount:
        """The size of its files."""
        return self.directory.bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionListing:
    """A partition directory as a purge sees it.

    Attributes:
        ledger: content of the ledger, None if there is none.
        has_staging: there is a directory of staging directories; a build that died may have left it
            empty.
        failed: the outputs that are kept for inspection.
        proofs: indexes without a log that name records.
    """

    directory: Path
    files: tuple[PlainFile, ...]
    ledger: bytes | None
    staging: tuple[StagingDirectory, ...]
    has_staging: bool
    failed: tuple[KeptOutput, ...] = ()
    proofs: frozenset[str] = frozenset()


def list_partition(directory: Path) -> PartitionListing:
    """Read what a purge needs to know. Effects: reads only.

    Raises:
        NotALogDir: there is no such partition directory.
        UnreadableFile: what has the name of a log's file is not a regular file. An index next to a
            ``.log`` that is a link would otherwise count as one without a log, and be removed.
    """
    with (
        open_log_dir(directory.parent) as parent,
        parent.open_dir(directory.name) as opened,
    ):
        listing = read_listing(opened, _plain_file)
    for name in listing.others:
        if file_place("log", name).name == "deleted":
            raise _unexpected(directory / name)
    work = directory / WORK_DIRECTORY
    return PartitionListing(
        directory=directory,
        files=tuple(listing.files.values()),
        ledger=_read_ledger(work / LEDGER),
        staging=_staging_directories(directory.parent, work / STAGING),
        has_staging=(work / STAGING).is_dir(),
        failed=_kept_outputs(directory.parent, work / FAILED),
        proofs=frozenset(
            name
            for name in file_kinds(listing.files).orphans
            if listing.files[name].bytes and reached_by(name, directory / name) is not None
        ),
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
            raise _unexpected(path)
        return opened.read()


def _staging_directories(log_dir: Path, parent: Path) -> tuple[StagingDirectory, ...]:
    """Return the staging directories. One may vanish in between: each is removed with its plan."""
    directories = []
    for path in (parent / name for name in names_in(parent)):
        if path.is_symlink() or not path.is_dir():
            if not os.path.lexists(path):
                continue
            raise _unexpected(path)
        with suppress(NotALogDir):
            directories.append(_staging_directory(log_dir, path))
    return tuple(directories)


def _kept_outputs(log_dir: Path, parent: Path) -> tuple[KeptOutput, ...]:
    """Return the kept outputs. One may vanish in between: a cleaning removes it."""
    outputs = []
    for directory in _staging_directories(log_dir, parent):
        output = parse_failed_output(directory.path.name)
        if output is None:
            raise _unexpected(directory.path)
        outputs.append(KeptOutput(output=output, directory=directory))
    return tuple(outputs)


def _staging_directory(log_dir: Path, path: Path) -> StagingDirectory:
    tree = list_tree(path)
    for other in tree.others:
        if (path / other).is_symlink():
            raise _unexpected(path / other)
    return StagingDirectory(
        path=path,
        files=tuple(path / name for name in sorted((*tree.files, *tree.others))),
        directories=tuple(path / name for name in tree.directories),
        held=plan_is_alive(log_dir, path.name),
        bytes=tree.total_bytes,
    )


def _unexpected(path: Path) -> UnreadableFile:
    return UnreadableFile(
        "expected a regular file, or a directory of logwright.",
        path=path,
        remedy="Check and remove it; nothing was changed.",
    )
