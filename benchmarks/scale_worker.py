"""One measurement of ``scale`` in a process of its own; prints a JSON object.

``python -m benchmarks.scale_worker plan|sweep|clean|segments LOG_DIR LOG [OPTIONS]``; the last two
first clean a small log that is given after LOG, so that the kernels are loaded.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path
from typing import Final

from benchmarks.logs import BenchLog, read
from benchmarks.sweep_worker import plan_all, sweep
from benchmarks.sweeps import copies, cpu_of_all
from logwright import maintain
from logwright.compaction.model import CleaningStats, CleanPlan, StagedCleaning
from logwright.errors import invariant
from logwright.spark.session import local_session

_BITS: Final = 8


def plan(log_dir: Path, log: BenchLog) -> dict[str, object]:
    """Plan all partitions, as a process does that has called no kernel yet; again, when it has;
    then only look at them.
    """
    start = time.perf_counter()
    plan_all(log, log_dir)
    first = time.perf_counter()
    plan_all(log, log_dir)
    warm = time.perf_counter()
    plan_all(log, log_dir)
    return {"first": first - start, "wall": time.perf_counter() - warm}


def sweep_warm(log_dir: Path, log: BenchLog, number: str) -> dict[str, object]:
    """Sweep copies of a log with Spark twice; the second time counts. Both stay in `log_dir`."""
    warm, fresh = (copies(log, log_dir / name, int(number)) for name in ("warm", "fresh"))
    with local_session() as spark:
        sweep(log, warm, spark)
        start = time.perf_counter()
        with cpu_of_all() as cpu:
            stages = sweep(log, fresh, spark)
        return {"wall": time.perf_counter() - start, "cpu": cpu[0], **stages}


def clean(log_dir: Path, log: BenchLog, small: str, *budgets: str) -> dict[str, object]:
    """Clean the one partition of a directory, with a budget in bytes if one is given."""
    _warm_up(log_dir, Path(small))
    budget = int(budgets[0]) if budgets else None
    (planned,) = plan_all(log, log_dir, dedupe_buffer=budget)
    wall, cpu = time.perf_counter(), time.process_time()
    staged = _clean(planned)
    used = time.process_time() - cpu
    stats = staged.stats
    return {
        "wall": time.perf_counter() - wall,
        "cpu": used,
        "mapReads": stats.map_reads,
        "distinctKeys": stats.distinct_keys,
        "complete": staged.end_offset == planned.compaction.first_uncleanable_offset,
        "bytesPerKey": _bytes_per_key(stats),
    }


def segments(log_dir: Path, log: BenchLog, small: str) -> dict[str, object]:
    """Plan, clean and commit a log of many segments."""
    _warm_up(log_dir, Path(small))
    cpu = time.process_time()
    (planned,) = plan_all(log, log_dir)
    _clean(planned)
    return {"cpu": time.process_time() - cpu}


def _warm_up(log_dir: Path, small: Path) -> None:
    target = log_dir.with_name("warm")
    log = read(small)
    (planned,) = plan_all(log, copies(log, target, 1))
    _clean(planned)
    shutil.rmtree(target)


def _clean(planned: CleanPlan) -> StagedCleaning:
    staged = maintain.build(planned)
    facts = maintain.examine(planned, staged)
    invariant(not facts.failed, "the output of a benchmark fails a check")
    maintain.commit(planned, staged)
    return staged


def _bytes_per_key(stats: CleaningStats) -> float:
    """Of one shard: its map, and the bitmap of all records."""
    shard = stats.distinct_keys / stats.map_reads
    return (stats.map_bytes + stats.records_read / _BITS / stats.map_reads) / shard


def main(what: str, log_dir: str, log_directory: str, *options: str) -> None:
    """Effects: changes the logs in `log_dir`; prints."""
    measure = {"plan": plan, "sweep": sweep_warm, "clean": clean, "segments": segments}[what]
    print(json.dumps(measure(Path(log_dir), read(Path(log_directory)), *options)))


if __name__ == "__main__":
    main(*sys.argv[1:])
