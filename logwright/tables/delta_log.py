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
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from logwright.durable import sync

if TYPE_CHECKING:
    from deltalake import DeltaTable

LOG: Final = "_delta_log"
_MOST_BYTES: Final = 256 << 20
"""A commit above this size is not read."""
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
    """

    change: str | None
    vectors: Mapping[str, Mapping[str, Any]]


def look_since(directory: Path, versions: range, vectors: Mapping[str, Mapping[str, Any]]) -> Since:
    """Return what the commits of some versions did. Effects: reads them.

    Args:
        directory: of the table.
        versions: those after logwright's last commit.
        vectors: of all files, after that one.
    """
    known = dict(vectors)
    change = None
    for version in versions:
        operation, changes = "commit", False
        try:
            for name, action in _actions(directory / LOG / f"{version:020d}.json"):
                if name == "commitInfo":
                    operation = str(action.get("operation", operation))
                if name not in ("add", "remove"):
                    continue
                changes |= action.get("dataChange") is not False
                path = unquote(action["path"])
                known.pop(path, None)
                if name == "add" and action.get(_VECTOR) is not None:
                    known[path] = dict(action[_VECTOR])
        except _OTHER_FORM:
            operation, changes = "commit that cannot be read", True
        if changes and change is None:
            change = f"{operation[:40]} in version {version}"
    return Since(change=change, vectors=known)


def write_checkpoint(table: DeltaTable, directory: Path) -> None:
    """Write a checkpoint of the newest version, if there is none. Effects: as said, durably.

    Args:
        directory: of the table.
    """
    path = directory / LOG / _CHECKPOINT.format(table.version())
    if not path.exists():
        table.create_checkpoint()
        for written in (path, path.with_name(_LAST), path.parent):
            sync(written)


def forget_before(table: DeltaTable, directory: Path, version: int) -> None:
    """Remove what the log has of the versions before this one. The newest version begins with a
    checkpoint then, in which removed files have no statistics. Effects: as said.

    Args:
        directory: of the table.
    """
    log = directory / LOG
    old = [
        path
        for path in log.iterdir()
        if (version_name := _VERSION.fullmatch(path.name)) and int(version_name[1]) < version
    ]
    if old:
        write_checkpoint(table, directory)
    for path in old:
        path.unlink(missing_ok=True)


def oldest_commit(directory: Path) -> int | None:
    """Return the lowest version that has its commit, None if none has. Effects: lists the log."""
    names = [path.stem for path in (directory / LOG).glob("*.json")]
    return min((int(name) for name in names if name.isdecimal()), default=None)


def _actions(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the actions of a commit; a file's removal before its addition. Effects: reads it."""
    with path.open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ValueError("the commit is too large")
    actions = [
        (name, action)
        for line in content.splitlines()
        if line.strip()
        for name, action in json.loads(line).items()
    ]
    yield from sorted(actions, key=lambda one: one[0] == "add")
