"""How far the archive of a log lags."""

from __future__ import annotations

from dataclasses import dataclass

from logwright.format.names import TopicPartition
from logwright.log.model import ReadableLog
from logwright.records.first import first_time_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveLag:
    """What an archive lacks of a log.

    Attributes:
        partition: whose log.
        archived_offset: the log end offset in the archive; -1: there is no version.
        end_offset: where the log ends; of a running broker's, up to where it is committed.
        oldest_ms: timestamp of the first record that is not archived; None: there is none.
    """

    partition: TopicPartition
    archived_offset: int
    end_offset: int
    oldest_ms: int | None

    @property
    def offsets(self) -> int:
        """How many offsets it lacks."""
        return max(0, self.end_offset - max(0, self.archived_offset))

    def age_ms(self, now_ms: int) -> int:
        """How old the first record is that it lacks; 0 if it lacks none."""
        return 0 if self.oldest_ms is None else max(0, now_ms - self.oldest_ms)


def lag_of(log: ReadableLog, archived_offset: int) -> ArchiveLag:
    """Return the lag of a log's archive. Effects: reads the first record that it lacks.

    Args:
        archived_offset: the log end offset in the archive; -1: there is no version.

    Raises:
        LogwrightError: the record cannot be read.
    """
    return ArchiveLag(
        partition=log.partition,
        archived_offset=archived_offset,
        end_offset=log.log_end_offset,
        oldest_ms=first_time_ms(log, max(archived_offset, 0)),
    )
