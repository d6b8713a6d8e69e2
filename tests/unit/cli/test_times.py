"""Times and durations as people write them, wherever the command line takes one."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from logwright.cli.main import main
from logwright.cli.options.parameters import Duration, Time
from tests.fixtures import case_dir, copy_before
from tests.unit.cli.conftest import Call

NOW_MS = 1_760_003_686_229


def test_every_time_is_read_as_iso() -> None:
    """No option takes a time or a duration as bare ms only: all have one of the two types."""
    context = click.Context(main)
    typed = {
        (name, option.name): type(option.type)
        for name in main.list_commands(context)
        for option in getattr(main.get_command(context, name), "params", ())
        if (option.name or "").endswith("_ms")
    }
    assert {Time, Duration} == set(typed.values())
    assert Time == typed["plan", "now_ms"] == typed["pause", "until_ms"]


@pytest.mark.parametrize(
    "now",
    ["2025-10-09T09:54:46.229Z", "2025-10-09 11:54:46.229+02:00", "2025-10-09T09:54:46.229"],
)
def test_the_clock_is_iso_or_ms(call: Call, now: str) -> None:
    """One without a time zone is in UTC; both forms are one moment."""
    words = ("plan", case_dir("basic-none") / "before", "--no-forecast", "--output", "json")
    assert NOW_MS == call(*words, "--now", now).lines[-1]["now"]
    assert NOW_MS == call(*words, "--now", NOW_MS).lines[-1]["now"]


def test_a_pause_ends_at_an_iso_time(call: Call, tmp_path: Path) -> None:
    """What is shown is what was typed."""
    log_dir = copy_before("basic-none", tmp_path)
    until = ("--until", "2025-10-10T12:00Z", "--reason", "x")
    answer = call("pause", log_dir, "t-0", *until, "--yes", "--now", NOW_MS)
    assert "until 2025-10-10 12:00:00Z" in answer.out


@pytest.mark.parametrize(
    ("typed", "expected_ms"), [("90s", 90_000), ("2 d 6 h", 194_400_000), ("5min", 300_000)]
)
def test_a_duration_can_be_typed_as_it_is_shown(
    call: Call, tmp_path: Path, typed: str, expected_ms: int
) -> None:
    """In one unit, or in several."""
    log_dir = copy_before("basic-none", tmp_path)
    words = ("pause", log_dir, "t-0", "--for", typed, "--reason", "x", "--yes", "--now", NOW_MS)
    (line,) = call(*words, "--output", "json").lines
    assert NOW_MS + expected_ms == line["pauses"][0]["expiresAtMs"]


def test_reasons_are_in_units_of_people(call: Call) -> None:
    """Of retention, of a roll and of a lag; JSON has the ms as numbers."""
    log_dir = case_dir("basic-none") / "before"
    old = ("--config", "cleanup.policy=delete", "--config", "retention.ms=604800000")
    words = ("retain", log_dir, *old, "--dry-run", "--now", NOW_MS + 14 * 86_400_000)
    text = call(*words).out
    assert "d old, retention.ms is 7 d" in text or "h old, retention.ms is 7 d" in text
    segment = call(*words, "--output", "json").lines[0]["segmentsBefore"][0]
    assert 604_800_000 == segment["limit"] < segment["value"]
    lag = ("--config", "cleanup.policy=compact", "--config", "max.compaction.lag.ms=86400000")
    words = ("plan", log_dir, *lag, "--no-forecast", "--verbose", "--now", NOW_MS)
    assert "max.compaction.lag.ms is 1 d, oldest dirty record of 2025-10-09" in call(*words).out
