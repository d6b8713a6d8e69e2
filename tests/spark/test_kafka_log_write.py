"""Frames written by kafka-log: all rows once or none, in the files of an ingest."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention

from logwright.config.kept import read_kept
from logwright.config.topic import parse_settings
from logwright.errors import LogDirLocked, PolicyError, RefusedRecord, StalePlan
from logwright.format.names import SPOOL, TopicPartition
from logwright.locks import lock_partition, release, try_lock
from logwright.spark import register
from logwright.spark.append import Target
from logwright.spark.ingest import ingest_frame
from logwright.spark.kafka_log import KafkaLog
from logwright.spark.kafka_log_write import ABANDONED_SECONDS, LogWriter, make_writer
from logwright.units import TimestampMs
from logwright.verify.partition import verify_partition
from tests.spark.kafka_logs import frame, rows_by_topic
from tests.spark_session import Observed

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:::pyspark.*"),
]

NOW = 1_760_020_000_000
OLD = {"config.message.timestamp.before.max.ms": str(2**62)}


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """An empty directory."""
    path = tmp_path / "logs"
    path.mkdir()
    return path


def rows(observed: Observed, count: int = 1000) -> DataFrame:
    """Keys, values, headers and times, in three tasks."""
    number = F.col("id")
    header = F.struct(F.lit("source").alias("key"), F.lit("crm").cast("binary").alias("value"))
    return observed.spark.range(0, count, 1, 3).select(
        F.concat(F.lit("k"), (number % 50).cast("string")).alias("key"),
        F.when(number % 9 != 0, F.concat(F.lit("v"), number.cast("string"))).alias("value"),
        F.when(number % 2 == 0, F.array(header)).alias("headers"),
        F.timestamp_millis(number + NOW).alias("timestamp"),
    )


def write(of: DataFrame, path: Path, mode: str = "append", **options: str) -> None:
    register(of.sparkSession)
    of.write.format("kafka-log").options(**(OLD | options)).mode(mode).save(str(path))


def left_over(path: Path) -> list[str]:
    """Files of writes in a log directory."""
    return [one.name for one in path.iterdir() if one.name.startswith(SPOOL)]


def written(observed: Observed, path: Path) -> int:
    return frame(observed.spark, path).count() if any(path.glob("*-*/*.log")) else 0


def test_what_is_written_is_read(observed: Observed, logs: Path) -> None:
    """Every column of every row, in the order of each key; the log is as a broker leaves it."""
    given = rows(observed)
    write(given, logs, topic="t", partitions="3")
    stored = frame(observed.spark, logs, includeHeaders="true")
    columns = ["key", "value", "headers", "timestamp"]
    expected = given.withColumn("key", F.col("key").cast("binary"))
    expected = expected.withColumn("value", F.col("value").cast("binary"))
    assert 0 == expected.exceptAll(stored.select(columns)).count()
    assert 1000 == stored.count()
    for partition in range(3):
        assert [] == verify_partition(logs, TopicPartition("t", partition))
    assert [] == left_over(logs)


def test_the_logs_are_those_of_an_ingest(observed: Observed, logs: Path, tmp_path: Path) -> None:
    """The same files, byte for byte: partitioning, batching and placing are the ingest's own."""
    given = rows(observed)
    now = {"config.message.timestamp.type": "CreateTime"}
    write(given, logs, topic="t", partitions="3", **now)
    other = tmp_path / "other"
    other.mkdir()
    config, _ = parse_settings({"message.timestamp.before.max.ms": str(2**62)})
    target = Target(
        log_dir=other,
        topic="t",
        partitions={"t": 3},
        settings={"t": config},
        ingest_id="one",
        now_ms=TimestampMs(NOW),
    )
    ingest_frame(given, target)
    for path in other.glob("t-*/0*"):
        assert path.read_bytes() == (logs / path.relative_to(other)).read_bytes(), path.name
    assert 3 == len(list(logs.glob("t-*/*.log")))


def test_rows_name_their_topic_and_partition(observed: Observed, logs: Path) -> None:
    """Only topics that exist; a partition of a row's own; null values are tombstones."""
    write(rows(observed, 9), logs, topic="t", partitions="2")
    write(rows(observed, 9), logs, topic="u", partitions="1")
    before = rows_by_topic(frame(observed.spark, logs, includeHeaders="true"))
    rows_written = observed.spark.createDataFrame(
        [("t", 1, "a", "b"), ("u", None, "c", None)],
        "topic string, partition int, key string, value string",
    )
    write(rows_written, logs)
    by_topic = rows_by_topic(frame(observed.spark, logs, includeHeaders="true"))
    assert [(b"a", b"b")] == [row[:2] for row in set(by_topic["t"]) - set(before["t"])]
    assert [(b"c", None)] == [row[:2] for row in by_topic["u"][len(before["u"]) :]]
    with pytest.raises(PythonException, match="RefusedRecord: a row has a topic or partition"):
        write(rows_written.withColumn("topic", F.lit("nowhere")), logs)


