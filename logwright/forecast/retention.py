"""What retention deletes after a cleaning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logwright.forecast.model import NOTHING, Removal
from logwright.retention.plan import plan_retention
from logwright.units import ByteCount

if TYPE_CHECKING:
    from collections.abc import Mapping

    from logwright.compaction.model import ReadablePlan


def retained(plan: ReadablePlan, freed: Mapping[int, int]) -> Removal:
    """Return the ``.log`` bytes of the segments that retention deletes after the cleaning, as if
    each segment were cleaned alone. Records are not counted. Pure.

    Args:
        plan: of the cleaning.
        freed: bytes that the cleaning frees, by the segment's base offset.
    """
    if not plan.config.policy_known:
        return NOTHING
    segments = tuple(
        each._replace(log_bytes=ByteCount(each.log_bytes - freed.get(each.base_offset, 0)))
        for each in plan.log.segments
    )
    after = plan_retention(plan.log.with_segments(segments), plan.config, now_ms=plan.now_ms)
    return Removal(0, ByteCount(sum(verdict.bytes for verdict in after.deleted)))
