"""`plan` next to a running broker."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from logwright.running import watermark
from tests.fixtures import copy_before, description, settings
from tests.log_builder import LogBuilder
from tests.running_dirs import record, recording, running
from tests.unit.cli.conftest import Call
from tests.unit.cli.test_look import snapshot

COMPACT = ("--config", "cleanup.policy=compact")
JSON = ("--output", "json")


def build(log_dir: Path, partition: str = "t-0") -> LogBuilder:
    """Three segments of 20 records of two keys; the last one active."""
    builder = LogBuilder(log_dir, partition)
    for base in (0, 20, 40):
        segment = builder.segment(base)
        for offset in range(base, base + 20, 2):
            segment.batch(offset, [("a", "1" * 100), ("b", "2" * 100)])
    builder.write(index_interval=1, high_watermark=60)
    (builder.directory / "leader-epoch-checkpoint").write_bytes(b"0\n1\n0 0\n")
    return builder


@pytest.fixture
def log(tmp_path: Path) -> LogBuilder:
    return build(tmp_path / "logs")


def test_a_plan_ends_at_the_high_watermark(call: Call, log: LogBuilder) -> None:
    """It says that a broker runs, and what bounds it; of a recovery nothing; nothing is written."""
    with running(log.log_dir, {"t-0": 46}):
        before = snapshot(log.log_dir)
        text = call("plan", log.log_dir, *COMPACT, "--no-forecast")
        *partitions, summary = call("plan", log.log_dir, *COMPACT, "--no-forecast", *JSON).lines
        assert before == snapshot(log.log_dir)
    assert 0 == text.status
    assert "has it open: its own cleaner may act first, and nothing of this plan" in text.out
    assert "0..46" in text.out
    assert "read t-0 up to offset 46, to the high watermarks that it recorded" in text.err
    assert "Recovered first" not in text.out
    (planned,) = partitions
    assert (46, 40) == (planned["logEndOffset"], planned["activeSegmentBaseOffset"])
    assert (True, True) == (planned["eligible"], planned["clean"])
    assert ("checkpoint", "a broker runs") == (
        summary["highWatermark"],
        summary["highWatermarkFrom"],
    )
    assert {"process", "highWatermarkRecordedMs"} == summary["broker"].keys()


def test_a_stopped_broker_is_not_named(call: Call, log: LogBuilder) -> None:
    """The field is there, and null."""
    *_, summary = call("plan", log.log_dir, *COMPACT, *JSON).lines
    assert summary["broker"] is None


def test_retired_files_of_a_broker_are_left_to_it(call: Call, log: LogBuilder) -> None:
    """It removes them itself: a plan has no purge of them."""
    (log.directory / "00000000000000000000.log.deleted").write_bytes(b"x" * 99)
    with running(log.log_dir, {"t-0": 60}):
        (planned, _) = call("plan", log.log_dir, *COMPACT, "--no-forecast", *JSON).lines
    assert planned["purge"] is None


def test_paused_logs_are_skipped(call: Call, log: LogBuilder) -> None:
    """What is remembered of them is read next to the broker too."""
    assert 0 == call("pause", log.log_dir, "t-0", "--reason", "disk", "--yes").status
    with running(log.log_dir, {"t-0": 60}):
        answer = call("plan", log.log_dir, *COMPACT, *JSON)
    assert 0 == answer.status
    assert "t-0: skipped: paused by" in answer.err


def test_what_changes_a_log_still_refuses(call: Call, log: LogBuilder) -> None:
    """With the broker's process."""
    with running(log.log_dir, {"t-0": 60}):
        for command in ("clean", "retain", "roll", "purge"):
            answer = call(command, log.log_dir, *COMPACT, "--yes")
            assert 5 == answer.status, command
            assert "a broker (process " in answer.err


def test_a_forecast_needs_a_younger_high_watermark(
    call: Call, log: LogBuilder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless the last stable offset has reached the active segment; the cleaner may have removed
    something because of what is beyond. The log is planned again, up to there.
    """
    words = ("--forecast", "--now", 1_760_000_000_000, *COMPACT, *JSON)
    with running(log.log_dir, {"t-0": 30}):
        with recording(log.log_dir, {"t-0": 36}):
            (waited, _) = call("plan", log.log_dir, *words).lines
        monkeypatch.setattr(watermark, "PATIENCE_SECONDS", 0.3)
        refused = call("plan", log.log_dir, *words)
        record(log.log_dir, {"t-0": 46})
        (reached, _) = call("plan", log.log_dir, *words).lines
    assert (36, 18) == (waited["logEndOffset"], superseded(waited))
    assert (5, 1) == (refused.status, refused.err.count("a younger one is needed"))
    assert (46, 38) == (reached["logEndOffset"], superseded(reached))


def superseded(planned: dict[str, Any]) -> int:
    """Records that a cleaning would remove because of later ones with the same keys."""
    return int(planned["forecast"]["causes"]["superseded"]["records"])


def test_a_plan_without_a_forecast_does_not_wait(call: Call, log: LogBuilder) -> None:
    """However old the high watermark is."""
    with running(log.log_dir, {"t-0": 30}):
        (planned, _) = call("plan", log.log_dir, "--no-forecast", *COMPACT, *JSON).lines
    assert (30, None) == (planned["logEndOffset"], planned["forecastReclaimedBytes"])


def test_it_is_waited_once_for_all_logs(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a broker does not record its high watermarks, each log is refused, the first after the
    wait.
    """
    log_dir = tmp_path / "logs"
    for number in range(8):
        build(log_dir, f"t-{number}")
    monkeypatch.setattr(watermark, "PATIENCE_SECONDS", 2.0)
    with running(log_dir):
        started = time.monotonic()
        answer = call("plan", log_dir, *COMPACT)
        seconds = time.monotonic() - started
    assert 8 == answer.err.count("the broker does not write its high watermarks")
    assert seconds < 8 * 2.0


@pytest.mark.parametrize("name", ["basic-none", "txn-1-mixed"])
def test_a_committed_log_is_planned_as_a_stopped_one(call: Call, tmp_path: Path, name: str) -> None:
    """All numbers and the forecast, of logs that Kafka wrote; but its retired files."""
    log_dir = copy_before(name, tmp_path)
    words = ("--forecast", "--now", description(name)["now"], *settings(name), *JSON)
    stopped = call("plan", log_dir, *words)
    end = stopped.lines[0]["logEndOffset"]
    with running(log_dir, {"t-0": end}), recording(log_dir, {"t-0": end}):
        shown = call("plan", log_dir, *words)
    assert (0, 0) == (stopped.status, shown.status)
    assert shown.lines[0]["purge"] is None
    assert stopped.lines[0] | {"purge": None} == shown.lines[0] | {"purge": None}
