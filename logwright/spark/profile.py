"""One row for each log: what its staged segments amount to, by one Spark aggregation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, functions

from logwright.checks.model import OutputFacts, SegmentFacts

if TYPE_CHECKING:
    import pandas as pd

_TOTALS = ("source_records", "source_bytes", "expected_records", "expected_bytes")

SCHEMA = pa.schema(
    [
        *(
            (name, pa.string() if name == "topic_partition" else pa.int64())
            for name in SegmentFacts._fields
        ),
        *((name, pa.int64()) for name in _TOTALS),
    ]
)
"""SegmentFacts' fields, and the log's totals beside each of its segments."""


def segment_rows(log_key: str, facts: OutputFacts) -> list[dict[str, object]]:
    """The rows of one log, named by its key."""
    totals = {name: getattr(facts, name) for name in _TOTALS}
    return [segment._asdict() | totals | {"topic_partition": log_key} for segment in facts.segments]


def log_profiles(rows: Iterable[dict[str, object]], spark: SparkSession) -> pd.DataFrame:
    """Aggregate segment rows to one row for each log, named by `topic_partition`."""
    frame: DataFrame = spark.createDataFrame(pa.Table.from_pylist(list(rows), schema=SCHEMA))
    sums = (
        "log_bytes",
        "batches",
        "records",
        "tombstones",
        "null_key_records",
        "misplaced_index_entries",
    )
    most = (
        "last_offset",
        "max_timestamp_ms",
        "largest_batch_bytes",
        *_TOTALS,
    )
    aggregated = frame.groupBy("topic_partition").agg(
        functions.count("*").alias("segments"),
        functions.min("base_offset").alias("base_offset"),
        functions.max("log_bytes").alias("largest_segment_bytes"),
        # An empty segment has no batch, so no format and no codec either.
        functions.min(_of_batches("min_magic")).alias("min_magic"),
        functions.max(_of_batches("max_codec")).alias("max_codec"),
        *(functions.sum(name).alias(name) for name in sums),
        *(functions.max(name).alias(name) for name in most),
    )
    return aggregated.orderBy("topic_partition").toPandas()


def _of_batches(name: str) -> Column:
    return functions.when(functions.col("batches") > 0, functions.col(name))
