"""The ledger of retired files, ``<partition>/.logwright/deletions.jsonl``: parse and serialize.

::

    {"at_ms":1760003686229,"files":["00000000000000000000.log.deleted","..."],
     "operation":"retain","id":"1760003686229-5f2c","delay_ms":3600000,"facts":{...},
     "crc":1234567890}

Each line is written before a group of files is renamed to ``.deleted``. Kafka keeps the time of a
rename, and the ``file.delete.delay.ms`` of that moment, only in memory (LocalLog.deleteSegmentFiles
schedules the removal); a command that exits has to write both down. `operation`, `id` and `facts`
have what an undo needs; lines of a recovery have only the first two fields, those of an undo, and
those written before there was one, no delay.

See `logwright.format.lines` for the file format: a torn or invalid line is ignored, and its files,
if they were renamed, are treated as files without an entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, cast

from logwright.format.lines import parse_lines, serialize_line

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

LEDGER: Final = "deletions.jsonl"

Operation = Literal["swap", "retain", "undo", "erase"]
_OPERATIONS: Final = frozenset({"swap", "retain", "undo", "erase"})

Facts = Mapping[str, object]
"""Details of an operation for an undo; name → JSON value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The operation that retired files.

    Attributes:
        operation: kind of the operation.
        id: the same in all lines of one operation.
        delay_ms: ``file.delete.delay.ms`` by the settings that it was done with; 0: not on record.
        facts: see `logwright.undo`.
    """

    operation: Operation
    id: str
    delay_ms: int = 0
    facts: Facts = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retirement:
    """One line of the ledger.

    Attributes:
        at_ms: the clock of the command, ms since the epoch.
        files: the ``.deleted`` names of this line that no later line reuses.
        origin: None if a recovery retired the files.
        incomplete: some files were unlinked since, or a later line reuses their names.
    """

    at_ms: int
    files: tuple[str, ...]
    origin: Origin | None = None
    incomplete: bool = False

    @property
    def not_before_ms(self) -> int:
        """Until when its files are kept by the settings that they were retired with, ms since the
        epoch; the settings of a purge may keep them longer.
        """
        return self.at_ms + (0 if self.origin is None else self.origin.delay_ms)


def serialize_retirement(
    names: Iterable[str], *, at_ms: int, origin: Origin | None = None
) -> bytes:
    """Return the line to append before files get these ``.deleted`` names."""
    return _line(Retirement(at_ms=at_ms, files=tuple(sorted(names)), origin=origin))


def parse_retirements(content: bytes) -> tuple[Retirement, ...]:
    """Parse the valid lines, in file order. A name belongs to the last line that has it; an earlier
    line with the same name is incomplete.
    """
    lines = [found for entry in parse_lines(content) if (found := _parse(entry)) is not None]
    owner = {name: number for number, line in enumerate(lines) for name in line.files}
    return tuple(
        _without(line, [name for name in line.files if owner[name] == number])
        for number, line in enumerate(lines)
    )


def _without(line: Retirement, left: Collection[str]) -> Retirement:
    """Return the line with only these of its files."""
    files = tuple(name for name in line.files if name in left)
    return replace(line, files=files, incomplete=line.incomplete or len(files) < len(line.files))


def parse_ledger(content: bytes) -> dict[str, Retirement]:
    """Return ``.deleted`` name → the line of its last retirement."""
    return {name: line for line in parse_retirements(content) for name in line.files}


def remaining_ledger(content: bytes, remaining: Collection[str]) -> bytes:
    """Return the ledger with only the names in `remaining`; empty if none is left.

    The line of an undo, which has no files, is kept as long as a line of the undone operation; that
    of an erasure, whose files go at once, as long as the ledger.
    """
    kept = [_without(line, remaining) for line in parse_retirements(content)]
    alive = {line.origin.id for line in kept if line.files and line.origin is not None}
    return b"".join(
        _line(line) for line in kept if line.files or _undone_id(line) in alive or _is_erasure(line)
    )


def _is_erasure(line: Retirement) -> bool:
    return line.origin is not None and line.origin.operation == "erase"


def _undone_id(line: Retirement) -> object:
    if line.origin is None or line.origin.operation != "undo":
        return None
    return line.origin.facts.get("of")


def _line(line: Retirement) -> bytes:
    entry: dict[str, object] = {"at_ms": line.at_ms, "files": sorted(line.files)}
    if line.origin is not None:
        entry |= {"operation": line.origin.operation, "id": line.origin.id}
        entry |= {"delay_ms": line.origin.delay_ms} if line.origin.delay_ms else {}
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
    delay_ms, facts = entry.get("delay_ms"), entry.get("facts")
    return Origin(
        operation=cast("Operation", operation),
        id=identity,
        delay_ms=delay_ms if type(delay_ms) is int and delay_ms > 0 else 0,
        facts=facts if isinstance(facts, dict) else {},
    )
