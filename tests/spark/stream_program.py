"""Queries that tests kill: ``python -m tests.spark.stream_program PLAN``.

PLAN is a file with a JSON list of `Job`. Each query writes all topics of a log directory to Parquet
files, in micro-batches, and ends when there is nothing left; the program ends with the last one.
Spark's Python is that of the environment. It prints what becomes of each query. Each line on the
standard input says that workers are killed now: then every query may fail once, and is started
again.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, TypedDict

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from logwright.spark import register
from logwright.spark.session import prepare_environment, session_settings

STARTED: Final = "started"
FAILED: Final = "failed"
ENDED: Final = "ended"
NOT_CONNECTED: Final = "Python worker failed to connect back"
"""Spark's error when a Python process of a query has not begun within 10 s: the machine is busy."""
NOT_WHOLE: Final = "java.io.OptionalDataException"
"""Java's, of a task that Spark wrote while one of its maps changed; seen with many queries at once,
without a kill. The query is started again, and its rows are compared in the end.
"""
AT_ONCE: Final = 4
"""How many queries begin at the same time, for that reason."""
MOST_BROKEN: Final = 100
"""Failures after each kill of workers: Spark gives queries processes that are dead, while it has
some."""
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
    """The query of a job, running. Effects: deletes a checkpoint without a micro-batch: Spark
    refuses it if a file of one that was being planned is in it.
    """
    work = Path(job["work"])
    if not Progress.of(work).planned:
        shutil.rmtree(work / "checkpoint", ignore_errors=True)
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


def is_beginning(query: StreamingQuery) -> bool:
    """Whether its source's Python process has not answered yet."""
    return query.isActive and str(query.status["message"]).startswith("Initializing")


@dataclass(slots=True)
class Queries:
    """Queries that run to their ends.

    Attributes:
        waiting: to be started. running: started. broken: how often one failed.
        kills: a line for each time that workers were killed; failed: after how many of them a query
            has failed.
    """

    spark: SparkSession
    waiting: list[Job]
    running: list[tuple[Job, StreamingQuery]] = field(default_factory=list)
    broken: int = 0
    kills: list[str] = field(default_factory=list)
    failed: dict[str, int] = field(default_factory=dict)

    def listen(self) -> None:
        """Hear of kills."""
        for line in sys.stdin:
            self.kills.append(line)

    def look(self) -> None:
        """See which queries have ended or failed."""
        left = []
        for job, query in self.running:
            if query.isActive:
                left.append((job, query))
                continue
            error = query.exception()
            if error is None:
                say(ENDED, job["name"])
                continue
            self.waiting.append(job)
            if any(each in str(error) for each in (NOT_CONNECTED, NOT_WHOLE)):
                continue
            self.fail(error)
            if self.failed.get(job["name"], 0) < len(self.kills):
                self.failed[job["name"]] = len(self.kills)
                say(FAILED, job["name"], *Progress.of(Path(job["work"])))
        self.running = left

    def start(self) -> None:
        """Start some."""
        while self.waiting and sum(is_beginning(each) for _, each in self.running) < AT_ONCE:
            try:
                self.running.append((self.waiting[0], started(self.spark, self.waiting[0])))
            except (Py4JError, PySparkException) as error:
                self.fail(error)
            else:
                self.waiting.pop(0)

    def fail(self, error: Exception) -> None:
        """Count a failure.

        Raises:
            Exception: the error, if it cannot come from a kill.
        """
        self.broken += 1
        if self.broken > MOST_BROKEN * len(self.kills):
            raise error


def main(plan: str) -> None:
    """Effects: see the module."""
    prepare_environment()
    builder: SparkSession.Builder = SparkSession.builder
    plain = {"spark.python.daemon.module": "pyspark.daemon"}
    for name, value in (session_settings(master="local[4]", cores=2) | plain).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    register(spark)
    queries = Queries(spark, json.loads(Path(plan).read_text()))
    threading.Thread(target=queries.listen, daemon=True).start()
    while queries.waiting or queries.running:
        queries.look()
        queries.start()
        time.sleep(_LOOK_SECONDS)


if __name__ == "__main__":
    main(*sys.argv[1:])
