"""The ledger of deleted logs, ``<log dir>/.logwright-deleted-logs.jsonl``.

::

    {"at_ms":1760003686229,"directory":"t-0.8c1f...-delete","topic":"t","partition":0,
     "delay_ms":60000,"checkpoints":{"recovery-point-offset-checkpoint":84,...},"crc":1234567890}
    {"purging":"t-0.8c1f...-delete","crc":1234567890}

Kafka keeps the time of a deletion, and the delay of its removal, only in memory
(LogManager.deleteLogs); a command that exits has to write both down. The
entry has the topic because the directory's name truncates a long one, and the checkpoint entries
because an undo restores them. The second line is written before the first file is removed: after
that the log cannot be restored. See `logwright.format.lines` for the file format: a torn or invalid
line is ignored.
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
    """One deleted log.

    Attributes:
        at_ms: the clock of the command, ms since the epoch.
        directory: name of the log's directory after the deletion.
        checkpoints: file name → its entry before the deletion, None if it had none.
        purging: the purge of its files has begun.
        elsewhere: it began before its first segment: the offsets in between are in remote storage,
            or lost. Nothing else says so once its files are purged.
        delay_ms: the broker's ``log.segment.delete.delay.ms`` by the settings of the deletion; 0:
            not on record.
    """

    at_ms: int
    directory: str
    partition: TopicPartition
    checkpoints: Mapping[str, int | None]
    purging: bool = False
    elsewhere: bool = False
    delay_ms: int = 0

    @property
    def not_before_ms(self) -> int:
        """Until when it is kept by the settings that it was deleted with, ms since the epoch."""
        return self.at_ms + self.delay_ms


def serialize_deletion(log: DeletedLog) -> bytes:
    """Return the line to append before a log is deleted."""
    entry: dict[str, object] = {
        "at_ms": log.at_ms,
        "directory": log.directory,
        "topic": log.partition.topic,
        "partition": log.partition.partition,
        "checkpoints": dict(log.checkpoints),
        **({"elsewhere": True} if log.elsewhere else {}),
        **({"delay_ms": log.delay_ms} if log.delay_ms else {}),
    }
    return serialize_line(entry)


def serialize_purging(directory: str) -> bytes:
    """Return the line to append before the first file of a deleted log is removed."""
    return serialize_line({"purging": directory})


def serialize_deletions(logs: Iterable[DeletedLog]) -> bytes:
    """Return a whole ledger."""
    return b"".join(
        serialize_deletion(log) + (serialize_purging(log.directory) if log.purging else b"")
        for log in logs
    )


def parse_deletions(content: bytes) -> dict[str, DeletedLog]:
    """Parse a ledger into directory name → deletion, in file order."""
    deletions: dict[str, DeletedLog] = {}
    for entry in parse_lines(content):
        purging = entry.get("purging")
        if isinstance(purging, str) and purging in deletions:
            deletions[purging] = replace(deletions[purging], purging=True)
        deletion = _parse(entry)
        if deletion is not None:
            deletions[deletion.directory] = deletion
    return deletions


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
    delay_ms = entry.get("delay_ms")
    return DeletedLog(
        at_ms=at_ms,
        directory=directory,
        partition=partition,
        checkpoints=entries,
        elsewhere=entry.get("elsewhere") is True,
        delay_ms=delay_ms if type(delay_ms) is int and delay_ms > 0 else 0,
    )
