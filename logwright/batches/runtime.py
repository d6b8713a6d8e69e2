"""The runtime of what reads and rewrites logs: threads, throttle, progress, and how files become
durable.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from math import inf
from threading import Lock
from typing import Final, TypeVar

from logwright.place.mapped import MappedFiles

STEP_BYTES: Final = 16 * 1024 * 1024
"""Bytes of log that one thread works on before it reports progress."""
_SMALLEST_STEP_BYTES: Final = 64 * 1024
_CHECK_SECONDS: Final = 0.3
"""How often Kafka's cleaner measures its rate (LogCleaner's Throttler, 4.3.0)."""


Progress = Callable[[str, int, int], None]
"""Called with the phase, its bytes done, and its bytes in all."""


class Throttle:
    """Keeps the sum of reads and writes below a rate (``log.cleaner.io.max.bytes.per.second``), for
    any number of threads.

    A slower period gives no credit for later.

    Attributes:
        bytes_per_second: the rate.
    """

    def __init__(
        self,
        bytes_per_second: float = inf,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.bytes_per_second = bytes_per_second
        self._clock = clock
        self._sleep = sleep
        self._guard = Lock()
        self._due = -inf

    @property
    def step_bytes(self) -> int:
        """How many bytes to work on at a time, so that the rate is never exceeded."""
        allowed = max(self.bytes_per_second * _CHECK_SECONDS, _SMALLEST_STEP_BYTES)
        return int(min(allowed, STEP_BYTES))

    def observe(self, length_bytes: int) -> None:
        """Count bytes that were read or written. Effects: sleeps until the rate allows them."""
        now = self._clock()
        with self._guard:
            self._due = max(self._due, now) + length_bytes / self.bytes_per_second
            wait = self._due - now
        if wait > 0:
            self._sleep(wait)


def silent(_phase: str, _done: int, _total: int) -> None:
    """Ignore the progress."""


_Value = TypeVar("_Value")


def in_order(tasks: Iterable[Callable[[], _Value]], *, threads: int) -> Iterator[_Value]:
    """Yield the results of tasks in their order, while some threads work on the next ones. What
    waits is bounded.

    Raises:
        Exception: the first that a task raises, after the results before it.
    """
    if threads == 1:
        yield from (task() for task in tasks)
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[_Value]] = deque()
        try:
            for task in tasks:
                waiting.append(pool.submit(task))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def sync_now(descriptor: int) -> None:
    """Make an open file or directory durable. Effects: waits for the disk.

    Raises:
        OSError: as fsync(2).
    """
    os.fsync(descriptor)


def available_cores() -> int:
    """Return the number of cores that this process may use. Effects: asks the system."""
    return len(os.sched_getaffinity(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """The resources that a cleaning runs with.

    Attributes:
        threads: threads that work on one log at the same time.
        throttle: shared by all cleanings that the rate is for.
        sync: make a staged file or directory durable, or note that it must become so before anybody
            relies on it (`logwright.rewrite.unsynced`).
        files: the maps of the log's segments: its checks read through those of its build.
    """

    threads: int = 1
    throttle: Throttle = field(default_factory=Throttle)
    sync: Callable[[int], None] = sync_now
    files: MappedFiles = field(default_factory=MappedFiles)
