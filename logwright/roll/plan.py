"""Decide whether the active segment is rolled (`segment.bytes`, `segment.ms`,
`max.compaction.lag.ms`; KIP-354).

Kafka rolls only when it appends (UnifiedLog.maybeRoll, 4.3.0). A log that nobody appends to would
keep its last records out of compaction for ever, so the rule is asked here against the clock, as a
declared difference. ``segment.jitter.ms``: see `logwright.config.jitter`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from logwright.config.jitter import segment_jitter_ms
from logwright.config.topic import TopicConfig
from logwright.format.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES
from logwright.log.model import PartitionLog, ReadableLog, Segment
from logwright.place.model import AnyPlace
from logwright.times import durations_apart
from logwright.units import INT32_MAX, ByteCount, Offset, TimestampMs

RollCause = Literal[
    "size", "time", "offset index", "time index", "offset range", "forced", "emptied"
]
"""``emptied``: a retention deletes every segment, and the log needs an active one."""


class RollDecision(NamedTuple):
    """The decision about the active segment. A tuple, as a `PartitionLog` is.

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
        """Whether the active segment is rolled."""
        return self.cause is not None

    def applied_to(self, log: PartitionLog[AnyPlace]) -> PartitionLog[AnyPlace]:
        """Return the log as it is after this decision; the same object if nothing is rolled."""
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


def not_rolled(why: str) -> RollDecision:
    """Return the decision that the active segment stays, for this reason."""
    reason = f"not due: {why}"
    return RollDecision(cause=None, new_base_offset=None, due_at_ms=None, reason=reason)


def plan_roll(
    log: ReadableLog, config: TopicConfig, *, now_ms: TimestampMs, like_kafka: bool
) -> RollDecision:
    """Decide about the active segment of a log that nobody appends to. `like_kafka`: it is never
    rolled.

    Size, full indexes, offsets out of an index's range: Kafka would roll before the next append.
    Time: the first batch's maxTimestamp is more than the allowed time, less the jitter, ago
    (strictly).
    """
    active = log.active
    if like_kafka:
        return not_rolled("Kafka rolls only when it appends")
    if active.log_bytes == 0:
        return not_rolled("the active segment is empty")
    filled = _filled(log, config)
    if filled is not None:
        cause, reason = filled
        return RollDecision(
            cause=cause, new_base_offset=log.log_end_offset, due_at_ms=now_ms, reason=reason
        )
    decision = not_rolled(f"{active.log_bytes} bytes of segment.bytes={config.segment_bytes}")
    first_ms = active.first_batch_max_timestamp_ms
    if first_ms is None or first_ms < 0:
        return decision
    limit_ms = config.max_segment_ms - segment_jitter_ms(config, log.partition, active.base_offset)
    due_at_ms = TimestampMs(first_ms + limit_ms + 1)
    age, limit = durations_apart(max(now_ms - first_ms, 0), limit_ms)
    if now_ms >= due_at_ms:
        return decision._replace(
            cause="time",
            new_base_offset=log.log_end_offset,
            due_at_ms=due_at_ms,
            reason=f"its first batch is {age} old, the limit is {limit}",
        )
    return decision._replace(
        due_at_ms=due_at_ms,
        reason=f"{decision.reason}; its first batch is {age} old, the limit is {limit}",
    )


def force_roll(log: ReadableLog, *, cause: Literal["forced", "emptied"]) -> RollDecision:
    """Roll independently of the settings; an empty active segment is not rolled."""
    if log.active.log_bytes == 0:
        return not_rolled("the active segment is empty")
    reasons = {"forced": "it was asked for", "emptied": "every segment is deleted"}
    return RollDecision(
        cause=cause, new_base_offset=log.log_end_offset, due_at_ms=None, reason=reasons[cause]
    )


def _filled(log: ReadableLog, config: TopicConfig) -> tuple[RollCause, str] | None:
    """Return why the active segment takes no further batch, or None (LogSegment.shouldRoll)."""
    active = log.active
    if active.log_bytes >= config.segment_bytes:
        return "size", f"it holds {active.log_bytes} bytes of segment.bytes={config.segment_bytes}"
    indexes: tuple[tuple[RollCause, int, int], ...] = (
        (
            "offset index",
            active.index_bytes // OFFSET_ENTRY_BYTES,
            config.segment_index_bytes // OFFSET_ENTRY_BYTES,
        ),
        (
            "time index",
            active.timeindex_bytes // TIME_ENTRY_BYTES,
            config.segment_index_bytes // TIME_ENTRY_BYTES - 1,
        ),
    )
    for cause, used, most in indexes:
        if used >= most:
            return cause, f"its {cause} has {used} entries, a batch needs fewer than {most}"
    if log.log_end_offset - active.base_offset > INT32_MAX:
        return "offset range", f"offset {log.log_end_offset} is too far from its base offset"
    return None