@pytest.mark.parametrize(
    ("change", "options", "problem"),
    [
        ({"foo": "1"}, {"topic": "t"}, "the column foo int: no column of a record has this name"),
        ({"key": "1"}, {"topic": "t"}, "the column key int: no column of a record has this type"),
        ({}, {}, "rows have no column topic"),
        ({}, {"topic": "t"}, "topic t does not exist, and no partition count was given"),
        ({}, {"topic": "t", "partition": "1"}, "unknown option partition"),
        ({}, {"topic": "t", "partitions": "1", "config.cleanup.polic": "x"}, "cleanup.polic"),
    ],
)
def test_a_write_that_cannot_be(
    observed: Observed, logs: Path, change: dict[str, str], options: dict[str, str], problem: str
) -> None:
    """It is refused by name before there is a task, and changes nothing."""
    given = rows(observed, 9)
    for name, value in change.items():
        given = given.withColumn(name, F.expr(value))
    jobs = len(observed.tasks())
    with pytest.raises(AnalysisException, match=problem):
        write(given, logs, **options)
    assert jobs == len(observed.tasks())
    assert [] == list(logs.glob("t-*"))


def test_nothing_is_overwritten(observed: Observed, logs: Path) -> None:
    """A mode that would delete records is refused."""
    write(rows(observed, 9), logs, topic="t", partitions="1")
    with pytest.raises(AnalysisException, match="the mode overwrite would delete records"):
        write(rows(observed, 9), logs, mode="overwrite", topic="t")
    assert 9 == written(observed, logs)


def test_a_refused_row_leaves_everything_as_it_was(observed: Observed, logs: Path) -> None:
    """One too large record of 1,000: no partition has any of them, and no file is left."""
    write(rows(observed, 9), logs, topic="t", partitions="3")
    secret = "secret" * 1000
    large = rows(observed).withColumn(
        "value", F.when(F.col("value") == "v777", secret).otherwise(F.col("value"))
    )
    with pytest.raises(
        AnalysisException, match=r"bytes are more than max\.message\.bytes"
    ) as refused:
        write(large, logs, topic="t", **{"config.max.message.bytes": "2000"})
    assert secret not in str(refused.value)
    with pytest.raises(PythonException, match="topic or partition that does not exist"):
        write(rows(observed).withColumn("partition", F.lit(7)), logs, topic="t")
    assert 9 == written(observed, logs)
    assert [] == left_over(logs)
    assert [] == list(logs.glob("t-*/.logwright/staging/*"))


def test_a_running_broker_refuses_the_write(observed: Observed, logs: Path) -> None:
    """Before there is a task."""
    write(rows(observed, 9), logs, topic="t", partitions="1")
    with (logs / ".lock").open("r+b") as file:
        assert try_lock(file.fileno(), "exclusive")
        with pytest.raises(AnalysisException, match=r"LogDirLocked: .*\.lock: a broker"):
            write(rows(observed, 9), logs, topic="t")
        release(file.fileno())
    assert 9 == written(observed, logs)


def test_a_repeated_write_appends_nothing(observed: Observed, logs: Path) -> None:
    """With the same id, also after a part of it was committed; another id appends after it."""
    once = {"topic": "t", "partitions": "3", "ingestId": "one"}
    write(rows(observed, 9), logs, topic="t", partitions="3")
    with lock_partition(logs, TopicPartition("t", 1)), pytest.raises(AnalysisException):
        write(rows(observed), logs, **once)
    assert 9 < written(observed, logs) < 1009
    assert [] == left_over(logs)
    for _ in range(2):
        write(rows(observed), logs, **once)
        assert 1009 == written(observed, logs)
    write(rows(observed), logs, **(once | {"ingestId": "two"}))
    assert 2009 == written(observed, logs)
    with pytest.raises(AnalysisException, match="the ingestId one is of the topic t"):
        write(rows(observed), logs, **(once | {"topic": "u"}))


