"""Which segments go: the rules one by one, on logs that are values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from logwright.config.topic import parse_settings
from logwright.errors import PolicyError
from logwright.format.checkpoints import LeaderEpoch, trimmed_epochs
from logwright.format.names import TopicPartition
from logwright.log.model import Fingerprint, PartitionLog, Segment
from logwright.rescue.free import first_segments
from logwright.retention.plan import HIGH_WATERMARK, RetentionPlan, plan_retention
from logwright.units import ByteCount, Offset, TimestampMs

NOW_MS = 10_000
FOREVER = {"retention.ms": "-1"}


def segment(base: int, size: int = 100, largest_ms: int = 0, *, dated: bool = True) -> Segment:
    return Segment(
        base_offset=Offset(base),
        log_bytes=ByteCount(size),
        index_bytes=ByteCount(8),
        timeindex_bytes=ByteCount(12 if dated else 0),
        txnindex_bytes=None,
        modified_ns=largest_ms * 1_000_000,
        largest_timestamp_ms=TimestampMs(largest_ms),
        first_batch_max_timestamp_ms=None,
    )


def log(
    segments: Sequence[Segment], end: int, *, start: int = 0, watermark: int | None = None
) -> PartitionLog:
    return PartitionLog(
        log_dir=Path("/logs"),
        partition=TopicPartition("t", 0),
        segments=tuple(segments),
        log_start_offset=Offset(start),
        log_end_offset=Offset(end),
        high_watermark=Offset(end if watermark is None else watermark),
        last_stable_offset=Offset(end),
        recovery_point=Offset(end),
        cleaner_checkpoint=None,
        snapshot_offsets=(),
        fingerprint=Fingerprint(files=(), checkpoints=()),
    )


def plan(
    observed: PartitionLog, settings: dict[str, str], before: int | None = None
) -> RetentionPlan:
    config, _ = parse_settings({"cleanup.policy": "delete"} | settings)
    return plan_retention(
        observed, config, now_ms=TimestampMs(NOW_MS), delete_records_before=before
    )


def gone(planned: RetentionPlan) -> list[tuple[int, str | None]]:
    return [(one.base_offset, one.cause) for one in planned.deleted]


def aged(*largest_ms: int) -> list[Segment]:
    return [segment(10 * number, largest_ms=each) for number, each in enumerate(largest_ms)]


@pytest.mark.parametrize(
    ("limit", "bases"),
    [(200, [0]), (250, [0]), (251, []), (0, [0, 10, 20, 30]), (350, []), (-1, []), (100, [0, 10])],
)
def test_log_is_kept_at_or_above_retention_bytes(limit: int, bases: list[int]) -> None:
    """The oldest segment goes only if what is left reaches the limit; the active one too."""
    observed = log([*(segment(base) for base in (0, 10, 20)), segment(30, 50)], 35)
    result = plan(observed, FOREVER | {"retention.bytes": str(limit)})
    assert [(base, "size") for base in bases] == gone(result)
    assert result.rolls == (len(bases) == 4)
    assert 350 - 100 * min(len(bases), 3) - 50 * result.rolls == result.bytes_after


def test_size_says_what_is_left() -> None:
    """The numbers of Kafka's audit line: the limit, and the bytes without this segment."""
    observed = log([segment(0), segment(10), segment(20, 50)], 25)
    first, second, _ = plan(observed, FOREVER | {"retention.bytes": "120"}).verdicts
    assert (120, 150, 120) == (first.limit, first.value, first.freed_bytes)
    assert "50 bytes would be left of retention.bytes=120" in second.reason


def test_young_segment_shields_the_old_active_one() -> None:
    """Deletion is a prefix."""
    result = plan(log(aged(8000, 9500, 8500), 30), {"retention.ms": "1000"})
    assert [(0, "time")] == gone(result)
    assert [
        "its newest record is 500 ms old, retention.ms is 1 s",
        "segment 10 before it stays",
    ] == [verdict.reason for verdict in result.verdicts[1:]]


@pytest.mark.parametrize(("largest_ms", "goes"), [(8999, True), (9000, False), (9001, False)])
def test_time_must_be_exceeded(largest_ms: int, goes: bool) -> None:
    """Exactly retention.ms ago is kept."""
    result = plan(log(aged(largest_ms, 9999), 20), {"retention.ms": "1000"})
    assert goes == bool(result.deleted)


def test_future_shields() -> None:
    """A largest timestamp in the future keeps its segment and all after it."""
    result = plan(log(aged(1, 10_001, 1), 30), {"retention.ms": "0"})
    assert [(0, "time")] == gone(result)
    assert "1 ms in the future" in result.verdicts[1].reason


def test_file_time_counts_without_timestamps() -> None:
    """And it is said that it did."""
    observed = log([segment(0, largest_ms=1, dated=False), segment(10, largest_ms=9999)], 20)
    (first,) = plan(observed, {"retention.ms": "1000"}).deleted
    assert not first.from_records
    assert "its file, without timestamps, is 9 s 999 ms old" in first.reason


def test_all_segments_go_and_the_log_is_rolled() -> None:
    """A new log start at the end."""
    result = plan(log(aged(1, 1, 1), 30), {"retention.ms": "1"})
    assert [0, 10, 20] == [base for base, _ in gone(result)]
    assert (True, 30, None) == (result.rolls, result.log_start_offset, result.checkpointed_start)


def test_high_watermark_holds_back() -> None:
    """What is not committed stays, whatever its age."""
    result = plan(log(aged(1, 1, 1), 30, watermark=25), {"retention.ms": "1"})
    assert [0, 10] == [base for base, _ in gone(result)]
    assert (False, 20) == (result.rolls, result.log_start_offset)
    assert "the high watermark is 25" in result.verdicts[2].reason
    nothing = plan(log(aged(1, 1, 1), 30, watermark=0), {"retention.ms": "1"})
    assert [] == gone(nothing)


