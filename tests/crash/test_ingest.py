"""An append that stops after any step, or in the middle of one: run again, by itself or after a
broker's recovery, it leaves every record once, in its order.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from random import Random

import pytest

from logwright.config.topic import parse_settings
from logwright.errors import DiskFull, LogwrightError, StepFailed, UncleanLogDir
from logwright.format.names import CLEAN_SHUTDOWN_MARKER, WORK_DIRECTORY
from logwright.ingest import commit as ingest_run
from logwright.ingest.commit import commit_steps, pending_append, stage_append
from logwright.ingest.journal import read_journal
from logwright.ingest.model import AppendOptions, AppendPlan
from logwright.ingest.steps import record_steps
from logwright.locks import lock_partition
from logwright.recovery.model import RecoveryOptions
from logwright.steps.filesystem import RealFileSystem
from logwright.steps.interpreter import execute
from logwright.steps.marker import markers_aside
from logwright.steps.step import Append, FileStep
from logwright.sweep.recover import recover_directory
from logwright.units import TimestampMs
from tests.comparison import compare_checkpoints, compare_partition
from tests.crash.filesystems import FailingFileSystem, every_file
from tests.differential.oracle_server import OracleServer
from tests.differential.random_logs import scratch_directory
from tests.fixtures import copy_before
from tests.ingested import PARTITION, Row, append, arrow, planned, random_rows, read_batches

NOW = 1_760_020_000_000
PAIRS = {"segment.bytes": "9000", "index.interval.bytes": "300"}
OPTIONS = AppendOptions(batch_bytes=1500)
CODES = (errno.EIO, errno.ENOSPC, errno.EROFS, errno.EACCES)
PARTS = 4
"""Of the steps after which an append stops."""

FAILING = 8
"""Parts of the calls that fail."""


def rows_to_append() -> list[Row]:
    return random_rows(Random(3), 150, around_ms=NOW - 5000, spread_ms=4000)


@pytest.fixture
def memory() -> Iterator[Path]:
    """An empty directory, in memory where that can be had: every state syncs many files."""
    with scratch_directory() as directory:
        yield directory


def start(memory: Path, *, new: bool) -> Path:
    """A log directory without the partition, or with what Kafka wrote."""
    if not new:
        return copy_before("basic-none", memory)
    log_dir = memory / "new"
    log_dir.mkdir()
    return log_dir


def halved(steps: Iterator[FileStep]) -> Iterator[FileStep]:
    """An append may end in its middle: as two steps."""
    for step in steps:
        if isinstance(step, Append):
            middle = len(step.content) // 2
            yield replace(step, content=step.content[:middle])
            yield replace(step, content=step.content[middle:])
        else:
            yield step


def interrupted(log_dir: Path, rows: list[Row], steps: int) -> int:
    """Do the first steps of an append, as a process that dies then; -1 if there are no more."""
    plan = planned(log_dir, PAIRS, now_ms=NOW, options=OPTIONS)
    assert isinstance(plan, AppendPlan)
    staged = stage_append(plan, [arrow(rows)])
    assert len(staged.segments) > 2
    with lock_partition(log_dir, PARTITION), RealFileSystem(log_dir) as files:
        pending = pending_append(plan, staged, read_journal(plan.directory).pending)
        commit = commit_steps(plan, staged, pending)
        whole = chain(commit, record_steps(plan, staged.end_offset))
        for number, step in enumerate(halved(whole)):
            if number == steps:
                return steps
            execute([step], files)
    return -1


def records(log_dir: Path, first_offset: int) -> list[tuple[bytes | None, bytes | None, int]]:
    return [
        (record.key, record.value, record.timestamp_ms)
        for batch in read_batches(log_dir, first_offset)
        for record in batch.records
    ]


def wanted(rows: list[Row]) -> list[tuple[bytes | None, bytes | None, int]]:
    return [(key, value, time) for key, value, _, time in rows]


def states(memory: Path, part: int, *, new: bool) -> Iterator[tuple[int, Path]]:
    """The log directory after each number of steps of a part, and after all."""
    rows = rows_to_append()
    clean = start(memory / "clean", new=new) if new else start(memory, new=new)
    for steps in range(part, 1000, PARTS):
        log_dir = memory / f"state-{steps}"
        shutil.copytree(clean, log_dir, copy_function=shutil.copy2)
        done = interrupted(log_dir, rows, steps)
        yield steps, log_dir
        if done < 0:
            return


@pytest.mark.rotates(PARTS)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("new", [False, True], ids=["log", "no-log"])
def test_run_again_leaves_what_one_run_leaves(new: bool, part: int, memory: Path) -> None:
    """Byte for byte, whichever step was the last; and a third run appends nothing."""
    rows = rows_to_append()
    (memory / "clean").mkdir()
    whole = start(memory / "whole", new=new) if not new else memory / "whole"
    whole.mkdir(exist_ok=True)
    first = append(whole, rows, PAIRS, now_ms=NOW, options=OPTIONS)
    aside = 0
    for steps, log_dir in states(memory, part, new=new):
        aside += bool(markers_aside(log_dir))
        again = append(log_dir, rows, PAIRS, now_ms=NOW, options=OPTIONS)
        assert first.records == again.records, steps
        assert [] == compare_partition(whole, log_dir, "t-0"), steps
        assert [] == compare_checkpoints(whole, log_dir), steps
        assert (log_dir / CLEAN_SHUTDOWN_MARKER).exists(), steps
        assert () == markers_aside(log_dir), steps
        third = append(log_dir, rows, PAIRS, now_ms=NOW, options=OPTIONS)
        assert third.repeated, steps
        assert [WORK_DIRECTORY] == [p.name for p in (log_dir / "t-0").iterdir() if p.is_dir()]
        shutil.rmtree(log_dir)
    assert aside >= 10 // PARTS


def failure(log_dir: Path, rows: list[Row]) -> LogwrightError | None:
    """What an append raises, if anything."""
    try:
        append(log_dir, rows, PAIRS, now_ms=NOW, options=OPTIONS)
    except LogwrightError as error:
        return error
    return None


@pytest.mark.rotates(FAILING)
@pytest.mark.parametrize("part", range(FAILING))
@pytest.mark.parametrize("new", [False, True], ids=["log", "no-log"])
def test_call_that_fails_is_named_and_leaves_what_a_death_leaves(
    new: bool, part: int, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every call, the errors in turn: the log is as after a death before that call, from where a
    further run leaves what one run leaves.
    """
    rows = rows_to_append()
    (memory / "clean").mkdir()
    clean = start(memory / "clean", new=new)
    whole = memory / "whole"
    shutil.copytree(clean, whole, copy_function=shutil.copy2)
    append(whole, rows, PAIRS, now_ms=NOW, options=OPTIONS)
    for number in count(1 + part, FAILING):
        code = CODES[number // FAILING % len(CODES)]
        log_dir = memory / f"failed-{number}"
        shutil.copytree(clean, log_dir, copy_function=shutil.copy2)
        with RealFileSystem(log_dir) as real, monkeypatch.context() as patch:
            failing = FailingFileSystem(real, fail_at=number, code=code, root=log_dir)
            patch.setattr(ingest_run, "RealFileSystem", lambda _, made=failing: nullcontext(made))
            error = failure(log_dir, rows)
        if error is None:
            assert failing.calls < number
            break
        assert type(error) is (DiskFull if code == errno.ENOSPC else StepFailed)
        assert errno.errorcode[code] in str(error)
        assert failing.found == every_file(log_dir), number
        append(log_dir, rows, PAIRS, now_ms=NOW, options=OPTIONS)
        assert [] == compare_partition(whole, log_dir, "t-0"), number
        assert [] == compare_checkpoints(whole, log_dir), number
        shutil.rmtree(log_dir)
    assert number > 20


@pytest.mark.oracle
@pytest.mark.rotates(PARTS)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("new", [False, True], ids=["log", "no-log"])
def test_after_a_brokers_recovery_the_rest_is_appended(new: bool, part: int, memory: Path) -> None:
    """Kafka loads each state, recovers it and stops; then it is run again."""
    rows = rows_to_append()
    (memory / "clean").mkdir()
    kept = set()
    with OracleServer() as server:
        for steps, log_dir in states(memory, part, new=new):
            request = {"request": "append", "dir": str(log_dir), "partition": "t-0"}
            server.ask(request | {"config": PAIRS, "now": NOW, "batches": []})
            before = 0 if new else 500
            appended = records(log_dir, before)
            assert appended == wanted(rows)[: len(appended)], steps
            kept.add(len(appended))
            done = append(log_dir, rows, PAIRS, now_ms=NOW, options=OPTIONS)
            assert wanted(rows) == records(log_dir, before), steps
            assert (len(rows), before) == (done.records, done.first_offset), steps
            assert append(log_dir, rows, PAIRS, now_ms=NOW, options=OPTIONS).repeated
            shutil.rmtree(log_dir)
    assert len(kept) > 1


def test_a_broker_that_ran_since_and_died_is_noticed(memory: Path) -> None:
    """What it left is not ours to cut: the marker stays aside until it has stopped cleanly, or the
    log was recovered as it would do it.
    """
    log_dir = start(memory, new=False)
    interrupted(log_dir, rows_to_append(), 12)
    assert 1 == len(markers_aside(log_dir))
    path = log_dir / "replication-offset-checkpoint"
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)
    rows = rows_to_append()
    with pytest.raises(UncleanLogDir, match="a broker ran since") as refused:
        append(log_dir, rows, PAIRS, now_ms=NOW, options=OPTIONS)
    assert "logwright recover" in str(refused.value)
    recover(log_dir)
    assert (len(rows), 500) == rest_appended(log_dir, rows)


