"""Single measurements of ``tables``, each in a process of its own; prints a JSON object.

``python -m benchmarks.tables_worker WHAT ARGUMENTS``; see the functions.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from benchmarks.kernels import best
from benchmarks.live import connector_jars
from benchmarks.logs import BenchLog, read
from benchmarks.sweeps import cpu_of_tree
from logwright.config.topic import CleanerConfig
from logwright.format.names import TopicPartition
from logwright.latest.model import LatestCounts
from logwright.latest.plan import plan_latest
from logwright.latest.read import read_latest
from logwright.log.load import observe
from logwright.log.model import PartitionLog
from logwright.records.model import ReadRequest
from logwright.records.plan import plan_records
from logwright.records.read import read_range
from logwright.records.schema import COLUMNS
from logwright.spark import register
from logwright.spark.session import prepare_environment

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CORES: Final = 2
COPY_BYTES: Final = 512 * 1024 * 1024
"""More than any cache has."""
CONSUME: Final = 10_000
"""Messages that are asked for at a time."""
SILENCE_SECONDS: Final = 60.0


def spark(log_directory: str, *words: str) -> dict[str, Any]:
    """(wall, CPU) seconds of each round, by what was done: by Spark's source or ours, to noop, to
    Parquet, or the latest state to Parquet. All in one session, in turn, after a round that does
    not count. CPU is of all processes, the broker's too.

    Args:
        words: where the broker listens, its process; a directory to write to, and how many rounds.
    """
    bootstrap, broker, out, rounds = words
    log = read(Path(log_directory))
    session = new_session()

    def kafka() -> DataFrame:
        return _kafka(session, bootstrap, log)

    work: dict[str, Callable[[], None]] = {
        "kafka noop": lambda: _noop(kafka()),
        "ours noop": lambda: _noop(_ours(session, log)),
        "kafka parquet": lambda: _parquet(kafka(), out),
        "ours parquet": lambda: _parquet(_ours(session, log), out),
        "kafka latest": lambda: _parquet(_newest(kafka()), out),
        "ours latest": lambda: _parquet(_ours(session, log, view="latest"), out),
    }
    times: dict[str, list[tuple[float, float]]] = {what: [] for what in work}
    rows = {}
    for number in range(int(rounds) + 1):
        for what, do in work.items():
            start, cpu = time.perf_counter(), used(broker)
            do()
            taken = (time.perf_counter() - start, used(broker) - cpu)
            if number:
                times[what].append(taken)
            if Path(out).exists():
                rows[what] = session.read.parquet(out).count()
                shutil.rmtree(out)
    session.stop()
    return {"seconds": times, "rows": rows}


def used(broker: str) -> float:
    """CPU seconds of this process, of those that it started, and of the broker's."""
    return cpu_of_tree(os.getpid()) + cpu_of_tree(int(broker))


