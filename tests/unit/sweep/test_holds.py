"""Which logs an erasure leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.config.topic import CleanerConfig, TopicConfig, effective
from logwright.format.names import TopicPartition
from logwright.state.model import Pause
from logwright.state.store import change_state
from logwright.sweep.holds import hold_from_erasure
from logwright.sweep.model import LogWork, SweepState
from logwright.units import TimestampMs
from tests.log_builder import START_MS, LogBuilder

NOW = TimestampMs(START_MS)
LOGS = ("paused", "unknown", "stray", "free")


class Settings:
    """By the name of the topic."""

    def of(self, log_dir: Path, topic: str) -> tuple[TopicConfig, CleanerConfig]:
        """Compacted, but one that nothing is said of."""
        del log_dir
        return effective({} if topic == "unknown" else {"cleanup.policy": "compact"})

    def stray(self, log_dir: Path, partition: TopicPartition) -> str | None:
        """One is of another broker."""
        del log_dir
        return "of another broker" if partition.topic == "stray" else None


@pytest.mark.parametrize("at_once", [False, True])
def test_what_an_erasure_leaves(tmp_path: Path, at_once: bool) -> None:
    """Paused logs; by tombstones also stray ones and those whose policy is unknown."""
    for topic in LOGS:
        LogBuilder(tmp_path, f"{topic}-0").segment(0)
    pause = Pause(owner="o", reason="r", since_ms=NOW, expires_at_ms=None)
    change_state(tmp_path, TopicPartition("paused", 0), lambda state: state.with_pause(pause))
    state = SweepState(
        works=tuple(
            LogWork(key=topic, log_dir=tmp_path, partition=TopicPartition(topic, 0))
            for topic in LOGS
        ),
        now_ms=NOW,
    )
    held = hold_from_erasure(state, Settings(), at_once=at_once)
    kinds = {work.key: work.held.kind for work in held.works if work.held is not None}
    others = {} if at_once else {"unknown": "unknown", "stray": "stray"}
    assert {"paused": "paused", **others} == kinds
