"""Decide which offsets of a partition give its latest state, now or as of a point in the past.

1. The state now is that of the log below its last stable offset.
2. As of an offset X it is that of the log below X, with its transactions as they ended. As of a
   time T it is that below the first record with a timestamp above T, the offset that
   `KafkaConsumer.offsetsForTimes` finds for T + 1.
3. A cleaning removes a record if a later one with its key is below the new cleaner checkpoint. So
   what was the latest at a point below the checkpoint may be gone, if any offset below that point
   is missing. Without a checkpoint nobody knows how far the log was cleaned.
4. The checkpoint is a hint: if an offset above it is missing, the log was cleaned further, or is a
   copy of one that was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from logwright.config.topic import CleanerConfig
from logwright.errors import PointNotHeld
from logwright.latest.in_sync import require_in_sync
from logwright.latest.missing import first_missing
from logwright.latest.model import LatestPlan
from logwright.records.model import ReadCounts, ReadRequest, RecordsRange
from logwright.records.observe import first_offset_at
from logwright.records.pieces import Pieces
from logwright.records.plan import plan_records
from logwright.units import INT64_MAX, Offset

if TYPE_CHECKING:
    from logwright.log.model import ReadableLog

_DEFAULT: Final = CleanerConfig()


def plan_latest(
    log: ReadableLog,
    *,
    start_offset: int | None = None,
    end_offset: int | None = None,
    end_timestamp_ms: int | None = None,
    cleaner: CleanerConfig = _DEFAULT,
) -> LatestPlan:
    """Plan the latest state of a partition. Effects: if a segment is entered or left in the middle,
    reads its index entries, and the batches that they name; for a point in the past also the
    headers below it; of a running broker's log the cluster metadata.

    Args:
        log: as observed.
        start_offset: only records from there on count, to learn what is new since then; the log
            start offset, if that is above it or none is given.
        end_offset: as of this offset, exclusive.
        end_timestamp_ms: or as of this time, ms since the epoch.
        cleaner: has the memory budget of the offset map (``log.cleaner.dedupe.buffer.size``).

    Raises:
        PointNotHeld: the log does not hold that point any more, or not yet.
        Unsettled: it is of a running broker, and the replica is not in sync.
        CorruptBatch, UnsupportedFormatError, UnreadableFile, StalePlan: a segment cannot be read.
        ValueError: both an offset and a time are given.
    """
    if end_offset is not None and end_timestamp_ms is not None:
        message = "as of an offset or of a time, not both"
        raise ValueError(message)
    require_in_sync(log)
    begin, stable = log.log_start_offset, max(log.log_start_offset, log.last_stable_offset)
    start = begin if start_offset is None else Offset(max(start_offset, begin))
    end = stable
    if end_offset not in (None, log.last_stable_offset):
        end = Offset(end_offset)
    elif end_timestamp_ms is not None:
        end = _offset_after(log, end_timestamp_ms)
    lost = end < stable and end == begin > 0
    if lost or not start <= end <= stable:
        raise _outside(log, max(start, Offset(begin + lost)), end)
    if end < stable:
        _require_held(log, start, end)
    return LatestPlan(
        partition=log.partition,
        start_offset=start,
        end_offset=end,
        records=_range(log, start, end, "read_committed"),
        cleaner=cleaner,
    )


def _offset_after(log: ReadableLog, timestamp_ms: int) -> Offset:
    """Return the last stable offset, or the first offset below it with a later timestamp."""
    stable = log.last_stable_offset
    after = None if timestamp_ms == INT64_MAX else first_offset_at(log, timestamp_ms + 1, "fail")
    return stable if after is None else min(Offset(after), stable)


def _range(
    log: ReadableLog,
    start: int,
    end: int,
    isolation: Literal["read_committed", "read_uncommitted"],
) -> RecordsRange | None:
    """Return what holds the offsets [start, end), None if nothing does. Effects: see
    `plan_records`.
    """
    request = ReadRequest(
        start_offset=start, end_offset=end, isolation=isolation, range_bytes=INT64_MAX
    )
    ranges = plan_records(log, request)
    return ranges[0] if ranges else None


def _outside(log: ReadableLog, first: Offset, requested: Offset) -> PointNotHeld:
    stable = log.last_stable_offset
    return PointNotHeld(
        f"{log.partition} has no state as of offset {requested}: its log start offset is"
        f" {log.log_start_offset}, its last stable offset {stable}.",
        path=log.directory,
        remedy=f"Ask for an offset from {first} to {stable}." if first <= stable else None,
    )


def _require_held(log: ReadableLog, start: Offset, end: Offset) -> None:
    """Require that no record is missing that may have been the latest of its key at the end offset.
    Effects: reads batch headers.

    Raises:
        PointNotHeld: one may be.
    """
    missing = _first_missing(log, start, end)
    if missing is None:
        return
    checkpoint, stable = log.cleaner_checkpoint, log.last_stable_offset
    if checkpoint is None or checkpoint > log.log_end_offset:
        why, later = "and there is no cleaner checkpoint", stable
    elif checkpoint > end:
        why, later = f"and the log was cleaned up to {checkpoint}", Offset(min(checkpoint, stable))
    else:
        above = _first_missing(log, max(start, checkpoint), end)
        if above is None:
            return
        why, later = f"and {above}, although the log was cleaned up to {checkpoint} only", stable
    raise PointNotHeld(
        f"{log.partition} may not hold its state as of offset {end} any more: offset {missing} is"
        f" missing, {why}.",
        path=log.directory,
        remedy=f"Ask for an offset up to {missing}, or from {later} to {stable}.",
    )


def _first_missing(log: ReadableLog, first: int, end: int) -> int | None:
    """Return the lowest offset in [first, end) that may be missing. Effects: reads headers."""
    records_range = _range(log, first, end, "read_uncommitted")
    return first_missing(
        () if records_range is None else Pieces(records_range, ReadCounts()), first, end
    )
