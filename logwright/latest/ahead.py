"""Several threads work ahead on parts whose results are wanted in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from itertools import islice
from queue import Queue
from threading import Event, Thread
from typing import Final, Generic, TypeVar

T = TypeVar("T")

_DEPTH: Final = 2
"""Results of one part that wait to be taken."""


class _End:
    """The end of a part; with the error that ended it, if one did."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class _Part(Generic[T]):
    """A part that a thread works on."""

    def __init__(self, make: Callable[[], Iterator[T]], stop: Event) -> None:
        self._make = make
        self._stop = stop
        self._found: Queue[T | _End] = Queue(_DEPTH)
        self._ended = False
        Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        error: BaseException | None = None
        try:
            for result in self._make():
                self._found.put(result)
                if self._stop.is_set():
                    break
        except BaseException as caught:  # noqa: BLE001 -- raised where the results are taken
            error = caught
        self._found.put(_End(error))

    def results(self) -> Iterator[T]:
        """Yield the results; raise the error that ended them."""
        while not self._ended:
            result = self._found.get()
            if not isinstance(result, _End):
                yield result
                continue
            self._ended = True
            if result.error is not None:
                raise result.error

    def wait(self) -> None:
        """Drop the results until the thread has ended."""
        while not self._ended:
            self._ended = isinstance(self._found.get(), _End)


def in_order(
    parts: Sequence[Callable[[], Iterator[T]]], *, threads: int
) -> Generator[T, None, None]:
    """Yield the results of all parts in order, while as many threads work on the next ones.
    Effects: starts threads, unless there is one part or one thread; they have ended when the
    generator is exhausted or closed.

    Args:
        parts: each makes an iterator, which is used by one thread only.
        threads: how many parts are worked on at once; of each, two results may wait.

    Raises:
        Exception: the error of the first part that has one, after the results before it.
    """
    if threads == 1 or len(parts) == 1:
        for part in parts:
            yield from part()
        return
    stop = Event()
    following = iter(parts)
    working = deque(_Part(part, stop) for part in islice(following, threads))
    try:
        while working:
            yield from working[0].results()
            working.popleft()
            working.extend(_Part(part, stop) for part in islice(following, 1))
    finally:
        stop.set()
        for each in working:
            each.wait()
