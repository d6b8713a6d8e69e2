"""Decide what may be cleaned and whether it is due (LogCleanerManager of Kafka 4.3.0; KIP-58,
KIP-354). Pure.

1. First dirty offset: the cleaner checkpoint, unless it is outside the log.
2. First uncleanable offset: the smallest of the last stable offset, the active segment's base
   offset and the first segment that is younger than ``min.compaction.lag.ms``; then down to a
   segment's base offset.
3. Dirty ratio: cleanable bytes / (clean + cleanable bytes), of ``.log`` files.
4. Due: the ratio is above ``min.cleanable.dirty.ratio``, or a dirty segment's first batch is older
   than ``max.compaction.lag.ms`` and there is something cleanable.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from operator import attrgetter
from typing import Final

from logwright.compaction.model import CompactionPlan
from logwright.config.topic import TopicConfig
from logwright.format.names import HIGH_WATERMARK_CHECKPOINT
from logwright.log.model import ReadableLog, Segment, log_bytes_of
from logwright.log.watermark import is_without_high_watermark
from logwright.times import duration, instant
from logwright.units import INT32_MAX, INT64_MAX, ByteCount, DurationMs, Offset, TimestampMs

_base_offset: Final = attrgetter("base_offset")


def plan_compaction(
    log: ReadableLog, config: TopicConfig, *, now_ms: TimestampMs, like_kafka: bool
) -> CompactionPlan:
    """Decide about one partition.

    Args:
        log: the log, as it will be after a roll if there is one.
        now_ms: the clock, for both lags.
        like_kafka: segments without timestamps have no age, as in Kafka 4.3.
    """
    first_dirty, force_update = first_dirty_offset(log)
    dirty = _dirty_segments(log, first_dirty)
    raw_bound, bound_reason = _first_uncleanable(log, config, first_dirty, dirty, now_ms)
    bound = _aligned(log, raw_bound)
    clean_bytes = log_bytes_of(_before(log.segments, first_dirty))
    cleanable_bytes = 0 if bound <= first_dirty else log_bytes_of(_before(dirty, bound))
    total = clean_bytes + cleanable_bytes
    ratio = cleanable_bytes / total if total else 0.0
    lag = _compaction_lag(dirty, config, now_ms, like_kafka=like_kafka)
    by_lag = lag.delay_ms > 0 and cleanable_bytes > 0
    by_ratio = total > 0 and ratio > config.min_cleanable_dirty_ratio
    return CompactionPlan(
        first_dirty_offset=first_dirty,
        first_uncleanable_dirty_offset=raw_bound,
        first_uncleanable_offset=bound,
        clean_bytes=clean_bytes,
        cleanable_bytes=ByteCount(cleanable_bytes),
        cleanable_ratio=ratio,
        min_cleanable_ratio=config.min_cleanable_dirty_ratio,
        compaction_delay_ms=lag.delay_ms,
        need_compaction_now=lag.delay_ms > 0,
        force_update_checkpoint=force_update,
        eligible=config.compact and (by_lag or by_ratio),
        due_at_ms=lag.due_at_ms if config.compact else None,
        reasons=_policy_reason(config)
        or (
            f"first dirty offset {first_dirty}, first uncleanable offset {bound}: {bound_reason}",
            (
                f"dirty ratio {ratio:.4f} is {'above' if by_ratio else 'not above'}"
                f" min.cleanable.dirty.ratio={config.min_cleanable_dirty_ratio}"
                f" ({cleanable_bytes} of {total} bytes cleanable)"
            ),
            lag.reason,
        ),
    )


def first_dirty_offset(log: ReadableLog) -> tuple[Offset, bool]:
    """Return where the dirty section begins, and whether the checkpoint is invalid and must be
    rewritten.
    """
    checkpoint = log.cleaner_checkpoint
    if checkpoint is None:
        return log.log_start_offset, False
    if checkpoint < log.log_start_offset or checkpoint > log.log_end_offset:
        return log.log_start_offset, True
    return checkpoint, False


def _policy_reason(config: TopicConfig) -> tuple[str, ...]:
    if config.compact or not config.policy_known:
        return ()
    policy = ",".join(config.cleanup_policy) or "(empty)"
    return (f"cleanup.policy={policy} does not compact",)


def _before(segments: Sequence[Segment], offset: Offset) -> Sequence[Segment]:
    """Return the segments that begin below an offset."""
    return segments[: bisect_left(segments, offset, key=_base_offset)]


def _dirty_segments(log: ReadableLog, first_dirty: Offset) -> Sequence[Segment]:
    """Return the sealed segments from the one that contains the first dirty offset on."""
    if log.active.base_offset <= first_dirty:
        return ()
    sealed = log.sealed
    return sealed[max(bisect_right(sealed, first_dirty, key=_base_offset) - 1, 0) :]


def _first_uncleanable(
    log: ReadableLog,
    config: TopicConfig,
    first_dirty: Offset,
    dirty: Sequence[Segment],
    now_ms: TimestampMs,
) -> tuple[Offset, str]:
    """Return the bound before it is aligned, and what set it."""
    offset, reason = log.last_stable_offset, "the last stable offset"
    if is_without_high_watermark(log):
        reason = (
            f"the high watermark is not on record in {HIGH_WATERMARK_CHECKPOINT}, so nothing is"
            " committed, and nothing cleaned"
        )
    elif offset == log.high_watermark < log.log_end_offset:
        reason = f"the high watermark of {HIGH_WATERMARK_CHECKPOINT}"
    if log.active.base_offset < offset:
        offset, reason = log.active.base_offset, "the active segment"
    lag_ms = config.min_compaction_lag_ms
    if lag_ms > 0:
        newest_ms = now_ms - lag_ms
        young = next((each for each in dirty if each.largest_timestamp_ms > newest_ms), None)
        if young is not None and young.base_offset < offset:
            offset = young.base_offset
            reason = f"min.compaction.lag.ms, {duration(lag_ms)}, holds back segment {offset}"
    return max(first_dirty, offset), reason


def _aligned(log: ReadableLog, offset: Offset) -> Offset:
    """Return the base offset of the segment that contains the bound, so that no segment is cleaned
    in part.
    """
    if offset >= log.active.base_offset:
        return log.active.base_offset
    after = bisect_right(log.sealed, offset, key=_base_offset)
    return log.sealed[after - 1].base_offset if after else offset


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lag:
    delay_ms: DurationMs
    due_at_ms: TimestampMs | None
    reason: str


_NO_LAG: Final = _Lag(
    delay_ms=DurationMs(0), due_at_ms=None, reason="no max.compaction.lag.ms is set"
)


def _compaction_lag(
    dirty: Sequence[Segment], config: TopicConfig, now_ms: TimestampMs, *, like_kafka: bool
) -> _Lag:
    """Return by how much the oldest uncompacted record exceeds ``max.compaction.lag.ms``."""
    lag_ms = max(config.max_compaction_lag_ms, 0)
    if lag_ms == INT64_MAX:
        return _NO_LAG
    estimates = [
        estimate
        for before, segment in pairwise(chain([None], dirty))
        if segment is not None
        and (estimate := _earliest(before, segment, config, like_kafka=like_kafka)) is not None
    ]
    if not estimates:
        return _Lag(
            delay_ms=DurationMs(0),
            due_at_ms=None,
            reason="max.compaction.lag.ms: no dirty sealed segment has a timestamp",
        )
    earliest, source = min(estimates)
    due_at_ms = TimestampMs(earliest + lag_ms + 1)
    delay = DurationMs(max(now_ms - lag_ms - earliest, 0))
    state = f"exceeded by {duration(delay)}" if delay else f"due in {duration(due_at_ms - now_ms)}"
    reason = (
        f"max.compaction.lag.ms is {duration(lag_ms)}, oldest dirty record of {instant(earliest)}"
        f" by {source}: {state}"
    )
    return _Lag(delay_ms=delay, due_at_ms=due_at_ms, reason=reason)


def _earliest(
    before: Segment | None, segment: Segment, config: TopicConfig, *, like_kafka: bool
) -> tuple[int, str] | None:
    """Return (timestamp in ms, its origin) of a dirty segment's earliest record; `before` is the
    dirty segment before it.

    Kafka 4.3 takes the maxTimestamp of the first batch, if it is above 0. KIP-354 has an answer for
    a segment without one too: the first dirty segment cannot be older than its largest timestamp
    less the time that a segment may be active; a later one began when the one before it ended.
    """
    first_ms = segment.first_batch_max_timestamp_ms
    if first_ms is not None and first_ms > 0:
        return first_ms, f"the first batch of segment {segment.base_offset}"
    if like_kafka or segment.log_bytes == 0:
        return None
    if before is not None:
        return before.largest_timestamp_ms, f"the largest timestamp of segment {before.base_offset}"
    estimate = segment.largest_timestamp_ms - config.max_segment_ms
    return estimate, f"the largest timestamp of segment {segment.base_offset} less segment.ms"


def group_segments(
    segments: Sequence[Segment], config: TopicConfig, *, first_uncleanable_offset: Offset
) -> tuple[tuple[Segment, ...], ...]:
    """Split the segments to be rewritten into groups, each of which becomes one
    (Cleaner.groupSegmentsBySize, 4.3.0).

    Greedy, oldest first, by sizes before the cleaning: a group's ``.log`` bytes stay within
    ``segment.bytes``, its index bytes within ``segment.index.bytes``, its offsets within 2**31 - 1
    of its base offset.
    """
    limits = (config.segment_bytes, config.segment_index_bytes, config.segment_index_bytes)
    groups: list[tuple[Segment, ...]] = []
    group: list[Segment] = []
    held = (0, 0, 0)
    for number, segment in enumerate(segments):
        following = segments[number + 1].base_offset if number + 1 < len(segments) else None
        last_offset = (first_uncleanable_offset if following is None else following) - 1
        sizes = (segment.log_bytes, segment.index_bytes, segment.timeindex_bytes)
        larger = (held[0] + sizes[0], held[1] + sizes[1], held[2] + sizes[2])
        fits = larger[0] <= limits[0] and larger[1] <= limits[1] and larger[2] <= limits[2]
        if group and segment.log_bytes:
            fits &= last_offset - group[0].base_offset <= INT32_MAX
        if group and not fits:
            groups.append(tuple(group))
            group, larger = [], sizes
        group.append(segment)
        held = larger
    if group:
        groups.append(tuple(group))
    return tuple(groups)
