"""Decide which deleted logs can be restored, and which are removed.

A log goes ``file.delete.delay.ms`` of the *broker* after its deletion (Kafka ignores the topic's
here), by the settings now and by those of the deletion: by the record, or by the directory's own
times if a broker deleted it. A directory that holds other files are not touched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from logwright.errors import CannotUndo
from logwright.format.deleted_logs import DeletedLog
from logwright.format.names import TopicPartition
from logwright.times import durations_apart
from logwright.units import ByteCount, TimestampMs

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from logwright.deletion.observe import DeletedDirectory, DeletedListing


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgedLog:
    """A deleted log, whether it is purged, and why.

    Attributes:
        due_at_ms: when it may go.
        goes: it is due and holds nothing foreign.
        reason: one sentence.
    """

    directory: str
    partition: TopicPartition
    bytes: ByteCount
    due_at_ms: TimestampMs
    goes: bool
    reason: str


def plan_purge_logs(
    listing: DeletedListing,
    *,
    now_ms: TimestampMs,
    delay_ms: int,
    named: Collection[TopicPartition] | None,
    directories: Collection[str] | None = None,
    force: bool = False,
) -> tuple[PurgedLog, ...]:
    """Decide which deleted logs are purged.

    Args:
        listing: the log directory.
        now_ms: the clock.
        delay_ms: the broker's `log.segment.delete.delay.ms`.
        named: only these partitions; None: all.
        directories: only those of these names; None: all.
        force: this delay alone counts, and not that of the settings of the deletion.
    """
    return tuple(
        plan_purge_log(directory, now_ms=now_ms, delay_ms=delay_ms, force=force)
        for name, directory in listing.directories.items()
        if (named is None or directory.partition in named)
        and (directories is None or name in directories)
    )


def plan_purge_log(
    directory: DeletedDirectory, *, now_ms: TimestampMs, delay_ms: int, force: bool = False
) -> PurgedLog:
    """Decide about one deleted log; the arguments as for `plan_purge_logs`."""
    if directory.record is not None and not force:
        delay_ms = max(delay_ms, directory.record.delay_ms)
    due_at_ms = TimestampMs(directory.at_ms + delay_ms)
    whose = "deleted" if directory.record is not None else "deleted by a broker, last touched"
    waited, delay = durations_apart(max(now_ms - directory.at_ms, 0), delay_ms)
    reason = f"{whose} {waited} ago, log.segment.delete.delay.ms is {delay}"
    if directory.foreign:
        reason = f"it holds {directory.foreign[0]}, which no log has"
    return PurgedLog(
        directory=directory.path.name,
        partition=directory.partition,
        bytes=directory.bytes,
        due_at_ms=due_at_ms,
        goes=due_at_ms <= now_ms and not directory.foreign,
        reason=reason,
    )


def find_restorable(listing: DeletedListing, partition: TopicPartition) -> DeletedLog:
    """Return the last deletion of a log.

    Raises:
        CannotUndo: there is none on record, it is purged, or there is a log of that name.
    """
    if partition in listing.live:
        raise cannot_restore(listing.log_dir, partition, "there is a log of that name.")
    deletions = [
        deletion
        for name, deletion in listing.deletions.items()
        if deletion.partition == partition and name in listing.directories
    ]
    if not deletions:
        raise cannot_restore(listing.log_dir, partition, "no deletion of it is on record.")
    last = max(deletions, key=lambda deletion: deletion.at_ms)
    if last.purging:
        raise cannot_restore(listing.log_dir, partition, "its files are purged.")
    return last


def cannot_restore(log_dir: Path, partition: TopicPartition, problem: str) -> CannotUndo:
    """Return the error for a deletion that cannot be undone."""
    return CannotUndo(
        f"the deletion of {partition} cannot be undone: {problem}",
        path=log_dir,
        remedy="Nothing was changed.",
    )
