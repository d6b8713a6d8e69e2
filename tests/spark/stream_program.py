"""A query that tests kill: ``python -m tests.spark.stream_program LOG_DIR WORK BYTES``.

It writes all topics of a log directory to Parquet files below WORK, in micro-batches of about so
many bytes, and ends when there is nothing left.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from logwright.spark import register
from logwright.spark.session import prepare_environment, session_settings

STARTED = "the query has started"


def main(log_dir: str, work: str, most_bytes: str) -> None:
    """Effects: see the module; prints when it has started."""
    prepare_environment(is_local=True)
    builder: SparkSession.Builder = SparkSession.builder
    for name, value in session_settings(master="local[2]", cores=2).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    register(spark)
    query = (
        spark.readStream.format("kafka-log")
        .option("subscribePattern", ".*")
        .option("maxBytesPerTrigger", most_bytes)
        .load(log_dir)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(Path(work) / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(Path(work) / "rows"))
    )
    sys.stdout.write(f"{STARTED}\n")
    sys.stdout.flush()
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
