"""When the tombstones of batches of formats v0 and v1 may go: these have no delete horizon, so the
times of the files decide (Cleaner.doClean and cleanSegments, Kafka 4.3.0).
"""

from __future__ import annotations

from typing import Final

from logwright.batches.source import Source
from logwright.compaction.model import ReadablePlan
from logwright.format.legacy import LEGACY, LEGACY_EXPIRED
from logwright.log.model import Segment
from logwright.units import TimestampMs

_NS_PER_MS: Final = 1_000_000


def legacy_horizon_ms(plan: ReadablePlan) -> TimestampMs:
    """Return the time at or before which a segment was modified if the tombstones of its old
    batches may go, ms: ``delete.retention.ms`` before that of the last segment which begins in the
    clean section; 0 without one.
    """
    first_dirty = plan.compaction.first_dirty_offset
    clean = [each for each in plan.rolled_log.segments if each.base_offset < first_dirty]
    if not clean:
        return TimestampMs(0)
    modified_ms = clean[-1].modified_ns // _NS_PER_MS
    return TimestampMs(modified_ms - plan.config.delete_retention_ms)


def mark_expired(source: Source, segment: Segment, plan: ReadablePlan) -> None:
    """Set `legacy` of the batches whose tombstones may go.

    Args:
        source: an open segment of the plan's log. segment: the same, as observed.
    """
    if source.is_converted and segment.modified_ns // _NS_PER_MS <= legacy_horizon_ms(plan):
        old = source.batches["legacy"]
        old[old == LEGACY] = LEGACY_EXPIRED
