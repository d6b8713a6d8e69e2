"""How a sweep begins: held logs are left, unclean ones recovered, all others planned."""

from __future__ import annotations

from pathlib import Path

from logwright.compaction.model import CleaningOptions
from logwright.config.policies import load_policies
from logwright.config.sources import DirectorySettings
from logwright.state.model import Pause
from logwright.state.store import change_state
from logwright.sweep.model import LogWork, SweepState, planned
from logwright.sweep.prepare import prepare
from logwright.units import TimestampMs
from tests.log_builder import START_MS, LogBuilder

NOW_MS = TimestampMs(START_MS + 10_000)
POLICIES = """version: 1
high_watermark: end
checks: thorough
sweep: {keep_failed_output_ms: 5000}
topics:
  - pattern: ".*"
    cleanup.policy: compact
"""


def test_the_beginning_of_a_sweep(tmp_path: Path) -> None:
    """A log with leftovers is recovered and planned by the policies; a paused one stays as it is,
    also if logs that are not due are to be cleaned.
    """
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies/topics.yml").write_text(POLICIES)
    log_dir = tmp_path / "logs"
    works = []
    for topic in ("torn", "paused"):
        builder = LogBuilder(log_dir, f"{topic}-0")
        builder.segment(0).batch(0, [("a", "1")])
        builder.segment(1)
        builder.write()
        (builder.directory / f"{0:020d}.log.cleaned").write_bytes(b"x")
        works.append(LogWork(key=topic, log_dir=log_dir, partition=builder.partition))
    pause = Pause(owner="me", reason="", since_ms=NOW_MS, expires_at_ms=None)
    change_state(log_dir, works[1].partition, lambda state: state.with_pause(pause))

    settings = DirectorySettings(load_policies(tmp_path / "policies"))
    state = SweepState(works=tuple(works), now_ms=NOW_MS)
    torn, paused = prepare(state, settings, CleaningOptions(force=True)).works

    assert (None, None, True) == (torn.failure, torn.held, bool(torn.recovered))
    options = planned(torn).options
    assert ("thorough", 5000, True) == (
        options.checks,
        options.keep_failed_output_ms,
        options.force,
    )
    assert (None, None) == (paused.plan, paused.recovered)
    assert paused.held is not None
    assert [log_dir / f"paused-0/{0:020d}.log.cleaned"] == list(log_dir.rglob("*.cleaned"))
