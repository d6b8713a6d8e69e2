"""The rate of ``log.cleaner.io.max.bytes.per.second`` is kept, whoever works."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from threading import Lock

import pytest

from logwright.batches.runtime import STEP_BYTES, Runtime, Throttle, in_order
from logwright.compaction.model import CleanPlan
from logwright.errors import CorruptBatch
from logwright.rewrite.staging import discard_staging
from logwright.sweep.build import build, examine
from tests.log_builder import LogBuilder
from tests.plans import forced_plan


class Time:
    """A clock that advances only by sleeping."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []
        self._guard = Lock()

    def clock(self) -> float:
        """The time, s."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Time passes."""
        with self._guard:
            self.now += seconds
            self.slept.append(seconds)


def throttle(time: Time, rate: float) -> Throttle:
    return Throttle(rate, clock=time.clock, sleep=time.sleep)


def test_bytes_take_their_time() -> None:
    """As much as the rate says, and no more."""
    time = Time()
    slow = throttle(time, 100.0)
    for _ in range(10):
        slow.observe(50)
    assert 1005.0 == time.now


def test_idleness_is_not_saved_up() -> None:
    """After an hour of nothing the next bytes take as long as ever."""
    time = Time()
    slow = throttle(time, 100.0)
    slow.observe(100)
    time.now += 3600
    slow.observe(100)
    assert [1.0, 1.0] == time.slept


def test_without_a_rate_nobody_sleeps() -> None:
    """Infinite, or Kafka's default, the largest double."""
    time = Time()
    for rate in (float("inf"), 1.7976931348623157e308):
        fast = throttle(time, rate)
        fast.observe(1 << 40)
        assert STEP_BYTES == fast.step_bytes
    assert 0 == sum(time.slept)


@pytest.mark.parametrize(("rate", "step"), [(1.0, 65_536), (1e6, 300_000), (1e12, STEP_BYTES)])
def test_steps_are_small_enough_for_the_rate(rate: float, step: int) -> None:
    """A third of a second's work, within bounds."""
    assert step == Throttle(rate).step_bytes


def a_plan(directory: Path) -> CleanPlan:
    builder = LogBuilder(directory)
    for number in range(3):
        segment = builder.segment(number * 1000)
        for batch in range(10):
            pairs = [(f"key {n % 60}", "value" * 20) for n in range(100)]
            segment.batch(number * 1000 + batch * 100, pairs)
    builder.segment(3000)
    builder.write()
    return forced_plan(builder.log_dir, builder.partition, {"cleanup.policy": "compact"})


@pytest.mark.parametrize("threads", [1, 3])
def test_a_cleaning_keeps_the_rate(tmp_path: Path, threads: int) -> None:
    """Both passes' reads, the writes, and what the checks read back are counted."""
    plan, time = a_plan(tmp_path / "logs"), Time()
    runtime = Runtime(threads=threads, throttle=throttle(time, 1000.0))
    staged = build(plan, runtime=runtime)
    built = time.now
    stats = staged.stats
    assert (2 * stats.bytes_read + stats.bytes_written) / 1000 <= built - 1000 + 1e-6
    assert not examine(plan, staged, runtime=runtime).failed
    assert stats.bytes_written / 1000 <= time.now - built + 1e-6
    discard_staging(plan)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_the_order_of_the_tasks(threads: int) -> None:
    """Whichever thread is first; and no more tasks begin than a bound beyond what was taken."""
    begun: list[int] = []

    def task(number: int) -> int:
        begun.append(number)
        time.sleep(0.002 * (number % 3))
        return number

    results = in_order((partial(task, number) for number in range(40)), threads=threads)
    assert [0, 1, 2] == [next(results) for _ in range(3)]
    time.sleep(0.05)
    assert max(begun) <= 3 + 2 * threads
    assert list(range(3, 40)) == list(results)


@pytest.mark.parametrize("threads", [1, 3])
def test_the_first_error_ends_it(threads: int) -> None:
    """After the results before it; what waits is not begun."""
    begun: list[int] = []

    def task(number: int) -> int:
        begun.append(number)
        if number >= 10:
            raise CorruptBatch(f"number {number}")
        return number

    results = in_order((partial(task, number) for number in range(1000)), threads=threads)
    assert list(range(10)) == [next(results) for _ in range(10)]
    with pytest.raises(CorruptBatch, match="number 10"):
        next(results)
    assert max(begun) < 10 + 3 * threads
