"""Metrics of a log directory that a broker has open."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.config.policies import Policies
from logwright.config.sources import DirectorySettings
from logwright.fleet.model import Fleet
from logwright.fleet.observe import observe_fleet
from logwright.metrics.values import metric_values
from logwright.units import TimestampMs
from tests.log_builder import LogBuilder
from tests.running_dirs import record, running, two_segments
from tests.unit.cli.conftest import Call, call

__all__ = ["call"]
NOW_MS = 1_760_000_000_000


@pytest.fixture
def log(tmp_path: Path) -> LogBuilder:
    """Two segments of ten records each, and a file that a broker has retired."""
    builder = two_segments(tmp_path / "logs")
    (builder.directory / "00000000000000000000.log.deleted").write_bytes(b"x" * 99)
    return builder


def fleet_of(log_dir: Path) -> Fleet:
    policies = Policies(defaults={"cleanup.policy": "compact"}, high_watermark="end")
    return observe_fleet({"d": log_dir}, DirectorySettings(policies), now_ms=TimestampMs(NOW_MS))


def values(log_dir: Path) -> dict[str, float]:
    """The samples of the directory and of its log, by name."""
    samples = metric_values(fleet_of(log_dir))
    return {name: value for name, ((_, value), *_) in samples.items()}


def test_values_are_those_below_the_high_watermark(log: LogBuilder) -> None:
    """Each reading takes a new picture; that a broker runs is not a problem of the directory."""
    checkpoint = log.log_dir / "replication-offset-checkpoint"
    with running(log.log_dir, {"t-0": 13}):
        first = values(log.log_dir)
        record(log.log_dir, {"t-0": 18})
        second = values(log.log_dir)
        recorded_ms = checkpoint.stat().st_mtime_ns // 1_000_000
    assert (13, 18) == (first["kafka_log_log_logendoffset"], second["kafka_log_log_logendoffset"])
    assert first["kafka_log_log_size"] < second["kafka_log_log_size"]
    assert 2 == first["kafka_log_log_numlogsegments"]
    for name in ("kafka_log_logmanager_logdirectoryoffline", "logwright_refused_logs"):
        assert 0 == second[name], name
    assert (1, 1) == (second["logwright_broker_running"], second["logwright_logs"])
    assert recorded_ms / 1_000 == second["logwright_high_watermark_timestamp_seconds"]


def test_a_broker_removes_its_retired_files_itself(log: LogBuilder) -> None:
    """They do not wait for a purge while it runs; in a stopped directory they do."""
    with running(log.log_dir, {"t-0": 13}):
        assert 0 == values(log.log_dir)["logwright_retired_bytes"]
    (log.log_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":0}')
    stopped = values(log.log_dir)
    assert 99 == stopped["logwright_retired_bytes"]
    assert 0 == stopped["logwright_broker_running"]
    assert "logwright_high_watermark_timestamp_seconds" not in stopped


def test_the_command_reads_next_to_a_broker(call: Call, log: LogBuilder, tmp_path: Path) -> None:
    """To stdout and to a file; no log is refused."""
    file = tmp_path / "logwright.prom"
    with running(log.log_dir, {"t-0": 13}):
        shown = call("metrics", log.log_dir)
        written = call("metrics", log.log_dir, "--textfile", file)
    assert (0, 0) == (shown.status, written.status)
    for text in (shown.out, file.read_text()):
        assert f'logwright_broker_running{{logDirectory="{log.log_dir}"}} 1.0' in text
        assert f'logwright_refused_logs{{logDirectory="{log.log_dir}"}} 0.0' in text
        assert 'partition="0",topic="t"} 13.0' in text