def new_session() -> SparkSession:
    """As a user has it, with Spark's Kafka source and ours. Effects: a JVM."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 -- only this worker has one

    prepare_environment()
    builder: SparkSession.Builder = SparkSession.builder
    for name, value in {
        "spark.master": f"local[{CORES}]",
        "spark.jars": ",".join(map(str, connector_jars())),
        "spark.driver.memory": "4g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": str(4 * CORES),
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    register(session)
    return session


def _kafka(session: SparkSession, bootstrap: str, log: BenchLog) -> DataFrame:
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": log.name,
        "startingOffsets": "earliest",
        "endingOffsets": "latest",
    }
    return session.read.format("kafka").options(**options).load()


def _ours(session: SparkSession, log: BenchLog, **more: str) -> DataFrame:
    options = {"path": str(log.directory), "subscribe": log.partition.topic}
    return session.read.format("kafka-log").options(**options, **more).load()


def _newest(frame: DataFrame) -> DataFrame:
    """The newest row of each key, as it is done with Spark alone."""
    from pyspark.sql import Window  # noqa: PLC0415 -- as above
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 -- Spark's own convention

    newest_first = Window.partitionBy("partition", "key").orderBy(F.col("offset").desc())
    numbered = frame.where("key is not null").withColumn("n", F.row_number().over(newest_first))
    return numbered.where("n = 1 and value is not null").drop("n")


def _noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _parquet(frame: DataFrame, out: str) -> None:
    frame.write.mode("overwrite").parquet(out)


def librdkafka(
    bootstrap: str, broker: str, topic: str, partitions: str, records: str
) -> dict[str, Any]:
    """(wall, CPU) seconds from the first call to the last record of a confluent_kafka consumer."""
    import confluent_kafka  # noqa: PLC0415 -- only this worker has one

    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "benchmark",
        "enable.auto.commit": False,
        "queued.max.messages.kbytes": 262_144,
    }
    consumer = confluent_kafka.Consumer(settings)
    start, cpu = time.perf_counter(), used(broker)
    consumer.assign(
        [
            confluent_kafka.TopicPartition(topic, number, confluent_kafka.OFFSET_BEGINNING)
            for number in range(int(partitions))
        ]
    )
    left, size = int(records), 0
    while left > 0:
        messages = consumer.consume(num_messages=min(CONSUME, left), timeout=SILENCE_SECONDS)
        if not messages or any(message.error() for message in messages):
            raise RuntimeError(f"{left} records have not come")
        size += sum(len(message.value() or b"") for message in messages)
        left -= len(messages)
    taken = (time.perf_counter() - start, used(broker) - cpu)
    consumer.close()
    return {"seconds": taken, "bytes": size}


def kernel(log_directory: str) -> dict[str, Any]:
    """CPU seconds, best of some rounds, of reading all columns on one core, and of copying one byte
    by `numpy`.
    """
    log = read(Path(log_directory))
    logs = _observed(log.directory, log.partition.topic)

    def run() -> None:
        for log in logs:
            for each in plan_records(log, ReadRequest()):
                _count(read_range(each, columns=COLUMNS))

    source = np.ones(COPY_BYTES, dtype=np.uint8)
    target = np.ones(COPY_BYTES, dtype=np.uint8)
    copied = best(lambda: np.copyto(target, source))
    return {"cpu": best(run), "copyPerByte": copied / COPY_BYTES}


def _count(batches: Iterable[Any]) -> int:
    return sum(batch.num_rows for batch in batches)


def rows(log_dir: str, topic: str) -> dict[str, Any]:
    """Read all records once; what matters is the memory of the process."""
    start, cpu = time.perf_counter(), time.process_time()
    number = sum(
        _count(read_range(each, columns=COLUMNS))
        for topic_log in _observed(Path(log_dir), topic)
        for each in plan_records(topic_log, ReadRequest())
    )
    used = time.process_time() - cpu
    return {"rows": number, "wall": time.perf_counter() - start, "cpu": used}


def latest(log_dir: str, topic: str, budget: str) -> dict[str, Any]:
    """Read the latest state once, with a budget for the map, in bytes."""
    start, cpu = time.perf_counter(), time.process_time()
    counts = LatestCounts()
    cleaner = CleanerConfig(dedupe_buffer_bytes=int(budget))
    for topic_log in _observed(Path(log_dir), topic):
        _count(read_latest(plan_latest(topic_log, cleaner=cleaner), columns=COLUMNS, counts=counts))
    return {
        "rows": counts.rows,
        "keys": counts.distinct_keys,
        "reads": counts.map_reads,
        "mapBytes": counts.map_bytes,
        "wall": time.perf_counter() - start,
        "cpu": time.process_time() - cpu,
    }


def _observed(log_dir: Path, topic: str) -> list[PartitionLog]:
    names = [path.name for path in sorted(log_dir.glob(f"{topic}-[0-9]*"))]
    partitions = [TopicPartition(topic, int(name.rpartition("-")[2])) for name in names]
    return [observe(log_dir, each, high_watermark="end") for each in partitions]


def main(what: str, *arguments: str) -> None:
    """Effects: as the function; prints."""
    measure: dict[str, Callable[..., dict[str, Any]]] = {
        "spark": spark,
        "librdkafka": librdkafka,
        "kernel": kernel,
        "rows": rows,
        "latest": latest,
    }
    print(json.dumps(measure[what](*arguments)))


if __name__ == "__main__":
    main(*sys.argv[1:])
