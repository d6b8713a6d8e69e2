"""A replica that is not in sync has no latest state."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from logwright.errors import Unsettled
from logwright.format.names import TopicPartition
from logwright.latest import in_sync
from logwright.latest.plan import plan_latest
from logwright.log.load import observe
from logwright.running.place import as_it_runs
from logwright.tier.place import with_tier
from logwright.tier.tier import TierOptions
from tests.log_builder import LogBuilder
from tests.metadata_builder import (
    MetadataBuilder,
    int32s,
    partition,
    partition_change,
    topic,
    uuid_text,
)
from tests.running_dirs import running, two_segments

T0 = TopicPartition("t", 0)
LEFT = partition_change(7, 0, {0: int32s([2])})
JOINED = partition_change(7, 0, {0: int32s([2, 1])})
PATIENT = 1 << 50
"""So long that no replica has been in sync for it."""


@pytest.fixture
def log(tmp_path: Path) -> LogBuilder:
    """A log of twenty records with a topic id, on node 1."""
    log = two_segments(tmp_path / "logs")
    (log.directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {uuid_text(7)}")
    (log.log_dir / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    return log


def write(log: LogBuilder, *changes: bytes, topic_id: int = 7, replicas: tuple[int, ...]) -> None:
    """The metadata of its node."""
    shutil.rmtree(log.log_dir / "__cluster_metadata-0", ignore_errors=True)
    made = [topic("t", topic_id), partition(topic_id, 0, replicas)]
    MetadataBuilder(log.log_dir).segment(0, [*made, *changes])


def end_of_latest(log: LogBuilder) -> int:
    with running(log.log_dir, {"t-0": 20}):
        observed = observe(as_it_runs(log.log_dir), T0, high_watermark="checkpoint")
        return plan_latest(observed).end_offset


@pytest.mark.parametrize("changes", [(), (LEFT, JOINED)])
def test_a_replica_that_is_in_sync(log: LogBuilder, changes: tuple[bytes, ...]) -> None:
    """Since it was made, or again."""
    write(log, *changes, replicas=(1, 2))
    assert 20 == end_of_latest(log)


def test_a_replica_that_is_not_in_sync(log: LogBuilder) -> None:
    """It catches up, or does not even do that."""
    write(log, LEFT, replicas=(1, 2))
    with pytest.raises(Unsettled, match="the replica is not in sync"):
        end_of_latest(log)


def test_a_replica_that_has_just_joined(log: LogBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its high watermark may be of a time before that; one that was made in sync has no such."""
    monkeypatch.setattr(in_sync, "FETCHES_MS", PATIENT)
    write(log, LEFT, JOINED, replicas=(1, 2))
    with pytest.raises(Unsettled, match="not in sync long enough"):
        end_of_latest(log)


def test_a_replica_that_was_made_in_sync(log: LogBuilder, monkeypatch: pytest.MonkeyPatch) -> None:
    """There was no time before that."""
    monkeypatch.setattr(in_sync, "FETCHES_MS", PATIENT)
    write(log, replicas=(1, 2))
    assert 20 == end_of_latest(log)


def test_what_is_not_judged(log: LogBuilder) -> None:
    """A log without metadata, or of a topic with another id."""
    assert 20 == end_of_latest(log)
    write(log, partition_change(8, 0, {0: int32s([2])}), topic_id=8, replicas=(1, 2))
    assert 20 == end_of_latest(log)


def test_metadata_that_cannot_be_read(log: LogBuilder, caplog: pytest.LogCaptureFixture) -> None:
    """It is not judged, and that is said."""
    write(log, LEFT, replicas=(1, 2))
    (log.log_dir / "__cluster_metadata-0" / f"{99:020}.log").write_bytes(b"")
    assert 20 == end_of_latest(log)
    assert "not known whether the replica of t-0 is in sync" in caplog.text


def test_with_a_tier(log: LogBuilder, tmp_path: Path) -> None:
    """What is local is judged."""
    write(log, LEFT, replicas=(1, 2))
    (tmp_path / "tier").mkdir()
    with running(log.log_dir, {"t-0": 20}):
        options = TierOptions.of(str(tmp_path / "tier"), None)
        (place,) = with_tier([as_it_runs(log.log_dir)], options)
        observed = observe(place, T0, high_watermark="checkpoint")
        with pytest.raises(Unsettled, match="the replica is not in sync"):
            plan_latest(observed)


def test_the_only_replica(log: LogBuilder) -> None:
    """It has nobody to copy from."""
    write(log, LEFT, replicas=(1,))
    assert 20 == end_of_latest(log)


def test_a_broker_that_is_stopped(log: LogBuilder) -> None:
    """Its log is what it is."""
    write(log, LEFT, replicas=(1, 2))
    (log.log_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":0}')
    assert 20 == plan_latest(observe(log.log_dir, T0, high_watermark="end")).end_offset


def test_metadata_is_read_again_for_a_younger_bound(log: LogBuilder) -> None:
    """What was read before says nothing of it."""
    write(log, replicas=(1, 2))
    assert 20 == end_of_latest(log)
    write(log, LEFT, replicas=(1, 2))
    with pytest.raises(Unsettled, match="the replica is not in sync"):
        end_of_latest(log)
