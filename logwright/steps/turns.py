"""Threads that take turns: one of them works, the others wait for the disk or for their turn.

Python's own lock is given up at every call of the system, the quick ones too. Threads that all have
something to do then wake each other at every such call, which costs more than what they do.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from threading import Lock
from typing import Final

Waiting = AbstractContextManager[object]
"""Entered by who waits: meanwhile others work. It may be entered again and again."""

ALONE: Final[Waiting] = nullcontext()
"""Of a thread with which no other takes turns."""


class Turns:
    """The turn of some threads. A context manager: who enters it has the turn until it leaves.

    Attributes:
        waiting: to be entered by who has the turn.
    """

    def __init__(self) -> None:
        self._turn = Lock()
        self.waiting: Waiting = _Without(self._turn)

    def __enter__(self) -> None:
        self._turn.acquire()

    def __exit__(self, *_: object) -> None:
        self._turn.release()


class _Without(AbstractContextManager[None]):
    """Without the turn."""

    def __init__(self, turn: Lock) -> None:
        self._turn = turn

    def __enter__(self) -> None:
        self._turn.release()

    def __exit__(self, *_: object) -> None:
        self._turn.acquire()
