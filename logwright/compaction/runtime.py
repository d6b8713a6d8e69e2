"""What a cleaning may use: how many threads, and how much of the disk's time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from threading import Lock
from typing import Final

STEP_BYTES: Final = 16 * 1024 * 1024
"""Bytes of log that are worked on at a time by one thread; then progress is told."""
_SMALLEST_STEP_BYTES: Final = 64 * 1024
_CHECK_SECONDS: Final = 0.3
"""How often Kafka's cleaner looks how fast it is (LogCleaner's Throttler, 4.3.0)."""


class Throttle:
    """Keeps what is read and written together below a rate
    (``log.cleaner.io.max.bytes.per.second``). For any number of threads.

    Time in which less was done is not saved up.

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
        """How much is to be done at a time, so that the rate is kept from moment to moment."""
        allowed = max(self.bytes_per_second * _CHECK_SECONDS, _SMALLEST_STEP_BYTES)
        return int(min(allowed, STEP_BYTES))

    def observe(self, length_bytes: int) -> None:
        """So much was read or written. Effects: sleeps until the rate allows it."""
        now = self._clock()
        with self._guard:
            self._due = max(self._due, now) + length_bytes / self.bytes_per_second
            wait = self._due - now
        if wait > 0:
            self._sleep(wait)


def sync_now(descriptor: int) -> None:
    """Make an open file or directory durable. Effects: waits for the disk.

    Raises:
        OSError: as fsync(2).
    """
    os.fsync(descriptor)


def available_cores() -> int:
    """Cores that this process may use. Effects: asks the system."""
    return len(os.sched_getaffinity(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """What a cleaning may use.

    Attributes:
        threads: that work on one log at the same time.
        throttle: shared by all that the rate is for.
        sync: makes a staged file or directory durable, or notes that it is to be made so before
            anybody relies on it (`unsynced`).
    """

    threads: int = 1
    throttle: Throttle = field(default_factory=Throttle)
    sync: Callable[[int], None] = sync_now
