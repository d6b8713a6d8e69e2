"""What other programs did to a Delta table after logwright's last commit, by Delta's log.

Delta's protocol, "Actions": a commit is a JSON file with an action in each line. An ``add`` or
``remove`` without data change (``dataChange`` is false: a compaction, an ordering) keeps the rows,
any other may have changed them. Commits of other programs are material to judge: what cannot be
read counts as a change.

The log can hold keys, too: other programs write the lowest and highest value of each column with
the files that they add, and their conditions. logwright writes the number of rows only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from logwright.tables.files import TableFiles

if TYPE_CHECKING:
    from deltalake import DeltaTable

LOG: Final = "_delta_log"
_VECTOR: Final = "deletionVector"
_CHECKPOINT: Final = "{:020d}.checkpoint.parquet"
_LAST: Final = "_last_checkpoint"
_VERSION: Final = re.compile(r"\.?([0-9]{20})\..+")
"""The files of a version in the log: its commit, a checkpoint, a sum, with Hadoop's checksums."""
_OTHER_FORM: Final = (AttributeError, KeyError, OSError, TypeError, ValueError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Since:
    """What happened since logwright's last commit.

    Attributes:
        change: what may have changed rows; None: nothing.
        vectors: path → descriptor of its deletion vector, as commits have it, of all files.
        has_metadata: the table may have another schema.
    """

    change: str | None
    vectors: Mapping[str, Mapping[str, Any]]
    has_metadata: bool


def look_since(
    files: TableFiles, versions: range, vectors: Mapping[str, Mapping[str, Any]]
) -> Since:
    """Return what the commits of some versions did. Effects: reads them.

    Args:
        files: of the table.
        versions: those after logwright's last commit.
        vectors: of all files, after that one.
    """
    known = dict(vectors)
    change = None
    has_metadata = False
    for version in versions:
        operation, changes = "commit", False
        try:
            for name, action in _actions(files.read(commit_path(version))):
                if name == "commitInfo":
                    operation = str(action.get("operation", operation))
                has_metadata |= name == "metaData"
                if name not in ("add", "remove"):
                    continue
                changes |= action.get("dataChange") is not False
                path = unquote(action["path"])
                known.pop(path, None)
                if name == "add" and action.get(_VECTOR) is not None:
                    known[path] = dict(action[_VECTOR])
        except _OTHER_FORM:
            operation, changes = "commit that cannot be read", True
            has_metadata = True
        if changes and change is None:
            change = f"{operation[:40]} in version {version}"
    return Since(change=change, vectors=known, has_metadata=has_metadata)


def newest_protocol(files: TableFiles) -> Mapping[str, Any] | None:
    """Return the newest protocol that commits have; None: they have none, or cannot be read.
    Effects: lists the log, reads commits.
    """
    numbers = {number for path, number in _versions(files) if path.endswith(".json")}
    for version in sorted(numbers, reverse=True):
        try:
            for name, action in _actions(files.read(commit_path(version))):
                if name == "protocol":
                    return dict(action)
        except _OTHER_FORM:
            return None
    return None


def write_checkpoint(table: DeltaTable, files: TableFiles) -> None:
    """Write a checkpoint of the newest version, if there is none. Effects: as said, durably.

    Args:
        files: of the table.
    """
    path = f"{LOG}/{_CHECKPOINT.format(table.version())}"
    if not files.sizes([path]):
        table.create_checkpoint()
        files.settle([path, f"{LOG}/{_LAST}"])


def forget_before(table: DeltaTable, files: TableFiles, version: int) -> None:
    """Remove what the log has of the versions before this one. The newest version begins with a
    checkpoint then, in which removed files have no statistics. Effects: as said.

    Args:
        files: of the table.
    """
    old = [path for path, number in _versions(files) if number < version]
    if old:
        write_checkpoint(table, files)
    for path in old:
        files.remove(path)


def oldest_commit(files: TableFiles) -> int | None:
    """Return the lowest version that has its commit, None if none has. Effects: lists the log."""
    return min(
        (number for path, number in _versions(files) if path.endswith(".json")), default=None
    )


def is_there(files: TableFiles) -> bool:
    """Return whether there is a table. Effects: lists the log."""
    return bool(_versions(files))


def commit_path(version: int) -> str:
    """Return where a version's commit is."""
    return f"{LOG}/{version:020d}.json"


def _versions(files: TableFiles) -> list[tuple[str, int]]:
    """Return the files of versions, with their numbers. Effects: lists the log."""
    log = f"{LOG}/"
    names = [
        (each.path, _VERSION.fullmatch(each.path.removeprefix(log))) for each in files.listing(log)
    ]
    return [(path, int(name[1])) for path, name in names if name is not None]


def _actions(content: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the actions of a commit; a file's removal before its addition."""
    actions = [
        (name, action)
        for line in content.splitlines()
        if line.strip()
        for name, action in json.loads(line).items()
    ]
    yield from sorted(actions, key=lambda one: one[0] == "add")
