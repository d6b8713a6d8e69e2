"""A driver that cleans all logs in a bucket: ``python -m tests.spark.bucket_program MASTER URL NOW
BYTES_PER_SECOND``. Working copies are below each executor's working directory. It prints a line of
JSON for each log: what became of it, and how many bytes that took on the way to the driver.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
from dataclasses import dataclass
from pathlib import Path

from pyspark import SparkConf, SparkContext

from logwright.compaction.model import CleaningOptions
from logwright.config.topic import CleanerConfig, TopicConfig
from logwright.errors import LogwrightError
from logwright.format.names import TopicPartition
from logwright.log.load import list_partitions
from logwright.maintenance.maintain import new_job
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


@dataclass(frozen=True, slots=True)
class Compacted:
    """All topics are compacted."""

    cleaner: CleanerConfig

    def of(self, log_dir: Place, topic: str) -> tuple[TopicConfig, CleanerConfig]:
        """See `LogSettings.of`."""
        del log_dir, topic
        return TopicConfig.model_validate({"cleanup.policy": "compact"}), self.cleaner

    def stray(self, log_dir: Place, partition: TopicPartition) -> None:
        """See `LogSettings.stray`."""
        del log_dir, partition


def context_of(master: str) -> SparkContext:
    """A context whose executors can reach the bucket."""
    prepare_environment(is_local=master.startswith("local"))
    settings = session_settings(master=master, cores=2)
    settings |= {f"spark.executorEnv.{name}": os.environ[name] for name in CLIENT}
    return SparkContext(conf=SparkConf().setAll([*settings.items()]))


def main(master: str, url: str, now: str, rate: str) -> None:
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
    executor = SparkExecutor(lambda: context)
    for results in executor.call_planned(sweep_in_task, [(job,) for job in jobs], plans):
        for job, result in zip(jobs, results, strict=True):
            error = str(result) if isinstance(result, LogwrightError) else None
            version = None if error or result is None else result.version  # type: ignore[union-attr]  # no error
            row = {"log": str(job.partition), "version": version, "error": error}
            sys.stdout.write(json.dumps(row | {"bytes": len(pickle.dumps(result))}) + "\n")
    context.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
