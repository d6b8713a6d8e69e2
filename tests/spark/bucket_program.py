"""A driver that cleans all logs in a bucket: ``python -m tests.spark.bucket_program MASTER URL NOW
BYTES_PER_SECOND [split]``. Working copies are below each executor's working directory. It prints a
line of JSON for each log: what became of it, how many bytes that took on the way to the driver, and
whether there were values of records among them.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext

from logwright.compaction.model import CleaningOptions, ReadablePlan
from logwright.config.topic import CleanerConfig, TopicConfig
from logwright.errors import LogwrightError
from logwright.format.names import TopicPartition
from logwright.log.load import list_partitions
from logwright.maintenance.maintain import new_job
from logwright.maintenance.split.run import SplitSweep
from logwright.maintenance.sweep import BucketSweep, sweep_in_task
from logwright.place.model import Place
from logwright.place.named import place_of
from logwright.spark.session import prepare_environment, session_settings
from logwright.spark.sweep import SparkExecutor
from logwright.sweep.model import LogWork, planned
from logwright.sweep.stages import plan_directory
from logwright.units import TimestampMs
from tests.bucket.servers import CLIENT

OPTIONS = CleaningOptions(force=True)
COPIES = Path("copies")
VALUE = b"v" * 20
CONFIGS = {"cleanup.policy": "compact", "segment.bytes": "300"}


@dataclass(frozen=True, slots=True)
class Compacted:
    """All topics are compacted."""

    cleaner: CleanerConfig

    def of(self, log_dir: Place, topic: str) -> tuple[TopicConfig, CleanerConfig]:
        """See `LogSettings.of`."""
        del log_dir, topic
        return TopicConfig.model_validate(CONFIGS), self.cleaner

    def stray(self, log_dir: Place, partition: TopicPartition) -> None:
        """See `LogSettings.stray`."""
        del log_dir, partition


def context_of(master: str) -> SparkContext:
    """A context whose executors can reach the bucket."""
    prepare_environment(is_local=master.startswith("local"))
    settings = session_settings(master=master, cores=2)
    settings |= {f"spark.executorEnv.{name}": os.environ[name] for name in CLIENT}
    return SparkContext(conf=SparkConf().setAll([*settings.items()]))


class Counted(SparkExecutor):
    """Calls parts of logs, and looks at what comes back.

    Attributes:
        bytes: of all results; values: whether a record's value was in one.
    """

    bytes = 0
    values = False

    def call_sized(self, *given: Any, **more: Any) -> Iterator[Any]:  # noqa: ANN401 -- of SparkExecutor
        """See `SparkExecutor.call_sized`."""
        for result in super().call_sized(*given, **more):
            content = pickle.dumps(result)
            self.bytes += len(content)
            self.values |= VALUE in content
            yield result


def outcomes_of(
    jobs: Sequence[BucketSweep], plans: Sequence[ReadablePlan], executor: Counted, how: str
) -> Iterator[tuple[BucketSweep, object, int, bool]]:
    """Each job, with its outcome, bytes and whether there were values in them."""
    if how == "split":
        for job in jobs:
            executor.bytes, executor.values = 0, False
            try:
                result: object = SplitSweep(sweep=job, shards=2).run(executor)
            except LogwrightError as error:
                result = error
            yield job, result, executor.bytes, executor.values
        return
    for results in executor.call_planned(sweep_in_task, [(job,) for job in jobs], plans):
        for job, result in zip(jobs, results, strict=True):
            content = pickle.dumps(result)
            yield job, result, len(content), VALUE in content


def main(master: str, url: str, now: str, rate: str, how: str = "whole") -> None:
    """Clean them."""
    place, now_ms = place_of(url), TimestampMs(int(now))
    pairs = {"log.cleaner.io.max.bytes.per.second": rate}
    settings = Compacted(CleanerConfig.model_validate(pairs))
    works = plan_directory(
        place,
        [
            LogWork(key=str(each), log_dir=place, partition=each)
            for each in sorted(list_partitions(place))
        ],
        settings,
        now_ms=now_ms,
        options=OPTIONS,
        high_watermark="checkpoint",
    )
    plans = [planned(work) for work in works]
    jobs = [
        BucketSweep(
            url=url,
            partition=plan.log.partition,
            id=new_job("clean"),
            scratch=COPIES,
            now_ms=now_ms,
            config=plan.config,
            cleaner=plan.cleaner,
            options=OPTIONS,
            high_watermark="checkpoint",
        )
        for plan in plans
    ]
    context = context_of(master)
    for job, result, size, values in outcomes_of(jobs, plans, Counted(lambda: context), how):
        error = str(result) if isinstance(result, LogwrightError) else None
        version = getattr(result, "version", None)
        row = {"log": str(job.partition), "version": version, "error": error}
        sys.stdout.write(json.dumps(row | {"bytes": size, "values": values}) + "\n")
    context.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
