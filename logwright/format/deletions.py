"""The ledger of retired files, ``<partition>/.logwright/deletions.jsonl``: bytes and values.

::

    {"at_ms":1760003686229,"files":["00000000000000000000.log.deleted","..."],
     "operation":"retain","id":"1760003686229-5f2c","facts":{...}}

One line for each time that files were renamed to ``.deleted``, written before the renames. Kafka
keeps the time of a rename in memory only (``file.delete.delay.ms``); a tool that ends needs a
record. What did it, and what an undo has to know, stands in the last three fields; a line of an
earlier version has the first two only.

A line begins with a line end of its own. So an append that a crash cut short spoils no later line,
wherever it stands: a line that cannot be read is passed over, and its files, if they were renamed
at all, count as files without a record.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, cast

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

LEDGER: Final = "deletions.jsonl"

Operation = Literal["swap", "retain", "undo"]
_OPERATIONS: Final = frozenset({"swap", "retain", "undo"})

Facts = Mapping[str, object]
"""What an undo has to know of an operation; JSON values by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Which operation retired files.

    Attributes:
        operation: its kind.
        id: shared by all lines of one operation.
        facts: see `logwright.undo`.
    """

    operation: Operation
    id: str
    facts: Facts = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retirement:
    """One line.

    Attributes:
        at_ms: the clock of the command, ms since the epoch.
        files: the ``.deleted`` names that it gave and that this line is the last to name.
        origin: None in a line of an earlier version.
        purged: files of it were unlinked since.
    """

    at_ms: int
    files: tuple[str, ...]
    origin: Origin | None = None
    purged: bool = False


def serialize_retirement(
    names: Iterable[str], *, at_ms: int, origin: Origin | None = None
) -> bytes:
    """What is appended for files that are about to get these ``.deleted`` names."""
    return _line(Retirement(at_ms=at_ms, files=tuple(sorted(names)), origin=origin))


def parse_retirements(content: bytes) -> tuple[Retirement, ...]:
    """The lines that can be read, in their order. A name belongs to the last line that has it."""
    lines = [found for line in content.split(b"\n") if (found := _parse_line(line)) is not None]
    owner = {name: number for number, line in enumerate(lines) for name in line.files}
    return tuple(
        replace(line, files=tuple(name for name in line.files if owner[name] == number))
        for number, line in enumerate(lines)
    )


def parse_ledger(content: bytes) -> dict[str, int]:
    """``.deleted`` name to the time of its retirement in ms; the last line that names it counts."""
    return {name: line.at_ms for line in parse_retirements(content) for name in line.files}


def remaining_ledger(content: bytes, remaining: Collection[str]) -> bytes:
    """The ledger without the names that are not among `remaining`; of no bytes if none is left.

    An undo's line without files stays as long as a line of what it undid does.
    """
    kept: list[Retirement] = []
    for line in parse_retirements(content):
        files = tuple(name for name in line.files if name in remaining)
        kept.append(replace(line, files=files, purged=line.purged or len(files) < len(line.files)))
    alive = {line.origin.id for line in kept if line.files and line.origin is not None}
    return b"".join(_line(line) for line in kept if line.files or _undone_id(line) in alive)


def _undone_id(line: Retirement) -> object:
    if line.origin is None or line.origin.operation != "undo":
        return None
    return line.origin.facts.get("of")


def _line(line: Retirement) -> bytes:
    entry: dict[str, object] = {"at_ms": line.at_ms, "files": sorted(line.files)}
    if line.origin is not None:
        entry |= {"operation": line.origin.operation, "id": line.origin.id}
        entry |= {"facts": dict(line.origin.facts)} if line.origin.facts else {}
    if line.purged:
        entry["purged"] = True
    return b"\n" + json.dumps(entry, separators=(",", ":")).encode() + b"\n"


def _parse_line(line: bytes) -> Retirement | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict):
        return None
    at_ms, names = entry.get("at_ms"), entry.get("files")
    if type(at_ms) is not int or not isinstance(names, list):
        return None
    return Retirement(
        at_ms=at_ms,
        files=tuple(dict.fromkeys(name for name in names if isinstance(name, str))),
        origin=_parse_origin(entry),
        purged=entry.get("purged") is True,
    )


def _parse_origin(entry: Mapping[str, object]) -> Origin | None:
    operation, identity = entry.get("operation"), entry.get("id")
    if operation not in _OPERATIONS or not isinstance(identity, str):
        return None
    facts = entry.get("facts")
    return Origin(
        operation=cast("Operation", operation),
        id=identity,
        facts=facts if isinstance(facts, dict) else {},
    )
