"""A sweep's recovery knows what a command's knows."""

from __future__ import annotations

from pathlib import Path

from logwright.config.policies import Policies
from logwright.config.sources import DirectorySettings
from logwright.errors import PolicyError, RecordAboveLimit
from logwright.sweep.model import LogWork, SweepState
from logwright.sweep.recover import recover
from logwright.units import TimestampMs
from tests.log_builder import START_MS, LogBuilder
from tests.metadata_builder import MetadataBuilder, feature, partition, topic, uuid_text


def test_a_topic_id_comes_from_the_metadata(tmp_path: Path) -> None:
    """An empty ``partition.metadata`` stops a broker; the sweep writes it as `recover` does."""
    builder = LogBuilder(tmp_path / "logs")
    builder.segment(0).batch(0, [("a", "1")])
    builder.write()
    log_dir = tmp_path / "logs"
    (log_dir / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    (log_dir / ".kafka_cleanshutdown").unlink()
    (log_dir / "t-0/partition.metadata").write_bytes(b"")
    records = [feature("metadata.version", 20), topic("t", 7), partition(7, 0, [1])]
    MetadataBuilder(log_dir).segment(0, records)
    work = LogWork(key="t-0", log_dir=log_dir, partition=builder.partition)
    state = SweepState(works=(work,), now_ms=TimestampMs(START_MS))
    (recovered,) = recover(state, DirectorySettings(Policies())).works
    assert None is recovered.failure
    written = (log_dir / "t-0/partition.metadata").read_text()
    assert f"version: 0\ntopic_id: {uuid_text(7)}" == written.strip()


def test_an_error_after_a_recovery_does_not_say_that_the_log_is_as_before(tmp_path: Path) -> None:
    """The remedy is about what happened after the recovery; others' errors stay as they are."""
    builder = LogBuilder(tmp_path / "logs")
    work = LogWork(key="t-0", log_dir=tmp_path, partition=builder.partition)
    error = RecordAboveLimit("large.", remedy="The log was not changed. Raise it.")
    repaired = LogWork(
        key="t-0", log_dir=tmp_path, partition=builder.partition, recovered=("cut x",)
    ).failed(error)
    assert repaired.failure is not None
    assert "The log was recovered, and not changed after that. Raise it." == repaired.failure.remedy
    assert isinstance(repaired.failure, RecordAboveLimit)
    assert "The log was not changed. Raise it." == error.remedy
    assert error is work.failed(error).failure
    assert None is PolicyError("wrong.").after_recovery().remedy
