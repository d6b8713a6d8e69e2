"""Build to commit as one stream, in this process: the same as one log after the other."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from logwright.compaction.model import CleaningOptions, CleanPlan
from logwright.config.topic import parse_settings
from logwright.errors import CorruptBatch, QualityError, StepFailed
from logwright.format.names import TopicPartition
from logwright.log.checkpoints import read_checkpoints
from logwright.sweep import calls, clean
from logwright.sweep.clean import clean_logs, plan_again
from logwright.sweep.executor import LocalExecutor
from logwright.sweep.model import LogWork, SweepState
from logwright.sweep.plan import Settings
from logwright.sweep.recover import recover
from logwright.sweep.stages import plan_all, to_clean
from logwright.units import TimestampMs
from tests.ingested import read_batches
from tests.log_builder import START_MS, LogBuilder

LOGS = 2 * calls.SMALL_LOGS_TOGETHER + 3
NOW_MS = TimestampMs(START_MS + 10_000)


class Compact:
    """Every log is compacted; none is stray."""

    def of(self, _log_dir: Path, _topic: str) -> Settings:
        """The same for all."""
        return parse_settings({"cleanup.policy": "compact"})

    def stray(self, _log_dir: Path, _partition: TopicPartition) -> str | None:
        """None."""
        return None

    def topic_id(self, _log_dir: Path, _partition: TopicPartition) -> str | None:
        """Not known."""
        return None


def planned(log_dir: Path, number: int = LOGS) -> SweepState:
    works = []
    for each in range(number):
        builder = LogBuilder(log_dir, f"t-{each}")
        builder.segment(0).batch(0, [("a", "1"), ("b", "1"), ("a", "2")])
        builder.segment(3)
        builder.write()
        works.append(LogWork(key=f"t-{each}", log_dir=log_dir, partition=builder.partition))
    state = SweepState(works=tuple(works), now_ms=NOW_MS)
    options = CleaningOptions(force=True)
    return plan_all(state, Compact(), options=options, high_watermark="end")


def staged_directories(log_dir: Path) -> list[Path]:
    return list(log_dir.glob("*/.logwright/staging/*"))


@pytest.fixture(name="large")
def _large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("logwright.sweep.calls.SMALL_LOG_BYTES", 0)
    monkeypatch.setattr("logwright.sweep.executor.SMALL_LOG_BYTES", 0)


def test_many_small_logs_end_in_their_order(tmp_path: Path) -> None:
    """All are committed, and nothing is left of the build."""
    state = planned(tmp_path)
    ended = list(clean_logs(state, LocalExecutor()))
    assert [work.key for work in state.works] == [work.key for work in ended]
    assert all(work.result is not None and work.facts is not None for work in ended)
    assert LOGS == len(read_checkpoints(tmp_path).cleaner_offset)
    assert [] == staged_directories(tmp_path)


@pytest.mark.usefixtures("large")
def test_large_logs_have_all_threads_and_are_committed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after the other: a log is committed before the one after the next is built."""
    state = planned(tmp_path, 4)
    threads, committed = [], []
    build = clean.build_and_examine

    def noted(plan: CleanPlan, **given: Any) -> object:  # noqa: ANN401
        threads.append(given["runtime"].threads)
        committed.append(len(read_checkpoints(tmp_path).cleaner_offset))
        return build(plan, **given)

    monkeypatch.setattr(clean, "build_and_examine", noted)
    assert 4 == sum(work.result is not None for work in clean_logs(state, LocalExecutor(threads=3)))
    assert [3, 3, 3, 3] == threads
    assert committed[-1] > 0


