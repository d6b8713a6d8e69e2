"""One draw of `segment.jitter.ms` for a segment, whoever asks."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.config.jitter import segment_jitter_ms
from logwright.config.topic import TopicConfig
from logwright.format.names import TopicPartition
from logwright.ingest.segments import GrowingSegment
from logwright.log.load import observe
from logwright.roll.plan import plan_roll
from logwright.units import Offset, TimestampMs
from tests.fixtures import copy_before

PARTITION = TopicPartition("t", 0)


def config(jitter_ms: int, segment_ms: int = 604_800_000) -> TopicConfig:
    return TopicConfig.model_validate(
        {"segment.jitter.ms": str(jitter_ms), "segment.ms": str(segment_ms)}
    )


def test_it_is_spread_fixed_and_below_its_bounds() -> None:
    """Other for other segments and partitions, below segment.jitter.ms and segment.ms."""
    settings = config(300)
    drawn = [segment_jitter_ms(settings, PARTITION, base) for base in range(50)]
    assert all(0 <= one < 300 for one in drawn)
    assert len(set(drawn)) > 30
    assert drawn == [segment_jitter_ms(settings, PARTITION, base) for base in range(50)]
    others = [segment_jitter_ms(settings, TopicPartition("t", n), 0) for n in range(50)]
    assert len(set(others)) > 30
    assert segment_jitter_ms(config(300, 10), PARTITION, 0) < 10
    assert 0 == segment_jitter_ms(config(0), PARTITION, 0)


@pytest.mark.parametrize("base", range(0, 4000, 400))
def test_an_append_rolls_when_the_plan_says(tmp_path: Path, base: int) -> None:
    """At the millisecond at which a plan makes the segment due, and not at the one before."""
    settings = config(500_000, 1_000_000)
    log = observe(copy_before("basic-none", tmp_path), PARTITION, high_watermark="end")
    active = log.active._replace(
        base_offset=Offset(base), first_batch_max_timestamp_ms=TimestampMs(0)
    )
    log = log.with_segments((active,))
    due_ms = plan_roll(log, settings, now_ms=TimestampMs(0), like_kafka=False).due_at_ms
    assert due_ms is not None
    segment = GrowingSegment(PARTITION, settings, base, None)
    segment.note(100, 0, base)
    assert not segment.must_roll(100, due_ms - 1, base + 1)
    assert segment.must_roll(100, due_ms, base + 1)
