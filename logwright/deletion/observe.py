"""What is there to be purged of whole logs: the directories with a deleted log's name, and what is
in them.
"""

from __future__ import annotations

import os
import re
import stat
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
from logwright.log.files import exists, list_directory, open_log_dir, read_file
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
        partition: as on record; without one as the name says, the topic perhaps cut.
        record: None if it was not deleted by us.
        at_ms: when it was deleted; without a record the later of the directory's times.
        logs, others: files below it, the ``.log`` files (of any stage) apart.
        directories: all below it, each before those inside it.
        foreign: what no log has: names, relative to it. With any of these it is not purged.
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
        deletions: what it says, by directory name.
        directories: that are there, by name.
        live: partitions that have a directory of their own.
    """

    log_dir: Path
    record: bytes | None
    deletions: Mapping[str, DeletedLog]
    directories: Mapping[str, DeletedDirectory]
    live: frozenset[TopicPartition]


def list_deleted(log_dir: Path, *, only: str | None = None) -> DeletedListing:
    """Read it. Effects: lists the log directory and the deleted logs' directories.

    `only`: name of the one deleted directory that is looked at; None: all of them.

    Raises:
        NotALogDir, UnreadableFile: the log directory, or the record, cannot be read.
    """
    with open_log_dir(log_dir) as root:
        entries = list_directory(root)
        record = read_file(root, DELETED_LOGS) if exists(root, DELETED_LOGS) else None
    deletions = parse_deletions(record or b"")
    directories: dict[str, DeletedDirectory] = {}
    live: set[TopicPartition] = set()
    for entry in sorted(entries, key=lambda one: one.name):
        if not entry.is_dir(follow_symlinks=False):
            continue
        partition = TopicPartition.parse(entry.name)
        deleted = parse_deleted_directory_name(entry.name)
        if deleted is not None:
            if only not in (None, entry.name):
                continue
            with suppress(FileNotFoundError):  # a purge was quicker
                directories[entry.name] = _look(
                    log_dir / entry.name, deleted, deletions.get(entry.name)
                )
        elif partition is not None:
            live.add(partition)
    return DeletedListing(
        log_dir=log_dir,
        record=record,
        deletions=deletions,
        directories=directories,
        live=frozenset(live),
    )


def _look(path: Path, named: TopicPartition, record: DeletedLog | None) -> DeletedDirectory:
    status = path.lstat()
    touched_ms = max(status.st_ctime_ns, status.st_mtime_ns) // _NS_PER_MS
    logs: list[Path] = []
    others: list[Path] = []
    directories: list[Path] = []
    foreign: list[str] = []
    size = 0
    for parent, below, names in os.walk(path, followlinks=False):
        inside = Path(parent)
        ours = WORK_DIRECTORY in inside.relative_to(path).parts
        directories += [inside / name for name in below]
        foreign += [
            str((inside / name).relative_to(path))
            for name in below
            if (inside / name).is_symlink() or not (ours or name == WORK_DIRECTORY)
        ]
        for name in names:
            file = inside / name
            try:
                found = file.lstat()
            except FileNotFoundError:
                continue
            size += found.st_size
            if not stat.S_ISREG(found.st_mode) or not (ours or _KNOWN.fullmatch(name)):
                foreign.append(str(file.relative_to(path)))
            (logs if f"{LOG}." in f"{name}." and not ours else others).append(file)
    return DeletedDirectory(
        path=path,
        partition=named if record is None else record.partition,
        record=record,
        at_ms=TimestampMs(touched_ms if record is None else record.at_ms),
        logs=tuple(sorted(logs)),
        others=tuple(sorted(others)),
        directories=tuple(directories),
        foreign=tuple(sorted(foreign)),
        bytes=ByteCount(size),
    )
