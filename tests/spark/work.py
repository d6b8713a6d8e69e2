"""Functions for Spark tasks: workers import them by name."""

from __future__ import annotations

import gc
import os
import sys

from logwright.batches.runtime import Runtime
from logwright.compaction.model import CleanPlan
from logwright.errors import CorruptBatch
from logwright.kernel import Kernel
from logwright.rewrite.staging import discard_staging
from logwright.sweep.build import build, examine


def double(number: int, *, runtime: Runtime) -> int:
    del runtime
    return 2 * number


def rate(plan: CleanPlan, *, runtime: Runtime) -> float:
    """What the throttle of a task allows, bytes per second."""
    del plan
    return runtime.throttle.bytes_per_second


def double_but_for_odd(number: int, *, runtime: Runtime) -> int:
    del runtime
    if number % 2:
        raise CorruptBatch("odd", path=f"/log/{number}", position=number, remedy="Do not.")
    return 2 * number


def fail_with_a_secret(number: int, *, runtime: Runtime) -> int:
    del runtime
    records = {b"key": 1}
    return records[b"the-secret-key-of-a-record"] + number


def worker_state(_number: int, *, runtime: Runtime) -> tuple[int, int, str]:
    del runtime
    return os.getpid(), gc.get_freeze_count(), os.environ.get("NUMBA_CACHE_DIR", "")


def origin(_number: int, *, runtime: Runtime) -> tuple[int, int]:
    """The worker, and threads of the process that it was forked from."""
    del runtime
    return os.getpid(), len(os.listdir(f"/proc/{os.getppid()}/task"))  # noqa: PTH208


def kernels_of_a_cleaning(plan: CleanPlan, *, runtime: Runtime) -> tuple[set[str], set[str]]:
    """The compiled kernels before it, and those that came with it; of one log among many."""
    del runtime
    before = kernels()
    examine(plan, build(plan))
    discard_staging(plan)
    return before, kernels() - before


def kernels() -> set[str]:
    """Return the names of logwright's kernels that this process has in memory."""
    modules = [module for name, module in sys.modules.items() if name.startswith("logwright.")]
    return {
        f"{value.name} {signature}"
        for module in modules
        for value in list(vars(module).values())
        if isinstance(value, Kernel)
        for signature in value._entries
    }
