"""Work in forked processes: its order, its errors, and how it ends."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event

import pytest

from logwright.errors import PolicyError, StepFailed
from logwright.forked import forked_map

PARENT = """
import os, time
from logwright.forked import forked_map

def slow(items, stop):
    for item in items:
        yield os.getpid()
        time.sleep(60)

values = forked_map(slow, range(4), processes=2)
print(next(values), next(values), flush=True)
next(values)
"""


def squares(items: Sequence[int], _stop: Event) -> Iterator[tuple[int, int]]:
    for item in items:
        yield item * item, os.getpid()


def test_values_come_in_order_from_all_processes() -> None:
    """As many processes as asked for, none of them this one."""
    found = list(forked_map(squares, range(100), processes=3))
    assert [number * number for number in range(100)] == [value for value, _ in found]
    processes = {process for _, process in found}
    assert 3 == len(processes)
    assert os.getpid() not in processes


def test_an_error_is_raised_here() -> None:
    """With what it says; the values before it came."""

    def refuse(items: Sequence[int], _stop: Event) -> Iterator[int]:
        for item in items:
            if item == 5:
                raise PolicyError("not five.", remedy="Another one.")
            yield item

    values = forked_map(refuse, range(10), processes=2)
    assert [0, 1, 2, 3, 4] == [next(values) for _ in range(5)]
    with pytest.raises(PolicyError, match="not five"):
        next(values)


def test_a_killed_process_is_noticed() -> None:
    """It is no silent loss of results."""

    def die(items: Sequence[int], _stop: Event) -> Iterator[int]:
        for item in items:
            if item == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            yield item

    with pytest.raises(StepFailed, match="was killed"):
        list(forked_map(die, range(10), processes=2))


def test_a_process_that_cannot_be_started_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the machine's fault; those that were started end."""
    fork, started = os.fork, list[int]()

    def second_fails() -> int:
        if started:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        started.append(fork())
        return started[0]

    monkeypatch.setattr(os, "fork", second_fails)
    with pytest.raises(StepFailed, match="no process can be started"):
        list(forked_map(squares, range(10), processes=2))
    assert not Path(f"/proc/{started[0]}").exists()


def test_who_is_told_to_stop_begins_nothing_more(tmp_path: Path) -> None:
    """What was begun is ended before the caller goes on."""

    def touch(items: Sequence[int], stop: Event) -> Iterator[int]:
        for item in items:
            if item > 1:
                stop.wait(60)
            if stop.is_set():
                return
            (tmp_path / str(item)).touch()
            yield os.getpid()

    values = forked_map(touch, range(10), processes=2)
    processes = [next(values), next(values)]
    values.close()  # type: ignore[attr-defined]  # a generator, as all of this kind
    assert {"0", "1"} == {path.name for path in tmp_path.iterdir()}
    assert not any(Path(f"/proc/{process}").exists() for process in processes)


def test_an_interrupt_is_the_parents_matter() -> None:
    """The terminal sends it to all processes of a command."""

    def interrupted(items: Sequence[int], _stop: Event) -> Iterator[int]:
        for item in items:
            os.kill(os.getpid(), signal.SIGINT)
            yield item

    assert list(range(4)) == list(forked_map(interrupted, range(4), processes=2))


def test_they_end_with_a_parent_that_is_killed() -> None:
    """Else they would hold locks that the next command needs."""
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        processes = [int(word) for word in parent.stdout.readline().split()]
        assert all(Path(f"/proc/{process}").exists() for process in processes)
        parent.kill()
    deadline = time.monotonic() + 20
    while any(_runs(process) for process in processes):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _runs(process: int) -> bool:
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
