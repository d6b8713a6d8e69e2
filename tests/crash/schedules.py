"""Two commands at once, under a schedule: the first stops before one of its calls to the system,
the second runs, the first continues.

The interpreter reports each call before it is made (`sys.addaudithook`): opening, listing, making,
renaming, linking, cutting and removing files and directories, and every lock, whatever code makes
the call. Calls that only read a file's state are not reported; the call before is.

The second command runs in a thread of its own. Where it waits for a lock that the first one has,
the first one continues, and the second gets a turn before each further call of it. Both stand for
processes: what one process remembers of its plans (`logwright.live_plans`) the other has not.
"""

from __future__ import annotations

import fcntl
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Semaphore
from types import SimpleNamespace

import pytest

import logwright.locks
from logwright import live_plans

CALLS = frozenset(
    {
        "fcntl.fcntl",
        "open",
        "os.link",
        "os.listdir",
        "os.mkdir",
        "os.remove",
        "os.rename",
        "os.rmdir",
        "os.scandir",
        "os.truncate",
    }
)
LONGEST_TURN_SECONDS = 120
_LOOKS_AT_NO_ENTRY = os.O_DIRECTORY
_installed: list[bool] = []
_running: list[Schedule] = []


class DeadLock(AssertionError):
    """Each of the two waits for the other."""


class _GaveUp(BaseException):
    """Ends a thread that waits for ever."""


@dataclass
class Schedule:
    """One run of both.

    Attributes:
        root: calls outside it are not counted, such as an import's.
        stop: before which call of the first command the second begins, from 1; 0: never.
        second: the second command; what it raises is kept.
        calls: how many the first has made.
        made: what these were.
        began: the second did.
        waited: the second had to wait for the first.
    """

    root: Path
    stop: int = 0
    second: Callable[[], None] | None = None
    calls: int = 0
    made: list[str] = field(default_factory=list)
    waited: bool = False
    began: bool = False
    first_error: BaseException | None = None
    second_error: BaseException | None = None

    def run(self, first: Callable[[], None]) -> None:
        """Do both. Effects: theirs."""
        self._turn, self._back = Semaphore(0), Semaphore(0)
        self._thread: threading.Thread | None = None
        self._done = self._ending = False
        self._other = live_plans._Process()
        self._first_id = threading.get_ident()
        _running.append(self)
        try:
            first()
        except Exception as error:  # noqa: BLE001 -- it is judged
            self.first_error = error
        finally:
            if self._thread is not None:
                if not self._done:
                    self._ending = True
                    self._hand_over()
                self._thread.join()
            _running.pop()

    def before_call(self, event: str, args: tuple[object, ...]) -> None:
        """Count the first command's calls; stop before the chosen one."""
        if threading.get_ident() != self._first_id or not self._is_ours(event, args):
            return
        self.calls += 1
        self.made.append(f"{event} {args[0] if event != 'fcntl.fcntl' else ''}")
        if self.calls == self.stop and self.second is not None:
            self.began = True
            self._thread = threading.Thread(target=self._do_second)
            self._hand_over(self._thread.start)
        elif self._thread is not None and not self._done:
            self._hand_over()

    def sleep(self, _seconds: float) -> None:
        """Waiting for a lock: the other one's turn."""
        if threading.get_ident() == self._first_id:
            if self._thread is None or self._done:
                raise DeadLock("the first waits for a lock that nobody gives back")
            self._hand_over()
            if not self._done:
                raise DeadLock("each waits for the other")
            return
        if self._ending:
            raise _GaveUp
        self.waited = True
        self._back.release()
        self._turn.acquire()

    def _hand_over(self, begin: Callable[[], object] | None = None) -> None:
        """The other process' turn, until it waits or has ended."""
        here = live_plans._here
        live_plans._here = self._other
        (begin or self._turn.release)()
        assert self._back.acquire(timeout=LONGEST_TURN_SECONDS), "a turn does not end"
        live_plans._here = here

    def _do_second(self) -> None:
        assert self.second is not None
        try:
            self.second()
        except BaseException as error:  # noqa: BLE001 -- it is judged
            self.second_error = error
        finally:
            self._done = True
            self._back.release()

    def _is_ours(self, event: str, args: tuple[object, ...]) -> bool:
        if event == "fcntl.fcntl":
            return args[1] == fcntl.F_OFD_SETLK
        path = args[0]
        if isinstance(path, bytes | int):
            return True
        if event == "open" and isinstance(args[2], int) and args[2] & _LOOKS_AT_NO_ENTRY:
            return False
        text = str(path)
        return not text.startswith("/") or text.startswith(str(self.root))


def _hook(event: str, args: tuple[object, ...]) -> None:
    if _running and event in CALLS:
        _running[-1].before_call(event, args)


def _sleep(seconds: float) -> None:
    _running[-1].sleep(seconds)


@contextmanager
def scheduled() -> Iterator[None]:
    """Where schedules may be run: the engine's waiting for a lock hands over."""
    if not _installed:
        sys.addaudithook(_hook)
        _installed.append(True)
    clock = SimpleNamespace(monotonic=lambda: 0.0, sleep=_sleep)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logwright.locks, "time", clock)
        yield
