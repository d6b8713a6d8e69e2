"""Observe what a purge of deleted logs needs: their directories and the record of deletions."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from logwright.format.deleted_logs import DeletedLog, parse_deletions
from logwright.format.names import (
    DELETED_LOGS,
    LEADER_EPOCH_CHECKPOINT,
    LOG,
    PARTITION_METADATA,
    WORK_DIRECTORY,
    TopicPartition,
    parse_deleted_directory_name,
)
from logwright.log.log_dir import MarkedDirectory, TreeEntry, list_log_dir, list_tree
from logwright.place.files import open_log_dir
from logwright.units import ByteCount, TimestampMs

if TYPE_CHECKING:
    from collections.abc import Mapping

_NS_PER_MS: Final = 1_000_000
_KNOWN: Final = re.compile(
    r"[0-9]{20,}\.(?:log|index|timeindex|txnindex|snapshot)"
    r"(?:\.[0-9]+)?(?:\.(?:cleaned|swap|deleted|tmp))?"
    rf"|(?:{re.escape(LEADER_EPOCH_CHECKPOINT)}|{re.escape(PARTITION_METADATA)})(?:\.tmp)?"
)


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
        record = root.read(DELETED_LOGS) if root.exists(DELETED_LOGS) else None
    deletions = parse_deletions(record or b"")
    directories: dict[str, DeletedDirectory] = {}
    for marked in listing.marked:
        if parse_deleted_directory_name(marked.name) is None or only not in (None, marked.name):
            continue
        with suppress(FileNotFoundError):  # another purge has removed it
            directories[marked.name] = _look(log_dir, marked, deletions.get(marked.name))
    return DeletedListing(
        log_dir=log_dir,
        record=record,
        deletions=deletions,
        directories=directories,
        live=frozenset(listing.partitions.values()),
    )


def _look(log_dir: Path, named: MarkedDirectory, record: DeletedLog | None) -> DeletedDirectory:
    path = log_dir / named.name
    status = path.lstat()
    touched_ms = max(status.st_ctime_ns, status.st_mtime_ns) // _NS_PER_MS
    entries = list_tree(path)
    files = sorted(one.path for one in entries if one.kind != "directory")
    return DeletedDirectory(
        path=path,
        partition=named.partition if record is None else record.partition,
        record=record,
        at_ms=TimestampMs(touched_ms if record is None else record.at_ms),
        logs=tuple(path / one for one in files if _is_log(one)),
        others=tuple(path / one for one in files if not _is_log(one)),
        directories=tuple(path / one.path for one in entries if one.kind == "directory"),
        foreign=tuple(sorted(str(one.path) for one in entries if not _is_known(one))),
        bytes=ByteCount(sum(one.bytes for one in entries)),
    )


def _is_log(path: Path) -> bool:
    """Return whether it is a ``.log`` file of any stage, outside logwright's work directory."""
    return f"{LOG}." in f"{path.name}." and not _is_ours(path)


def _is_ours(path: Path) -> bool:
    """Return whether it is inside logwright's work directory."""
    return WORK_DIRECTORY in path.parent.parts


def _is_known(entry: TreeEntry) -> bool:
    """Return whether a log has such an entry; logwright's work directory may have any file or
    directory.
    """
    path, ours = entry.path, _is_ours(entry.path)
    if entry.kind == "directory":
        return ours or path.name == WORK_DIRECTORY
    return entry.kind == "file" and (ours or _KNOWN.fullmatch(path.name) is not None)
