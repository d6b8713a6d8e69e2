"""Each kind of hint, wrong in each of its entries: the bytes that a file has then."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from logwright.format.index import parse_txn_index, serialize_txn_index
from logwright.format.names import CLEAN_SHUTDOWN_MARKER
from logwright.format.snapshot import parse_snapshot, serialize_snapshot

ABSENT: Final = None
"""Instead of bytes: the file is not there."""

_OFFSETS: Final = struct.Struct(">ii")
_TIMES: Final = struct.Struct(">qi")


@dataclass(frozen=True, kw_only=True)
class Wrong:
    """A file that is wrong.

    Attributes:
        kind: of hint, such as "index".
        name: below the log directory.
        how: in words.
        content: its bytes, or `ABSENT`.
    """

    kind: str
    name: str
    how: str
    content: bytes | None

    def __str__(self) -> str:
        return f"{self.name}: {self.how}"

    def plant(self, log_dir: Path) -> None:
        """Effects: makes the file wrong."""
        path = log_dir / self.name
        if self.content is None:
            path.unlink()
        else:
            path.write_bytes(self.content)


def all_wrong(log_dir: Path) -> list[Wrong]:
    """Every hint of t-0, wrong in turn. Effects: reads.

    A journal of ingests that is not there is not wrong: it is unknown whether there was one.
    """
    files = {
        str(path.relative_to(log_dir)): path.read_bytes()
        for path in sorted(log_dir.rglob("*"))
        if path.is_file() and not path.is_symlink() and "t-1/" not in str(path)
    }
    return [
        Wrong(kind=kind, name=name, how=how, content=content)
        for name, original in files.items()
        for kind, others, ways in _kinds(name, files)
        for how, content in (*ways(original), *_whole(original, others))
        if content != original and (kind != "ingest journal" or content is not ABSENT)
    ]


Ways = Callable[[bytes], Iterator[tuple[str, bytes | None]]]


def _kinds(name: str, files: Mapping[str, bytes]) -> Iterator[tuple[str, list[bytes], Ways]]:
    """The kind of hint that a file is, the other files of that kind, and how it can be wrong."""
    for kind, pattern, ways in _KINDS:
        if re.search(pattern, name):
            alike = [one for other, one in files.items() if re.search(pattern, other)]
            yield kind, [one for one in alike if one != files[name]], ways
            return


def _whole(content: bytes, others: Sequence[bytes]) -> Iterator[tuple[str, bytes | None]]:
    """What can happen to any file."""
    yield "absent", ABSENT
    yield "empty", b""
    yield "zeros", bytes(len(content))
    yield "twice", 2 * content
    yield "half", content[: len(content) // 2]
    yield "truncated", content[:-1]
    for number, other in enumerate(others):
        yield f"another's ({number})", other


def _entries(
    content: bytes, entry: struct.Struct, fields: Sequence[str]
) -> Iterator[tuple[str, bytes]]:
    """Of an index of entries of two numbers: each number of each entry, and each entry."""
    rows = list(entry.iter_unpack(content[: len(content) // entry.size * entry.size]))

    def packed(changed: Sequence[Sequence[int]]) -> bytes:
        return b"".join(entry.pack(*row) for row in changed)

    for number, row in enumerate(rows):
        for column, field in enumerate(fields):
            near = {row[column] - 1, row[column] + 1, 0, -1, 2**31 - 1}
            for value in sorted(near | {other[column] for other in rows}):
                changed = [list(one) for one in rows]
                changed[number][column] = value
                yield f"{field} {number} = {value}", packed(changed)
        yield f"without {number}", packed([*rows[:number], *rows[number + 1 :]])
        yield f"up to {number}", packed(rows[:number])
        yield f"{number} twice", packed([*rows[: number + 1], *rows[number:]])
        changed = [list(one) for one in rows]
        changed[number] = [0, 0]
        yield f"{number} zeros", packed(changed)


def index_ways(content: bytes) -> Iterator[tuple[str, bytes | None]]:
    """Of an offset index."""
    yield from _entries(content, _OFFSETS, ("offset", "position"))


def timeindex_ways(content: bytes) -> Iterator[tuple[str, bytes | None]]:
    """Of a time index; also far off."""
    yield from _entries(content, _TIMES, ("time", "offset"))
    for number, (time, offset) in enumerate(_TIMES.iter_unpack(content)):
        for by in (-1_000_000, 1_000_000):
            changed = bytearray(content)
            _TIMES.pack_into(changed, number * _TIMES.size, time + by, offset)
            yield f"time {number} by {by}", bytes(changed)


def _changed(
    entries: Sequence[Any],
    fields: Sequence[str],
    near: Callable[[int | None], set[int]],
    serialize: Callable[[list[Any]], bytes],
) -> Iterator[tuple[str, bytes]]:
    """Of dataclasses: each field of each entry, and each entry."""
    for number, entry in enumerate(entries):
        for field in fields:
            own = getattr(entry, field)
            others: set[int | None] = {getattr(one, field) for one in entries}
            for value in sorted((others | near(own)) - {own}, key=str):
                changed = replace(entry, **{field: value})
                rows = [*entries[:number], changed, *entries[number + 1 :]]
                yield f"{field} of {number} = {value}", serialize(rows)
        yield f"without {number}", serialize([*entries[:number], *entries[number + 1 :]])
        yield f"{number} twice", serialize([*entries[: number + 1], *entries[number:]])


def _txnindex(content: bytes) -> Iterator[tuple[str, bytes | None]]:
    fields = ("producer_id", "first_offset", "last_offset", "last_stable_offset")

    def near(own: int | None) -> set[int]:
        own = own or 0
        return {own - 5, own - 1, own + 1, own + 5, 0, 7, 8, 9, 12, 28, 33, 10**6}

    yield from _changed(parse_txn_index(content), fields, near, serialize_txn_index)


def _snapshot(content: bytes) -> Iterator[tuple[str, bytes | None]]:
    """With the right CRC; and a flipped bit."""
    fields = (
        "producer_id",
        "producer_epoch",
        "last_sequence",
        "last_offset",
        "timestamp_ms",
        "current_txn_first_offset",
    )

    def near(own: int | None) -> set[int]:
        return {-1, 0, 8, 17, 26, 40} if own is None else {own - 1, own + 1, 0, 7}

    yield from _changed(parse_snapshot(content, Path("x")), fields, near, serialize_snapshot)
    for at in range(0, len(content), 5):
        flipped = bytearray(content)
        flipped[at] ^= 1 << at % 8
        yield f"bit flipped at {at}", bytes(flipped)


def _numbers(content: bytes) -> Iterator[tuple[str, bytes | None]]:
    """Of a text: each number in it, and each line."""
    text = content.decode()
    for matched in re.finditer(r"(?<![\w.])-?\d+(?!\w)", text):
        own = int(matched[0])
        for value in sorted({own - 1, own + 1, 0, -1, 3, 10, 14, 19, 28, 33, 50} - {own}):
            changed = f"{text[: matched.start()]}{value}{text[matched.end() :]}"
            yield f"{own} at {matched.start()} = {value}", changed.encode()
    lines = text.splitlines(keepends=True)
    for number in range(len(lines)):
        yield f"without line {number}", "".join(lines[:number] + lines[number + 1 :]).encode()
        yield f"line {number} twice", "".join(lines[: number + 1] + lines[number:]).encode()


def _json(content: bytes) -> Iterator[tuple[str, bytes | None]]:
    """And each byte of some."""
    yield from _numbers(content)
    for at in range(0, len(content), max(len(content) // 40, 1)):
        flipped = bytearray(content)
        flipped[at] ^= 1
        yield f"bit flipped at {at}", bytes(flipped)
    for line in content.splitlines():
        if line.startswith(b"{"):
            for name in json.loads(line):
                yield f"without {name}", content.replace(b'"%s"' % name.encode(), b'"x"', 1)


def _marker(_: bytes) -> Iterator[tuple[str, bytes | None]]:
    yield from ()


_KINDS: Final[tuple[tuple[str, str, Ways], ...]] = (
    ("offset index", r"t-0/\d+\.index$", index_ways),
    ("time index", r"t-0/\d+\.timeindex$", timeindex_ways),
    ("transaction index", r"t-0/\d+\.txnindex$", _txnindex),
    ("producer snapshot", r"t-0/\d+\.snapshot$", _snapshot),
    ("leader epochs", r"t-0/leader-epoch-checkpoint$", _numbers),
    ("log start offset", r"^log-start-offset-checkpoint$", _numbers),
    ("high watermark", r"^replication-offset-checkpoint$", _numbers),
    ("recovery point", r"^recovery-point-offset-checkpoint$", _numbers),
    ("cleaner checkpoint", r"^cleaner-offset-checkpoint$", _numbers),
    ("ledger", r"deletions\.jsonl$", _json),
    ("retired index", r"(index|snapshot)\.deleted$", _marker),
    ("ingest journal", r"ingest\.json$", _json),
    ("state file", r"^\.logwright-state\.json$", _json),
    ("clean-shutdown marker", rf"^{re.escape(CLEAN_SHUTDOWN_MARKER)}$", _marker),
)
KINDS: Final = tuple(kind for kind, _, _ in _KINDS)
