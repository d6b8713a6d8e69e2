"""Many commits at once are as many commits one after the other."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from logwright import committing, maintain
from logwright.committing import CheckpointRecord, CommitResult
from logwright.compaction.model import CleaningOptions, CleanPlan, StagedCleaning
from logwright.config.topic import parse_settings
from logwright.errors import CorruptCheckpoint, LogwrightError, StalePlan
from logwright.format.names import TopicPartition
from logwright.log.load import read_checkpoints
from logwright.steps.filesystem import RealFileSystem
from logwright.units import Offset, TimestampMs
from tests.log_builder import START_MS, LogBuilder

PARTITIONS = 40


def logs(log_dir: Path) -> list[LogBuilder]:
    builders = []
    for number in range(PARTITIONS):
        builder = LogBuilder(log_dir, f"t-{number}")
        builder.segment(0).batch(0, [("a", "1"), ("b", "1"), ("a", "2")])
        builder.segment(3).batch(3, [("b", str(number))])
        builder.segment(4)
        builders.append(builder.write())
    return builders


def built(builder: LogBuilder) -> tuple[CleanPlan, StagedCleaning]:
    plan = maintain.plan_clean(
        builder.log_dir,
        builder.partition,
        parse_settings({"cleanup.policy": "compact"}),
        now_ms=TimestampMs(START_MS + 10_000),
        options=CleaningOptions(force=True),
        high_watermark="end",
    )
    return plan, maintain.build(plan)


def content(log_dir: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(log_dir)): path.read_bytes()
        for path in sorted(log_dir.rglob("*"))
        if path.is_file() and ".logwright" not in path.parts
    }


@pytest.fixture(params=["threads", "processes"])
def _by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """By threads of this process, as few are, and by two processes, as many are."""
    if request.param == "processes":
        monkeypatch.setattr(committing, "WORTH_A_PROCESS", PARTITIONS // 2)
        monkeypatch.setattr(committing, "available_cores", lambda: 2)


@pytest.mark.usefixtures("_by")
def test_the_logs_are_as_after_commits_in_turn(tmp_path: Path) -> None:
    """Files and checkpoint; nothing else is left in the directory."""
    for builder in logs(tmp_path / "in turn"):
        maintain.commit(*built(builder))
    work = [built(builder) for builder in logs(tmp_path / "at once")]
    done = list(maintain.commit_many(work))
    assert PARTITIONS == sum(isinstance(one.outcome, CommitResult) for one in done)
    assert content(tmp_path / "in turn") == content(tmp_path / "at once")


@pytest.mark.usefixtures("_by")
def test_one_that_fails_leaves_the_others(tmp_path: Path) -> None:
    """Its error is where its result would be."""
    work = [built(builder) for builder in logs(tmp_path)]
    plan, _ = work[7]
    (plan.log.directory / f"{0:020d}.log").touch()
    outcomes = [one.outcome for one in maintain.commit_many(work)]
    assert [7] == [n for n, one in enumerate(outcomes) if isinstance(one, LogwrightError)]
    assert isinstance(outcomes[7], StalePlan)
    recorded = read_checkpoints(tmp_path).cleaner_offset
    assert PARTITIONS - 1 == len(recorded)
    assert plan.log.partition not in recorded


def test_many_are_committed_by_other_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of this one's threads opens a log."""
    monkeypatch.setattr(committing, "WORTH_A_PROCESS", PARTITIONS // 2)
    monkeypatch.setattr(committing, "available_cores", lambda: 2)
    work = [built(builder) for builder in logs(tmp_path)]
    here = []
    commit = committing.commit
    monkeypatch.setattr(committing, "commit", lambda *a, **b: (here.append(1), commit(*a, **b))[1])
    assert all(isinstance(one.outcome, CommitResult) for one in maintain.commit_many(work))
    assert not here


def test_entries_that_wait_are_written_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is durable when its `put` returns; the file is replaced less often than that."""
    (tmp_path / "t-0").mkdir()
    writes = []
    execute = committing.execute
    monkeypatch.setattr(committing, "execute", lambda *a: (writes.append(1), execute(*a)))
    record = CheckpointRecord(tmp_path)

    def one(number: int) -> bool:
        with record.joined() as put, RealFileSystem(tmp_path) as files:
            partition = TopicPartition("t", number)
            put(partition, Offset(number), files)
            return read_checkpoints(tmp_path).cleaner_offset[partition] == number

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(one, range(200)))
    assert 0 < len(writes) < 200


def test_who_ends_without_an_entry_is_not_waited_for(tmp_path: Path) -> None:
    """An entry waits for the commits that began, and is written when the last of them failed."""
    (tmp_path / "t-0").mkdir()
    record = CheckpointRecord(tmp_path)

    def one() -> None:
        with record.joined() as put, RealFileSystem(tmp_path) as files:
            put(TopicPartition("t", 0), Offset(5), files)

    with ThreadPoolExecutor(1) as pool:
        with record.joined():
            waiting = pool.submit(one)
            with pytest.raises(TimeoutError):
                waiting.result(timeout=0.3)
            assert not read_checkpoints(tmp_path).cleaner_offset
        waiting.result(timeout=30)
    assert read_checkpoints(tmp_path).cleaner_offset == {TopicPartition("t", 0): 5}


def test_all_who_wait_are_told_of_a_failure(tmp_path: Path) -> None:
    """A checkpoint that cannot be read is not written by anybody."""
    path = tmp_path / "cleaner-offset-checkpoint"
    path.write_text("no checkpoint\n")
    record = CheckpointRecord(tmp_path)

    def one(number: int) -> bool:
        with (
            record.joined() as put,
            RealFileSystem(tmp_path) as files,
            pytest.raises(CorruptCheckpoint),
        ):
            put(TopicPartition("t", number), Offset(number), files)
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(one, range(16)))
    assert "no checkpoint\n" == path.read_text()
