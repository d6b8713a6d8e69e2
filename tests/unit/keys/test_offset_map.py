"""The offset map of one log has its share of the dedupe buffer."""

from __future__ import annotations

from math import floor

import pytest

from logwright.config.topic import parse_settings
from logwright.keys.offset_map import map_within


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_kafkas_map_has_the_capacity_of_one_thread(threads: int) -> None:
    """SkimpyOffsetMap gets dedupe.buffer.size / threads bytes, 24 for a key."""
    size = 12_000_000
    _, cleaner = parse_settings(
        {
            "cleanup.policy": "compact",
            "log.cleaner.dedupe.buffer.size": str(size),
            "log.cleaner.threads": str(threads),
        }
    )
    state = map_within(cleaner, keys=10**6, records=10**6, like_kafka=True)
    assert floor(size // threads // 24 * 0.9) == state.capacity
