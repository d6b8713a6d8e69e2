"""One Spark session for all tests that want one, with the settings that runs have."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from logwright.spark.archive import archive_options
from logwright.spark.session import prepare_environment, session_settings
from tests.fixtures import CACHE
from tests.spark_events import read_event_log


@dataclass(frozen=True, slots=True)
class Observed:
    """A session and where it writes its event log."""

    spark: SparkSession
    event_log: Path

    def tasks(self) -> list[int]:
        """Tasks of each job so far, in the order of jobs. Effects: waits until Spark has written
        what it knows, which it does in a thread of its own.
        """
        self.spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
        (path,) = self.event_log.iterdir()
        log = read_event_log(path)
        return [len(log.tasks_of(job)) for job in log.jobs]


@contextmanager
def observed_session(event_log: Path) -> Iterator[Observed]:
    """A session of its own, whatever session an earlier test has left."""
    prepare_environment()
    left = SparkSession.getActiveSession()
    if left is not None:
        left.stop()
    builder: SparkSession.Builder = SparkSession.builder
    settings = session_settings(master="local[2]", cores=2, event_log_directory=event_log)
    classes = archive_options(Path(os.environ["JAVA_HOME"]), cache=CACHE / "spark")
    settings["spark.driver.extraJavaOptions"] += f" {classes}"
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        yield Observed(spark, event_log)
    finally:
        spark.stop()