@pytest.mark.parametrize("where", ["build", "checks", "commit"])
def test_one_that_fails_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Its error is its own; what was staged for it is gone."""
    state = planned(tmp_path)
    broken = state.works[7]
    build = clean.build_and_examine

    def fail(plan: CleanPlan, **given: Any) -> object:  # noqa: ANN401
        if plan.log.partition != broken.partition:
            return build(plan, **given)
        if where == "build":
            raise CorruptBatch("its CRC is wrong.")
        staged, facts = build(plan, **given)
        if where == "commit":
            (plan.log.directory / f"{0:020d}.log").touch()
            return staged, facts
        first = facts.checks[0]._replace(violations=1, first_offset=0)
        return staged, facts._replace(checks=(first, *facts.checks[1:]))

    monkeypatch.setattr(clean, "build_and_examine", fail)
    ended = {work.key: work for work in clean_logs(state, LocalExecutor())}
    assert LOGS == len(ended)
    failed = {key: work.failure for key, work in ended.items() if work.failure is not None}
    assert [broken.key] == list(failed)
    assert (where == "checks") == isinstance(failed[broken.key], QualityError)
    assert LOGS - 1 == len(read_checkpoints(tmp_path).cleaner_offset)
    assert [] == staged_directories(tmp_path)


@pytest.mark.parametrize("renames", range(9))
def test_a_swap_that_fails_leaves_nothing_staged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    """A recovery does not need it, and it would fill the disk. After a recovery the log is the old
    or the new one.
    """
    state = planned(tmp_path, 1)
    rename, left = os.rename, iter(range(renames))

    def fail(*names: Any, **options: Any) -> None:  # noqa: ANN401
        if next(left, None) is None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        rename(*names, **options)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", fail)
        (ended,) = clean_logs(state, LocalExecutor())
    assert isinstance(ended.failure, StepFailed)
    assert [] == staged_directories(tmp_path)
    fresh = LogWork(key="t-0", log_dir=tmp_path, partition=ended.partition)
    recovered = recover(SweepState(works=(fresh,), now_ms=NOW_MS), Compact())
    assert {} == recovered.failures
    offsets = [record.offset for batch in read_batches(tmp_path) for record in batch.records]
    assert offsets in ([0, 1, 2], [1, 2])


def test_who_stops_leaves_nothing_staged(tmp_path: Path) -> None:
    """As after an interrupt: the group that is under way is committed, no other."""
    state = planned(tmp_path, 6 * calls.SMALL_LOGS_TOGETHER)
    ended = clean_logs(state, LocalExecutor())
    next(ended)
    ended.close()
    done = len(read_checkpoints(tmp_path).cleaner_offset)
    assert calls.SMALL_LOGS_TOGETHER <= done < len(state.works)
    assert [] == staged_directories(tmp_path)


def test_a_further_pass_is_planned_for_what_was_cleaned(tmp_path: Path) -> None:
    """Nothing is cleanable after the first one here."""
    ended = list(clean_logs(planned(tmp_path, 3), LocalExecutor()))
    again = plan_again(ended, Compact(), now_ms=NOW_MS, high_watermark="end")
    assert [work.key for work in ended] == [work.key for work in again.works]
    assert [] == to_clean(again)


def test_progress_is_of_each_log(tmp_path: Path) -> None:
    """Its plan, the phase, and bytes."""
    seen: list[tuple[str, str]] = []

    def note(plan: CleanPlan, phase: str, done: int, total: int) -> None:
        assert 0 <= done <= total
        seen.append((str(plan.log.partition), phase))

    state = planned(tmp_path, 2)
    list(clean_logs(state, LocalExecutor(progress=note)))
    assert {(f"t-{each}", phase) for each in (0, 1) for phase in ("map", "copy", "check")} == set(
        seen
    )


def test_a_bug_in_one_log_stops_no_other_and_keeps_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says where in the code, and not what was in the data."""
    state = planned(tmp_path, 3)
    build: Callable[..., object] = clean.build_and_examine

    def fail(plan: CleanPlan, **given: Any) -> object:  # noqa: ANN401
        if plan.log.partition == state.works[1].partition:
            raise KeyError("secret-key")
        return build(plan, **given)

    monkeypatch.setattr(clean, "build_and_examine", fail)
    ended: Iterator[LogWork] = clean_logs(state, LocalExecutor())
    failures = {work.key: work.failure for work in ended if work.failure is not None}
    assert ["t-1"] == list(failures)
    assert isinstance(failures["t-1"], calls.WorkerFault)
    assert "secret-key" not in str(failures["t-1"])
