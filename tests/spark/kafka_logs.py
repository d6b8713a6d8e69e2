"""What the tests of kafka-log share: frames, their rows, and one log directory of all cases."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from logwright.errors import CorruptBatch, UncleanLogDir
from logwright.format.checkpoints import parse_offset_checkpoint, serialize_offset_checkpoint
from logwright.format.names import TopicPartition
from logwright.log.checkpoints import CHECKPOINT_FILES
from logwright.log.load import observe
from logwright.spark import register
from tests.fixtures import CASES, case_dir, partitions
from tests.plain_consumer import Row, arrow_rows

PUSH_DOWN = "spark.sql.python.filterPushdown.enabled"


def frame(spark: SparkSession, path: Path, schema: str | None = None, **options: str) -> DataFrame:
    """A frame of the topics of a log directory, all of them if none is named."""
    register(spark)
    reader = spark.read.format("kafka-log")
    if not {"subscribe", "assign", "subscribePattern"} & options.keys():
        options["subscribePattern"] = ".*"
    if schema is not None:
        reader = reader.schema(schema)
    return reader.options(**options).load(str(path))


def offsets(of: DataFrame) -> list[int]:
    """The offsets of a frame, sorted."""
    return sorted(row.offset for row in of.select("offset").collect())


def rows_by_topic(of: DataFrame) -> dict[str, list[Row]]:
    """The rows of a frame with headers, by topic, in their order."""
    table = of.toArrow()
    by_topic: dict[str, list[Row]] = {}
    for batch in table.to_batches():
        for topic, row in zip(batch["topic"].to_pylist(), arrow_rows([batch]), strict=True):
            by_topic.setdefault(topic, []).append(row)
    return by_topic


@contextmanager
def filters_pushed(spark: SparkSession) -> Iterator[None]:
    """Let Spark push filters down within the block."""
    spark.conf.set(PUSH_DOWN, "true")
    try:
        yield
    finally:
        spark.conf.set(PUSH_DOWN, "false")


def all_cases(log_dir: Path) -> list[TopicPartition]:
    """Copy the logs that Kafka wrote, as topics of one log directory named after their cases; those
    that must be recovered first are left out.
    """
    checkpoints: dict[str, dict[TopicPartition, int]] = {name: {} for name in CHECKPOINT_FILES}
    cases = []
    log_dir.mkdir()
    for case in CASES:
        source = case_dir(case) / "before"
        for number, partition in enumerate(partitions(case)):
            old = TopicPartition.parse(partition.name)
            assert old is not None
            try:
                observe(source, old, high_watermark="checkpoint")
            except (UncleanLogDir, CorruptBatch):
                continue
            new = TopicPartition(f"{case}.{number}", 0)
            shutil.copytree(source / partition.name, log_dir / new.directory_name)
            cases.append(new)
            for name, entries in checkpoints.items():
                path = source / name
                known = parse_offset_checkpoint(path.read_bytes(), path) if path.exists() else {}
                if old in known:
                    entries[new] = known[old]
    for name, entries in checkpoints.items():
        (log_dir / name).write_bytes(serialize_offset_checkpoint(entries))
    (log_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":0}')
    return cases
