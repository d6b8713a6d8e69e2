"""Segments of formats v0 and v1 at the beginning of a log, as an upgraded broker has them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from logwright.format.codec import GZIP, LZ4, SNAPPY
from tests.log_builder import START_MS, LogBuilder, SegmentBuilder
from tests.old_formats import LOG_APPEND_TIME, Message, message, wrapper
from tests.sequences.content import Row

KEYS: Final = "abcdef"
CODECS: Final = (0, 0, 0, GZIP, SNAPPY, LZ4)
MOST_MODIFIED_MS: Final = 4_000
"""The times of files are at most this later than the others."""


class OldSegments(NamedTuple):
    """What a log begins with.

    Attributes:
        end: the offset after them.
        first_dirty: below that each key is there once, as an old cleaner leaves it.
    """

    rows: tuple[Row, ...]
    end: int
    first_dirty: int
    bases: tuple[int, ...]


NOTHING_OLD: Final = OldSegments((), 0, 0, ())


def write_old(builder: LogBuilder, rnd: random.Random, *, compacted: bool) -> OldSegments:
    """Begin a log with some segments; some may be as an old cleaner left them."""
    magics = rnd.choice(((0,), (1,), (0, 1)))
    segments = rnd.randint(1, 3)
    cleaned = rnd.randint(0, segments - 1) if compacted else 0
    rows: list[Row] = []
    offset = first_dirty = 0
    left = iter(rnd.sample(KEYS, len(KEYS)))
    for number in range(segments):
        segment = builder.segment(offset, modified_ms=START_MS + rnd.randrange(MOST_MODIFIED_MS))
        keys = left if number < cleaned else _any_keys(rnd)
        for _ in range(rnd.randint(1, 3)):
            magic = magics[number * len(magics) // segments]
            batch = _batch(segment, rnd, magic, offset, keys)
            rows += batch
            offset = batch[-1].offset + 1 if batch else offset
            offset += rnd.choice((0, 0, 0, 2)) if compacted else 0
        offset = max(offset, segment.base_offset + 1)
        if number < cleaned:
            first_dirty = offset
    bases = tuple(each.base_offset for each in builder.segments)
    return OldSegments(tuple(rows), offset, first_dirty, bases)


def leave_out_new_files(directory: Path, old: OldSegments) -> None:
    """Leave of these segments what a broker of 0.9 knows. Effects: removes files of a log."""
    for path in directory.iterdir():
        if path.suffix in (".timeindex", ".snapshot") and int(path.stem) in old.bases:
            path.unlink()


def _any_keys(rnd: random.Random) -> Iterator[str | None]:
    while True:
        yield None if rnd.random() < 0.05 else rnd.choice(KEYS)


def _batch(
    segment: SegmentBuilder,
    rnd: random.Random,
    magic: int,
    offset: int,
    keys: Iterator[str | None],
) -> list[Row]:
    """Append one batch; its rows, none if there is no key left."""
    codec = rnd.choice(CODECS)
    append_time = START_MS + offset + 7 if magic and rnd.random() < 0.3 else None
    rows: list[Row] = []
    for _ in range(rnd.randint(1, 3) if codec else 1):
        if (key := next(keys, "none left")) == "none left":
            break
        rows.append(
            Row(
                offset=offset,
                key=None if key is None else key.encode(),
                value=None if rnd.random() < 0.3 else b"o%d" % offset,
                timestamp_ms=(append_time or START_MS + offset) if magic else -1,
            )
        )
        offset += rnd.choice((1, 1, 2)) if codec else 1
    if not rows:
        return []
    messages = [Message(row.key, row.value, row.timestamp_ms) for row in rows]
    if codec:
        offsets = [row.offset for row in rows]
        content = wrapper(magic, offsets, messages, codec, append_time=append_time)
    else:
        attributes = 0 if append_time is None else LOG_APPEND_TIME
        content = message(magic, rows[0].offset, messages[0], attributes)
    # Old brokers named the first offset of what was appended.
    indexed_as = rows[0].offset if rnd.random() < 0.5 else None
    largest = max(row.timestamp_ms for row in rows)
    segment.old(content, largest, indexed_as=indexed_as)
    return rows
