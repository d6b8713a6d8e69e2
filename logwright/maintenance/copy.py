"""A working copy: one version of a partition's log in a bucket as a log directory of this machine.

It has what a broker that was stopped has: the files of the log with their modification times, the
checkpoints of the root, the topic's id and settings, the marker of a clean shutdown. So what works
on a log directory works on it, and decides the same.

Not every operation reads every segment: retention reads those that it deletes by time. The files of
the others are hollow: they have their sizes, times and ends, and nothing between these. The active
segment and those after the newest producer snapshot are never hollow, since where the log ends and
its producers are read from there; nor is the one at the log start offset, where a transaction that
began in deleted records may be open.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import google_crc32c

from logwright.bucket.manifest import Manifest
from logwright.bucket.store import Bucket
from logwright.bucket.stored import StoredFile
from logwright.errors import CorruptLogError, StalePlan
from logwright.maintenance.scratch import no_room_or_unreadable
from logwright.place.bucket import Shown, ShownLog, files_of, root_of
from logwright.place.model import RANGE_BYTES
from logwright.units import ByteCount

_AT_ONCE: Final = 4
"""Files that are downloaded at once."""


class Seen(NamedTuple):
    """What a file has that was not written since: bytes, times in ns, inode."""

    bytes: int
    modified_ns: int
    changed_ns: int
    inode: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A working copy, as it was downloaded.

    Attributes:
        log_dir: where it is.
        manifest: the version that it is of.
        seen: name → each file of the partition that is an object.
        hollow: the names of files without their content.
    """

    log_dir: Path
    manifest: Manifest
    seen: Mapping[str, Seen]
    hollow: frozenset[str]


Needed: TypeAlias = Callable[[int], bool]
"""Whether an operation reads the segment of a base offset."""


def hollow_files(manifest: Manifest, needed: Needed | None) -> frozenset[str]:
    """Return the names of the files that a copy has without their content.

    Args:
        needed: None: every segment is.
    """
    state = manifest.state
    if needed is None:
        return frozenset()
    newest, start = max((each.offset for each in state.snapshots), default=-1), None
    for segment in state.segments:
        if segment.next_offset > state.log_start_offset and segment.log.bytes:
            start = segment.base_offset
            break
    return frozenset(
        name
        for segment in state.segments[:-1]
        if segment.next_offset <= newest
        and segment.base_offset != start
        and not needed(segment.base_offset)
        for name in segment.files()
    )


def bytes_of(manifest: Manifest, hollow: frozenset[str]) -> ByteCount:
    """Return how many bytes a copy has."""
    files = manifest.state.files
    return ByteCount(sum(file.bytes for name, (file, _) in files.items() if name not in hollow))


def download(
    manifest: Manifest, directory: Bucket, log_dir: Path, hollow: frozenset[str] = frozenset()
) -> Copy:
    """Make a working copy. Effects: reads the objects; writes into a directory.

    Args:
        manifest: the version.
        directory: the partition's directory in the bucket.
        log_dir: becomes the log directory; must not exist.
        hollow: as `hollow_files` gives them.

    Raises:
        StalePlan: an object is gone: the version is not the newest any more.
        CorruptLogError: an object has not the checksum that the manifest has.
        UnreadableFile: the bucket does not answer, or does not permit it.
        DiskFull: there is no room.
    """
    name = manifest.state.partition.directory_name
    partition = log_dir / name
    try:
        partition.mkdir(parents=True)
        for file, shown in root_of({name: ShownLog.of(manifest)}).items():
            if shown.entry.kind == "file":
                (log_dir / file).write_bytes(shown.content)
    except OSError as error:
        raise no_room_or_unreadable(error, log_dir, log_dir) from error
    files = files_of(manifest.state, directory)
    write = partial(_write, partition, hollow=hollow)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        try:
            list(pool.map(write, files.items()))
        finally:
            pool.shutdown(cancel_futures=True)
    stored = [file for file, shown in files.items() if shown.stored is not None]
    return Copy(
        log_dir=log_dir,
        manifest=manifest,
        seen={file: seen(partition / file) for file in stored},
        hollow=hollow,
    )


def seen(path: Path) -> Seen:
    """Return what a file has now. Effects: looks at it."""
    stat = path.stat()
    return Seen(stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)


def _write(partition: Path, named: tuple[str, Shown], *, hollow: frozenset[str]) -> None:
    """Write one file, with its time."""
    name, shown = named
    path = partition / name
    if shown.stored is not None:
        modified_ns = shown.entry.stamp.modified_ns
        write_stored(path, *shown.stored, modified_ns, hollow=name in hollow)
        return
    try:
        path.write_bytes(shown.content)
    except OSError as error:
        raise no_room_or_unreadable(error, path, path) from error


def write_stored(
    path: Path, directory: Bucket, stored: StoredFile, modified_ns: int, *, hollow: bool
) -> None:
    """Write one file that is an object, with its time. Effects: reads it, unless it is hollow.

    Raises:
        StalePlan, CorruptLogError, UnreadableFile, DiskFull: see `download`.
    """
    try:
        with path.open("xb") as file:
            if not hollow:
                for piece in pieces_of(directory, stored):
                    file.write(piece)
            else:
                file.write(stored.head)
                file.truncate(stored.bytes)
                file.seek(stored.bytes - len(stored.tail))
                file.write(stored.tail)
        os.utime(path, ns=(modified_ns, modified_ns))
    except OSError as error:
        source = f"{directory}/{stored.key}"
        raise no_room_or_unreadable(error, path, source) from error


def pieces_of(directory: Bucket, stored: StoredFile) -> Iterator[memoryview]:
    """Yield an object's bytes. Effects: reads it.

    Raises:
        StalePlan, CorruptLogError: see `download`. OSError: it cannot be read.
    """
    crc32c, path = 0, f"{directory}/{stored.key}"
    for start in range(0, stored.bytes, RANGE_BYTES):
        try:
            piece = directory.read(stored.key, start, min(start + RANGE_BYTES, stored.bytes))
        except FileNotFoundError as error:
            raise StalePlan(
                "the object is gone.",
                path=path,
                remedy="Another version has replaced it long ago, or somebody has removed it; run"
                " it again.",
            ) from error
        crc32c = google_crc32c.extend(crc32c, bytes(piece))
        yield piece
    if crc32c != stored.crc32c:
        raise CorruptLogError(
            "the object has not the checksum that its manifest has.",
            path=path,
            remedy="Restore the object, or read an earlier version of the log. Nothing was"
            " changed.",
        )
