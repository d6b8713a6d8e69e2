"""The mark of an erasure: ``<partition>/.logwright/erased.json``.

A log from which records were erased holds no tombstones of them. Whoever has read the log before,
such as a table of the latest state, must read all of it again when the mark is another one. A move
carries it. A copy that is made in another way may be without it: see `logwright.tables.batches`.

It also has which keys were erased, as the first 8 bytes of their HMACs with the id of the secret
before them, those of earlier erasures too: nothing else says that a key was there.

It is written before the first segment is replaced and again after the last, so that nobody who
reads in between takes what he has read for the log after the erasure. It is a line with a CRC; one
that cannot be read counts as one of its own.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

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


def mark_steps(
    directory: Path, erasure_id: str, keys: Iterable[str], *, done: bool
) -> tuple[FileStep, ...]:
    """Return the steps that mark a partition. Effects: reads the mark of an earlier erasure.

    Args:
        directory: the partition's; its work directory exists, since it is locked.
        erasure_id: of this erasure.
        keys: that it erases, see `logwright.erasure.secret.Secret.short`.
        done: all segments are replaced.
    """
    path = directory / WORK_DIRECTORY / ERASURE_MARK
    erased = list(dict.fromkeys((*_keys_of(_read(path)), *keys)))[-MOST_KEYS:]
    content = serialize_line({"id": erasure_id, "done": done, "keys": erased})
    return replace_file(path, content, like=None)


def erased_keys(directory: Place) -> tuple[str, ...] | None:
    """Return which keys were erased by erasures that are done, None without one. Effects: reads the
    mark.

    Raises:
        UnreadableFile: the mark is not a regular file.
    """
    entry = _read(directory / WORK_DIRECTORY / ERASURE_MARK)
    return _keys_of(entry) if entry is not None and entry.get("done") is True else None


def _read(path: Place) -> dict[str, Any] | None:
    content = map_file(path).tobytes() if exists(path) else b""
    return next(parse_lines(content), None)


def _keys_of(entry: dict[str, Any] | None) -> tuple[str, ...]:
    keys = None if entry is None else entry.get("keys")
    return tuple(filter(_IS_KEY, map(str, keys))) if isinstance(keys, list) else ()


def read_mark(directory: Place) -> str | None:
    """Return what identifies the last erasure and its stage, None without one. Effects: reads.

    Raises:
        UnreadableFile: the mark is not a regular file.
    """
    path = directory / WORK_DIRECTORY / ERASURE_MARK
    if not exists(path):
        return None
    content = map_file(path).tobytes()
    for entry in parse_lines(content):
        return f"{entry.get('id')} {'done' if entry.get('done') is True else 'begun'}"
    return f"damaged {zlib.crc32(content)}"
