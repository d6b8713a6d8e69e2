"""Logs of a running broker: held from what would change them, planned for who only reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.compaction.model import CleaningOptions
from logwright.config.policies import Policies
from logwright.config.sources import DirectorySettings
from logwright.format.names import TopicPartition
from logwright.place.model import Place
from logwright.running.place import as_it_runs
from logwright.sweep.holds import hold, hold_from_erasure, hold_from_retention
from logwright.sweep.model import LogWork, SweepState
from logwright.sweep.prepare import plan_by_policies, prepare
from logwright.units import TimestampMs
from tests.running_dirs import running, two_segments

NOW_MS = TimestampMs(1_760_000_000_000)
T0 = TopicPartition("t", 0)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A log of two segments of ten records."""
    return two_segments(tmp_path / "logs").log_dir


@pytest.fixture
def settings() -> DirectorySettings:
    defaults = {"cleanup.policy": "compact,delete"}
    return DirectorySettings(Policies(defaults=defaults, high_watermark="end"))


def state(log_dir: Path) -> SweepState:
    return SweepState(works=(LogWork(key="t-0", log_dir=log_dir, partition=T0),), now_ms=NOW_MS)


def shown(log_dir: Path) -> SweepState[Place]:
    work: LogWork[Place] = LogWork(key="t-0", log_dir=as_it_runs(log_dir), partition=T0)
    return SweepState(works=(work,), now_ms=NOW_MS)


def kinds(state: SweepState[Place] | SweepState) -> list[str | None]:
    return [None if work.held is None else work.held.kind for work in state.works]


@pytest.mark.parametrize("force", [False, True])
def test_sweeps_and_retentions_leave_it_to_the_broker(
    log_dir: Path, settings: DirectorySettings, *, force: bool
) -> None:
    """Skipped, with the process, whatever is forced; neither planned nor failed nor recovered."""
    with running(log_dir, {"t-0": 13}):
        swept = prepare(state(log_dir), settings, CleaningOptions(force=force))
        retained = hold_from_retention(state(log_dir), settings, force=force)
    for done in (swept, retained):
        (work,) = done.works
        assert (None, None) == (work.plan, work.failure)
        assert work.held is not None
        assert "running" == work.held.kind
        assert work.held.sentence.startswith("a broker (process ")
        assert work.held.sentence.endswith(") runs on its log directory")


def test_an_erasure_is_not_skipped(log_dir: Path, settings: DirectorySettings) -> None:
    """It has a deadline: it fails, so that somebody stops the broker."""
    with running(log_dir, {"t-0": 13}):
        assert [None] == kinds(hold_from_erasure(state(log_dir), settings, at_once=False))


def test_a_log_without_a_broker_is_not_held(log_dir: Path, settings: DirectorySettings) -> None:
    """Neither by a lock file that nobody holds."""
    (log_dir / ".lock").touch()
    assert [None] == kinds(hold(state(log_dir), settings))
    assert [None] == kinds(hold_from_retention(state(log_dir), settings))


def test_a_log_that_is_only_read_is_planned(log_dir: Path, settings: DirectorySettings) -> None:
    """Up to its high watermark."""
    with running(log_dir, {"t-0": 13}):
        held = hold(shown(log_dir), None)
        (work,) = plan_by_policies(held, settings).works
    assert [None] == kinds(held)
    assert work.plan is not None
    assert (13, 10) == (work.plan.log.log_end_offset, work.plan.log.active.base_offset)
    assert work.plan.compaction.cleanable_bytes > 0
