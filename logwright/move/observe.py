"""Observe what a move needs: the files of both sides, their bytes, and the log directories."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from logwright.errors import NotALogDir, PreconditionError, not_regular
from logwright.format.names import (
    BROKER_LOCK,
    CLEAN_SHUTDOWN_MARKER,
    DELETED,
    ERASURE_MARK,
    FUTURE_DIRECTORY,
    INGEST_BATCHES,
    INGEST_JOURNAL,
    WORK_DIRECTORY,
)
from logwright.log.checkpoints import CHECKPOINT_FILES
from logwright.log.listing import read_listing, segment_stems, stamp_files, stamp_of
from logwright.log.load import META_PROPERTIES, list_partitions
from logwright.move.plan import Places
from logwright.place.files import names_in, open_log_dir
from logwright.place.local import LocalDir
from logwright.place.model import FileStamp

_OWN_FILES: Final = ".logwright-"
"""Prefix of logwright's files in a log directory's root."""

CHUNK_BYTES: Final = 8 * 1024 * 1024
IDENTITY: Final = (b"cluster.id", b"node.id", b"broker.id")
"""Properties that all log directories of a broker share (meta.properties)."""

CARRIED: Final = (INGEST_BATCHES, INGEST_JOURNAL, ERASURE_MARK)
"""Prefixes of the names of those files of the work directory that are copied."""

Files = dict[str, FileStamp]
Stage = Literal["copying", "hidden", "placed", "done"]
"""C or D, W1, W2 and F of `logwright.move.steps`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """Free and needed space on the destination's file system, in bytes."""

    free: int
    needed: int


def stage_of(places: Places) -> Stage:
    """Return how far a move has come. Effects: checks names.

    Raises:
        PreconditionError: no move leaves the directories like this.
        NotALogDir: the partition is in neither log directory.
    """
    live, moved = places.live.is_dir(), places.moved.is_dir()
    copied, placed = places.copy.is_dir(), places.placed.is_dir()
    if live and not moved:
        return "copying"  # a destination that has it too is refused before anything is copied
    if moved and not live and copied != placed:
        return "hidden" if copied else "placed"
    if placed and not moved and not live:
        return "done"
    if not (live or moved or placed):
        raise NotALogDir(
            "there is no such partition directory.",
            path=places.live,
            remedy="Name a partition that is in this log directory.",
        )
    raise PreconditionError(
        f"{places.partition} exists twice, or the copy of an open move is missing.",
        path=places.moved,
        remedy="Nothing was changed. Check both, and keep one under its plain name.",
    )


def check_directories(source: Path, destination: Path) -> None:
    """Refuse a destination that does not fit. Effects: reads names and both meta.properties.

    Raises:
        NotALogDir: one of them is not a log directory.
        PreconditionError: they are one directory, one is in the other, or they belong to different
            brokers.
    """
    list_partitions(source)
    if not _is_new(destination):
        list_partitions(destination)
    real = (source.resolve(), destination.resolve())
    if real[0] == real[1] or source.samefile(destination):
        raise _refused("the destination is the source.", destination, "Name another one.")
    if real[0].is_relative_to(real[1]) or real[1].is_relative_to(real[0]):
        raise _refused("one log directory is inside the other.", destination, "Name another one.")
    ours, theirs = _identity(source), _identity(destination)
    if any(theirs.get(name, value) != value for name, value in ours.items()):
        raise _refused(
            "it belongs to another broker or cluster than the source.",
            destination,
            "Name another entry of the same broker's log.dirs.",
        )


def _is_new(log_dir: Path) -> bool:
    """Return whether a directory has nothing but what moves to it have begun, as an entry that was
    just added to log.dirs and is not formatted yet. Effects: lists it.
    """
    begun = {BROKER_LOCK, *(f"{name}.tmp" for name in CHECKPOINT_FILES)}
    return log_dir.is_dir() and all(
        name in begun or name.startswith(_OWN_FILES) or name.endswith(FUTURE_DIRECTORY)
        for name in names_in(log_dir)
    )


def check_destination(places: Places) -> None:
    """Refuse a destination that has the partition already. Effects: lists it.

    Raises:
        PreconditionError: it has, or a future log of it that is not this move's.
    """
    if os.path.lexists(places.placed):
        raise _refused(
            "the destination already has this partition.",
            places.placed,
            "Two current copies keep a broker from starting. Check both and remove one.",
        )
    begins = f"{places.partition}."
    for name in names_in(places.destination):
        others = name.startswith(begins) and name.endswith(FUTURE_DIRECTORY)
        if others and name != places.future.name:
            raise _refused(
                "another move of this partition is unfinished here.",
                places.destination / name,
                "Let the broker finish its own move, or remove the directory.",
            )


