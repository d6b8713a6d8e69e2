"""Many commits at once are as many commits one after the other."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from logwright.compaction.model import CleanPlan, StagedCleaning
from logwright.errors import CorruptCheckpoint, LogwrightError, Paused, StalePlan, StepFailed
from logwright.format.names import TopicPartition
from logwright.log.checkpoints import read_checkpoints
from logwright.state.model import LogDirState, Pause
from logwright.state.store import change_state
from logwright.steps.filesystem import FileSystem
from logwright.steps.step import FileStep
from logwright.sweep import commit as committing
from logwright.sweep.build import build
from logwright.sweep.commit import CommitResult, commit, commit_many
from logwright.units import TimestampMs
from tests.log_builder import LogBuilder
from tests.plans import forced_plan

PARTITIONS = 40
TRIES, TRY_SECONDS = 600, 0.1


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
    plan = forced_plan(builder.log_dir, builder.partition, {"cleanup.policy": "compact"})
    return plan, build(plan)


def content(log_dir: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(log_dir)): path.read_bytes()
        for path in sorted(log_dir.rglob("*"))
        if path.is_file() and ".logwright" not in path.parts
    }


def test_the_logs_are_as_after_commits_in_turn(tmp_path: Path) -> None:
    """Files and checkpoint; nothing else is left in the directory."""
    for builder in logs(tmp_path / "in turn"):
        commit(*built(builder))
    work = [built(builder) for builder in logs(tmp_path / "at once")]
    done = list(commit_many([work]))
    assert PARTITIONS == sum(isinstance(one.outcome, CommitResult) for one in done)
    assert content(tmp_path / "in turn") == content(tmp_path / "at once")


def test_one_that_fails_leaves_the_others(tmp_path: Path) -> None:
    """Its error is where its result would be."""
    work = [built(builder) for builder in logs(tmp_path)]
    plan, _ = work[7]
    (plan.log.directory / f"{0:020d}.log").touch()
    outcomes = [one.outcome for one in commit_many([work])]
    assert [7] == [n for n, one in enumerate(outcomes) if isinstance(one, LogwrightError)]
    assert isinstance(outcomes[7], StalePlan)
    recorded = read_checkpoints(tmp_path).cleaner_offset
    assert PARTITIONS - 1 == len(recorded)
    assert plan.log.partition not in recorded


def test_what_a_group_has_in_common_is_read_when_all_of_it_is_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then somebody who has a partition may change its checkpoint entry, or pause it."""
    work = [built(builder) for builder in logs(tmp_path)]
    last, lock = work[committing.GROUP - 1][0], committing._lock
    changed, paused = (work[number][0].log.partition for number in (3, 5))

    def late(log_commit: committing._Commit, *rest: Any) -> FileSystem:  # noqa: ANN401
        files = lock(log_commit, *rest)
        if log_commit.plan is last:
            (tmp_path / "cleaner-offset-checkpoint").write_text(f"0\n1\nt {changed.partition} 1\n")
            pause = Pause(owner="a", reason="", since_ms=TimestampMs(0), expires_at_ms=None)
            change_state(tmp_path, paused, lambda now: now.with_pause(pause))
        return files

    monkeypatch.setattr(committing, "_lock", late)
    outcomes = [one.outcome for one in commit_many([work])]
    refused = {n: type(one) for n, one in enumerate(outcomes) if isinstance(one, LogwrightError)}
    assert {3: StalePlan, 5: Paused} == refused
    recorded = read_checkpoints(tmp_path).cleaner_offset
    assert recorded[changed] == 1
    assert paused not in recorded


def test_a_step_that_fails_ends_its_own_commit_only(tmp_path: Path) -> None:
    """The others of its group continue from there, and are recorded."""
    work = [built(builder) for builder in logs(tmp_path)]
    plan, _ = work[3]
    next(plan.log.directory.rglob("staging/*/*.timeindex")).unlink()
    outcomes = [one.outcome for one in commit_many([work])]
    assert [3] == [n for n, one in enumerate(outcomes) if not isinstance(one, CommitResult)]
    assert isinstance(outcomes[3], StepFailed)
    assert {one.log.partition for one, _ in work} - set(
        read_checkpoints(tmp_path).cleaner_offset
    ) == {plan.log.partition}


