"""Rows of kafka-log: those of a consumer, and no more of the log read than they need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention
from pyspark.sql import types as T  # noqa: N812

from logwright.errors import PolicyError, Unsettled
from logwright.format.names import TopicPartition
from logwright.locks import release, try_lock
from logwright.log.load import observe
from logwright.records.model import Isolation
from logwright.spark.kafka_log import KafkaLog
from logwright.spark.kafka_log_rows import SCHEMA
from tests.fixtures import copy_before
from tests.latest_rows import replayed
from tests.log_builder import START_MS, LogBuilder
from tests.plain_consumer import consume
from tests.sequences.reading import read_content
from tests.spark.kafka_logs import (
    PUSH_DOWN,
    all_cases,
    filters_pushed,
    frame,
    offsets,
    rows_by_topic,
)
from tests.spark_session import Observed
from tests.tidy.trees import ROOT

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:::pyspark.*"),
]

SECRET = "a-secret-value"  # noqa: S105 -- for what must not be shown


def three_logs(log_dir: Path) -> Path:
    """Three partitions with 40 records each, a batch for each record."""
    for number in range(3):
        builder = LogBuilder(log_dir, f"t-{number}")
        for base in (0, 20):
            segment = builder.segment(base)
            for offset in range(base, base + 20):
                segment.batch(offset, [(f"k{offset % 7}", f"{SECRET} {offset}" + "." * 300)])
        builder.write(index_interval=1)
    return log_dir


def damaged(log_dir: Path) -> tuple[Path, int]:
    """Change a byte of the batch at offset 25 of t-1; return its file and position."""
    path = log_dir / "t-1" / f"{20:020d}.log"
    content = bytearray(path.read_bytes())
    position = content.index(f"{SECRET} 25".encode())
    start = content.rindex((25).to_bytes(8, "big"), 0, position)
    content[position] ^= 1
    status = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    return path, start


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One log directory with the logs of all cases."""
    log_dir = tmp_path_factory.mktemp("cases") / "logs"
    all_cases(log_dir)
    return log_dir


@pytest.mark.rotates(2)
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_rows_are_those_of_a_consumer(
    observed: Observed, cases: Path, isolation: Isolation
) -> None:
    """Key, value, offset, time and headers of all logs that Kafka wrote, in order."""
    options = {"isolationLevel": isolation, "includeHeaders": "true", "minPartitions": "150"}
    by_topic = rows_by_topic(frame(observed.spark, cases, highWatermark="checkpoint", **options))
    topics = [path for path in sorted(cases.iterdir()) if path.is_dir()]
    assert len(topics) > 60
    for path in topics:
        partition = _partition(path.name)
        log = observe(cases, partition, high_watermark="checkpoint")
        if not partition.topic.startswith("__"):
            assert consume(log, isolation) == by_topic.pop(partition.topic, [])
    assert {} == by_topic


def _partition(name: str) -> TopicPartition:
    partition = TopicPartition.parse(name)
    assert partition is not None
    return partition


def test_schema_is_that_of_sparks_kafka_source(observed: Observed, tmp_path: Path) -> None:
    """Names, types and order; headers on request."""
    path = three_logs(tmp_path)
    ddl = (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,"
        "timestamp:timestamp,timestampType:int"
    )
    log = frame(observed.spark, path)
    assert f"{ddl}>" == log.schema.simpleString()
    assert all(field.nullable for field in log.schema.fields)
    with_headers = frame(observed.spark, path, includeHeaders="true").schema
    assert f"{ddl},headers:array<struct<key:string,value:binary>>>" == with_headers.simpleString()


def test_a_schema_limits_the_columns(observed: Observed, tmp_path: Path) -> None:
    """Only its columns are read, in its order; others are refused by name."""
    path = three_logs(tmp_path)
    some = frame(observed.spark, path, schema="offset long, topic string", assign='{"t":[1]}')
    assert [(offset, "t") for offset in range(40)] == sorted(map(tuple, some.collect()))
    reader = KafkaLog({"path": str(path), "subscribe": "t"}).reader(
        T.StructType([SCHEMA["offset"]])
    )
    batches = [batch for task in reader.partitions() for batch in reader.read(task)]
    assert [("offset",)] * 3 == [tuple(batch.schema.names) for batch in batches]  # type: ignore[union-attr]  # Spark also takes tuples
    for schema, problem in (
        ("offset int", "offset int, which is of type bigint"),
        ("ofset long", "ofset bigint, which is unknown"),
    ):
        with pytest.raises(AnalysisException, match=problem):
            frame(observed.spark, path, schema=schema).count()