def check_source(places: Places) -> None:
    """Refuse a log that a broker would have to repair first: in the destination it might not do so.

    Effects: lists it.

    Raises:
        UncleanLogDir: no clean stop, or leftovers.
        UnreadableFile: something in it is not what a partition holds.
    """
    with open_below(places.source, places.live.name) as directory:
        marker = places.source / CLEAN_SHUTDOWN_MARKER
        stamps = stamp_files(directory)
        segment_stems(stamps, directory.name, clean_shutdown=os.path.lexists(marker))


def list_files(root: Path, *names: str) -> Files:
    """Return the files to copy, by name: all but ``.deleted`` ones, which stay in the source, and
    from logwright's work directory the records of ingests, without which a repeated input would be
    appended again, and the mark of an erasure, without which a table would keep what was erased.
    Effects: lists the directories.

    Raises:
        UnreadableFile: there is something other than files.
    """
    with open_below(root, *names) as directory:
        listing = read_listing(directory, stamp_of)
    for name in listing.others:
        if name != WORK_DIRECTORY and not name.endswith(DELETED):
            raise not_regular(Path(directory.name, name))
    files = {name: one for name, one in listing.files.items() if not name.endswith(DELETED)}
    if WORK_DIRECTORY in {*listing.files, *listing.others}:
        with open_below(root, *names, WORK_DIRECTORY) as work:
            inside = read_listing(work, stamp_of)
        for name in (one for one in (*inside.files, *inside.others) if one.startswith(CARRIED)):
            if name not in inside.files:
                raise not_regular(Path(work.name, name))
            path = f"{WORK_DIRECTORY}/{name}"
            files[path] = inside.files[name]._replace(name=path)
    return {name: files[name] for name in sorted(files)}


def room(places: Places, files: tuple[FileStamp, ...]) -> Room:
    """Return the free and the needed space. Effects: asks the file system."""
    status = os.statvfs(places.destination)
    return Room(free=status.f_bavail * status.f_frsize, needed=sum(one.bytes for one in files))


def differing(
    places: Places, files: Mapping[str, FileStamp], read: Callable[[int], None]
) -> frozenset[str]:
    """Return the names of the files whose copy has other bytes. Effects: reads both, the copy from
    the disk and not from the page cache where possible.

    Args:
        places: of the move.
        files: the source's.
        read: called with the bytes that were read of each side.
    """
    wrong = set()
    with (
        open_below(places.source, places.live.name) as source,
        open_below(places.destination, *places.copy.relative_to(places.destination).parts) as copy,
    ):
        for name, stamp in files.items():
            if _digest(source, name) != _digest(copy, name, dropped=True):
                wrong.add(name)
            read(stamp.bytes)
    return frozenset(wrong)


@contextmanager
def open_below(root: Path, *names: str) -> Iterator[LocalDir]:
    """Open a directory below a log directory; no link on the way is followed.

    Raises:
        NotALogDir: there is no such log directory.
        UnreadableFile: it cannot be opened.
    """
    with ExitStack() as stack:
        current = stack.enter_context(open_log_dir(root))
        for name in names:
            current = stack.enter_context(current.open_dir(name))
        yield current


def _digest(directory: LocalDir, name: str, *, dropped: bool = False) -> bytes:
    digest = hashlib.blake2b(digest_size=32)
    with directory.open(name) as file:
        if dropped:
            os.posix_fadvise(file.fd, 0, 0, os.POSIX_FADV_DONTNEED)
        position = 0
        while chunk := file.span(position, CHUNK_BYTES):
            digest.update(chunk)
            position += len(chunk)
    return digest.digest()


def _identity(log_dir: Path) -> dict[bytes, bytes]:
    with open_log_dir(log_dir) as directory:
        try:
            status = os.stat(META_PROPERTIES, dir_fd=directory.fd, follow_symlinks=False)
        except FileNotFoundError:
            return {}
        if not stat.S_ISREG(status.st_mode):
            raise not_regular(directory.path / META_PROPERTIES)
        content = directory.read(META_PROPERTIES)
    pairs = (line.partition(b"=") for line in content.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs if name.strip() in IDENTITY}


def _refused(problem: str, path: Path, remedy: str) -> PreconditionError:
    return PreconditionError(problem, path=path, remedy=f"Nothing was changed. {remedy}")
