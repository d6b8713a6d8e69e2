"""What retention deletes after a cleaning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logwright.forecast.model import NOTHING, Removal
from logwright.retention.plan import plan_retention
from logwright.units import ByteCount

if TYPE_CHECKING:
    from collections.abc import Mapping

    from logwright.config.topic import TopicConfig
    from logwright.log.model import ReadableLog
    from logwright.units import TimestampMs


def retained(
    log: ReadableLog, config: TopicConfig, now_ms: TimestampMs, freed: Mapping[int, int]
) -> Removal:
    """Return the ``.log`` bytes of the segments that retention deletes after the cleaning, as if
    each segment were cleaned alone. Records are not counted. Pure.

    Args:
        log, config, now_ms: of the cleaning.
        freed: bytes that the cleaning frees, by the segment's base offset.
    """
    if not config.policy_known:
        return NOTHING
    segments = tuple(
        each._replace(log_bytes=ByteCount(each.log_bytes - freed.get(each.base_offset, 0)))
        for each in log.segments
    )
    after = plan_retention(log.with_segments(segments), config, now_ms=now_ms)
    return Removal(0, ByteCount(sum(verdict.bytes for verdict in after.deleted)))
