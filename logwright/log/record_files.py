"""All files of a log directory, each with its place in the inventory (`logwright.log.inventory`)
and what the purge that removes it goes by. No file is left out; what is not one, or cannot be
listed, is named as not searched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from logwright.errors import UnreadableFile
from logwright.format.deleted_logs import DeletedLog, parse_deletions
from logwright.format.deletions import LEDGER, Retirement, parse_ledger
from logwright.format.names import (
    DELETED_LOGS,
    WORK_DIRECTORY,
    TopicPartition,
)
from logwright.log.inventory import (
    DELETE_DELAY,
    KEEP_FAILED,
    NO_PARTITION,
    PURGE,
    FilePlace,
    expires_ms,
    file_place,
    owner_of,
)
from logwright.log.kinds import file_kinds
from logwright.log.tree import Stamp, Tree, list_tree, stamp_of
from logwright.place.files import entry_at, exists, open_log_dir
from logwright.place.mapped import map_file
from logwright.place.model import OpenDir, Place

_LONGEST_NAME: Final = 255
"""At this length Kafka has shortened the topic in a directory's name (LocalLog.logDeleteDirName).
"""
_BASE: Final = re.compile(r"([0-9]{1,20})\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFile:
    """A file that can hold records.

    Attributes:
        path: of the file. relative: to the log directory.
        place: its row of the inventory.
        since_ms: when it was retired, its log was deleted, or it expires; None if none is so.
        not_before_ms: until when the settings keep it that it was retired or its log was deleted
            with; 0: not on record.
        is_kept: no purge removes it: a swap needs it, or its deleted log has foreign files.
    """

    path: Place
    relative: str
    partition: TopicPartition
    place: FilePlace
    stamp: Stamp
    since_ms: int | None = None
    not_before_ms: int = 0
    is_kept: bool = False

    @property
    def group(self) -> tuple[str, str]:
        """Files of one group are parts of one log."""
        if self.place.form != "segment":
            return self.relative, ""
        return self.relative.rpartition("/")[0], self.place.name

    @property
    def base_offset(self) -> int:
        """The offset in its name, 0 if it has none."""
        match = _BASE.match(self.path.name)
        return int(match[1]) if match else 0

    @property
    def plan(self) -> str:
        """The id of the plan that a staged file is of."""
        return self.relative.split("/")[3]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """All files of a log directory.

    Attributes:
        tree: as it was listed.
        files: that can hold records, sorted by path.
        logs: directory → partition, of logs whose topic is known, live or not.
        deletions: the record of deletions, by directory.
    """

    tree: Tree
    files: tuple[RecordFile, ...]
    logs: Mapping[str, TopicPartition]
    deletions: Mapping[str, DeletedLog]

    @property
    def topics(self) -> set[str]:
        """Topics of which it has a log, live or not, or the record of a deletion."""
        deleted = {deletion.partition.topic for deletion in self.deletions.values()}
        return deleted | {partition.topic for partition in self.logs.values()}

    @property
    def deleted(self) -> set[str]:
        """Topics of which the deletion of a log is on record. A record alone is of a deletion that
        was interrupted, or undone: the log has its name.
        """
        return {
            deletion.partition.topic
            for name, deletion in self.deletions.items()
            if name in self.logs or deletion.purging
        }

    def partition_at(self, path: str) -> TopicPartition:
        """Return whose records can be below a path; `NO_PARTITION` if that is not known."""
        return self.logs.get(path.partition("/")[0], NO_PARTITION)


def list_files(log_dir: Place) -> Inventory:
    """List the files of a log directory. Effects: lists it; reads ledgers.

    Raises:
        NotALogDir: there is no such directory.
        UnreadableFile: it, or its record of deletions, cannot be read.
        PreconditionError: it has too many files.
    """
    tree = list_tree(log_dir)
    with open_log_dir(log_dir) as root:
        deletions = parse_deletions(read_deletions(root) or b"")
    parts = _split(tree)
    names = {*parts, *(path for path in tree.others if "/" not in path)} - {""}
    logs = {name: partition_of(name, deletions) for name in names}
    files = (file for name, part in parts.items() for file in _files_of(name, part, deletions))
    return Inventory(
        tree=tree,
        files=tuple(sorted(files, key=lambda file: file.relative)),
        logs={name: one for name, one in logs.items() if one != NO_PARTITION},
        deletions=deletions,
    )


def read_deletions(log_dir: OpenDir) -> bytes | None:
    """Return the content of the record of deletions, None if there is none. Effects: reads it.

    Raises:
        UnreadableFile: it cannot be read.
    """
    return log_dir.read(DELETED_LOGS) if log_dir.exists(DELETED_LOGS) else None


def partition_of(directory: str, deletions: Mapping[str, DeletedLog]) -> TopicPartition:
    """Return whose records a directory of a log directory can have, by its name or the record of
    deletions; `NO_PARTITION` if that is not known.
    """
    if directory in deletions:
        return deletions[directory].partition
    _, partition = owner_of(directory)
    return NO_PARTITION if len(directory) >= _LONGEST_NAME else partition


def deleted_at_ms(directory: Place, deletion: DeletedLog | None) -> int:
    """Return when a log was deleted, ms since the epoch: as on record, or else the later of its
    directory's times. Effects: reads its status.

    Raises:
        FileNotFoundError: a purge has removed it.
    """
    if deletion is not None:
        return deletion.at_ms
    entry = entry_at(directory)
    if entry is None:
        raise FileNotFoundError(str(directory))
    return stamp_of(entry).touched_ms


def foreign_entries(tree: Tree) -> list[str]:
    """Return what a deleted log does not have, sorted: no purge removes the log then.

    Args:
        tree: of its directory.
    """
    return sorted(
        (
            *(path for path in tree.directories if WORK_DIRECTORY not in path.split("/")),
            *tree.others,
            *(path for path in tree.files if file_place("deleted log", path).rule == ""),
        )
    )


def _files_of(name: str, tree: Tree, deletions: Mapping[str, DeletedLog]) -> Iterator[RecordFile]:
    """Yield the files of a part of a log directory. Effects: reads its ledger, or its times."""
    where, partition = owner_of(name)[0] if name else "root", partition_of(name, deletions)
    kept, orphans, since = frozenset[str](), frozenset[str](), dict[str, int]()
    not_before = dict[str, int]()
    if where in ("log", "stray", "future"):
        kinds = file_kinds(path for path in tree.files if "/" not in path)
        kept, orphans = frozenset(kinds.needed_swaps), frozenset(kinds.orphans)
    if where == "log":
        ledger = _ledger(tree.root)
        since = {path: line.at_ms for path, line in ledger.items()}
        not_before = {path: line.not_before_ms for path, line in ledger.items()}
    elif where == "deleted log":
        with suppress(FileNotFoundError):  # the listing is compared with another one
            since = dict.fromkeys(tree.files, deleted_at_ms(tree.root, deletions.get(name)))
        if name in deletions:
            not_before = dict.fromkeys(tree.files, deletions[name].not_before_ms)
        kept = frozenset(tree.files if foreign_entries(tree) else ())
    for path, stamp in tree.files.items():
        place, since_ms = file_place(where, path), since.get(path)
        if path in orphans:
            place = place._replace(rule=PURGE if where == "log" else "", erasure="recovered")
        if place.rule == DELETE_DELAY and since_ms is None:
            since_ms = stamp.touched_ms
        elif place.rule == KEEP_FAILED:
            since_ms = expires_ms(path)
        yield RecordFile(
            path=tree.root / path,
            relative=f"{name}/{path}" if name else path,
            partition=partition,
            place=place,
            stamp=stamp,
            since_ms=since_ms,
            not_before_ms=not_before.get(path, 0),
            is_kept=path in kept,
        )


def _split(tree: Tree) -> dict[str, Tree]:
    """Return directory → what is below it, of a log directory; the files of its root are in ``""``.
    The rest of its root, which is not listed further, is in none.
    """
    inner = {path: Tree(root=tree.root / path) for path in tree.directories if "/" not in path}
    parts = {"": Tree(root=tree.root), **inner}
    for path in tree.directories:
        name, slash, rest = path.partition("/")
        parts[name].directories.extend([rest] if slash else ())
    for path, stamp in tree.files.items():
        name, slash, rest = path.partition("/")
        parts[name if slash else ""].files[rest if slash else path] = stamp
    for path, why in tree.others.items():
        name, slash, rest = path.partition("/")
        if slash or name in parts:
            parts[name].others[rest] = why
    return parts


def _ledger(directory: Place) -> dict[str, Retirement]:
    """Return the line of each retired file. Effects: reads the ledger."""
    path = directory / WORK_DIRECTORY / LEDGER
    try:
        return parse_ledger(map_file(path).tobytes()) if exists(path) else {}
    except UnreadableFile:
        return {}  # a hint
