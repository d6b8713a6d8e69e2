"""The latest state is what a plain dictionary over the decoded records holds."""

from __future__ import annotations

import pickle
import random
import tempfile
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logwright.batches import segment_file
from logwright.batches.runtime import Runtime
from logwright.config.topic import CleanerConfig
from logwright.errors import StalePlan
from logwright.latest import read
from logwright.latest.model import LatestCounts
from logwright.latest.read import in_order
from tests.fixtures import CASES, Side, case_dir, description, partitions
from tests.latest_rows import PastStates, plan_of, read_state, replayed, stable_offset
from tests.log_builder import LogBuilder
from tests.property.made_up_logs import MadeUpLog, made_up_logs, write
from tests.sequences.reading import read_content

FEW_KEYS = CleanerConfig(dedupe_buffer_bytes=160)
"""Room for a handful of keys."""
TORN = "torn-tail-marked-clean"
"""Kafka leaves its torn tail as it is; logwright does not read such a log."""

COLLISION = "md5-collision"
"""Kafka takes two keys with one MD5 for one, and removes a record that is the latest of its key."""


def sides(case: str) -> tuple[Side, ...]:
    """The sides of a case that need no recovery."""
    if case == TORN:
        return ()
    return ("after",) if "recover" in description(case)["ops"] else ("before", "after")


@pytest.mark.parametrize("case", CASES)
def test_kafkas_cases(case: str) -> None:
    """Before and after what Kafka did; in one pass, in many, and by threads."""
    for side in sides(case):
        log_dir = case_dir(case) / side
        for fixture in partitions(case):
            content = read_content(log_dir, fixture.name)
            expected = replayed(content)
            plan = plan_of(log_dir, fixture.name)
            assert expected == read_state(plan)
            assert expected == read_state(plan, threads=3, batch_rows=7)
            few = plan_of(log_dir, fixture.name, cleaner=FEW_KEYS)
            assert expected == read_state(few)
            assert replayed(content, tombstones=True) == read_state(plan, tombstones=True)


@pytest.mark.parametrize("case", CASES)
def test_a_cleaning_changes_nothing(case: str) -> None:
    """Before and after Kafka cleaned, the rows are the same: it removes no latest record."""
    if description(case)["ops"] != ["clean"] or case == COLLISION:
        return
    for fixture in partitions(case):
        before, after = (
            read_state(plan_of(case_dir(case) / side, fixture.name)) for side in ("before", "after")
        )
        assert before == after


@pytest.mark.rotates(4)
@pytest.mark.parametrize("case", CASES)
def test_points_in_the_past(case: str, seed: int) -> None:
    """As of offsets and times: what a consumer knows that stops there; or a refusal."""
    draw = random.Random(seed)
    for side in sides(case):
        for fixture in partitions(case):
            PastStates.of(case_dir(case) / side, fixture.name).compare(draw, count=4)


@given(made=made_up_logs(), budget=st.sampled_from([33, 64, 1 << 20]), draw=st.randoms())
def test_made_up_logs(made: MadeUpLog, budget: int, draw: random.Random) -> None:
    """Any log: producers, transactions, null keys and values, all codecs, horizons."""
    with tempfile.TemporaryDirectory() as directory:
        log = write(made, Path(directory))
        name = log.partition.directory_name
        states = PastStates.of(log.log_dir, name)
        cleaner = CleanerConfig(dedupe_buffer_bytes=budget)
        plan = plan_of(log.log_dir, name, cleaner=cleaner)
        assert replayed(states.content, end=states.stable) == read_state(plan, batch_rows=3)
        states.compare(draw, count=2)


def test_keys_are_read_as_often_as_needed(tmp_path: Path) -> None:
    """Keys that have no room in the map are taken shard by shard."""
    log = _many_keys(tmp_path)
    counts = LatestCounts()
    small = plan_of(log.log_dir, "t-0", cleaner=CleanerConfig(dedupe_buffer_bytes=1600))
    rows = read_state(small, counts=counts, threads=2)
    assert [f"k{number}".encode() for number in range(1000)] == [row[0] for row in rows]
    assert counts.map_reads > 10
    assert counts.map_bytes <= 1600
    assert (counts.rows, counts.distinct_keys) == (1000, 1000)


def _many_keys(tmp_path: Path) -> LogBuilder:
    """1,000 keys, each twice."""
    log = LogBuilder(tmp_path / "logs")
    segment = log.segment(0)
    for first in range(0, 2000, 100):
        keys = [f"k{number % 1000}" for number in range(first, first + 100)]
        segment.batch(first, [(key, "v") for key in keys], codec=first // 100 % 5)
    return log.write(index_interval=100)


def test_only_what_is_new_is_read(tmp_path: Path) -> None:
    """From a start offset on: the segments below are not opened, its own is entered inside."""
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("a", "1")])
    segment = log.segment(1)
    for offset in range(1, 101):
        segment.batch(offset, [("b", "x" * 100)])
    log.segment(101).batch(101, [("b", "2"), ("c", None)])
    log.write(index_interval=300)
    (log.directory / f"{0:020d}.log").chmod(0)
    plan = plan_of(log.log_dir, "t-0", start_offset=90)
    assert plan.records is not None
    first, second = plan.records.parts
    assert (first.base_offset, second.base_offset) == (1, 101)
    assert first.start > 80 * 100
    rows = read_state(plan, tombstones=True)
    assert [(row[0], row[1]) for row in rows] == [(b"b", b"2"), (b"c", None)]