def test_empty_active_segment_stays() -> None:
    """A log keeps a segment; one that holds nothing is not replaced."""
    observed = log([segment(0, largest_ms=1), segment(10, size=0, largest_ms=1)], 10)
    result = plan(observed, {"retention.ms": "1", "retention.bytes": "0"})
    assert [(0, "size")] == gone(result)
    assert not result.rolls
    assert "it is the active segment and empty" in result.verdicts[1].reason


@pytest.mark.parametrize(
    ("start", "bases", "entry"),
    [(0, [], None), (15, [0], 15), (20, [0, 10], None), (30, [0, 10], 30)],
)
def test_log_start_offset_takes_what_ends_below_it(
    start: int, bases: list[int], entry: int | None
) -> None:
    """Never the active segment; an entry is left while the first segment reaches below."""
    result = plan(log(aged(1, 1, 1), 30, start=start), FOREVER)
    assert [(base, "log start offset") for base in bases] == gone(result)
    assert (start, entry) == (result.log_start_offset, result.checkpointed_start)


def test_steps_follow_each_other() -> None:
    """Start offset, then size over what is left, then time over what is left."""
    observed = log(aged(1, 1, 1, 9999), 40, start=10)
    result = plan(observed, {"retention.bytes": "200", "retention.ms": "100"})
    assert [(0, "log start offset"), (10, "size"), (20, "time")] == gone(result)


@pytest.mark.parametrize(
    ("policy", "causes"),
    [
        ("delete", ["log start offset", "size", "time"]),
        ("compact,delete", ["log start offset", "size", "time"]),
        ("delete,compact", ["log start offset", "size", "time"]),
        ("compact", ["log start offset"]),
        ("", ["log start offset"]),
    ],
)
def test_policy_says_which_steps(policy: str, causes: list[str]) -> None:
    """Compacted only, or no policy at all: nothing but the log start offset."""
    observed = log(aged(1, 1, 1, 9999), 40, start=10)
    settings = {"cleanup.policy": policy, "retention.bytes": "200", "retention.ms": "100"}
    assert causes == [cause for _, cause in gone(plan(observed, settings))]


@pytest.mark.parametrize(
    ("settings", "goes"),
    [
        ({"log.retention.hours": "1"}, False),
        ({"log.retention.hours": "1", "log.retention.minutes": "0"}, False),
        ({"log.retention.ms": "1000", "log.retention.minutes": "60"}, True),
        ({"retention.ms": "1000", "log.retention.ms": "3600000"}, True),
        ({"log.retention.hours": "1", "log.retention.ms": "9998"}, True),
        ({"log.retention.hours": "1", "log.retention.ms": "-1"}, False),
    ],
)
def test_milliseconds_before_minutes_before_hours(settings: dict[str, str], goes: bool) -> None:
    """The topic's own config before all of them."""
    if settings.get("log.retention.minutes") == "0":
        with pytest.raises(PolicyError):
            plan(log(aged(1, 9999), 20), settings)
        return
    assert goes == bool(plan(log(aged(1, 9999), 20), settings).deleted)


def test_records_are_deleted_up_to_an_offset() -> None:
    """As by a DeleteRecords request: never lowered, never beyond what is committed."""
    observed = log(aged(1, 1, 1), 30, start=5, watermark=25)
    assert (25, 20) == (plan(observed, FOREVER, HIGH_WATERMARK).log_start_offset, 20)
    assert [0, 10] == [base for base, _ in gone(plan(observed, FOREVER, HIGH_WATERMARK))]
    assert 5 == plan(observed, FOREVER, 3).log_start_offset
    assert [0] == [base for base, _ in gone(plan(observed, FOREVER, 10))]
    with pytest.raises(PolicyError, match="the high watermark is 25"):
        plan(observed, FOREVER, 26)
    with pytest.raises(PolicyError, match="compact alone"):
        plan(observed, FOREVER | {"cleanup.policy": "compact"}, 10)
    assert 10 == plan(observed, FOREVER | {"cleanup.policy": "compact,delete"}, 10).log_start_offset


def test_leader_epochs_are_cut_at_the_start() -> None:
    """The epoch of the first record that is left keeps an entry, which begins there."""
    epochs = [LeaderEpoch(epoch=e, start_offset=Offset(s)) for e, s in ((0, 0), (3, 10), (5, 30))]
    pairs = {
        start: [(one.epoch, one.start_offset) for one in trimmed_epochs(epochs, Offset(start))]
        for start in (0, 5, 10, 20, 30, 99)
    }
    assert {
        0: [(0, 0), (3, 10), (5, 30)],
        5: [(0, 5), (3, 10), (5, 30)],
        10: [(3, 10), (5, 30)],
        20: [(3, 20), (5, 30)],
        30: [(5, 30)],
        99: [(5, 99)],
    } == pairs
    assert () == trimmed_epochs([], Offset(7))


def test_of_some_of_its_segments_a_start_inside_one_stays() -> None:
    """Records that a DeleteRecords has removed do not come back with the segments that stay."""
    segments = [segment(10 * number) for number in range(4)]
    less = first_segments(plan(log(segments, 40, start=25), {"retention.bytes": "0"}), 2)
    assert [0, 10] == [each.base_offset for each in less.deleted]
    assert (25, 25) == (less.log_start_offset, less.checkpointed_start)
    others = first_segments(plan(log(segments, 40), {"retention.bytes": "0"}), 2)
    assert (20, None) == (others.log_start_offset, others.checkpointed_start)
