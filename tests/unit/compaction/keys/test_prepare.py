"""The offset map of one log has its share of the dedupe buffer."""

from __future__ import annotations

from math import floor
from pathlib import Path

import pytest

from logwright.compaction.keys.prepare import new_map
from logwright.config.topic import parse_settings
from tests.log_builder import START_MS, LogBuilder
from tests.plans import forced_plan


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_kafkas_map_has_the_capacity_of_one_thread(tmp_path: Path, threads: int) -> None:
    """SkimpyOffsetMap gets dedupe.buffer.size / threads bytes, 24 for a key."""
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("a", "1")])
    log.segment(1)
    log.write()
    size = 12_000_000
    settings = parse_settings(
        {
            "cleanup.policy": "compact",
            "log.cleaner.dedupe.buffer.size": str(size),
            "log.cleaner.threads": str(threads),
        }
    )
    plan = forced_plan(log.log_dir, log.partition, settings, now_ms=START_MS, like_kafka=True)
    found = new_map(plan, keys=10**6, records=10**6)
    assert floor(size // threads // 24 * 0.9) == found.capacity
