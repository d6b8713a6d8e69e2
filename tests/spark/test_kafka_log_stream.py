"""A stream of kafka-log in Spark: micro-batches with a checkpoint, and what Spark shows of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from logwright.bucket.store import Bucket
from logwright.spark import register
from tests.bucket_maintenance.copies import put
from tests.spark_session import Observed
from tests.unit.spark.streams import ID, OTHER_ID, write_log

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:::pyspark.*"),
]


def run(
    spark: SparkSession, work: Path, where: str | None = None, **options: str
) -> StreamingQuery:
    """Read all that is there of a topic to files; once more with a checkpoint.

    Args:
        where: the log directory, another than in `work`.
    """
    register(spark)
    query = (
        spark.readStream.format("kafka-log")
        .options(subscribe="t", **options)
        .load(where or str(work / "logs"))
        .select("partition", "offset")
        .writeStream.format("parquet")
        .option("checkpointLocation", str(work / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(work / "rows"))
    )
    query.awaitTermination()
    return query


def offsets(spark: SparkSession, work: Path) -> list[tuple[int, int]]:
    """What the files have."""
    return sorted(map(tuple, spark.read.parquet(str(work / "rows")).collect()))


@pytest.mark.rotates(2)
def test_a_query_continues_where_it_was(observed: Observed, tmp_path: Path) -> None:
    """In micro-batches of the wanted size, to the end that there is; the next run reads what came
    since, and new partitions. The checkpoint has the offsets of Spark's Kafka source.
    """
    write_log(tmp_path / "logs")
    query = run(observed.spark, tmp_path, maxOffsetsPerTrigger="25")
    assert [25, 15] == [each.numInputRows for each in query.recentProgress if each.numInputRows]
    write_log(tmp_path / "logs", offsets=(0, 50), epochs=((0, 0), (4, 45)))
    write_log(tmp_path / "logs", "t-1", offsets=(0, 3))
    run(observed.spark, tmp_path)
    every = [*((0, n) for n in range(50)), *((1, n) for n in range(3))]
    assert every == offsets(observed.spark, tmp_path)
    planned = [json.loads(each.read_text().splitlines()[2]) for each in planned_in(tmp_path)]
    assert [{"0": 25}, {"0": 40}, {"0": 50, "1": 3}] == [each["t"] for each in planned]
    assert {"t": {"0": 50, "1": 3}, f"t#{ID}#0:4,1:0": {}} == planned[-1]


@pytest.mark.rotates(2)
def test_a_log_in_a_bucket(observed: Observed, tmp_path: Path) -> None:
    """As in a log directory: a query sees what was uploaded since, and that a topic was made again
    under the same name.
    """
    bucket = Bucket.of(f"file://{tmp_path}/bucket")
    write_log(tmp_path / "logs")
    put(tmp_path / "logs", bucket)
    query = run(observed.spark, tmp_path, bucket.url, maxOffsetsPerTrigger="25")
    assert [25, 15] == [each.numInputRows for each in query.recentProgress if each.numInputRows]
    run(observed.spark, tmp_path, bucket.url)
    write_log(tmp_path / "logs", offsets=(0, 50), epochs=((0, 0), (4, 45)))
    write_log(tmp_path / "logs", "t-1", offsets=(0, 3))
    put(tmp_path / "logs", bucket)
    run(observed.spark, tmp_path, bucket.url)
    every = [*((0, n) for n in range(50)), *((1, n) for n in range(3))]
    assert every == offsets(observed.spark, tmp_path)
    write_log(tmp_path / "again", offsets=(0, 45), topic_id=OTHER_ID)
    other = Bucket.of(f"file://{tmp_path}/other")
    put(tmp_path / "again", other)
    with pytest.raises(StreamingQueryException, match=r"DataLoss: .* t-0 was deleted and made"):
        run(observed.spark, tmp_path, other.url)


def planned_in(work: Path) -> list[Path]:
    """The checkpoint's log of offsets."""
    log = work / "checkpoint/offsets"
    return sorted((each for each in log.iterdir() if each.name.isdigit()), key=lambda at: at.name)


@pytest.mark.rotates(2)
def test_what_stops_a_query_is_named(observed: Observed, tmp_path: Path) -> None:
    """A wrong option, and records that are gone; on request it continues without them."""
    write_log(tmp_path / "logs")
    with pytest.raises(StreamingQueryException, match="option view is for a batch"):
        run(observed.spark, tmp_path, view="latest")
    run(observed.spark, tmp_path)
    write_log(tmp_path / "logs", offsets=(0, 45), topic_id=OTHER_ID)
    with pytest.raises(StreamingQueryException, match=r"DataLoss: .* t-0 was deleted and made"):
        run(observed.spark, tmp_path)
    run(observed.spark, tmp_path, failOnDataLoss="false")
    every = [*((0, n) for n in range(40)), *((0, n) for n in range(45))]
    assert sorted(every) == offsets(observed.spark, tmp_path)


def test_a_table_in_sparks_catalog(observed: Observed, tmp_path: Path) -> None:
    """Spark 4.3 forgets its options: with its own columns it can be made, and each query says where
    the log is. When this fails, CREATE TABLE with options may work.
    """
    write_log(tmp_path)
    register(observed.spark)
    options = f"(path = '{tmp_path}', subscribe = 't')"
    with pytest.raises(AnalysisException, match="CREATE TEMPORARY VIEW instead of CREATE TABLE"):
        observed.spark.sql(f"CREATE TABLE logs_of_t USING `kafka-log` OPTIONS {options}")
    columns, place = "partition int, offset bigint", f"LOCATION '{tmp_path}'"
    observed.spark.sql(f"CREATE TABLE logs_of_t ({columns}) USING `kafka-log` {place}")
    try:
        with pytest.raises(AnalysisException, match="a log directory is required"):
            observed.spark.sql("SELECT * FROM logs_of_t").collect()
        words = ("SELECT * FROM logs_of_t WITH", options)
        rows = observed.spark.sql(" ".join(words)).collect()
        assert [(0, n) for n in range(40)] == list(map(tuple, rows))
    finally:
        observed.spark.sql("DROP TABLE logs_of_t")
