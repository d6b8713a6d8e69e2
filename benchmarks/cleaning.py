"""One cleaning of a copy of a log, as `logwright clean` does it, checks and all."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from benchmarks.logs import BenchLog, plan
from logwright.batches.runtime import Runtime
from logwright.compaction.model import CleaningStats
from logwright.errors import invariant
from logwright.sweep.build import build, examine
from logwright.sweep.commit import commit

During = Callable[[str], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """Times of one cleaning: as a whole, and of building alone."""

    wall_seconds: float
    cpu_seconds: float
    build_wall_seconds: float
    build_cpu_seconds: float
    stats: CleaningStats


def clean(log: BenchLog, log_dir: Path, *, during: During = lambda _: nullcontext()) -> Cleaned:
    """Plan, build, examine and commit. Effects: changes the log in `log_dir`, a copy of `log`.

    Args:
        during: entered around each of the four parts with its name.
    """
    runtime = Runtime()
    wall, cpu = time.perf_counter(), time.process_time()
    with during("plan"):
        planned = plan(log, log_dir)
    build_wall, build_cpu = time.perf_counter(), time.process_time()
    with during("build"):
        staged = build(planned, runtime=runtime)
    built_wall, built_cpu = time.perf_counter(), time.process_time()
    with during("examine"):
        facts = examine(planned, staged, runtime=runtime)
    invariant(not facts.failed, "the output of a benchmark fails a check")
    with during("commit"):
        commit(planned, staged)
    return Cleaned(
        wall_seconds=time.perf_counter() - wall,
        cpu_seconds=time.process_time() - cpu,
        build_wall_seconds=built_wall - build_wall,
        build_cpu_seconds=built_cpu - build_cpu,
        stats=staged.stats,
    )
