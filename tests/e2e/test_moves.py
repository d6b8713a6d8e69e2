"""Moves and cleanings in real processes: killed, interrupted, racing each other."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.crash.moves import T0, Pair, entries_of, files_of, make_pair
from tests.e2e.command import call
from tests.e2e.processes import clean_each, context, start
from tests.fixtures import clean_arguments, compare_after, copy_before

pytestmark = [pytest.mark.e2e, pytest.mark.crash]

KILLS = 20
RACES = 20
NIGHTLY_RACES = 100
CASE = "basic-none"
LARGER = "txn-2-second"
WAIT_SECONDS = 120


def larger_pair(root: Path) -> Pair:
    """Of more files, so that there is time to kill."""
    pair = make_pair(root)
    copied = copy_before(LARGER, root / "larger")
    metadata = (pair.source / str(T0) / "partition.metadata").read_bytes()
    shutil.rmtree(pair.source / str(T0))
    (copied / str(T0)).rename(pair.source / str(T0))
    (pair.source / str(T0) / "partition.metadata").write_bytes(metadata)
    files, entries = files_of(pair.source / str(T0)), entries_of(pair.source)
    return replace(pair, files=files, entries=entries)


def words(pair: Pair) -> tuple[str | Path, ...]:
    return ("move", pair.source, str(T0), "--to", pair.destination, "--yes")


def test_killed_at_a_random_time(tmp_path: Path, seed: int) -> None:
    """Never two current logs; the next run ends the move, with the same bytes."""
    whole = make_pair(tmp_path / "whole")
    start(*words(whole)).join(WAIT_SECONDS)  # the first one waits for the others' parent
    whole = make_pair(tmp_path / "measured")
    began = time.monotonic()
    process = start(*words(whole))
    process.join(WAIT_SECONDS)
    seconds = time.monotonic() - began
    assert process.exitcode == 0
    whole.assert_moved()
    killed = 0
    for number in range(KILLS):
        chosen = random.Random(f"{seed} {number}")
        pair = make_pair(tmp_path / str(number))
        process = start(*words(pair))
        time.sleep((number + chosen.random()) / KILLS * seconds)
        process.kill()
        process.join(WAIT_SECONDS)
        killed += process.exitcode == -signal.SIGKILL
        current = pair.current()
        assert len(current) <= 1
        if current:
            assert files_of(current[0]) == pair.files
        answer = call(*words(pair))
        assert answer.status == 0, answer.err
        pair.assert_moved()
        shutil.rmtree(pair.root)
    assert killed > KILLS // 3


def test_interrupted_by_ctrl_c_goes_on_where_it_was(tmp_path: Path) -> None:
    """What is copied stays, nothing stays paused."""
    for number in range(20):
        pair = larger_pair(tmp_path / str(number))
        process = start(*words(pair))
        end = time.monotonic() + WAIT_SECONDS
        while (
            process.is_alive()
            and len(list(pair.destination.glob("*-future/.logwright/copy/*"))) < 9
        ):
            assert time.monotonic() < end
            time.sleep(0.001)
        if process.pid is not None and process.is_alive():
            os.kill(process.pid, signal.SIGINT)
        process.join(WAIT_SECONDS)
        if process.exitcode == 130:
            break
    assert process.exitcode == 130
    assert list(pair.destination.glob("*-future"))
    assert pair.current() == [pair.source / str(T0)]
    (shown,) = call("pause", pair.source, "--output", "json").lines
    assert [] == shown["pauses"]
    assert str(pair.destination) == shown["openMove"]
    (line,) = call(*words(pair), "--output", "json").lines
    assert 0 < line["copiedBytes"] < line["bytes"]
    pair.assert_moved()


def test_two_moves_at_once(tmp_path: Path) -> None:
    """One does it; the other is refused, or finds it done."""
    for number in range(5):
        pair = larger_pair(tmp_path / str(number))
        both = [start(*words(pair)) for _ in range(2)]
        for process in both:
            process.join(WAIT_SECONDS)
        assert {process.exitcode for process in both} <= {0, 5}
        assert 0 in {process.exitcode for process in both}
        pair.assert_moved()


def race(tmp_path: Path, count: int) -> None:
    """Two processes clean the same directories, one after the other, each at the same instant."""
    log_dirs = [copy_before(CASE, tmp_path / str(number)) for number in range(count)]
    arguments = [str(word) for word in clean_arguments(CASE)]
    where = context()
    barrier: multiprocessing.Barrier = where.Barrier(2, timeout=WAIT_SECONDS)  # type: ignore[valid-type]
    outs = [tmp_path / "one", tmp_path / "two"]
    racers = [
        where.Process(target=clean_each, args=(log_dirs, arguments, barrier, out), daemon=True)
        for out in outs
    ]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(WAIT_SECONDS * 5)
        assert racer.exitcode == 0
    statuses = list(zip(*(out.read_text().split() for out in outs), strict=True))
    assert count == len(statuses)
    for log_dir, status in zip(log_dirs, statuses, strict=True):
        assert "0" in status
        assert set(status) <= {"0", "5"}
        assert not list(log_dir.rglob("*.cleaned"))
        assert not list(log_dir.rglob("*.swap"))
        assert [] == compare_after(CASE, log_dir)


def test_two_processes_that_clean_one_directory(tmp_path: Path) -> None:
    """One cleans it, the other is refused or finds it clean; it is as Kafka leaves it."""
    race(tmp_path, RACES)


@pytest.mark.nightly
def test_two_processes_that_clean_one_directory_many_times(tmp_path: Path) -> None:
    """The same, a hundred times."""
    race(tmp_path, NIGHTLY_RACES)