@pytest.mark.rotates(PARTS)
@pytest.mark.parametrize("part", range(PARTS))
def test_after_our_recovery_the_rest_is_appended(part: int, memory: Path) -> None:
    """As after a broker's, whichever step was the last."""
    rows = rows_to_append()
    (memory / "clean").mkdir()
    done = 0
    for steps, log_dir in states(memory, part, new=False):
        recover(log_dir)
        assert (len(rows), 500) == rest_appended(log_dir, rows), steps
        shutil.rmtree(log_dir)
        done += 1
    assert done > 1


def recover(log_dir: Path) -> None:
    config, _ = parse_settings(PAIRS)
    result = recover_directory(
        log_dir, [PARTITION], lambda _: config, now_ms=TimestampMs(NOW), options=RecoveryOptions()
    )
    assert result.clean


def rest_appended(log_dir: Path, rows: list[Row]) -> tuple[int, int]:
    """Run it again: how many records are there of it, and from which offset on, each once."""
    done = append(log_dir, rows, PAIRS, now_ms=NOW, options=OPTIONS)
    assert wanted(rows) == records(log_dir, 500)
    return done.records, done.first_offset


def test_another_ingest_waits_for_the_one_that_is_half_there(memory: Path) -> None:
    """After a recovery by somebody else its batches stay: the same input must come first."""
    log_dir = start(memory, new=False)
    rows = rows_to_append()
    interrupted(log_dir, rows, 11)
    assert 0 < len(records(log_dir, 500)) < len(rows)
    markers_aside(log_dir)[0].rename(log_dir / CLEAN_SHUTDOWN_MARKER)
    with pytest.raises(UncleanLogDir, match="another ingest was interrupted"):
        append(log_dir, rows, PAIRS, now_ms=NOW, ingest_id="other")
