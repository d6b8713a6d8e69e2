"""When a segment is full, at the exact byte, millisecond and entry; random logs are compared with
Kafka's in tests/differential.
"""

from __future__ import annotations

import pytest

from logwright.config.topic import TopicConfig
from logwright.format.names import TopicPartition
from logwright.ingest.segments import GrowingSegment
from logwright.units import INT32_MAX

PARTITION = TopicPartition("t", 0)


def config(**pairs: object) -> TopicConfig:
    return TopicConfig.model_validate({k.replace("_", "."): str(v) for k, v in pairs.items()})


def grown(settings: TopicConfig, *batches: tuple[int, int, int]) -> GrowingSegment:
    segment = GrowingSegment(PARTITION, settings, 0, None)
    for batch in batches:
        segment.note(*batch)
    return segment


@pytest.mark.parametrize(("size", "rolls"), [(400, False), (401, True)])
def test_a_segment_may_be_filled_to_the_last_byte(size: int, rolls: bool) -> None:
    """segment.bytes itself does not roll."""
    segment = grown(config(segment_bytes=1000), (600, 5, 0))
    assert rolls == segment.must_roll(size, 5, 1)


@pytest.mark.parametrize(("time", "rolls"), [(1050, False), (1051, True)])
def test_time_counts_from_the_first_batchs_largest_timestamp(time: int, rolls: bool) -> None:
    """More than segment.ms, by the records' times; a max.compaction.lag.ms may be shorter."""
    for settings in (
        config(segment_ms=1000),
        config(cleanup_policy="compact", max_compaction_lag_ms=1000),
    ):
        segment = grown(settings, (100, 50, 3), (100, 900, 5))
        assert rolls == segment.must_roll(100, time, 6)


def test_offsets_and_full_indexes_roll() -> None:
    """Relative offsets are int32; a time index keeps room for the final entry."""
    assert not grown(config()).must_roll(100, 5, INT32_MAX)
    assert grown(config()).must_roll(100, 5, INT32_MAX + 1)
    full = config(segment_index_bytes=36, index_interval_bytes=0)
    assert not grown(full, (100, 1, 0), (100, 2, 1)).must_roll(100, 3, 2)
    assert grown(full, (100, 1, 0), (100, 2, 1), (100, 3, 2)).must_roll(100, 4, 3)
