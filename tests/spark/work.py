"""Functions for Spark tasks: workers import them by name."""

from __future__ import annotations

import gc
import os

from logwright.compaction.means import Means
from logwright.errors import CorruptBatch


def double(number: int, *, means: Means) -> int:
    del means
    return 2 * number


def double_but_for_odd(number: int, *, means: Means) -> int:
    del means
    if number % 2:
        raise CorruptBatch("odd", path=f"/log/{number}", position=number, remedy="Do not.")
    return 2 * number


def fail_with_a_secret(number: int, *, means: Means) -> int:
    del means
    records = {b"key": 1}
    return records[b"the-secret-key-of-a-record"] + number


def worker_state(_number: int, *, means: Means) -> tuple[int, int, str]:
    del means
    return os.getpid(), gc.get_freeze_count(), os.environ.get("NUMBA_CACHE_DIR", "")
