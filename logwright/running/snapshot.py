"""One state of a partition's directory, held by descriptors.

It is accepted if nothing was renamed, made or removed between two listings: same names and inodes,
the directory's own times the same, and old enough that a later change would have another time (the
kernel's clock ticks each 4 ms). Held inodes are not used again, so equal ones are the same files. A
``.swap`` stands for a moment in which segments have no name (LocalLog.replaceSegments, Kafka
4.4.0): the directory is looked at again.
"""

from __future__ import annotations

import errno
import os
import resource
import time
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from logwright.errors import Unsettled, unreadable_file
from logwright.format.names import DELETED, LOG, SWAP, parse_segment_file_name
from logwright.place.local import entry_of, is_named
from logwright.running.bytes import HeldFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from logwright.place.local import LocalDir
    from logwright.place.model import Entry

QUIET_NS: Final = 20_000_000
"""A directory that changed less than this before it is listed is listed again."""
_TOO_MANY: Final = frozenset({errno.EMFILE, errno.ENFILE})


@dataclass(frozen=True, kw_only=True, eq=False)
class Snapshot:
    """A partition's directory at one moment. Its descriptors are given back when nobody uses them.

    Attributes:
        directory: open; its files may have other names by now, or none.
        entry: of the directory itself.
        files: the regular files that were wanted, by name.
        others: all other entries, by name.
        deleted_ns: by base offset of a segment that is about to be deleted: when its file got
            that name, ns since the epoch.
        taken_ns: when, ns since the epoch.
    """

    directory: LocalDir
    entry: Entry
    files: dict[str, HeldFile]
    others: dict[str, Entry]
    deleted_ns: dict[int, int]
    taken_ns: int

    _close: Callable[[], object] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_close", weakref.finalize(self, self.directory.close))

    def close(self) -> None:
        """Give the descriptors back now: the error that ends its use refers to it, and may live for
        long.
        """
        self._close()
        for file in self.files.values():
            file.close()


def try_snapshot(
    parent: LocalDir, name: str, wanted: Callable[[str], bool], *, swaps: bool = False
) -> Snapshot | str:
    """Return one state of a directory, or in words what changed meanwhile. Effects: opens its
    files.

    Args:
        parent: the log directory.
        name: of the partition's directory.
        wanted: which files are opened.
        swaps: a ``.swap`` is a file as others are.

    Raises:
        NotALogDir: there is no such directory (any more).
        UnreadableFile: it, or a file, may not be read.
        Unsettled: there are more files than this process may open.
    """
    directory = parent.open_dir(name)
    try:
        taken = _attempt(parent, directory, name, wanted, swaps=swaps)
    except BaseException:
        directory.close()
        raise
    if isinstance(taken, str):
        directory.close()
    return taken


def _attempt(
    parent: LocalDir, directory: LocalDir, name: str, wanted: Callable[[str], bool], *, swaps: bool
) -> Snapshot | str:
    status = os.fstat(directory.fd)
    taken_ns = time.time_ns()
    if taken_ns - max(status.st_mtime_ns, status.st_ctime_ns) < QUIET_NS:
        return "the directory has just changed"
    listed = {entry.stamp.name: entry for entry in directory.entries()}
    if not swaps and any(SWAP in each for each in listed):
        return "segments are being replaced"
    try:
        files = {
            each: HeldFile(each, directory.fd, directory.file(each))
            for each, entry in listed.items()
            if entry.kind == "file" and wanted(each)
        }
    except FileNotFoundError:
        return "a file has gone"
    except OSError as error:
        if error.errno in _TOO_MANY:
            raise _too_many(directory) from error
        raise unreadable_file(error, directory.name) from error
    held = {each: file.status.st_ino for each, file in files.items()}
    inodes = {each: entry.stamp.inode for each, entry in listed.items()}
    again = {entry.stamp.name: entry.stamp.inode for entry in directory.entries()}
    if again != inodes or held.items() - inodes.items() or not _is_same(directory, status):
        return "files have come or gone"
    if not is_named(directory.fd, parent, name):
        return "the directory was renamed"
    return Snapshot(
        directory=directory,
        entry=entry_of(name, status),
        files=files,
        others={each: entry for each, entry in listed.items() if entry.kind != "file"},
        deleted_ns={
            base: entry.changed_ns
            for each, entry in listed.items()
            if (base := _deleted_base(each)) is not None
        },
        taken_ns=taken_ns,
    )


def _deleted_base(name: str) -> int | None:
    """Return the base offset of a segment by the name of its ``.log.deleted``; None for others."""
    parsed = parse_segment_file_name(name.removesuffix(DELETED)) if LOG + DELETED in name else None
    return None if parsed is None else parsed[0]


def _is_same(directory: LocalDir, before: os.stat_result) -> bool:
    """Return whether nothing was made, renamed or removed in a directory since. Effects: looks."""
    after = os.fstat(directory.fd)
    return (after.st_mtime_ns, after.st_ctime_ns) == (before.st_mtime_ns, before.st_ctime_ns)


def allow_descriptors() -> int:
    """Let this process have as many open files as it may. Effects: raises its soft limit. Returns
    the limit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def _too_many(directory: LocalDir) -> Unsettled:
    return Unsettled(
        "the log has more files than this process may hold open.",
        path=directory.path,
        remedy="Raise the limit of open files (`ulimit -n`).",
    )