def test_tasks_are_made_by_bytes(observed: Observed, tmp_path: Path) -> None:
    """Small logs share a task; a number of tasks can be asked for."""
    path = three_logs(tmp_path)
    wanted: list[tuple[dict[str, str], range]] = [
        ({}, range(1, 2)),
        ({"minPartitions": "3"}, range(3, 4)),
        ({"minPartitions": "6"}, range(6, 12)),
        ({"maxRecordsPerPartition": "10"}, range(12, 13)),
    ]
    for options, tasks in wanted:
        assert 120 == len(frame(observed.spark, path, **options).collect())
        assert observed.tasks()[-1] in tasks


def test_filters_decide_what_is_read(observed: Observed, tmp_path: Path) -> None:
    """Partitions and offsets need no filter of Spark's any more, and make fewer tasks; times do."""
    path = three_logs(tmp_path)
    more = {"minPartitions": "6", "pushFilters": "true"}
    with filters_pushed(observed.spark):
        for condition, wanted, exact in (
            ("partition = 1", 40, True),
            ("partition IN (0, 2) AND offset >= 25 AND offset < 27", 4, True),
            ("topic = 'u'", 0, True),
            (f"timestamp >= timestamp_millis({START_MS + 30})", 30, False),
            ("length(value) > 5", 120, False),
        ):
            filtered = frame(observed.spark, path, **more).where(condition)
            plan = filtered._jdf.queryExecution().executedPlan().toString()
            assert exact == ("Filter (" not in plan)
            assert wanted == len(filtered.collect())
        filtered = frame(observed.spark, path, **more).where("partition = 1 AND offset >= 38")
        assert [38, 39] == offsets(filtered)
        assert observed.tasks()[-1] < 6


def test_without_the_option_filters_are_sparks(observed: Observed, tmp_path: Path) -> None:
    """The same rows, whatever Spark's setting is; with the option Spark demands its setting."""
    path = three_logs(tmp_path)
    wanted = frame(observed.spark, path).where("partition = 1 AND offset > 37")
    assert [38, 39] == offsets(wanted)
    with filters_pushed(observed.spark):
        assert [38, 39] == offsets(frame(observed.spark, path).where("partition=1 AND offset>37"))
    with pytest.raises(AnalysisException, match=PUSH_DOWN):
        frame(observed.spark, path, pushFilters="true").count()


def test_spark_mixes_pushed_filters_of_one_frame(observed: Observed, tmp_path: Path) -> None:
    """Why `pushFilters` is off by default: Spark 4.3 keeps the last pushed filters with the frame,
    and other queries of it lose rows. When this fails, the option has no reason any more.
    """
    path = three_logs(tmp_path)
    with filters_pushed(observed.spark):
        pushed = frame(observed.spark, path, pushFilters="true")
        both = pushed.where("partition = 0").unionAll(pushed.where("partition = 1"))
        assert {1} == {row.partition for row in both.collect()}
        assert 40 == pushed.count()
        safe = frame(observed.spark, path)
        both = safe.where("partition = 0").unionAll(safe.where("partition = 1"))
        assert {0, 1} == {row.partition for row in both.collect()}
        assert 120 == safe.count()


def test_a_log_that_changes_after_it_was_planned(observed: Observed, tmp_path: Path) -> None:
    """A frame keeps its plan, so a changed log is refused by name; another load reads it."""
    path = three_logs(tmp_path)
    log = frame(observed.spark, path)
    assert (120, 120) == (log.count(), log.count())
    changed = path / "t-2" / f"{20:020d}.log"
    with changed.open("ab") as file:
        file.write(LogBuilder(path).segment(40).batch(40, [("k", "v")]).content)
    with pytest.raises(PythonException, match=r"StalePlan: .*00020\.log: .* Load it again\."):
        log.count()
    assert 121 == frame(observed.spark, path).count()


def test_a_running_broker_refuses_a_latest_state(observed: Observed, tmp_path: Path) -> None:
    """The error names the lock; without the broker the same frame can be read."""
    path = three_logs(tmp_path)
    with (path / ".lock").open("wb") as file:
        assert try_lock(file.fileno(), "exclusive")
        with pytest.raises(AnalysisException, match=r"LogDirLocked: .*\.lock: a broker"):
            frame(observed.spark, path, view="latest").count()
        release(file.fileno())
    assert 21 == frame(observed.spark, path, view="latest").count()


def test_a_broker_may_start_while_a_task_reads(tmp_path: Path) -> None:
    """It gets the lock; the task ends with that. The next one reads next to it."""
    path = three_logs(tmp_path)
    (path / ".lock").touch()
    reader = KafkaLog({"path": str(path), "subscribe": "t"}).reader(SCHEMA)
    (task,) = reader.partitions()
    with (path / ".lock").open("r+b") as file:
        batches = reader.read(task)
        next(batches)
        assert try_lock(file.fileno(), "exclusive")
        with pytest.raises(Unsettled, match="a broker"):
            list(batches)
        release(file.fileno())
    assert 3 == len(list(reader.read(task)))


