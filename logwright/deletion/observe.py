"""Observe what a purge of deleted logs needs: their directories and the record of deletions."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from logwright.errors import NotALogDir
from logwright.format.deleted_logs import DeletedLog, parse_deletions
from logwright.format.names import TopicPartition, parse_deleted_directory_name
from logwright.log.inventory import file_place
from logwright.log.log_dir import MarkedDirectory, list_log_dir
from logwright.log.record_files import deleted_at_ms, foreign_entries, read_deletions
from logwright.log.tree import list_tree
from logwright.place.files import open_log_dir
from logwright.units import ByteCount, TimestampMs

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedDirectory:
    """A deleted log's directory.

    Attributes:
        partition: as on record; else from the name, where the topic may be truncated.
        record: None if logwright did not delete it.
        at_ms: when it was deleted; without a record the later of the directory's times.
        logs, others: files below it: the ``.log`` files (of any stage), and the others.
        directories: all below it, each before those inside it.
        foreign: relative names of entries that no log has. With any of these it is not purged.
        bytes: of all its files.
    """

    path: Path
    partition: TopicPartition
    record: DeletedLog | None
    at_ms: TimestampMs
    logs: tuple[Path, ...]
    others: tuple[Path, ...]
    directories: tuple[Path, ...]
    foreign: tuple[str, ...]
    bytes: ByteCount


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedListing:
    """A log directory as a purge of deleted logs sees it.

    Attributes:
        record: content of the record of deletions, None if there is none.
        deletions: its entries, by directory name.
        directories: the deleted logs' directories, by name.
        live: partitions that have a directory.
    """

    log_dir: Path
    record: bytes | None
    deletions: Mapping[str, DeletedLog]
    directories: Mapping[str, DeletedDirectory]
    live: frozenset[TopicPartition]


def list_deleted(log_dir: Path, *, only: str | None = None) -> DeletedListing:
    """Read the deleted logs and their records. Effects: lists the log directory and the deleted
    logs' directories.

    Args:
        log_dir: the log directory.
        only: name of the only deleted directory to read; None: all.

    Raises:
        NotALogDir, UnreadableFile: the log directory, or the record, cannot be read.
    """
    with open_log_dir(log_dir) as root:
        listing = list_log_dir(root)
        record = read_deletions(root)
    deletions = parse_deletions(record or b"")
    directories: dict[str, DeletedDirectory] = {}
    for marked in listing.marked:
        if parse_deleted_directory_name(marked.name) is None or only not in (None, marked.name):
            continue
        with suppress(FileNotFoundError, NotALogDir):  # another purge has removed it
            directories[marked.name] = look_at(log_dir, marked, deletions.get(marked.name))
    return DeletedListing(
        log_dir=log_dir,
        record=record,
        deletions=deletions,
        directories=directories,
        live=frozenset(listing.partitions.values()),
    )


def look_at(log_dir: Path, named: MarkedDirectory, record: DeletedLog | None) -> DeletedDirectory:
    """Return a deleted or stray log's directory as a purge sees it. Effects: lists it.

    Raises:
        FileNotFoundError, NotALogDir: it is not there.
    """
    path = log_dir / named.name
    at_ms = deleted_at_ms(path, record)
    tree = list_tree(path)
    logs = {name for name in tree.files if _is_log(name)}
    return DeletedDirectory(
        path=path,
        partition=named.partition if record is None else record.partition,
        record=record,
        at_ms=TimestampMs(at_ms),
        logs=tuple(path / name for name in tree.files if name in logs),
        others=tuple(path / name for name in tree.files if name not in logs),
        directories=tuple(path / name for name in tree.directories),
        foreign=tuple(foreign_entries(tree)),
        bytes=tree.total_bytes,
    )


def _is_log(path: str) -> bool:
    """Return whether it is a ``.log`` file of any stage, outside logwright's work directory."""
    return file_place("deleted log", path).kind == "segment"
