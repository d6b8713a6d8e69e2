"""A broker that does not record its high watermarks: one wait, and nothing that is not exact."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from logwright.errors import Unsettled
from logwright.format.names import TopicPartition
from logwright.log.load import observe
from logwright.running import watermark
from logwright.running.picture import UNSERVED_NS
from logwright.running.place import RunningPlace, as_it_runs, exactly, watermarks_recorded_ms
from tests.log_builder import LogBuilder
from tests.running_dirs import recording, running

PATIENCE_SECONDS = 1.0


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watermark, "PATIENCE_SECONDS", PATIENCE_SECONDS)


def build(log_dir: Path, partition: str) -> None:
    """Two segments of ten records."""
    builder = LogBuilder(log_dir, partition)
    for base in (0, 10):
        segment = builder.segment(base)
        for offset in range(base, base + 10):
            segment.batch(offset, [("a", "1")])
    builder.write(index_interval=1)
    (builder.directory / "leader-epoch-checkpoint").write_bytes(b"0\n1\n0 0\n")


def test_a_picture_that_is_not_exact_is_never_shown(tmp_path: Path) -> None:
    """The younger high watermark did not come: it is refused as often as it is asked for."""
    build(tmp_path, "t-0")
    with running(tmp_path, {"t-0": 5}):
        exact = exactly(as_it_runs(tmp_path))
        for _ in range(2):
            with pytest.raises(Unsettled, match="a younger one is needed"):
                observe(exact, TopicPartition("t", 0), high_watermark="end")
        shown = observe(as_it_runs(tmp_path), TopicPartition("t", 0), high_watermark="end")
    assert 5 == shown.log_end_offset


def test_what_was_waited_for_in_vain_is_not_waited_for_again(tmp_path: Path) -> None:
    """There may be thousands of logs."""
    for number in range(6):
        build(tmp_path, f"t-{number}")
    with running(tmp_path):
        place = as_it_runs(tmp_path)
        started = time.monotonic()
        for number in range(6):
            with pytest.raises(Unsettled, match="it has no entry of this log"):
                observe(place, TopicPartition("t", number), high_watermark="end")
        assert PATIENCE_SECONDS <= time.monotonic() - started < 6 * PATIENCE_SECONDS


def test_a_log_that_the_broker_does_not_serve_is_refused_at_once(tmp_path: Path) -> None:
    """It is not in a checkpoint that is much younger than it: no later one will have it."""
    build(tmp_path, "t-0")
    with running(tmp_path, {"other-0": 1}):
        later_ns = time.time_ns() + 2 * UNSERVED_NS
        os.utime(tmp_path / "replication-offset-checkpoint", ns=(later_ns, later_ns))
        started = time.monotonic()
        with pytest.raises(Unsettled, match="which the broker does not serve"):
            observe(as_it_runs(tmp_path), TopicPartition("t", 0), high_watermark="end")
        assert time.monotonic() - started < PATIENCE_SECONDS


def test_a_high_watermark_that_stays_of_no_use_is_refused_in_time(tmp_path: Path) -> None:
    """The broker continues to record one that is beyond the log's end."""
    build(tmp_path, "t-0")
    with (
        running(tmp_path, {"t-0": 99}),
        recording(tmp_path, {"t-0": 99}),
        pytest.raises(Unsettled, match="does not lie between the log's start and its end"),
    ):
        observe(as_it_runs(tmp_path), TopicPartition("t", 0), high_watermark="end")


def test_only_a_running_directory_has_recorded_high_watermarks(tmp_path: Path) -> None:
    """The time of the checkpoint; none before the broker wrote it, nor when it has ended."""
    build(tmp_path, "t-0")
    checkpoint = tmp_path / "replication-offset-checkpoint"
    with running(tmp_path, {"t-0": 5}):
        place = as_it_runs(tmp_path)
        assert isinstance(place, RunningPlace)
        recorded_ms = checkpoint.stat().st_mtime_ns // 1_000_000
        assert recorded_ms == watermarks_recorded_ms(place)
        checkpoint.unlink()
        assert -1 == watermarks_recorded_ms(place)
    assert tmp_path == exactly(tmp_path)
    assert -1 == watermarks_recorded_ms(tmp_path)
