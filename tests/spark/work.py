"""Functions for Spark tasks: workers import them by name."""

from __future__ import annotations

import gc
import os

from logwright.errors import CorruptBatch


def double(number: int) -> int:
    return 2 * number


def double_but_for_odd(number: int) -> int:
    if number % 2:
        raise CorruptBatch("odd", path=f"/log/{number}", position=number, remedy="Do not.")
    return 2 * number


def fail_with_a_secret(number: int) -> int:
    records = {b"key": 1}
    return records[b"the-secret-key-of-a-record"] + number


def worker_state(_number: int) -> tuple[int, int, str]:
    return os.getpid(), gc.get_freeze_count(), os.environ.get("NUMBA_CACHE_DIR", "")
