"""What may be cleaned and when it is due: KIP-58, KIP-354 and LogCleanerManager's arithmetic."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.compaction.model import CompactionPlan
from logwright.compaction.plan import group_segments, plan_compaction
from logwright.config.topic import TopicConfig, parse_settings
from logwright.format.names import TopicPartition
from logwright.log.model import Fingerprint, PartitionLog, Segment
from logwright.units import ByteCount, Offset, TimestampMs

NOW = TimestampMs(1_000_000)


def a_segment(base: int, size: int = 100, *, largest: int = 0, first: int | None = 0) -> Segment:
    return Segment(
        base_offset=Offset(base),
        log_bytes=ByteCount(size),
        index_bytes=ByteCount(8),
        timeindex_bytes=ByteCount(12),
        txnindex_bytes=None,
        modified_ns=0,
        largest_timestamp_ms=TimestampMs(largest),
        first_batch_max_timestamp_ms=None if first is None else TimestampMs(first),
    )


def a_log(*segments: Segment, checkpoint: int | None = None, end: int = 1000) -> PartitionLog:
    return PartitionLog(
        log_dir=Path("/logs"),
        partition=TopicPartition("t", 0),
        segments=segments,
        log_start_offset=segments[0].base_offset,
        log_end_offset=Offset(end),
        high_watermark=Offset(end),
        last_stable_offset=Offset(end),
        recovery_point=Offset(end),
        cleaner_checkpoint=None if checkpoint is None else Offset(checkpoint),
        snapshot_offsets=(),
        fingerprint=Fingerprint(files=(), checkpoints=()),
    )


def a_config(**settings: object) -> TopicConfig:
    pairs = {"cleanup.policy": "compact"} | {
        name.replace("_", "."): str(value) for name, value in settings.items()
    }
    return parse_settings(pairs)[0]


def plan(log: PartitionLog, *, like_kafka: bool = True, **settings: object) -> CompactionPlan:
    return plan_compaction(log, a_config(**settings), now_ms=NOW, like_kafka=like_kafka)


THREE = (a_segment(0), a_segment(100), a_segment(200))


def test_all_but_the_active_segment_is_cleanable() -> None:
    """KIP-58: the active segment never is."""
    decided = plan(a_log(*THREE))
    assert (0, 200, 200) == (
        decided.first_dirty_offset,
        decided.first_uncleanable_offset,
        decided.cleanable_bytes,
    )
    assert decided.eligible


def test_a_log_of_one_segment_has_nothing_to_clean() -> None:
    """Its only segment is the active one."""
    decided = plan(a_log(a_segment(0)))
    assert (0, 0.0, False) == (
        decided.cleanable_bytes,
        decided.cleanable_ratio,
        decided.eligible,
    )


@pytest.mark.parametrize(
    ("checkpoint", "first_dirty", "forced"),
    [(None, 0, False), (100, 100, False), (5000, 0, True), (0, 0, False)],
)
def test_an_impossible_checkpoint_is_put_right(
    checkpoint: int | None, first_dirty: int, *, forced: bool
) -> None:
    """A checkpoint beyond the log's end counts as none, and is rewritten."""
    decided = plan(a_log(*THREE, checkpoint=checkpoint))
    assert (first_dirty, forced) == (decided.first_dirty_offset, decided.force_update_checkpoint)


def test_a_checkpoint_below_the_log_start_is_put_right() -> None:
    """The records it stood at are gone."""
    log = a_log(*THREE, checkpoint=50)._replace(log_start_offset=Offset(70))
    assert (70, True) == (plan(log).first_dirty_offset, plan(log).force_update_checkpoint)


@pytest.mark.parametrize(("ratio", "eligible"), [("0.5", False), ("0.49", True), ("0.51", False)])
def test_the_ratio_must_be_above_the_threshold(ratio: str, *, eligible: bool) -> None:
    """A ratio that equals `min.cleanable.dirty.ratio` is not due."""
    decided = plan(a_log(*THREE, checkpoint=100), min_cleanable_dirty_ratio=ratio)
    assert 0.5 == decided.cleanable_ratio
    assert eligible == decided.eligible


def test_a_segment_cut_in_two_counts_on_both_sides() -> None:
    """First dirty offset 150 lies inside segment 100."""
    decided = plan(a_log(*THREE, checkpoint=150))
    assert (200, 100) == (decided.clean_bytes, decided.cleanable_bytes)


@pytest.mark.parametrize(("largest", "bound"), [(999_000, 300), (999_001, 100)])
def test_the_first_young_segment_holds_back_what_follows(largest: int, bound: int) -> None:
    """`min.compaction.lag.ms`: exactly the lag is old enough, and an old one after a young is not
    cleaned.
    """
    log = a_log(a_segment(0), a_segment(100, largest=largest), a_segment(200), a_segment(300))
    assert bound == plan(log, min_compaction_lag_ms=1000).first_uncleanable_offset


def test_a_segment_partly_below_the_high_watermark_is_not_cleaned() -> None:
    """The bound is aligned down to a segment's base offset."""
    decided = plan(a_log(*THREE)._replace(last_stable_offset=Offset(150)))
    assert (150, 100) == (
        decided.first_uncleanable_dirty_offset,
        decided.first_uncleanable_offset,
    )


