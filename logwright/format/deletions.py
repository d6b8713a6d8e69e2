"""The ledger of retired files, ``<partition>/.logwright/deletions.jsonl``: bytes and values.

::

    {"at_ms":1760003686229,"files":["00000000000000000000.log.deleted","..."],
     "operation":"retain","id":"1760003686229-5f2c","facts":{...},"crc":1234567890}

One line for each time that files were renamed to ``.deleted``, written before the renames. Kafka
keeps the time of a rename in memory only (``file.delete.delay.ms``); a tool that ends needs a
record. What did it, and what an undo has to know, stands in `operation`, `id` and `facts`; what a
recovery retires has the first two fields only.

`logwright.format.lines` has the form: a line that is torn or wrong is passed over, and its files,
if they were renamed at all, count as files without a record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, cast

from logwright.format.lines import parse_lines, serialize_line

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
        origin: None of what a recovery retired.
        incomplete: files of it were unlinked since, or a later line gave their names to others.
    """

    at_ms: int
    files: tuple[str, ...]
    origin: Origin | None = None
    incomplete: bool = False


def serialize_retirement(
    names: Iterable[str], *, at_ms: int, origin: Origin | None = None
) -> bytes:
    """What is appended for files that are about to get these ``.deleted`` names."""
    return _line(Retirement(at_ms=at_ms, files=tuple(sorted(names)), origin=origin))


def parse_retirements(content: bytes) -> tuple[Retirement, ...]:
    """The lines that can be read, in their order. A name belongs to the last line that has it; the
    one that had it before is incomplete.
    """
    lines = [found for entry in parse_lines(content) if (found := _parse(entry)) is not None]
    owner = {name: number for number, line in enumerate(lines) for name in line.files}
    return tuple(
        _without(line, [name for name in line.files if owner[name] == number])
        for number, line in enumerate(lines)
    )


def _without(line: Retirement, left: Collection[str]) -> Retirement:
    """The line with these of its files only."""
    files = tuple(name for name in line.files if name in left)
    return replace(line, files=files, incomplete=line.incomplete or len(files) < len(line.files))


def parse_ledger(content: bytes) -> dict[str, int]:
    """``.deleted`` name to the time of its retirement in ms; the last line that names it counts."""
    return {name: line.at_ms for line in parse_retirements(content) for name in line.files}


def remaining_ledger(content: bytes, remaining: Collection[str]) -> bytes:
    """The ledger without the names that are not among `remaining`; of no bytes if none is left.

    An undo's line without files stays as long as a line of what it undid does.
    """
    kept = [_without(line, remaining) for line in parse_retirements(content)]
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
    if line.incomplete:
        entry["incomplete"] = True
    return serialize_line(entry)


def _parse(entry: Mapping[str, object]) -> Retirement | None:
    at_ms, names = entry.get("at_ms"), entry.get("files")
    if type(at_ms) is not int or not isinstance(names, list):
        return None
    return Retirement(
        at_ms=at_ms,
        files=tuple(dict.fromkeys(name for name in names if isinstance(name, str))),
        origin=_parse_origin(entry),
        incomplete=entry.get("incomplete") is True,
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
