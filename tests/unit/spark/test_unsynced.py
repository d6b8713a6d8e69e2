"""The logs of one task become durable while others are built, and before anybody hears of
them.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest

from logwright.batches.runtime import Runtime, Throttle
from logwright.compaction.model import CleanPlan, StagedCleaning
from logwright.errors import StepFailed
from logwright.rewrite import unsynced
from logwright.rewrite.staging import discard_staging
from logwright.rewrite.unsynced import Unsynced
from logwright.sweep.build import build
from logwright.sweep.calls import SMALL_LOG_BYTES, SMALL_LOGS_TOGETHER, Group, call_groups, together
from tests.log_builder import LogBuilder
from tests.plans import forced_plan

LOGS = 2 * SMALL_LOGS_TOGETHER + 3


def plans(log_dir: Path, number: int) -> list[CleanPlan]:
    planned = []
    for each in range(number):
        builder = LogBuilder(log_dir, f"t-{each}")
        builder.segment(0).batch(0, [("a", "1"), ("b", "1"), ("a", "2")])
        builder.segment(3)
        builder.write()
        planned.append(forced_plan(log_dir, builder.partition, {"cleanup.policy": "compact"}))
    return planned


def staged_files(staged: StagedCleaning) -> set[int]:
    """Inodes of all that must be durable."""
    paths = [staged.directory, *staged.directory.iterdir()]
    return {path.stat().st_ino for path in paths}


def run(
    some: list[CleanPlan],
    *,
    small: bool = True,
    function: Callable[..., object] = build,
) -> list[object]:
    size = SMALL_LOG_BYTES if small else SMALL_LOG_BYTES + 1
    numbers = list(together([size] * len(some), range(len(some))))
    groups = [
        Group(small=small, threads=1, arguments=[(some[number],) for number in each])
        for each in numbers
    ]
    outcomes = list(call_groups(function, groups, Throttle()))
    assert list(map(len, numbers)) == list(map(len, outcomes))
    return list(chain.from_iterable(outcomes))


@pytest.fixture(name="synced")
def _synced(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Inodes of the files that were synced."""
    synced: set[int] = set()
    fsync = os.fsync

    def note(descriptor: int) -> None:
        fsync(descriptor)
        synced.add(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(os, "fsync", note)
    return synced


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def test_what_is_built_becomes_durable_later(tmp_path: Path, synced: set[int]) -> None:
    """It syncs files and directory on request; then no descriptor is left."""
    (plan,) = plans(tmp_path, 1)
    before, files = open_files(), Unsynced()
    staged = build(plan, runtime=Runtime(sync=files.add))
    assert set() == synced
    files.begin()
    files.finish()
    assert staged_files(staged) == synced
    discard_staging(plan)
    assert open_files() <= before  # others may end meanwhile


def test_a_log_of_many_files_does_not_keep_all_of_them_open(
    tmp_path: Path, synced: set[int]
) -> None:
    """Those that were added first become durable to make room, and are closed."""
    before, files = open_files(), Unsynced()
    for number in range(100):
        path = tmp_path / str(number)
        with path.open("wb") as file:
            files.start(file.fileno())
    assert before < open_files() < before + 50
    files.finish()
    assert {path.stat().st_ino for path in tmp_path.iterdir()} == synced
    assert open_files() <= before  # others may end meanwhile


@pytest.mark.parametrize("small", [True, False])
def test_results_come_when_the_files_are_durable(
    tmp_path: Path, synced: set[int], small: bool
) -> None:
    """Of all logs, however many are done together."""
    before, some = open_files(), plans(tmp_path, LOGS)
    results = run(some, small=small)
    assert LOGS == len(results)
    for staged in results:
        assert isinstance(staged, StagedCleaning)
        assert staged_files(staged) <= synced
    for plan in some:
        discard_staging(plan)
    assert open_files() <= before  # others may end meanwhile


def test_a_log_that_cannot_be_made_durable_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its error is its own, and its staged files go; the others stay."""
    broken = {7, SMALL_LOGS_TOGETHER}
    some = plans(tmp_path, LOGS)
    finish, order = Unsynced.finish, iter(range(LOGS))
    made = Unsynced.__init__
    numbers: dict[int, int] = {}

    def begin(self: Unsynced) -> None:
        made(self)
        numbers[id(self)] = next(order)
        kept.append(self)

    def fail(self: Unsynced) -> None:
        finish(self)
        if numbers[id(self)] in broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    kept: list[Unsynced] = []
    monkeypatch.setattr(unsynced.Unsynced, "__init__", begin)
    monkeypatch.setattr(unsynced.Unsynced, "finish", fail)
    results = run(some)
    for number, (plan, result) in enumerate(zip(some, results, strict=True)):
        directory = plan.log.directory / ".logwright"
        if number in broken:
            assert isinstance(result, StepFailed)
            assert not directory.exists()
        else:
            assert isinstance(result, StagedCleaning)
            assert directory.exists()


def test_what_failed_before_keeps_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it is made durable, and no descriptor is left."""

    def build_and_fail(plan: CleanPlan, *, runtime: Runtime) -> None:
        build(plan, runtime=runtime)
        raise StepFailed("this came first.", remedy="None.")

    def fail(_descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    before, some = open_files(), plans(tmp_path, 2)
    monkeypatch.setattr(os, "fsync", fail)
    for result in run(some, function=build_and_fail):
        assert "this came first." in str(result)
    for plan in some:
        discard_staging(plan)
    assert open_files() <= before  # others may end meanwhile


def test_an_error_of_writing_lets_go_of_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it is reported."""
    before, files = open_files(), Unsynced()
    with (tmp_path / "file").open("wb") as file:
        files.add(file.fileno())

    def fail(_descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        files.finish()
    assert open_files() <= before  # others may end meanwhile