def test_a_corrupt_batch_is_refused_by_name(observed: Observed, tmp_path: Path) -> None:
    """File and position, and nothing of the record."""
    path = three_logs(tmp_path)
    file, position = damaged(path)
    with pytest.raises(PythonException) as refused:
        frame(observed.spark, path).count()
    text = str(refused.value)
    assert f"CorruptBatch: {file} at byte {position}: " in text
    assert SECRET not in text


def test_corrupt_batches_are_skipped_and_counted(observed: Observed, tmp_path: Path) -> None:
    """On request; a file for each range says what is missing."""
    path = three_logs(tmp_path / "logs")
    file, position = damaged(path)
    reports = tmp_path / "reports"
    skipping = frame(observed.spark, path, onCorrupt="skip", corruptReport=str(reports))
    rows = {(row.partition, row.offset) for row in skipping.collect()}
    assert {(1, 25)} == {(n, offset) for n in range(3) for offset in range(40)} - rows
    (report,) = reports.iterdir()
    content = json.loads(report.read_text())
    size = int.from_bytes(file.read_bytes()[position + 8 : position + 12], "big") + 12
    assert {
        "topicPartition": "t-1",
        "startOffset": 0,
        "endOffset": 40,
        "corruptBatches": 1,
        "corruptBytes": size,
        "firstFile": str(file),
        "firstPosition": position,
        "firstOffset": 25,
    } == content


def test_the_latest_state(observed: Observed, tmp_path: Path) -> None:
    """The newest record of each key, now and as of an offset; one task for each partition."""
    path = copy_before("txn-1-mixed", tmp_path)
    content = read_content(path, "t-0")
    latest = frame(observed.spark, path, view="latest")
    keep = [(row[0], row[1], row[2]) for row in replayed(content)]
    assert keep == [(row.key, row.value, row.offset) for row in map(_bytes, latest.collect())]
    with_tombstones = frame(observed.spark, path, view="latest", includeTombstones="true")
    assert len(replayed(content, tombstones=True)) == with_tombstones.count()
    logs = three_logs(tmp_path / "three")
    as_of = frame(
        observed.spark, logs, view="latest", asOfOffset='{"t": {"0": 3, "1": 10, "2": -1}}'
    )
    counts = {row.partition: row["count"] for row in as_of.groupBy("partition").count().collect()}
    assert {0: 3, 1: 7, 2: 7} == counts
    as_of.collect()
    assert 3 == observed.tasks()[-1]


def _bytes(row: T.Row) -> T.Row:
    return T.Row(key=bytes(row.key), value=bytes(row.value), offset=row.offset)


def test_wrong_options_are_refused_where_the_frame_is_made(
    observed: Observed, tmp_path: Path
) -> None:
    """By name, with the nearest valid one."""
    path = three_logs(tmp_path)
    with pytest.raises(AnalysisException, match=r"startingofsets.* mean startingOffsets"):
        frame(observed.spark, path, startingOfsets="earliest")
    with pytest.raises(AnalysisException, match=r"subscribe: tt not in .* mean t"):
        frame(observed.spark, path, subscribe="tt").count()
    with pytest.raises(PolicyError):
        KafkaLog({"path": str(path)}).schema()


def test_large_record_batches_pass_as_they_are(observed: Observed, tmp_path: Path) -> None:
    """Spark's limit of rows in an Arrow batch is not for the batches of a data source."""
    builder = LogBuilder(tmp_path)
    segment = builder.segment(0)
    for base in range(0, 30_000, 1000):
        segment.batch(base, [(None, "v")] * 1000)
    builder.write()
    observed.spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    try:
        assert 30_000 == frame(observed.spark, tmp_path).agg(F.count("value")).collect()[0][0]
    finally:
        observed.spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


@pytest.mark.rotates(2)
def test_spark_finds_the_format_by_itself(tmp_path: Path) -> None:
    """Where the package is on the Python path, without registration, and with SQL."""
    path = three_logs(tmp_path)
    script = """
import sys
from logwright.spark.session import local_session
with local_session() as spark:
    spark.sql(
        "CREATE TEMPORARY VIEW t USING `kafka-log` OPTIONS (path :path, subscribe 't')",
        {"path": sys.argv[1]},
    )
    print(spark.sql("SELECT count(*) FROM t WHERE partition = 1").collect()[0][0])
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "40" == done.stdout.strip()
