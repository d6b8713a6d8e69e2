"""A warm sweep by Spark in a process of its own.

``python -m benchmarks.sweep_worker LOG COPY NUMBER`` sweeps NUMBER copies of a log once to warm
up, then again, timed, and prints a JSON object.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.logs import BenchLog, read
from benchmarks.sweeps import copies, cpu_of_all
from logwright.compaction.model import CleaningOptions, CleanPlan
from logwright.config.topic import parse_settings
from logwright.errors import LogwrightError, invariant
from logwright.log.load import list_partitions
from logwright.spark.session import local_session
from logwright.spark.sweep import SparkExecutor
from logwright.sweep.build import build_and_examine
from logwright.sweep.commit import commit_many
from logwright.sweep.executor import call_builds
from logwright.sweep.plan import plan_cleanings
from logwright.units import TimestampMs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main(log_directory: str, target: str, number: str) -> None:
    """Effects: works on copies of the log in `target`; prints."""
    log = read(Path(log_directory))
    with local_session() as spark:
        sweep(log, copies(log, Path(target), int(number)), spark)
        log_dir = copies(log, Path(target), int(number))
        start = time.perf_counter()
        with cpu_of_all() as cpu:
            stages = sweep(log, log_dir, spark)
        wall = time.perf_counter() - start
    shutil.rmtree(target)
    print(json.dumps({"wall": wall, "cpu": cpu[0], **stages}))


def plan_all(log: BenchLog, log_dir: Path, *, dedupe_buffer: int | None = None) -> list[CleanPlan]:
    """Plan all partitions of a directory; `dedupe_buffer` is in bytes. Effects: reads it."""
    config, cleaner = parse_settings(log.settings)
    if dedupe_buffer is not None:
        cleaner = cleaner.model_copy(update={"dedupe_buffer_bytes": dedupe_buffer})
    outcomes = plan_cleanings(
        log_dir,
        list_partitions(log_dir),
        lambda _: (config, cleaner),
        now_ms=TimestampMs(log.now_ms),
        options=CleaningOptions(),
        high_watermark="end",
    )
    plans = [one for one in outcomes if isinstance(one, CleanPlan)]
    invariant(len(plans) == len(outcomes), "a log of a benchmark cannot be planned")
    return plans


def sweep(log: BenchLog, log_dir: Path, spark: SparkSession) -> dict[str, float]:
    """Plan, build, examine and commit all partitions of a directory; the seconds of each part.
    Effects: changes the logs.
    """
    begun = time.perf_counter()
    plans = plan_all(log, log_dir)
    planned = time.perf_counter()
    groups = list(call_builds(SparkExecutor(lambda: spark), build_and_examine, plans))
    built = time.perf_counter()
    work = []
    for plan, result in chain.from_iterable(groups):
        if isinstance(result, LogwrightError):
            raise result
        staged, facts = result
        invariant(not facts.failed, "the output of a benchmark fails a check")
        work.append((plan, staged))
    for committed in commit_many([work]):
        if isinstance(committed.outcome, LogwrightError):
            raise committed.outcome
    done = time.perf_counter()
    return {"plan": planned - begun, "build": built - planned, "commit": done - built}


if __name__ == "__main__":
    main(*sys.argv[1:])
