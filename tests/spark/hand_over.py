"""``python -m tests.spark.hand_over BOOTSTRAP LOG_DIR WORK TOPIC``: the history of a topic from the
files of its running broker, then the rest from the broker by Spark's Kafka source.

Both ways: with the same checkpoint, of which only the format changes; and with another checkpoint,
from the offsets that the first query ended with. It prints a JSON object for each line that it gets
on the standard input: first the end of the files' part, then the offsets of all rows.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from benchmarks.live import connector_jars
from logwright.spark import register
from logwright.spark.session import prepare_environment, session_settings


def written(stream: DataStreamReader, work: Path, name: str, checkpoint: str) -> str:
    """Write what is there of a stream to files; returns the offsets after it."""
    query = (
        stream.load()
        .select("partition", "offset", "value")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(work / checkpoint))
        .trigger(availableNow=True)
        .start(str(work / name))
    )
    query.awaitTermination()
    return str(query.recentProgress[-1].sources[0].endOffset)


def offsets(spark: SparkSession, *paths: Path) -> list[tuple[int, int]]:
    """Partition and offset of each row."""
    rows = [row for path in paths for row in spark.read.parquet(str(path)).collect()]
    return sorted((row.partition, row.offset) for row in rows)


def main(bootstrap: str, log_dir: str, work: Path, topic: str) -> None:
    """Effects: see the module."""
    prepare_environment(is_local=True)
    builder: SparkSession.Builder = SparkSession.builder
    jars = {"spark.jars": ",".join(map(str, connector_jars()))}
    for name, value in (session_settings(master="local[2]", cores=2) | jars).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    register(spark)

    def files() -> DataStreamReader:
        return spark.readStream.format("kafka-log").options(subscribe=topic, path=log_dir)

    def broker() -> DataStreamReader:
        kafka = {"kafka.bootstrap.servers": bootstrap, "kafka.isolation.level": "read_committed"}
        return spark.readStream.format("kafka").options(subscribe=topic, **kafka)

    sys.stdin.readline()
    end = written(files(), work, "same", "checkpoint")
    written(files(), work, "first", "other-checkpoint")
    sys.stdout.write(json.dumps({"end": json.loads(end)}) + "\n")
    sys.stdout.flush()
    sys.stdin.readline()
    written(broker(), work, "same", "checkpoint")
    written(broker().option("startingOffsets", end), work, "second", "third-checkpoint")
    rows = {
        "same": offsets(spark, work / "same"),
        "other": offsets(spark, work / "first", work / "second"),
    }
    sys.stdout.write(json.dumps(rows) + "\n")
    sys.stdout.flush()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4])
