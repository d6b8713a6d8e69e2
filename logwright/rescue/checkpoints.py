"""What a broker makes of a checkpoint file that is not as it writes one (CheckpointReadBuffer,
OffsetCheckpointFile, LeaderEpochFileCache, LogManager; Kafka 4.3.0).

It reads line by line. A line that has not the right number of fields, another version, another
count or bytes that are not text make an error of input, and the log directory goes offline. A field
that is not a number, in a line of the right form, makes another error: of the recovery points and
of the log start offsets it is ignored, with all entries; of any other file it ends the start.
Negative offsets are read, but not those of leader epochs; whether epochs ascend is not asked.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from logwright.format.names import (
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    TopicPartition,
)
from logwright.units import INT32_MAX, INT64_MAX, Offset

Read = Literal["reads", "ignores", "fails"]
"""``ignores``: it starts, as if the file had no entry."""

_IGNORED: Final = frozenset((RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT))
_INTEGER: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_SPACES: Final = re.compile(r"[ \t\v\f\r\n]+")
_LINE: Final = re.compile(r"\r\n|\r|\n")


def offsets_read(name: str, content: bytes) -> Read:
    """Return what a broker does with one of the four offset checkpoints."""
    try:
        _numbers(content, fields=3)
    except _NotANumberError:
        return "ignores" if name in _IGNORED else "fails"
    except _MalformedError:
        return "fails"
    return "reads"


def offsets_of(content: bytes) -> dict[TopicPartition, Offset]:
    """Return the entries of an offset checkpoint that a broker reads; none if it reads none."""
    try:
        numbers = _numbers(content, fields=3)
    except (_NotANumberError, _MalformedError):
        return {}
    lines = _LINE.split(content.decode())[2:]
    topics = (line.split(maxsplit=1)[0] for line in lines[: len(numbers)])
    return {
        TopicPartition(topic, number): Offset(offset)
        for topic, (number, offset) in zip(topics, numbers, strict=True)
    }


def epochs_read(content: bytes) -> Read:
    """Return what a broker does with a ``leader-epoch-checkpoint``."""
    try:
        numbers = _numbers(content, fields=2)
    except (_NotANumberError, _MalformedError):
        return "fails"
    return "fails" if any(min(pair) < 0 for pair in numbers) else "reads"


class _MalformedError(Exception):
    """An error of input."""


class _NotANumberError(Exception):
    """A field is not a number, in a line of the right form."""


def _numbers(content: bytes, *, fields: int) -> list[tuple[int, int]]:
    """Return the last two fields of each entry.

    Raises:
        _MalformedError, _NotANumberError: of the first line that is wrong.
    """
    try:
        lines = _LINE.split(content.decode())
    except UnicodeDecodeError as error:
        raise _MalformedError from error
    if lines[-1] == "":
        lines.pop()
    if lines and _head(lines[0]) != 0:
        raise _MalformedError
    if len(lines) <= 1:
        return []
    count, numbers = _head(lines[1]), []
    for line in lines[2:]:
        cells = _SPACES.split(line.rstrip(" \t\v\f"))
        if len(cells) != fields:
            raise _MalformedError
        numbers.append((_number(cells[-2], INT32_MAX), _number(cells[-1], INT64_MAX)))
    if count != len(numbers):
        raise _MalformedError
    return numbers


def _head(line: str) -> int:
    try:
        return _number(line, INT32_MAX)
    except _NotANumberError as error:
        raise _MalformedError from error


def _number(text: str, largest: int) -> int:
    """Return a number as Java parses it.

    Raises:
        _NotANumberError: it does not.
    """
    if _INTEGER.fullmatch(text) is None or not -largest - 1 <= int(text) <= largest:
        raise _NotANumberError
    return int(text)
