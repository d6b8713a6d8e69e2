"""A quarantine is of the log that failed: a new topic of its name has none."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from logwright.errors import CorruptBatch
from logwright.format.names import TopicPartition
from logwright.state.hold import holds, quarantine_failure
from logwright.state.store import read_state
from logwright.state.uncleanable import COUNT, uncleanable_metrics
from logwright.units import TimestampMs
from tests.fixtures import copy_before

T0 = TopicPartition("t", 0)
NOW = TimestampMs(1_760_000_100_000)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A log in quarantine whose topic has an id."""
    log_dir = copy_before("basic-none", tmp_path)
    name_topic(log_dir, "A")
    fail(log_dir)
    assert {T0} == holds(log_dir, NOW).keys()
    assert 1 == uncleanable_metrics([log_dir])[COUNT]
    return log_dir


def name_topic(log_dir: Path, letter: str) -> None:
    content = f"version: 0\ntopic_id: {letter * 22}\n"
    (log_dir / "t-0" / "partition.metadata").write_text(content)


def fail(log_dir: Path) -> None:
    quarantine_failure(log_dir, T0, CorruptBatch("its CRC is wrong."), NOW)


def test_a_new_topic_of_the_name_is_not_held(log_dir: Path) -> None:
    """A broker deleted the topic and made another: no quarantine, no metric, a first failure."""
    name_topic(log_dir, "B")
    assert {} == holds(log_dir, NOW)
    assert 0 == uncleanable_metrics([log_dir])[COUNT]
    fail(log_dir)
    quarantine = read_state(log_dir)[T0].quarantine
    assert quarantine is not None
    assert (1, "B" * 22) == (quarantine.failures, quarantine.topic_id)


def test_the_same_topic_stays_in_quarantine(log_dir: Path) -> None:
    """Also when its id cannot be read any more: a further failure counts on."""
    fail(log_dir)
    (log_dir / "t-0" / "partition.metadata").write_text("?")
    quarantine = read_state(log_dir)[T0].quarantine
    assert quarantine is not None
    assert (2, "A" * 22) == (quarantine.failures, quarantine.topic_id)


def test_a_log_that_is_gone_does_not_count(log_dir: Path) -> None:
    """A broker deleted the topic: the metrics are of logs that are there."""
    shutil.rmtree(log_dir / "t-0")
    assert 0 == uncleanable_metrics([log_dir])[COUNT]
