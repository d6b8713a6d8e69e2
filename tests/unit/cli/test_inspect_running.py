"""`inspect` next to a running broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.running import watermark
from tests.log_builder import LogBuilder
from tests.running_dirs import running
from tests.unit.cli.conftest import Call


@pytest.fixture
def log(tmp_path: Path) -> LogBuilder:
    """Ten records, of which more are on the disk than are committed."""
    builder = LogBuilder(tmp_path / "logs")
    segment = builder.segment(0)
    for offset in range(10):
        segment.batch(offset, [("a", "1")])
    return builder.write(index_interval=1)


def test_a_log_is_shown_up_to_its_high_watermark(call: Call, log: LogBuilder) -> None:
    """A running broker is not one that was not stopped cleanly."""
    with running(log.log_dir, {"t-0": 6}):
        text = call("inspect", log.log_dir)
        directory, shown = call("inspect", log.log_dir, "--output", "json").lines
    assert 0 == text.status
    assert "running: a broker (process" in text.out
    assert "0..6" in text.out
    assert "recovery" not in text.out
    assert (True, None) == (directory["running"], directory["cleanShutdown"])
    assert (6, 6, None) == (shown["logEndOffset"], shown["highWatermark"], shown["problem"])


def test_a_log_without_a_usable_high_watermark_is_shown(
    call: Call, log: LogBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while a broker starts: its files, and why its offsets are not known."""
    monkeypatch.setattr(watermark, "PATIENCE_SECONDS", 0.2)
    size = (log.directory / f"{0:020}.log").stat().st_size
    with running(log.log_dir, {"t-0": 11}):
        text = call("inspect", log.log_dir)
        _, shown = call("inspect", log.log_dir, "--output", "json").lines
    assert 0 == text.status
    assert "not settled: the broker does not write its high watermarks" in text.out
    assert (size, [size]) == (shown["bytes"], [one["logBytes"] for one in shown["segments"]])
    assert "logEndOffset" not in shown
