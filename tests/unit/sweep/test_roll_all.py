"""A roll by itself, before the cleaning: it leaves what one commit of both leaves."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from logwright.compaction.model import CleaningOptions
from logwright.config.topic import parse_settings
from logwright.errors import CorruptBatch, Paused
from logwright.format.names import TopicPartition
from logwright.history.model import roll_rows, sweep_rows
from logwright.state.model import FIRST_RETRY_MS, Pause
from logwright.state.store import change_state, read_state
from logwright.sweep.executor import LocalExecutor
from logwright.sweep.model import LogWork, SweepState, planned
from logwright.sweep.plan import Settings
from logwright.sweep.stages import build_all, commit_all, plan_all, roll_all
from logwright.units import TimestampMs
from tests.log_builder import START_MS, LogBuilder

NOW_MS = TimestampMs(START_MS + 10_000)
DIRTY = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}


@dataclass(frozen=True)
class OneTopic:
    """The same settings for every topic."""

    settings: dict[str, str]

    def of(self, log_dir: Path, topic: str, /) -> Settings:
        """Those."""
        return parse_settings(self.settings)

    def stray(self, log_dir: Path, partition: TopicPartition, /) -> str | None:
        """None is."""
        return None


def a_log(root: Path) -> LogBuilder:
    """Old records of three keys, all in the active segment but the first."""
    builder = LogBuilder(root)
    builder.segment(0).batch(0, [("a", "1"), ("b", "1")], timestamps=[START_MS, START_MS])
    active = builder.segment(2).batch(2, [("a", "2")], timestamps=[START_MS + 1])
    active.batch(3, [("b", None), ("c", "1")], timestamps=[START_MS + 2, START_MS + 2])
    builder.write()
    return builder


def state_of(log_dir: Path, settings: dict[str, str]) -> SweepState:
    """The log, planned."""
    work = LogWork(key="t-0", log_dir=log_dir, partition=TopicPartition("t", 0))
    return plan_all(
        SweepState(works=(work,), now_ms=NOW_MS),
        OneTopic(settings),
        options=CleaningOptions(),
        high_watermark="end",
    )


def rolled(state: SweepState, settings: dict[str, str]) -> SweepState:
    return roll_all(state, OneTopic(settings), high_watermark="end")


def finish(state: SweepState) -> SweepState:
    return commit_all(build_all(state, LocalExecutor()))


def content(log_dir: Path) -> dict[str, str]:
    """Digest of each file that a broker reads."""
    return {
        str(path.relative_to(log_dir)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(log_dir.rglob("*"))
        if path.is_file() and ".logwright" not in str(path) and not path.name.endswith(".deleted")
    }


@pytest.mark.parametrize(
    ("changed", "cause"),
    [
        ({"segment.ms": "5000"}, "time"),
        ({"max.compaction.lag.ms": "5000"}, "time"),
        ({"internal.segment.bytes": "100"}, "size"),
        ({"max.compaction.lag.ms": "5000", "min.cleanable.dirty.ratio": "1.0"}, "time"),
        ({"segment.ms": "5000", "cleanup.policy": "delete"}, "time"),
    ],
)
def test_a_roll_before_the_cleaning_leaves_what_one_commit_leaves(
    tmp_path: Path, changed: dict[str, str], cause: str
) -> None:
    """Byte for byte, whatever makes it due, and the same decision about the cleaning."""
    settings = DIRTY | changed
    apart = a_log(tmp_path / "apart").log_dir
    together = tmp_path / "together"
    shutil.copytree(apart, together, copy_function=shutil.copy2)
    at_once = state_of(together, settings)
    (decided,) = at_once.works
    (work,) = rolled(state_of(apart, settings), settings).works
    assert work.rolled is not None
    assert cause == work.rolled.decision.cause
    assert [0, 2, 5] == sorted(int(path.stem) for path in (apart / "t-0").glob("*.log"))
    assert planned(decided).roll.due
    assert not planned(work).roll.due
    assert planned(decided).clean is planned(work).clean is (settings["cleanup.policy"] != "delete")
    finish(at_once)
    finish(SweepState(works=(work,), now_ms=NOW_MS))
    assert content(together) == content(apart)


def test_a_log_that_is_not_due_stays_as_it_was(tmp_path: Path) -> None:
    """With the plan that it had."""
    builder = a_log(tmp_path / "logs")
    state = state_of(builder.log_dir, DIRTY)
    before = content(builder.log_dir)
    assert state is rolled(state, DIRTY)
    assert before == content(builder.log_dir)


def test_a_log_that_was_paused_meanwhile_is_not_rolled(tmp_path: Path) -> None:
    """It fails, as a cleaning of it would."""
    builder = a_log(tmp_path / "logs")
    settings = DIRTY | {"segment.ms": "5000"}
    state = state_of(builder.log_dir, settings)
    pause = Pause(owner="somebody", reason="test", since_ms=NOW_MS)
    change_state(builder.log_dir, builder.partition, lambda now: now.with_pause(pause))
    before = content(builder.directory)
    (work,) = rolled(state, settings).works
    assert isinstance(work.failure, Paused)
    assert before == content(builder.directory)


def test_a_roll_does_not_end_a_quarantine(tmp_path: Path) -> None:
    """The cleaning after it does; if that fails, too, the next try is twice as late."""
    log = a_log(tmp_path)
    settings = DIRTY | {"segment.ms": "9000"}
    past_ms = TimestampMs(NOW_MS - 3 * FIRST_RETRY_MS)
    failed = CorruptBatch("its CRC is wrong.")
    change_state(log.log_dir, log.partition, lambda now: now.with_failure(failed, past_ms))
    state = rolled(state_of(log.log_dir, settings), settings)
    assert state.works[0].rolled is not None
    quarantine = read_state(log.log_dir)[log.partition].quarantine
    assert quarantine is not None
    assert 1 == quarantine.failures
    assert finish(state).works[0].failure is None
    assert {} == read_state(log.log_dir)


def test_a_roll_ends_the_quarantine_of_a_log_that_is_not_compacted(tmp_path: Path) -> None:
    """A sweep does nothing else to it."""
    log = a_log(tmp_path)
    settings = {"cleanup.policy": "delete", "segment.ms": "9000"}
    past_ms = TimestampMs(NOW_MS - 3 * FIRST_RETRY_MS)
    failed = CorruptBatch("its CRC is wrong.")
    change_state(log.log_dir, log.partition, lambda now: now.with_failure(failed, past_ms))
    assert rolled(state_of(log.log_dir, settings), settings).works[0].rolled is not None
    assert {} == read_state(log.log_dir)


def test_the_history_has_the_roll_once(tmp_path: Path) -> None:
    """In the rows of the step that rolls, with its reason; the cleaning's row comes later."""
    builder = a_log(tmp_path / "logs")
    settings = DIRTY | {"segment.ms": "5000"}
    state = rolled(state_of(builder.log_dir, settings), settings)
    (row,) = roll_rows(state, run_id="r")
    assert ("roll", "r", "t-0") == (row.operation, row.run_id, row.log)
    assert "its first batch is 9 s 999 ms old, the limit is 5 s" == row.why
    assert row.bytes_before == row.bytes_after == planned(state.works[0]).log.log_bytes
    assert ["clean"] == [row.operation for row in sweep_rows(finish(state), run_id="r")]