def test_another_exception_stops_the_groups_that_have_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of its own group is committed whole."""
    work = [built(builder) for builder in logs(tmp_path)]
    monkeypatch.setattr(committing, "GROUP", PARTITIONS // 2)
    refuse = committing.refuse_held

    def broken(
        log_dir: Path,
        partition: TopicPartition,
        now_ms: TimestampMs,
        *,
        force: bool,
        state: LogDirState,
    ) -> None:
        if partition == work[0][0].log.partition:
            raise RuntimeError
        refuse(log_dir, partition, now_ms, force=force, state=state)

    monkeypatch.setattr(committing, "refuse_held", broken)
    with pytest.raises(RuntimeError):
        list(commit_many([work]))
    recorded = read_checkpoints(tmp_path).cleaner_offset
    assert set(recorded) == {plan.log.partition for plan, _ in work[1 : PARTITIONS // 2]}
    assert not list(tmp_path.rglob("*.swap"))


def main_thread_waits() -> bool:
    """Whether the main thread waits for a condition: `saved_state` is set just before it begins."""
    frame = sys._current_frames()[threading.main_thread().ident or 0]
    return frame.f_code is threading.Condition.wait.__code__ and "saved_state" in frame.f_locals


def test_an_interrupt_waits_for_the_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is committed whole; no other begins. The interrupt comes while the caller waits for it,
    and the first log is locked only when the caller is on its way out.

    A signal that comes just before the caller is blocked does not wake it: it is sent until the
    caller leaves, and raises once.
    """
    work = [built(builder) for builder in logs(tmp_path)]
    monkeypatch.setattr(committing, "GROUP", PARTITIONS // 2)
    lock = committing.lock_log_dir
    leaving, left, raised = threading.Event(), list[bool](), threading.Event()

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        if not raised.is_set():
            raised.set()
            raise KeyboardInterrupt

    class Left(ThreadPoolExecutor):
        def __exit__(self, *error: object) -> None:
            leaving.set()
            self.shutdown(wait=True)

    def interrupted(log_dir: Path) -> AbstractContextManager[None]:
        monkeypatch.setattr(committing, "lock_log_dir", lock)
        while not main_thread_waits():
            os.sched_yield()
        for _ in range(TRIES):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            if leaving.wait(TRY_SECONDS):
                break
        left.append(leaving.is_set())
        return lock(log_dir)

    monkeypatch.setattr(committing, "ThreadPoolExecutor", Left)
    monkeypatch.setattr(committing, "lock_log_dir", interrupted)
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            list(commit_many([work]))
    finally:
        signal.signal(signal.SIGINT, before)
    assert left == [True]
    recorded = read_checkpoints(tmp_path).cleaner_offset
    assert set(recorded) == {plan.log.partition for plan, _ in work[: PARTITIONS // 2]}


def test_a_group_is_recorded_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checkpoint is written once for each group and log directory, under all their locks."""
    work = [built(one) for name in ("a", "b") for one in logs(tmp_path / name)]
    monkeypatch.setattr(committing, "GROUP", PARTITIONS // 2)
    writes = []
    execute = committing.execute

    def recorded(steps: Iterable[FileStep], files: FileSystem) -> None:
        writes.append(sum(1 for _ in tmp_path.rglob(".logwright/lock")))
        execute(steps, files)

    monkeypatch.setattr(committing, "execute", recorded)
    assert all(isinstance(one.outcome, CommitResult) for one in commit_many([work]))
    assert writes == [PARTITIONS // 2] * 4
    assert not list(tmp_path.rglob("lock"))
    for name in ("a", "b"):
        assert PARTITIONS == len(read_checkpoints(tmp_path / name).cleaner_offset)


def test_all_of_a_group_are_told_that_they_are_not_recorded(tmp_path: Path) -> None:
    """A checkpoint that cannot be read is not written for anybody; the logs are the new ones."""
    work = [built(builder) for builder in logs(tmp_path)]
    path = tmp_path / "cleaner-offset-checkpoint"
    path.write_text("no checkpoint\n")
    outcomes = [one.outcome for one in commit_many([work])]
    assert all(isinstance(one, CorruptCheckpoint) for one in outcomes)
    assert "no checkpoint\n" == path.read_text()
    assert PARTITIONS == len(list(tmp_path.glob(f"*/{0:020d}.log.deleted")))
