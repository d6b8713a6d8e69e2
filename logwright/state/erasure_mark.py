"""The mark of an erasure: ``<partition>/.logwright/erased.json``.

A log from which records were erased holds no tombstones of them. Whoever has read the log before,
such as a table of the latest state, must read all of it again when the mark is another one. A move
carries it. A copy that is made in another way may be without it: see `logwright.tables.batches`.

It also has which keys were erased, as the first 8 bytes of their HMACs with the id of the secret
before them, when and how, those of earlier erasures too: nothing else says that a key was there. An
erasure by tombstones adds its keys, too; for readers the mark stays the same then: they see the
tombstones.

And it has which keys the log has no record of below an offset: those that an erasure at once
erased, and those that it did not find. A copy of this log brings none of them back
(`logwright.upload.plan`).

It is written before the first segment is replaced and again after the last, so that nobody who
reads in between takes what he has read for the log after the erasure. It is a line with a CRC; one
that cannot be read counts as one of its own.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, get_args

from logwright.format.lines import parse_lines, serialize_line
from logwright.format.names import ERASURE_MARK, WORK_DIRECTORY
from logwright.place.files import exists
from logwright.place.mapped import map_file
from logwright.place.model import Place
from logwright.steps.replace import replace_file

if TYPE_CHECKING:
    from pathlib import Path

    from logwright.steps.step import FileStep


_IS_KEY: Final = re.compile(r"[0-9a-f]{16}:[0-9a-f]{16}").fullmatch
MOST_KEYS: Final = 10_000
"""In one mark; the last ones."""
MOST_ABSENT: Final = 100_000
"""Keys in one mark of which the log has no record; the last ones."""
How = Literal["at once", "by tombstones"]


NONE_ABSENT: Final[Mapping[str, int]] = MappingProxyType({})


class Erasure(NamedTuple):
    """The last erasure of a key from a log.

    Attributes:
        at_ms: the clock of the command, ms since the epoch; None: it was not noted.
        how: empty: it was not noted.
    """

    at_ms: int | None = None
    how: How | Literal[""] = ""


def mark_steps(
    directory: Path,
    erasure_id: str,
    erased: Mapping[str, Erasure],
    *,
    done: bool,
    absent: Mapping[str, int] = NONE_ABSENT,
) -> tuple[FileStep, ...]:
    """Return the steps that mark a partition. Effects: reads the mark of an earlier erasure.

    Args:
        directory: the partition's; its work directory exists, since it is locked.
        erasure_id: of this erasure.
        erased: the keys that it erases, see `logwright.erasure.secret.Secret.short`.
        done: all segments are replaced.
        absent: see `absent_below`.
    """
    path = directory / WORK_DIRECTORY / ERASURE_MARK
    entry = _read(path)
    keys = _all_keys(_keys_of(entry), erased)
    return _written(path, erasure_id, keys, _all_absent(entry, absent), done=done)


def absent_steps(directory: Path, absent: Mapping[str, int]) -> tuple[FileStep, ...]:
    """Return the steps that note which keys a log has no record of; none if that is noted. For
    readers the mark stays the same. A mark that cannot be read is left as it is. Effects: reads the
    mark.

    Args:
        directory: as of `mark_steps`.
        absent: see `absent_below`.
    """
    path = directory / WORK_DIRECTORY / ERASURE_MARK
    entry = _read(path)
    known = _absent_of(entry)
    if (entry is None and exists(path)) or all(
        known.get(key, -1) >= offset for key, offset in absent.items()
    ):
        return ()
    marked = entry or {"id": "", "done": True}
    done = marked["done"] is True
    keys = _keys_of(entry)
    return _written(path, str(marked["id"]), keys, _all_absent(entry, absent), done=done)


def note_steps(directory: Path, erased: Mapping[str, Erasure]) -> tuple[FileStep, ...]:
    """Return the steps that note an erasure by tombstones; none without a key. Of each key the last
    erasure stays. A mark that cannot be read is left as it is. Effects: reads the mark.

    Args:
        directory: as of `mark_steps`.
        erased: the keys whose tombstones were appended, as of `mark_steps`.
    """
    path = directory / WORK_DIRECTORY / ERASURE_MARK
    entry = _read(path)
    if not erased or (entry is None and exists(path)):
        return ()
    marked, known, last = entry or {"id": "", "done": True}, _keys_of(entry), dict(erased)
    add_erasures(last, {key: known[key] for key in last if key in known})
    done, absent = marked["done"] is True, _absent_of(entry)
    return _written(path, str(marked["id"]), _all_keys(known, last), absent, done=done)


def add_erasures(known: dict[str, Erasure], new: Mapping[str, Erasure]) -> None:
    """Add erasures of another log; of each key the last one stays. Effects: changes `known`."""
    for key, erasure in new.items():
        known[key] = max(known.get(key, erasure), erasure, key=lambda each: each.at_ms or -1)


def _all_keys(known: Mapping[str, Erasure], new: Mapping[str, Erasure]) -> dict[str, Erasure]:
    """Return the keys of a mark; those that come again are the last."""
    return {key: erasure for key, erasure in known.items() if key not in new} | dict(new)


def _all_absent(entry: dict[str, Any] | None, new: Mapping[str, int]) -> dict[str, int]:
    """Return the keys that a log has no record of; of each the largest offset."""
    known = _absent_of(entry)
    kept = {key: offset for key, offset in known.items() if key not in new}
    return kept | {key: max(offset, known.get(key, 0)) for key, offset in new.items()}


def _written(
    path: Path,
    erasure_id: str,
    keys: Mapping[str, Erasure],
    absent: Mapping[str, int],
    *,
    done: bool,
) -> tuple[FileStep, ...]:
    rows = [[key, *erasure] for key, erasure in keys.items()][-MOST_KEYS:]
    below = [[key, offset] for key, offset in absent.items()][-MOST_ABSENT:]
    entry = {"id": erasure_id, "done": done, "keys": rows, "absent": below}
    return replace_file(path, serialize_line(entry), like=None)


def mark_content(directory: Place) -> bytes:
    """Return the mark as it is, empty without one: what has changed if it is another. Effects:
    reads it.

    Raises:
        UnreadableFile: the mark is not a regular file.
    """
    path = directory / WORK_DIRECTORY / ERASURE_MARK
    return map_file(path).tobytes() if exists(path) else b""


def absent_below(content: bytes) -> dict[str, int]:
    """Return which keys the log of a mark has no record of: the key, as
    `logwright.erasure.secret.Secret.short` has it → below which offset. Pure.
    """
    return _absent_of(next(parse_lines(content), None))


def erased_at_once(content: bytes) -> dict[str, int]:
    """Return those of `absent_below` that were erased from the log. Pure."""
    entry = next(parse_lines(content), None)
    keys = _keys_of(entry)
    return {key: offset for key, offset in _absent_of(entry).items() if key in keys}


def erased_keys(directory: Place) -> dict[str, Erasure] | None:
    """Return which keys were erased by erasures that are done, None without one. Effects: reads the
    mark.

    Raises:
        UnreadableFile: the mark is not a regular file.
    """
    entry = _read(directory / WORK_DIRECTORY / ERASURE_MARK)
    return _keys_of(entry) if entry is not None and entry.get("done") is True else None


def _read(path: Place) -> dict[str, Any] | None:
    return next(parse_lines(mark_content(path.parent.parent)), None)


def _absent_of(entry: dict[str, Any] | None) -> dict[str, int]:
    rows = None if entry is None else entry.get("absent")
    absent: dict[str, int] = {}
    for row in rows if isinstance(rows, list) else ():
        match row:
            case [str(key), int(offset)] if _IS_KEY(key):
                absent[key] = offset
    return absent


def _keys_of(entry: dict[str, Any] | None) -> dict[str, Erasure]:
    """Return the keys of a mark; those of before 0.2 are texts, without time."""
    keys = None if entry is None else entry.get("keys")
    if not isinstance(keys, list):
        return {}
    rows = [row if isinstance(row, list) else [row] for row in keys]
    return {
        row[0]: Erasure(*_noted(row[1:]))
        for row in rows
        if row and isinstance(row[0], str) and _IS_KEY(row[0])
    }


def _noted(fields: list[Any]) -> tuple[int | None, How | Literal[""]]:
    match fields:
        case [int(at_ms), how] if how in get_args(How):
            return at_ms, how
        case _:
            return None, ""


def read_mark(directory: Place) -> str | None:
    """Return what identifies the last erasure at once and its stage, None without one. Effects:
    reads.

    Raises:
        UnreadableFile: the mark is not a regular file.
    """
    path = directory / WORK_DIRECTORY / ERASURE_MARK
    if not exists(path):
        return None
    content = map_file(path).tobytes()
    for entry in parse_lines(content):
        if entry.get("id") == "":
            return None
        return f"{entry.get('id')} {'done' if entry.get('done') is True else 'begun'}"
    return f"damaged {zlib.crc32(content)}"