def test_settings_are_used_and_kept(observed: Observed, logs: Path) -> None:
    """Those that the write gives, as by `ingest --config`."""
    given = {"config.cleanup.policy": "compact", "compression": "lz4"}
    write(rows(observed, 99), logs, topic="t", partitions="1", **given)
    assert "compact" == read_kept(logs)["t"].configs["cleanup.policy"]
    codec = (logs / "t-0" / f"{0:020d}.log").read_bytes()[22]
    assert 3 == codec
    with pytest.raises(AnalysisException, match="it has no key, which a compacted topic requires"):
        write(rows(observed, 9).drop("key"), logs, topic="t")


# The writer by itself: what Spark's scheduler does with attempts of tasks.


def a_writer(observed: Observed, logs: Path, **options: str) -> LogWriter:
    given = {"path": str(logs), "topic": "t", "partitions": "3"} | OLD | options
    return make_writer(given, rows(observed, 9).schema, overwrite=False)


def batches(observed: Observed, count: int = 90) -> list[pa.RecordBatch]:
    """Rows as a task gets them."""
    made: list[pa.RecordBatch] = rows(observed, count).toArrow().to_batches(max_chunksize=7)
    return made


def test_an_attempt_that_does_not_count_is_not_there(observed: Observed, logs: Path) -> None:
    """Speculation and retries: what Spark does not pass to the commit is not appended."""
    writer = a_writer(observed, logs)
    made = batches(observed)
    writer.write(iter(made))
    counted = writer.write(iter(made))
    writer.write(iter(made))
    assert 3 == len(left_over(logs))
    writer.commit([counted])
    assert 90 == written(observed, logs)
    assert [] == left_over(logs)


def test_an_abort_leaves_nothing(observed: Observed, logs: Path) -> None:
    """Neither files nor partitions."""
    writer = a_writer(observed, logs)
    done = writer.write(iter(batches(observed)))
    writer.abort([done, None])
    assert [] == left_over(logs)
    assert [] == list(logs.glob("t-*"))


def test_a_task_that_fails_removes_its_file(observed: Observed, logs: Path) -> None:
    """Whatever has failed."""

    def failing() -> Iterator[pa.RecordBatch]:
        yield batches(observed)[0]
        raise ValueError("the frame's own error")

    writer = a_writer(observed, logs)
    with pytest.raises(ValueError, match="the frame's own error"):
        writer.write(failing())
    wrong = batches(observed)[0].append_column("partition", pa.repeat(pa.scalar(5, pa.int32()), 7))
    with pytest.raises(RefusedRecord):
        writer.write(iter([wrong]))
    assert [] == left_over(logs)


def test_rows_that_are_gone_are_noticed(observed: Observed, logs: Path) -> None:
    """A file that somebody removed: nothing is appended."""
    writer = a_writer(observed, logs)
    done = writer.write(iter(batches(observed)))
    (logs / left_over(logs)[0]).unlink()
    with pytest.raises(StalePlan, match="the rows of a task are gone"):
        writer.commit([done])
    assert [] == list(logs.glob("t-*/*.log"))


def test_a_broker_that_starts_meanwhile_stops_it(observed: Observed, logs: Path) -> None:
    """Tasks and the commit look again."""
    writer = a_writer(observed, logs)
    done = writer.write(iter(batches(observed)))
    (logs / ".lock").touch()
    with (logs / ".lock").open("r+b") as file:
        assert try_lock(file.fileno(), "exclusive")
        with pytest.raises(LogDirLocked):
            writer.write(iter(batches(observed)))
        with pytest.raises(LogDirLocked):
            writer.commit([done])
        release(file.fileno())
    assert [] == list(logs.glob("t-*/*.log"))


def test_files_of_a_driver_that_died(observed: Observed, logs: Path) -> None:
    """They are removed after a week; younger ones may be in use."""
    a_writer(observed, logs).write(iter(batches(observed)))
    a_writer(observed, logs).write(iter(batches(observed)))
    old, young = (logs / name for name in left_over(logs))
    long_ago = time.time() - ABANDONED_SECONDS - 60
    os.utime(old, (long_ago, long_ago))
    a_writer(observed, logs)
    assert [young.name] == left_over(logs)


def test_the_source_asks_for_a_mode(observed: Observed, logs: Path) -> None:
    """By its own method, as Spark calls it."""
    with pytest.raises(PolicyError, match=r'mode\("append"\)'):
        KafkaLog({"path": str(logs)}).writer(rows(observed, 9).schema, overwrite=True)
