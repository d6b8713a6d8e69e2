"""Check that expired segments are as old as their time index says."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from logwright.errors import CorruptIndex
from logwright.format.names import LOG, TIMEINDEX, segment_file_name
from logwright.format.scan import scan_segment
from logwright.place.mapped import map_file
from logwright.times import durations_apart
from logwright.units import TimestampMs

if TYPE_CHECKING:
    from logwright.retention.plan import RetentionPlan
    from logwright.units import Offset

_REBUILD: Final = (
    "The log was left untouched. Remove this file and the segment's .index: `logwright recover`, or"
    " a broker at its start, then rebuilds both from the log."
)


def require_old(plan: RetentionPlan) -> dict[Offset, TimestampMs]:
    """Check the batches of the segments that ``retention.ms`` deletes: a time index is only a hint.
    Effects: reads the headers of these segments.

    Returns:
        base offset → newest timestamp of the batches, -1 if they have none.

    Raises:
        CorruptIndex: a batch is younger than that.
        CorruptBatch, UnsupportedFormatError, UnreadableFile, StalePlan: a segment cannot be read.
    """
    log = plan.log
    read: dict[Offset, TimestampMs] = {}
    ends = dict(pairwise(segment.base_offset for segment in log.segments))
    sizes = {segment.base_offset: segment.log_bytes for segment in log.segments}
    for verdict in plan.deleted:
        base, limit_ms, looks_ms = verdict.base_offset, verdict.limit, verdict.value
        if verdict.cause != "time" or limit_ms is None or looks_ms is None or not sizes[base]:
            continue
        path = log.directory / segment_file_name(base, LOG)
        batches = scan_segment(
            map_file(path, expected_bytes=sizes[base]),
            path,
            base_offset=base,
            end_offset=ends.get(base, log.log_end_offset),
            headers_only=True,
        )
        newest = TimestampMs(int(batches["max_timestamp"].max()))
        read[base] = newest
        if newest >= 0 and plan.now_ms - newest <= limit_ms:
            age, age_by_index = durations_apart(plan.now_ms - newest, looks_ms)
            raise CorruptIndex(
                f"the segment's newest record is {age} old, by this index {age_by_index}.",
                path=log.directory / segment_file_name(base, TIMEINDEX),
                remedy=_REBUILD,
            )
    return read
