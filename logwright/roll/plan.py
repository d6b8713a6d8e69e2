"""Whether the active segment is rolled (`segment.bytes`, `segment.ms`, `max.compaction.lag.ms`;
KIP-354).

Kafka rolls only when it appends (UnifiedLog.maybeRoll, 4.3.0). A log that nobody appends to would
keep its last records out of compaction for ever, so the rule is asked here against the clock, as a
declared difference.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from logwright.config.topic import TopicConfig
from logwright.log.model import PartitionLog, Segment
from logwright.units import ByteCount, Offset, TimestampMs

RollCause = Literal["size", "time"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RollDecision:
    """What becomes of the active segment.

    Attributes:
        cause: why it is rolled; None if it is not.
        new_base_offset: base offset of the new active segment, None if there is none.
        due_at_ms: when time will make it due; None if time never will (it is empty or has no
            timestamp).
        reason: one sentence with the numbers.
    """

    cause: RollCause | None
    new_base_offset: Offset | None
    due_at_ms: TimestampMs | None
    reason: str

    @property
    def due(self) -> bool:
        """The active segment is to be rolled."""
        return self.cause is not None

    def applied_to(self, log: PartitionLog) -> PartitionLog:
        """The log as it is after this decision; the same object if nothing is rolled."""
        if self.new_base_offset is None:
            return log
        fresh = Segment(
            base_offset=self.new_base_offset,
            log_bytes=ByteCount(0),
            index_bytes=ByteCount(0),
            timeindex_bytes=ByteCount(0),
            txnindex_bytes=None,
            modified_ns=log.active.modified_ns,
            largest_timestamp_ms=log.active.largest_timestamp_ms,
            first_batch_max_timestamp_ms=None,
        )
        return log.with_segments((*log.segments, fresh))


def _not_rolled(why: str) -> RollDecision:
    reason = f"not due: {why}"
    return RollDecision(cause=None, new_base_offset=None, due_at_ms=None, reason=reason)


def plan_roll(
    log: PartitionLog, config: TopicConfig, *, now_ms: TimestampMs, like_kafka: bool
) -> RollDecision:
    """Decide about the active segment of a log that nobody appends to. `like_kafka`: it is never
    rolled.

    Size: Kafka would roll before the next append of a segment that holds ``segment.bytes`` already.
    Time: the first batch's maxTimestamp is more than the allowed time ago (strictly); jitter is
    Kafka's means against many brokers' disks flushing at once, and plays no part in a decision
    about one log at rest.
    """
    active = log.active
    if like_kafka:
        return _not_rolled("Kafka rolls only when it appends")
    if active.log_bytes == 0:
        return _not_rolled("the active segment is empty")
    decision = _not_rolled(f"{active.log_bytes} bytes of segment.bytes={config.segment_bytes}")
    if active.log_bytes >= config.segment_bytes:
        return replace(
            decision,
            cause="size",
            new_base_offset=log.log_end_offset,
            due_at_ms=now_ms,
            reason=f"it holds {active.log_bytes} bytes of segment.bytes={config.segment_bytes}",
        )
    first_ms = active.first_batch_max_timestamp_ms
    if first_ms is None or first_ms < 0:
        return decision
    limit_ms = config.max_segment_ms
    due_at_ms = TimestampMs(first_ms + limit_ms + 1)
    if now_ms >= due_at_ms:
        return replace(
            decision,
            cause="time",
            new_base_offset=log.log_end_offset,
            due_at_ms=due_at_ms,
            reason=f"its first batch is {now_ms - first_ms} ms old, more than {limit_ms} ms",
        )
    return replace(
        decision,
        due_at_ms=due_at_ms,
        reason=f"{decision.reason}; its first batch is {now_ms - first_ms} of {limit_ms} ms old",
    )
