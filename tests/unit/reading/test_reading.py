"""A log directory is read without a lock; a broker that starts meanwhile is noticed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

import logwright.reading
from logwright.errors import CorruptBatch, LogDirLocked, NotALogDir, StalePlan, Unsettled
from logwright.format.names import CLEAN_SHUTDOWN_MARKER
from logwright.locks import lock_log_dir
from logwright.reading import reading, require_history
from logwright.running.broker import broker_process
from logwright.steps.marker import aside, lock_marker
from tests.log_builder import LogBuilder
from tests.running_dirs import running

TRY_LOCK = Path(__file__).parents[1] / "locks" / "TryLock.java"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("k", "v")])
    log.write()
    (log.log_dir / ".lock").touch()
    assert (log.log_dir / CLEAN_SHUTDOWN_MARKER).exists()
    return log.log_dir


def start(log_dir: Path) -> None:
    """A broker starts, and is killed."""
    with running(log_dir):
        pass


def start_and_stop(log_dir: Path) -> None:
    """A broker starts, and stops: it writes the marker and removes the lock's file."""
    start(log_dir)
    (log_dir / CLEAN_SHUTDOWN_MARKER).write_text('{"version":0,"brokerEpoch":7}')
    (log_dir / ".lock").unlink()


def recover(log_dir: Path) -> None:
    """As a recovery: it removes the marker and writes another."""
    start_and_stop(log_dir)
    (log_dir / ".lock").touch()


def read_while(log_dir: Path, *acts: Callable[[], object]) -> None:
    """These acts are done while the directory is read."""
    with reading(log_dir):
        for act in acts:
            act()


def refuse(log_dir: Path) -> None:
    """What is to be written is refused."""
    with pytest.raises(Unsettled):
        require_history(log_dir, "t-0")


def fail(error: Exception) -> None:
    raise error


def jvm(log_dir: Path) -> None:
    """A JVM locks the directory as a broker does, and removes the marker."""
    command = ["java", str(TRY_LOCK), str(log_dir / ".lock")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("locked")
        refuse(log_dir)
        process.communicate(timeout=60)
    (log_dir / CLEAN_SHUTDOWN_MARKER).unlink()


@pytest.mark.oracle
def test_a_broker_can_start_while_a_log_is_read(log_dir: Path) -> None:
    """A JVM's tryLock gets the lock, which it would not get from a shared one; then the reading
    counts for nothing.
    """
    with pytest.raises(Unsettled, match="a broker"):
        read_while(log_dir, partial(jvm, log_dir))


def test_a_reader_changes_nothing(log_dir: Path) -> None:
    """No file is made, not even the lock's."""
    (log_dir / ".lock").unlink()
    before = {str(path): path.stat().st_mtime_ns for path in [log_dir, *log_dir.rglob("*")]}
    with reading(log_dir), reading(log_dir):
        require_history(log_dir, "t-0")
    assert before == {str(path): path.stat().st_mtime_ns for path in [log_dir, *log_dir.rglob("*")]}


@pytest.mark.parametrize("act", [start, start_and_stop, recover])
def test_a_broker_that_ran_meanwhile_is_noticed(log_dir: Path, act: Callable[[Path], None]) -> None:
    """Also if it has ended before the reading ends, and by what is to be written before."""
    with pytest.raises(Unsettled, match="a broker"):
        read_while(log_dir, partial(act, log_dir), partial(refuse, log_dir))


@pytest.mark.parametrize("act", [start, start_and_stop, recover])
def test_the_first_of_several_readers_counts(log_dir: Path, act: Callable[[Path], None]) -> None:
    """One that begins after the broker ended does not make the others right."""

    def begin_again() -> None:
        with pytest.raises(Unsettled):
            read_while(log_dir)

    with pytest.raises(Unsettled):
        read_while(log_dir, partial(act, log_dir), begin_again)
    with reading(log_dir):
        require_history(log_dir, "t-0")


def test_a_broker_that_starts_while_the_reading_begins(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the question for its lock, and killed before the end: what it changes was looked at
    before.
    """

    def free_and_then_taken(path: Path) -> int | None:
        monkeypatch.undo()
        process = broker_process(path)
        start(path)
        return process

    monkeypatch.setattr(logwright.reading, "broker_process", free_and_then_taken)
    with pytest.raises(Unsettled):
        read_while(log_dir)


def test_a_broker_that_runs_when_the_reading_begins(log_dir: Path) -> None:
    """It is refused with the file; within a reading, as a broker that started."""
    with running(log_dir), pytest.raises(LogDirLocked) as caught, reading(log_dir):
        pytest.fail("it was read")
    assert log_dir / ".lock" == caught.value.path
    (log_dir / CLEAN_SHUTDOWN_MARKER).touch()
    with pytest.raises(Unsettled), reading(log_dir), running(log_dir), reading(log_dir):
        pytest.fail("it was read")


@pytest.mark.parametrize("error", [CorruptBatch("as a reader says."), StalePlan("as well.")])
def test_a_fault_is_not_said_of_what_a_broker_changed(log_dir: Path, error: Exception) -> None:
    """It is one if no broker started."""
    with pytest.raises(Unsettled):
        read_while(log_dir, partial(start, log_dir), partial(fail, error))
    (log_dir / CLEAN_SHUTDOWN_MARKER).touch()
    with pytest.raises(type(error)), reading(log_dir):
        raise error


@pytest.mark.parametrize("begins", ["before", "within"])
@pytest.mark.parametrize("ends", ["before", "within", "after"])
def test_an_append_of_ours_is_no_broker(log_dir: Path, begins: str, ends: str) -> None:
    """It renames the marker and renames it back, under locks that readers do not ask for."""
    marker, other = log_dir / CLEAN_SHUTDOWN_MARKER, log_dir / aside("0")
    with lock_log_dir(log_dir), lock_marker(log_dir):
        if begins == "before":
            marker.rename(other)
            if ends == "before":
                other.rename(marker)
        with reading(log_dir):
            if begins == "within":
                marker.rename(other)
            if ends != "after" and other.exists():
                other.rename(marker)
            require_history(log_dir, "t-0")


@pytest.mark.parametrize("before", [False, True], ids=["alone", "after a broker"])
def test_a_recovery_at_work_is_noticed(log_dir: Path, before: bool) -> None:
    """It truncates logs, too; and it may be there because a broker ran meanwhile and was killed."""

    def at_work() -> None:
        if before:
            start(log_dir)
        stack.enter_context(lock_log_dir(log_dir))
        stack.enter_context(lock_marker(log_dir))
        (log_dir / CLEAN_SHUTDOWN_MARKER).unlink(missing_ok=True)

    with ExitStack() as stack, pytest.raises(Unsettled, match="a recovery"):
        read_while(log_dir, at_work, partial(refuse, log_dir))


def test_no_log_directory(tmp_path: Path) -> None:
    """A missing directory is said to be one."""
    with pytest.raises(NotALogDir), reading(tmp_path / "none"):
        pytest.fail("it was read")


def test_another_name_of_the_directory_is_the_same(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path is the same reading."""
    monkeypatch.chdir(log_dir.parent)
    name = Path(os.curdir) / log_dir.name
    with pytest.raises(Unsettled):
        read_while(log_dir, partial(start, log_dir), partial(refuse, name))
