"""The record of whole logs that were deleted, ``<log dir>/.logwright-deleted-logs.jsonl``.

::

    {"at_ms":1760003686229,"directory":"t-0.8c1f...-delete","topic":"t","partition":0,
     "checkpoints":{"recovery-point-offset-checkpoint":84,...},"crc":1234567890}
    {"purging":"t-0.8c1f...-delete","crc":1234567890}

Kafka keeps the time of a deletion in memory only; a tool that ends needs a record. The topic is
there because a long one is cut in the directory's name, the checkpoint entries because an undo
gives them back. The second line comes before the first file goes: from then on nothing is left to
be brought back. `logwright.format.lines` has the form: a line that is torn or wrong is passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from logwright.format.lines import parse_lines, serialize_line
from logwright.format.names import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedLog:
    """One deletion on record.

    Attributes:
        at_ms: the clock of the command, ms since the epoch.
        directory: name of the log's directory since then.
        checkpoints: its entries before, by file name; None where it had none.
        purging: files of it were, or are about to be, unlinked.
    """

    at_ms: int
    directory: str
    partition: TopicPartition
    checkpoints: Mapping[str, int | None]
    purging: bool = False


def serialize_deletion(log: DeletedLog) -> bytes:
    """What is appended for a log that is about to be deleted."""
    entry: dict[str, object] = {
        "at_ms": log.at_ms,
        "directory": log.directory,
        "topic": log.partition.topic,
        "partition": log.partition.partition,
        "checkpoints": dict(log.checkpoints),
    }
    return serialize_line(entry)


def serialize_purging(directory: str) -> bytes:
    """What is appended before the first file of a deleted log goes."""
    return serialize_line({"purging": directory})


def serialize_deletions(logs: Iterable[DeletedLog]) -> bytes:
    """A whole record of these."""
    return b"".join(
        serialize_deletion(log) + (serialize_purging(log.directory) if log.purging else b"")
        for log in logs
    )


def parse_deletions(content: bytes) -> dict[str, DeletedLog]:
    """The deletions on record, by directory name, in their order."""
    found: dict[str, DeletedLog] = {}
    for entry in parse_lines(content):
        purging = entry.get("purging")
        if isinstance(purging, str) and purging in found:
            found[purging] = replace(found[purging], purging=True)
        deletion = _parse(entry)
        if deletion is not None:
            found[deletion.directory] = deletion
    return found


def _parse(entry: Mapping[str, object]) -> DeletedLog | None:
    at_ms, directory, topic = entry.get("at_ms"), entry.get("directory"), entry.get("topic")
    number, checkpoints = entry.get("partition"), entry.get("checkpoints")
    if not (
        type(at_ms) is int
        and isinstance(directory, str)
        and isinstance(topic, str)
        and type(number) is int
        and isinstance(checkpoints, dict)
    ):
        return None
    partition = TopicPartition.parse(f"{topic}-{number}")
    if partition is None:
        return None
    entries = {
        name: value
        for name, value in checkpoints.items()
        if isinstance(name, str) and (value is None or type(value) is int)
    }
    return DeletedLog(at_ms=at_ms, directory=directory, partition=partition, checkpoints=entries)
