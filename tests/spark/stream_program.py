"""Queries that tests kill: ``python -m tests.spark.stream_program PLAN``.

PLAN is a file with a JSON list of `Job`. Each query writes all topics of a log directory to Parquet
files, in micro-batches, and ends when there is nothing left; the program ends with the last one.
It prints what becomes of each. Each line on the standard input says that workers are killed now:
then every query may fail once, and is started again.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple, TypedDict

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from logwright.spark import register
from logwright.spark.session import prepare_environment, session_settings

STARTED: Final = "started"
FAILED: Final = "failed"
ENDED: Final = "ended"
_LOOK_SECONDS: Final = 0.05


class Job(TypedDict):
    """One query. ``work``: where its checkpoint and its rows are."""

    name: str
    log_dir: str
    work: str
    options: dict[str, str]


class Progress(NamedTuple):
    """How many micro-batches a query has: `planned` and `committed` by its checkpoint, `written` by
    its sink.
    """

    planned: int
    committed: int
    written: int

    @classmethod
    def of(cls, work: Path) -> Progress:
        """Effects: lists directories."""
        logs = ("checkpoint/offsets", "checkpoint/commits", "rows/_spark_metadata")
        return cls(*(_last(work / log) + 1 for log in logs))


def _last(log: Path) -> int:
    try:
        stems = [name.removesuffix(".compact") for name in os.listdir(log)]  # noqa: PTH208  often
    except FileNotFoundError:
        return -1
    return max((int(stem) for stem in stems if stem.isdigit()), default=-1)


def say(*words: object) -> None:
    """Effects: prints a line."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def started(spark: SparkSession, job: Job) -> StreamingQuery:
    """The query of a job, running."""
    work = Path(job["work"])
    query = (
        spark.readStream.format("kafka-log")
        .options(subscribePattern=".*", **job["options"])
        .load(job["log_dir"])
        .writeStream.format("parquet")
        .option("checkpointLocation", str(work / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(work / "rows"))
    )
    say(STARTED, job["name"])
    return query


def run(spark: SparkSession, jobs: list[Job]) -> None:
    """Run all queries to their ends.

    Raises:
        StreamingQueryException: of one that failed, although no worker was killed.
    """
    kills: list[str] = []

    def listen() -> None:
        for line in sys.stdin:
            kills.append(line)  # noqa: PERF402 -- one by one, as they come

    threading.Thread(target=listen, daemon=True).start()
    failures = Counter[str]()
    queries = [(job, started(spark, job)) for job in jobs]
    while queries:
        left = []
        for job, query in queries:
            if query.isActive:
                left.append((job, query))
                continue
            error, work = query.exception(), Path(job["work"])
            if error is None:
                say(ENDED, job["name"])
                continue
            failures[job["name"]] += 1
            if failures[job["name"]] > len(kills):
                raise error
            say(FAILED, job["name"], *Progress.of(work))
            left.append((job, started(spark, job)))
        queries = left
        time.sleep(_LOOK_SECONDS)


def main(plan: str) -> None:
    """Effects: see the module."""
    prepare_environment(is_local=True)
    builder: SparkSession.Builder = SparkSession.builder
    for name, value in session_settings(master="local[2]", cores=2).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    register(spark)
    run(spark, json.loads(Path(plan).read_text()))


if __name__ == "__main__":
    main(*sys.argv[1:])
