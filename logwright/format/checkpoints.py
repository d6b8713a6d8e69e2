"""Checkpoint files: text with a version line, a count line and one line per entry (CheckpointFile,
4.3.0).

::

    offset checkpoint        TOPIC PARTITION OFFSET
    leader-epoch-checkpoint  EPOCH START_OFFSET
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from logwright.errors import CorruptCheckpoint, UnsupportedFormatError
from logwright.format.names import TopicPartition
from logwright.units import INT32_MAX, INT64_MAX, Offset

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

VERSION: Final = 0

_DIGITS: Final = re.compile(rb"[0-9]{1,19}")
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_SPACES: Final = re.compile(r"[ \t\v\f]+")
"""As Java's ``\\s`` within a line."""
_PLAIN: Final = re.compile(r"0\n([0-9]{1,10})\n((?:[!-~]+ [0-9]{1,9} [0-9]{1,18}\n)*)")
"""An offset checkpoint in the form that Kafka and logwright write."""
_CONTENTS: Final = 8
"""Parsed contents that are kept: of the four files, before and after a change."""
_REMEDY: Final = (
    "It was not changed, and a broker does not start with it. Restore it, or run `logwright"
    " recover`, which writes a new one."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderEpoch:
    """A leader epoch and the first offset written in it."""

    epoch: int
    start_offset: Offset


def parse_offset_checkpoint(content: bytes, path: object) -> Mapping[TopicPartition, Offset]:
    """Parse one of the four offset checkpoint files; an empty file has no entries.

    The last entry of a partition wins, as in Kafka.

    Raises:
        CorruptCheckpoint: a malformed line, a wrong count, or an invalid offset.
        UnsupportedFormatError: another version than 0.
    """
    plain = _plain_entries(content)
    if plain is not None:
        return plain
    entries: dict[TopicPartition, Offset] = {}
    for number, fields in _entries(content, path, 3):
        topic, partition, offset = fields
        key = TopicPartition(topic, _integer(partition, INT32_MAX, number, path))
        entries[key] = Offset(_integer(offset, INT64_MAX, number, path))
    return entries


@lru_cache(maxsize=_CONTENTS)
def _plain_entries(content: bytes) -> Mapping[TopicPartition, Offset] | None:
    """Parse a file in the usual form fast, None for any other: a fleet has tens of thousands of
    entries, which are read again for each log.
    """
    match = _PLAIN.fullmatch(content.decode("latin-1")) if content.isascii() else None
    if match is None:
        return None
    fields = match[2].split()
    if int(match[1]) * 3 != len(fields):
        return None
    topics, partitions, offsets = fields[0::3], map(int, fields[1::3]), map(int, fields[2::3])
    keys = map(TopicPartition, topics, partitions)
    return dict(zip(keys, map(Offset, offsets), strict=True))


def find_offset(content: bytes, partition: TopicPartition) -> Offset | None:
    """Return one partition's entry of an offset checkpoint file without parsing the others; for
    callers that look up each of many partitions once.
    """
    start = f"\n{partition.topic} {partition.partition} ".encode()
    at = content.rfind(start)
    if at < 0:
        return None
    end = content.find(b"\n", at + 1)
    digits = content[at + len(start) : end if end >= 0 else len(content)].removesuffix(b"\r")
    return Offset(int(digits)) if _DIGITS.fullmatch(digits) else None


def serialize_offset_checkpoint(entries: Mapping[TopicPartition, int]) -> bytes:
    """Return the file's content, sorted by partition."""
    rows = sorted((found.topic, found.partition, offset) for found, offset in entries.items())
    return _serialize([f"{topic} {partition} {offset}" for topic, partition, offset in rows])


def parse_leader_epochs(content: bytes, path: object) -> tuple[LeaderEpoch, ...]:
    """Parse a leader-epoch-checkpoint, in file order; an empty file has no entries.

    Raises:
        CorruptCheckpoint: a malformed line, a wrong count, or entries that do not ascend.
        UnsupportedFormatError: another version than 0.
    """
    epochs: list[LeaderEpoch] = []
    for number, (epoch, start) in _entries(content, path, 2):
        entry = LeaderEpoch(
            epoch=_integer(epoch, INT32_MAX, number, path),
            start_offset=Offset(_integer(start, INT64_MAX, number, path)),
        )
        if epochs and (
            entry.epoch <= epochs[-1].epoch or entry.start_offset <= epochs[-1].start_offset
        ):
            raise _corrupt(f"line {number}: epochs and offsets do not ascend.", path)
        epochs.append(entry)
    return tuple(epochs)


def serialize_leader_epochs(epochs: Sequence[LeaderEpoch]) -> bytes:
    """Return the file's content."""
    return _serialize([f"{entry.epoch} {entry.start_offset}" for entry in epochs])


def trimmed_epochs(epochs: Sequence[LeaderEpoch], start: Offset) -> tuple[LeaderEpoch, ...]:
    """Return the leader epochs of a log that starts at `start` (LeaderEpochFileCache)."""
    passed = [epoch for epoch in epochs if epoch.start_offset <= start]
    if not passed:
        return tuple(epochs)
    first = LeaderEpoch(epoch=passed[-1].epoch, start_offset=start)
    return (first, *epochs[len(passed) :])


def _serialize(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in [str(VERSION), str(len(lines)), *lines]).encode()


def _entries(content: bytes, path: object, columns: int) -> list[tuple[int, list[str]]]:
    """Return (line number, fields) of each entry."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise _corrupt("the file is not text.", path, error.start) from error
    # As Java's readLine: a line ends at \n, \r, \r\n or the end of the file.
    lines = re.split(r"\r\n|\r|\n", text)
    if lines[-1] == "":
        lines.pop()
    if not lines:
        return []
    version = _integer(lines[0], INT32_MAX, 1, path)
    if version != VERSION:
        raise UnsupportedFormatError(
            f"the checkpoint's version is {version}.",
            path=path,
            remedy=_REMEDY,
        )
    count = _integer(lines[1], INT32_MAX, 2, path) if len(lines) > 1 else 0
    entries = [
        (number, _SPACES.split(line.rstrip(" \t\v\f")))
        for number, line in enumerate(lines[2:], start=3)
    ]
    for number, fields in entries:
        if len(fields) != columns:
            raise _corrupt(f"line {number} has {len(fields)} fields instead of {columns}.", path)
    if count != len(entries):
        raise _corrupt(f"the count is {count}, but there are {len(entries)} entries.", path)
    return entries


def _integer(text: str, largest: int, number: int, path: object) -> int:
    if _INTEGER.fullmatch(text) is None or not 0 <= int(text) <= largest:
        raise _corrupt(f"line {number} has a number that is malformed or out of range.", path)
    return int(text)


def _corrupt(problem: str, path: object, position: int | None = None) -> CorruptCheckpoint:
    return CorruptCheckpoint(problem, path=path, position=position, remedy=_REMEDY)
