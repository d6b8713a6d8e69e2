"""The marker while an append is under way: who waits, and who need not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from logwright.compaction.model import CleaningOptions, CleanPlan
from logwright.config.topic import parse_settings
from logwright.errors import LogDirLocked
from logwright.format.names import CLEAN_SHUTDOWN_MARKER, TopicPartition
from logwright.ingest import commit as ingest_run
from logwright.ingest.commit import commit_append, stage_append
from logwright.ingest.model import AppendPlan
from logwright.locks import lock_checkpoints
from logwright.recovery.directory_plan import partitions_to_recover
from logwright.recovery.model import RecoveryOptions
from logwright.steps import marker
from logwright.steps.filesystem import RealFileSystem
from logwright.steps.step import AnyPath
from logwright.sweep.build import build
from logwright.sweep.commit import commit as commit_cleaning
from logwright.sweep.plan import plan_cleanings
from logwright.sweep.recover import recover_directory
from logwright.units import TimestampMs
from tests.ingested import arrow, planned, read_batches
from tests.log_builder import LogBuilder
from tests.plans import forced_plan

NOW = 1_760_000_100_000
T, U, V = TopicPartition("t", 0), TopicPartition("u", 0), TopicPartition("v", 0)
COMPACT = {"cleanup.policy": "compact"}


class Pausing(RealFileSystem):
    """Stops before the first append until the event is set."""

    reached: threading.Event
    go_on: threading.Event

    def append(self, path: AnyPath, content: bytes, *, create: bool) -> None:
        """Effects: see `RealFileSystem`."""
        self.reached.set()
        assert self.go_on.wait(300)
        super().append(path, content, create=create)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Two logs with something to compact."""
    for partition in (T, U):
        log = LogBuilder(tmp_path / "logs", str(partition))
        log.segment(0).batch(0, [("a", "1"), ("b", "1")])
        log.segment(2).batch(2, [("a", "2")])
        log.segment(3).batch(3, [("c", "1")])
        log.write(producers=True)
    return tmp_path / "logs"


def append(log_dir: Path, partition: TopicPartition, ingest_id: str) -> int:
    plan = planned(log_dir, {}, now_ms=NOW, ingest_id=ingest_id, partition=partition)
    assert isinstance(plan, AppendPlan)
    return commit_append(plan, stage_append(plan, [arrow([(b"n", b"1", [], NOW)])])).end_offset


@pytest.fixture
def under_way(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """An append to t-0 that has renamed the marker; it continues when the event is set."""
    monkeypatch.setattr(Pausing, "reached", threading.Event(), raising=False)
    monkeypatch.setattr(Pausing, "go_on", threading.Event(), raising=False)
    plan = planned(log_dir, {}, now_ms=NOW, ingest_id="slow", partition=T)
    assert isinstance(plan, AppendPlan)
    staged = stage_append(plan, [arrow([(b"n", b"1", [], NOW)])])
    ends: list[int] = []

    def commit() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(ingest_run, "RealFileSystem", Pausing)
            ends.append(commit_append(plan, staged).end_offset)

    thread = threading.Thread(target=commit)
    thread.start()
    assert Pausing.reached.wait(300)
    yield Pausing.go_on
    Pausing.go_on.set()
    thread.join(300)
    assert [5] == ends
    assert (log_dir / CLEAN_SHUTDOWN_MARKER).exists()


def clean_plan(log_dir: Path, partition: TopicPartition) -> CleanPlan:
    return forced_plan(log_dir, partition, COMPACT, now_ms=NOW)


@pytest.fixture
def planned_before(log_dir: Path) -> CleanPlan:
    """A clean of u-0 that was planned before the append began."""
    return clean_plan(log_dir, U)


def test_a_commit_of_another_log_does_not_wait(
    log_dir: Path, planned_before: CleanPlan, under_way: threading.Event
) -> None:
    """It swaps and writes its checkpoint while the marker is renamed."""
    assert not under_way.is_set()
    with lock_checkpoints(log_dir):
        pass
    result = commit_cleaning(planned_before, build(planned_before))
    assert result.segments_swapped > 0
    assert not (log_dir / CLEAN_SHUTDOWN_MARKER).exists()
    assert "u 0 3" in (log_dir / "cleaner-offset-checkpoint").read_text()


def test_plan_waits_for_the_marker(log_dir: Path, under_way: threading.Event) -> None:
    """The directory is not taken for an unclean one."""
    timer = threading.Timer(0.05, under_way.set)
    timer.start()
    assert clean_plan(log_dir, U).clean
    timer.join()
    assert () == partitions_to_recover(log_dir, [T, U])


def test_plan_of_many_logs_waits_for_the_marker(log_dir: Path, under_way: threading.Event) -> None:
    """So does the one of a sweep."""
    timer = threading.Timer(0.05, under_way.set)
    timer.start()
    outcomes = plan_cleanings(
        log_dir,
        [U],
        lambda _: parse_settings(COMPACT),
        now_ms=TimestampMs(NOW),
        options=CleaningOptions(force=True),
        high_watermark="end",
    )
    timer.join()
    assert [True] == [isinstance(one, CleanPlan) and one.clean for one in outcomes]


def test_recovery_waits_for_the_append(log_dir: Path, under_way: threading.Event) -> None:
    """Nothing is recovered while the log grows; afterwards nothing has to be."""
    timer = threading.Timer(0.05, under_way.set)
    timer.start()
    assert () == partitions_to_recover(log_dir, [T, U])
    timer.join()


def test_who_waits_too_long_is_told(
    log_dir: Path, under_way: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plan, recovery and another append; nothing was changed."""
    monkeypatch.setattr(marker, "PLAN_WAIT_SECONDS", 0.0)
    monkeypatch.setattr(ingest_run, "APPEND_WAIT_SECONDS", 0.0)
    assert not under_way.is_set()
    with pytest.raises(LogDirLocked, match="appends to a log"):
        clean_plan(log_dir, U)
    with pytest.raises(LogDirLocked, match="appends to a log"):
        partitions_to_recover(log_dir, [U])
    config, _ = parse_settings({})
    with pytest.raises(LogDirLocked):
        recover_directory(
            log_dir, [U], lambda _: config, now_ms=TimestampMs(NOW), options=RecoveryOptions()
        )
    with pytest.raises(LogDirLocked):
        append(log_dir, V, "other")
    assert not (log_dir / "v-0").exists()


def test_appends_of_one_directory_follow_each_other(
    log_dir: Path, under_way: threading.Event
) -> None:
    """The second one waits for the first, and both are there."""
    timer = threading.Timer(0.05, under_way.set)
    timer.start()
    assert 5 == append(log_dir, U, "other")
    timer.join()
    assert 1 == len(read_batches(log_dir, 4, "u-0"))
