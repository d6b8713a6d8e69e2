"""A bucket's requests, of which some fail, or are the last ones of their process.

A request fails before or after its effect: then nothing was done, or its answer was lost. A process
ends before or after one. Between two requests another process may do something.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final
from unittest.mock import patch

import obstore
from obstore.exceptions import GenericError

from logwright.bucket import driver, store

REQUESTS: Final = ("list", "list_with_delimiter", "get_range", "get", "head", "put", "delete")


class Killed(BaseException):
    """The process ended."""


@dataclass(slots=True)
class Breaking:
    """The library of a bucket for one command.

    Attributes:
        fails: the part of the requests that fail; half of them after their effect.
        dies: the number of the request with which the process ends, None for never; all later ones
            are of threads of the same process, and are not made.
        down: the number of the request from which on none is answered, None for never.
        between: the number of the request before which `other` happens, None for never; `what`: its
            name.
        seen: how often each fault was met.
    """

    draw: random.Random
    fails: float = 0.0
    dies: int | None = None
    down: int | None = None
    between: int | None = None
    what: str = ""
    other: Callable[[], object] = lambda: None
    seen: Counter[str] = field(default_factory=Counter)
    _made: int = 0
    _turn: Lock = field(default_factory=Lock)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- a function of a module
        """A function of the library."""
        call = getattr(obstore, name)
        if name not in REQUESTS:
            return call

        def request(*given: Any, **options: Any) -> Any:  # noqa: ANN401 -- as of a module
            return self._request(name, lambda: call(*given, **options))

        return request

    def _request(self, name: str, call: Callable[[], Any]) -> Any:  # noqa: ANN401 -- as of a module
        with self._turn:
            number, self._made = self._made, self._made + 1
            fails, is_after = self.draw.random() < self.fails, self.draw.random() < 0.5
        if number == self.between:
            self.seen[f"{self.what} between"] += 1
            with unbroken():
                self.other()
        if self.dies is not None and number >= self.dies:
            if number == self.dies and is_after:
                call()
            self.seen["killed"] += number == self.dies
            raise Killed
        if self.down is not None and number >= self.down:
            self.seen["down"] += 1
            raise GenericError(name)
        if not fails:
            return call()
        self.seen[f"{name}, {'lost answer' if is_after else 'not done'}"] += 1
        if is_after:
            call()
        raise GenericError(name)


@contextmanager
def unbroken() -> Iterator[None]:
    """What is done here meets no fault."""
    with patch.object(store, "_calls", lambda: obstore):
        yield


@contextmanager
def broken(breaking: Breaking) -> Iterator[None]:
    """All requests of this process are those of `breaking`; nothing waits."""
    with (
        patch.object(store, "_calls", lambda: breaking),
        patch.object(store, "_WAIT_SECONDS", 0.0),
        patch.object(driver, "_FIRST_WAIT_SECONDS", 0.0),
    ):
        yield
