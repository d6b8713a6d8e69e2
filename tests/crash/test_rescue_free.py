"""A rescue of a full disk that dies, or finds no room, at any step loses nothing that stays."""

from __future__ import annotations

import errno
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from logwright.config.topic import TopicConfig
from logwright.errors import DiskFull
from logwright.observe import observe_unlocked
from logwright.rescue import free_run
from logwright.rescue.free_run import alone, plan_oldest, retain_needed
from logwright.steps.filesystem import RealFileSystem
from logwright.units import TimestampMs
from tests.crash.filesystems import Crash, CrashingFileSystem, FailingFileSystem
from tests.crash.operations import Opened
from tests.e2e.command import call
from tests.log_builder import START_MS, LogBuilder

pytestmark = [pytest.mark.crash]

LATER = TimestampMs(START_MS + 86_400_000)
CONFIG = TopicConfig(cleanup_policy=("delete",), retention_ms=1000)
SEGMENTS = 5
MISSING = 2 * 3 * 4096
"""Bytes of two segments, at least: each file takes a block."""


def made(log_dir: Path) -> LogBuilder:
    """A log of five sealed segments that are all too old, and an active one."""
    log = LogBuilder(log_dir)
    for base in range(SEGMENTS):
        log.segment(base).batch(base, [("k", "v" * 5000)])
    log.segment(SEGMENTS).batch(SEGMENTS, [("k", "new")], timestamps=[LATER])
    return log.write()


def rescue(log: LogBuilder, make: Callable[[RealFileSystem], Any], missing: int = MISSING) -> None:
    """Free the bytes of two segments, or others, in this file system."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(free_run, "RealFileSystem", Opened(make))
        with alone(log.log_dir) as files:
            plan = plan_oldest(
                log.log_dir, log.partition, CONFIG, now_ms=LATER, high_watermark="end"
            )
            if plan.deleted:
                retain_needed(plan, files, missing)


def bases(log: LogBuilder) -> list[int]:
    return sorted(int(path.stem) for path in log.directory.glob("*.log"))


def leftovers(log: LogBuilder) -> list[str]:
    return [path.name for path in log.directory.iterdir() if path.name.endswith(".deleted")]


def test_no_more_than_is_needed(tmp_path: Path) -> None:
    """Five segments are due, and two free enough."""
    log = made(tmp_path / "logs")
    rescue(log, lambda real: real)
    assert [2, 3, 4, 5] == bases(log)
    assert [] == leftovers(log)
    assert not (log.directory / ".logwright").exists()
    assert 2 == observe_unlocked(log.log_dir, log.partition, high_watermark="end").log_start_offset


def test_a_rescue_that_dies_keeps_what_it_did_not_need(tmp_path: Path) -> None:
    """At every step: no hole, nothing above the two oldest is gone, and it can be opened again."""
    seen = set()
    for number in count(1):
        log = made(tmp_path / str(number))

        def dying(real: RealFileSystem, number: int = number) -> CrashingFileSystem:
            return CrashingFileSystem(real, crash_at=number)

        try:
            rescue(log, dying)
        except Crash:
            left = bases(log)
            seen.add(left[0])
            assert list(range(left[0], SEGMENTS + 1)) == left
            assert left[0] <= 2
            with alone(log.log_dir) as files:
                free_run.purge_log(
                    log.log_dir, log.partition, files, now_ms=free_run.EVER, delay_ms=0
                )
            assert [] == leftovers(log)
            start = observe_unlocked(log.log_dir, log.partition, high_watermark="end")
            assert left[0] == start.log_start_offset
        else:
            break
    assert {0, 1, 2} == seen


def test_a_step_without_room_loses_nothing(tmp_path: Path) -> None:
    """ENOSPC at every step: what is left has no hole, and the next run ends as one without."""
    failed = 0
    for number in count(1):
        log = made(tmp_path / str(number))
        failing: list[FailingFileSystem] = []

        def full(
            real: RealFileSystem, number: int = number, failing: list[FailingFileSystem] = failing
        ) -> FailingFileSystem:
            failing.append(FailingFileSystem(real, fail_at=number, code=errno.ENOSPC))
            return failing[0]

        try:
            rescue(log, full)
        except DiskFull:
            failed += 1
        if failing[0].calls < number:
            break
        left = bases(log)
        assert list(range(left[0], SEGMENTS + 1)) == left
        assert left[0] <= 2
    assert failed > SEGMENTS


def test_a_rescue_that_rolls_and_dies_loses_no_offset(tmp_path: Path) -> None:
    """The active segment goes, too. At every step: the log ends where it did, and the next run ends
    as one without.
    """
    end = 2
    for number in count(1):
        log = LogBuilder(tmp_path / str(number))
        for base in range(end):
            log.segment(base).batch(base, [("k", "v" * 50_000)])
        log.write()

        def dying(real: RealFileSystem, number: int = number) -> CrashingFileSystem:
            return CrashingFileSystem(real, crash_at=number)

        try:
            rescue(log, dying, missing=1 << 30)
        except Crash:
            assert 0 == call("recover", log.log_dir, "--yes").status
            left = observe_unlocked(log.log_dir, log.partition, high_watermark="end")
            assert end == left.log_end_offset
            rescue(log, lambda real: real, missing=1 << 30)
            with alone(log.log_dir) as files:
                free_run.purge_log(
                    log.log_dir, log.partition, files, now_ms=free_run.EVER, delay_ms=0
                )
        else:
            break
        assert [end] == bases(log)
        assert [] == leftovers(log)
    assert [end] == bases(log)
    assert number > 10