@pytest.mark.parametrize(("first", "delay", "due"), [(989_999, 1, True), (990_000, 0, False)])
def test_the_lag_makes_due_whatever_the_ratio(first: int, delay: int, *, due: bool) -> None:
    """KIP-354: due when the first batch of a dirty segment is older than the lag, strictly."""
    log = a_log(a_segment(0, 10_000), a_segment(100, first=first), a_segment(200), checkpoint=100)
    decided = plan(log, max_compaction_lag_ms=10_000)
    assert (delay, due) == (decided.compaction_delay_ms, decided.eligible)
    assert first + 10_001 == decided.due_at_ms


def test_the_oldest_of_all_dirty_segments_decides() -> None:
    """An out-of-order old first batch in a later segment triggers; clean segments do not."""
    log = a_log(
        a_segment(0, first=1),
        a_segment(100, first=995_000),
        a_segment(200, first=900_000),
        a_segment(300),
        checkpoint=100,
    )
    assert 90_000 == plan(log, max_compaction_lag_ms=10_000).compaction_delay_ms


def test_a_dirty_section_without_timestamps_is_never_late() -> None:
    """Timestamps that are not above 0 do not count."""
    log = a_log(a_segment(0, first=-1), a_segment(100, first=None, size=0), a_segment(200))
    decided = plan(log, max_compaction_lag_ms=10)
    assert (0, None) == (decided.compaction_delay_ms, decided.due_at_ms)


def test_kip_354_has_an_estimate_for_segments_without_timestamps() -> None:
    """Largest timestamp less the time a segment may be active; after that the one before it."""
    log = a_log(
        a_segment(0, first=-1, largest=999_000), a_segment(100, first=-1), a_segment(200, first=0)
    )
    settings = {"max_compaction_lag_ms": 5_000, "segment_ms": 9_000}
    assert 0 == plan(log, **settings).compaction_delay_ms
    decided = plan(log, like_kafka=False, **settings)
    assert (1_000, 999_001) == (decided.compaction_delay_ms, decided.due_at_ms)
    assert "the largest timestamp of segment 0 less segment.ms" in decided.reasons[-1]


def test_a_later_segment_without_timestamps_began_where_the_one_before_ended() -> None:
    """KIP-354's second estimate."""
    log = a_log(a_segment(0, first=999_999, largest=980_000), a_segment(9, first=-1), a_segment(20))
    decided = plan(log, like_kafka=False, max_compaction_lag_ms=10_000)
    assert 10_000 == decided.compaction_delay_ms
    assert "the largest timestamp of segment 0" in decided.reasons[-1]


def test_the_lag_alone_makes_nothing_due_without_cleanable_bytes() -> None:
    """Held back by `min.compaction.lag.ms`, an overdue log stays as it is."""
    log = a_log(a_segment(0, largest=999_999, first=1), a_segment(100))
    decided = plan(log, max_compaction_lag_ms=1000, min_compaction_lag_ms=1000)
    assert decided.need_compaction_now
    assert not decided.eligible


def test_a_policy_without_compact_is_not_compacted() -> None:
    """KIP-354 and the ratio are for compacted topics only, and the reasons say so."""
    decided = plan(a_log(*THREE), cleanup_policy="delete", max_compaction_lag_ms=1)
    assert not decided.eligible
    assert "cleanup.policy=delete does not compact" in decided.reasons


def bases(groups: tuple[tuple[Segment, ...], ...]) -> list[list[int]]:
    return [[segment.base_offset for segment in group] for group in groups]


def group(*segments: Segment, bound: int, **settings: object) -> list[list[int]]:
    config = a_config(**{"internal_segment_bytes": 300, **settings})
    return bases(group_segments(segments, config, first_uncleanable_offset=Offset(bound)))


def test_groups_are_as_large_as_segment_bytes_allows() -> None:
    """Greedy and by the sizes before the cleaning; exactly the limit still fits."""
    segments = [a_segment(n * 10, 100) for n in range(7)]
    assert [[0, 10, 20], [30, 40, 50], [60]] == group(*segments, bound=70)


def test_groups_stay_within_the_index_size() -> None:
    """`segment.index.bytes`, for each of the two indexes."""
    segments = [a_segment(n * 10, 1) for n in range(4)]
    assert [[0, 10], [20, 30]] == group(*segments, bound=40, segment_index_bytes=24)


def test_a_group_does_not_span_more_offsets_than_an_index_can_hold() -> None:
    """2**31 - 1 from the group's base offset; an empty segment may be farther away."""
    far = 2**31
    assert [[0], [10]] == group(a_segment(0), a_segment(10), bound=far + 1)
    assert [[0, 10]] == group(a_segment(0), a_segment(10), bound=far)
    assert [[0, 10]] == group(a_segment(0), a_segment(10, 0), bound=far * 2)


def test_a_segment_above_the_limits_is_a_group_of_its_own() -> None:
    """It cannot be cut, but it can be cleaned."""
    assert [[0], [10], [20]] == group(a_segment(0), a_segment(10, 999), a_segment(20), bound=30)
