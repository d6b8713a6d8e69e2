"""Faults of a cleaning's staged files, as a build, a disk or somebody may make them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Final

from logwright.format.batch import RecordBatch, parse_batch, serialize_batch, walk_batches
from logwright.format.codec import compress
from logwright.format.record import Record, encode_records, read_records
from logwright.units import Offset, TimestampMs
from tests.property.mutations import mend_crcs, mutate
from tests.property.wrong_hints import index_ways, timeindex_ways

Change = Callable[[list[bytes], Random], None]
"""Changes the batches of a log; some are not empty."""

_FIELDS: Final = (
    ("base offset", 0, ">q"),
    ("leader epoch", 12, ">i"),
    ("attributes", 21, ">h"),
    ("last offset delta", 23, ">i"),
    ("base timestamp", 27, ">q"),
    ("max timestamp", 35, ">q"),
    ("producer id", 43, ">q"),
    ("producer epoch", 51, ">h"),
    ("base sequence", 53, ">i"),
    ("record count", 57, ">i"),
)


@contextmanager
def planted(path: Path, content: bytes) -> Iterator[None]:
    """A file with other bytes. Effects: writes it, and in the end what it was."""
    original = path.read_bytes()
    path.write_bytes(content)
    try:
        yield
    finally:
        path.write_bytes(original)


def wrong_log(content: bytes, random: Random) -> tuple[str, bytes]:
    """How a log's bytes are wrong, and those."""
    batches = [
        content[span.position : span.position + span.bytes] for span in walk_batches(content)
    ]
    name, change = random.choice(_CHANGES)
    if not batches or change is None:
        return "damage", mutate(content, random)
    change(batches, random)
    return name, b"".join(batches)


def wrong_index(path: Path, random: Random) -> tuple[str, bytes]:
    """The same of an offset or time index."""
    content = path.read_bytes()
    ways = index_ways if path.suffix == ".index" else timeindex_ways
    contents = [*ways(content), ("half", content[: len(content) // 2]), ("byte", content + b"\0")]
    name, changed = random.choice(contents)
    return f"{path.suffix} {name}", changed or b""


def _drop(batches: list[bytes], random: Random) -> None:
    del batches[random.randrange(len(batches))]


def _repeat(batches: list[bytes], random: Random) -> None:
    number = random.randrange(len(batches))
    batches.insert(number, batches[number])


def _swap(batches: list[bytes], random: Random) -> None:
    if len(batches) > 1:
        number = random.randrange(len(batches) - 1)
        batches[number : number + 2] = batches[number + 1], batches[number]


def _field(batches: list[bytes], random: Random) -> None:
    """A number of a header, with a right CRC."""
    number = random.randrange(len(batches))
    _, at, form = random.choice(_FIELDS)
    changed = bytearray(batches[number])
    bits = 8 * struct.calcsize(form)
    (value,) = struct.unpack_from(form, changed, at)
    value ^= 1 << random.randrange(bits - 1)
    struct.pack_into(form, changed, at, value)
    mend_crcs(changed)
    batches[number] = bytes(changed)


def _flip(batches: list[bytes], random: Random) -> None:
    """A bit, with a right CRC."""
    number = random.randrange(len(batches))
    changed = bytearray(batches[number])
    changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    mend_crcs(changed)
    batches[number] = bytes(changed)


def _in_records(change: Callable[[list[Record], Random], None]) -> Change:
    """Change the records of a batch, and encode it with its codec again."""

    def changed(batches: list[bytes], random: Random) -> None:
        some = [n for n, whole in enumerate(batches) if parse_batch(whole).records_count > 0]
        if not some:
            return
        number = random.choice(some)
        header = parse_batch(batches[number])
        records = list(read_records(header, batches[number]))
        change(records, random)
        batches[number] = _encoded(header, records)

    return changed


def _encoded(header: RecordBatch, records: list[Record]) -> bytes:
    header = replace(header, records_count=len(records))
    payload = encode_records(header, records)
    return serialize_batch(header, compress(header.codec, payload) if header.codec else payload)


def _lose(records: list[Record], random: Random) -> None:
    del records[random.randrange(len(records))]


def _value(records: list[Record], random: Random) -> None:
    number = random.randrange(len(records))
    value = random.choice((None, b"", b"another"))
    records[number] = replace(records[number], value=value)


def _key(records: list[Record], random: Random) -> None:
    number = random.randrange(len(records))
    key = random.choice((None, b"all 1", b"another"))
    records[number] = replace(records[number], key=key)


def _time(records: list[Record], random: Random) -> None:
    number = random.randrange(len(records))
    time = TimestampMs(records[number].timestamp_ms + random.choice((-1, 1, 1000)))
    records[number] = replace(records[number], timestamp_ms=time)


def _offset(records: list[Record], random: Random) -> None:
    number = random.randrange(len(records))
    offset = Offset(records[number].offset + random.choice((-1, 1)))
    records[number] = replace(records[number], offset=offset)


def _exchange(records: list[Record], random: Random) -> None:
    """Two records exchange their values."""
    left, other = random.randrange(len(records)), random.randrange(len(records))
    first, second = records[left], records[other]
    records[left] = replace(first, value=second.value)
    records[other] = replace(second, value=first.value)


_CHANGES: Final[tuple[tuple[str, Change | None], ...]] = (
    ("dropped batch", _drop),
    ("batch twice", _repeat),
    ("swapped batches", _swap),
    ("header field", _field),
    ("flipped bit", _flip),
    ("lost record", _in_records(_lose)),
    ("another value", _in_records(_value)),
    ("another key", _in_records(_key)),
    ("another time", _in_records(_time)),
    ("another offset", _in_records(_offset)),
    ("exchanged values", _in_records(_exchange)),
    ("damage", None),
)