def test_a_plan_is_small_and_can_be_sent(tmp_path: Path) -> None:
    """A Spark task gets it pickled."""
    log = _many_keys(tmp_path)
    plan = plan_of(log.log_dir, "t-0")
    sent = pickle.dumps(plan)
    assert len(sent) < 3000
    there = pickle.loads(sent)  # noqa: S301, TID251 -- as Spark does
    assert plan == there
    assert len(read_state(there)) == 1000


@pytest.mark.parametrize("threads", [1, 3])
def test_the_progress_ends_at_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    """Both phases report bytes, ascending; the first one once for each pass over the keys."""
    log = _many_keys(tmp_path)
    monkeypatch.setattr(segment_file, "PIECE_BYTES", 2_000)
    monkeypatch.setattr(read, "GROUP_BYTES", 5_000)
    shown: dict[str, list[tuple[int, int]]] = {}
    batches = read.read_latest(
        plan_of(log.log_dir, "t-0"),
        columns=("key",),
        runtime=Runtime(threads=threads),
        progress=lambda phase, done, total: shown.setdefault(phase, []).append((done, total)),
    )
    assert sum(batch.num_rows for batch in batches) == 1000
    assert list(shown) == ["map", "read"]
    size = (log.directory / f"{0:020d}.log").stat().st_size
    for steps in shown.values():
        assert len(steps) > 1
        assert steps == sorted(steps)
        assert steps[-1] == (size, size)


def test_a_log_that_changed_is_refused(tmp_path: Path) -> None:
    """What was planned is pinned."""
    log = _many_keys(tmp_path)
    plan = plan_of(log.log_dir, "t-0")
    path = log.directory / f"{0:020d}.log"
    path.write_bytes(path.read_bytes())
    with pytest.raises(StalePlan):
        read_state(plan)


def test_an_empty_range_has_no_rows(tmp_path: Path) -> None:
    """Nothing is new at the end of a log, and an empty log has no state."""
    log = _many_keys(tmp_path)
    assert read_state(plan_of(log.log_dir, "t-0", start_offset=2000)) == ()
    empty = LogBuilder(tmp_path / "other")
    empty.segment(0)
    empty.write()
    assert read_state(plan_of(empty.log_dir, "t-0")) == ()


def test_a_log_that_starts_inside_an_open_transaction_has_no_state(tmp_path: Path) -> None:
    """Its last stable offset is below the log start offset; up to there is up to now."""
    log = LogBuilder(tmp_path / "logs")
    batch = [("a", "1"), ("b", "2"), ("c", "3")]
    log.segment(0).batch(0, batch, producer_id=5, transactional=True)
    log.write(log_start=1, producers=True)
    stable = stable_offset(log.log_dir, "t-0")
    assert stable == 0
    plan = plan_of(log.log_dir, "t-0")
    assert plan == plan_of(log.log_dir, "t-0", end_offset=stable)
    assert read_state(plan) == ()


def numbers(first: int) -> Iterator[int]:
    yield from range(first, first + 10)


def fails(first: int) -> Iterator[int]:
    yield first
    message = str(first)
    raise ValueError(message)


def parts(*makers: Callable[[int], Iterator[int]]) -> list[Callable[[], Iterator[int]]]:
    """Part n begins at 10 n."""
    return [lambda n=n, make=make: make(10 * n) for n, make in enumerate(makers)]  # type: ignore[misc]


@pytest.mark.parametrize("threads", [1, 2, 5, 50])
def test_results_are_in_order(threads: int) -> None:
    """Whatever the number of threads; they end."""
    before = set(threading.enumerate())
    assert list(range(100)) == list(in_order(parts(*[numbers] * 10), threads=threads))
    assert [] == list(in_order([], threads=threads))
    _ended(before)


@pytest.mark.parametrize("threads", [1, 3])
def test_the_first_error_is_raised(threads: int) -> None:
    """By its place, after the results before it, though a later part may fail earlier."""
    before = set(threading.enumerate())
    results: list[int] = []
    with pytest.raises(ValueError, match="10"):
        results.extend(in_order(parts(numbers, fails, fails, numbers), threads=threads))
    assert list(range(11)) == results
    _ended(before)


@pytest.mark.parametrize("taken", [0, 1, 15])
def test_threads_end_when_nobody_goes_on(taken: int) -> None:
    """What is not wanted any more is dropped."""
    before = set(threading.enumerate())
    running = in_order(parts(*[numbers] * 10), threads=3)
    assert list(range(taken)) == list(islice(running, taken))
    running.close()
    _ended(before)


def _ended(before: set[threading.Thread]) -> None:
    """A thread has put its last result a moment before it is over. Those of other tests stay."""
    for thread in set(threading.enumerate()) - before:
        thread.join(timeout=60)
    assert set(threading.enumerate()) <= before
