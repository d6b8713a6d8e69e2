"""Micro-batches of a stream of kafka-log: each record once, and nothing that is gone unsaid."""

from __future__ import annotations

import json
import logging
import random
import shutil
import sys
from pathlib import Path

import pytest
from pyspark.sql import types as T  # noqa: N812 -- Spark's own convention
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from logwright.errors import DataLoss, PolicyError, StalePlan
from logwright.log.load import observe
from logwright.records.model import Isolation
from logwright.spark.kafka_log import KafkaLog
from logwright.spark.kafka_log_rows import SCHEMA
from logwright.spark.kafka_log_stream import StreamReader
from tests.log_builder import START_MS, LogBuilder
from tests.plain_consumer import consume
from tests.spark.kafka_logs import all_cases
from tests.unit.spark.streams import (
    ID,
    OTHER_ID,
    Query,
    all_available,
    columns_of,
    reader,
    rows_between,
    swapped,
    write_log,
)

pytestmark = pytest.mark.usefixtures("impatient")


@pytest.mark.parametrize(
    "isolation",
    ["read_committed", pytest.param("read_uncommitted", marks=pytest.mark.nightly)],
)
def test_each_record_comes_once(tmp_path: Path, isolation: Isolation, seed: int) -> None:
    """In micro-batches of random sizes, of new readers, of all logs that Kafka wrote: those of a
    consumer, in order.
    """
    draw, query, log_dir = random.Random(seed), Query(), tmp_path / "logs"
    partitions = all_cases(log_dir)
    for _ in range(3):
        limit = draw.choice(("maxOffsetsPerTrigger", "maxBytesPerTrigger"))
        options = {limit: str(draw.randrange(1, 100_000)), "includeHeaders": "true"}
        more = {"isolationLevel": isolation, "highWatermark": "checkpoint"}
        query.advance(reader(log_dir, **options, **more))
    query.drain(reader(log_dir, **more, minPartitions="20"))
    by_topic: dict[str, list[object]] = {}
    for topic, row in query.rows:
        by_topic.setdefault(topic, []).append(row)
    assert len(partitions) > 60
    for partition in partitions:
        log = observe(log_dir, partition, high_watermark="checkpoint")
        assert consume(log, isolation) == by_topic.pop(partition.topic, []), partition
    assert {} == by_topic


def test_a_limit_of_offsets_is_kept(tmp_path: Path) -> None:
    """Of all partitions together, in proportion; each advances."""
    write_log(tmp_path, "a-0", offsets=(0, 80))
    write_log(tmp_path, "b-0", offsets=(0, 40))
    query, stream = Query(), reader(tmp_path, maxOffsetsPerTrigger="30")
    assert ReadMaxRows(30) == stream.getDefaultReadLimit()
    assert [30, 30, 30, 30, 0] == [query.advance(stream) for _ in range(5)]
    assert {"a": [*range(80)], "b": [*range(40)]} == query.offsets
    assert 2 == Query().advance(reader(tmp_path, maxOffsetsPerTrigger="1"))


def test_a_limit_of_bytes_is_kept(tmp_path: Path) -> None:
    """About as many bytes of segments, and at least one batch."""
    write_log(tmp_path, "a-0", offsets=(0, 80))
    size = sum(path.stat().st_size for path in (tmp_path / "a-0").glob("*.log"))
    stream = reader(tmp_path, maxBytesPerTrigger=str(size // 8))
    assert ReadMaxBytes(size // 8) == stream.getDefaultReadLimit()
    query = Query()
    query.advance(stream)
    assert len(query.rows) in range(9, 14)
    query.drain(stream)
    assert {"a": [*range(80)]} == query.offsets
    assert query.batches in range(6, 10)
    tiny = Query().drain(reader(tmp_path, maxBytesPerTrigger="1"))
    assert {"a": [*range(80)]} == tiny.offsets
    assert tiny.batches in range(27, 81)


def test_both_limits_hold(tmp_path: Path) -> None:
    """The smaller one counts; a trigger that allows none gets all."""
    write_log(tmp_path)
    stream = reader(tmp_path, maxOffsetsPerTrigger="20", maxBytesPerTrigger="1")
    query = Query()
    assert query.advance(stream) in range(1, 5)
    assert {"0": 40} == all_available(stream, query.end or {})["t"]
    assert ReadAllAvailable() == reader(tmp_path).getDefaultReadLimit()


def test_available_now_ends(tmp_path: Path) -> None:
    """At the end that the logs had before, whatever comes meanwhile; new topics wait as well."""
    write_log(tmp_path)
    stream, query = reader(tmp_path, maxOffsetsPerTrigger="30"), Query()
    stream.prepareForTriggerAvailableNow()
    query.advance(stream)
    write_log(tmp_path, offsets=(0, 60))
    write_log(tmp_path, "u-0")
    assert [10, 0] == [query.advance(stream) for _ in range(2)]
    query.drain(reader(tmp_path))
    assert {"t": [*range(60)], "u": [*range(40)]} == query.offsets


def test_new_partitions_begin_at_their_start(tmp_path: Path) -> None:
    """Also those of new topics that a pattern matches, and whatever startingOffsets says."""
    write_log(tmp_path, "orders-0")
    query = Query()
    options = {"subscribePattern": "orders.*", "startingOffsets": "latest"}
    query.advance(reader(tmp_path, **options))
    assert {} == query.offsets
    write_log(tmp_path, "orders-1", offsets=(0, 3))
    write_log(tmp_path, "orders.eu-0", offsets=(0, 2))
    write_log(tmp_path, "bills-0")
    query.advance(reader(tmp_path, **options))
    assert {"orders": [0, 1, 2], "orders.eu": [0, 1]} == query.offsets


@pytest.mark.parametrize(
    ("starting", "first"),
    [
        ({}, 20),
        ({"startingOffsets": "earliest"}, 20),
        ({"startingOffsets": "latest"}, None),
        ({"startingOffsets": '{"t": {"0": -2}}'}, 20),
        ({"startingOffsets": '{"t": {"0": -1}}'}, None),
        ({"startingOffsets": '{"t": {"0": 33}}'}, 33),
        ({"startingOffsets": '{"t": {"0": 33}, "t#' + ID + '#0:0": {}}'}, 33),
        ({"startingTimestamp": str(START_MS + 35)}, 35),
        ({"startingOffsetsByTimestamp": '{"t": {"0": 0}}'}, 20),
        (
            {
                "startingTimestamp": str(START_MS + 99),
                "startingOffsetsByTimestampStrategy": "latest",
            },
            None,
        ),
    ],
)
def test_where_a_stream_begins(tmp_path: Path, starting: dict[str, str], first: int | None) -> None:
    """As Spark's Kafka source, but for the default, which is the earliest offset."""
    write_log(tmp_path, offsets=(20, 40))
    query = Query().drain(reader(tmp_path, **starting))
    assert ({} if first is None else {"t": [*range(first, 40)]}) == query.offsets


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"subscribe": "tt"}, "subscribe: tt not in the log directory. Did you mean t"),
        ({"startingOffsets": '{"t": {"0": 41}}'}, "offset 41 of t-0 is not between"),
        ({"startingOffsets": '{"t": {"1": 41}}'}, "has no value for t-0"),
        ({"startingTimestamp": str(START_MS + 99)}, "no record of t-0 has a timestamp"),
        ({"endingOffsets": "latest"}, "option endingOffsets is for a batch: read"),
        ({"view": "latest"}, "option view is for a batch"),
        ({"pushFilters": "true"}, "option pushFilters is for a batch"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger=0 is invalid"),
        ({"maxbytespertriger": "5"}, "Did you mean maxBytesPerTrigger"),
    ],
)
def test_wrong_options_of_a_stream(tmp_path: Path, options: dict[str, str], problem: str) -> None:
    """Each is refused by name where the stream begins."""
    write_log(tmp_path)
    with pytest.raises(PolicyError, match=problem):
        reader(tmp_path, **options).initialOffset()


def test_a_batch_has_no_options_of_a_stream(tmp_path: Path) -> None:
    """They would have no effect. The schema is asked for before it is known which of both it is."""
    write_log(tmp_path)
    for name, value in (("maxOffsetsPerTrigger", "5"), ("failOnDataLoss", "false")):
        source = KafkaLog({"path": str(tmp_path), "subscribe": "t", name: value})
        assert SCHEMA == source.schema()
        with pytest.raises(PolicyError, match=f"option {name} is for a stream: readStream"):
            source.reader(SCHEMA)


def test_a_schema_limits_the_columns_of_a_stream(tmp_path: Path) -> None:
    """As those of a batch; unknown ones are refused."""
    write_log(tmp_path)
    given = {"path": str(tmp_path), "subscribe": "t"}
    stream = StreamReader(given, T.StructType([SCHEMA["value"], SCHEMA["partition"]]))
    start = stream.initialOffset()
    end = all_available(stream, start)
    assert [("value", "partition")] == [*columns_of(stream, start, end)]
    unknown = StreamReader(given, T.StructType([T.StructField("x", T.StringType())]))
    with pytest.raises(PolicyError, match="the column x string"):
        unknown.initialOffset()


def test_a_pass_of_a_cleaner_does_not_matter(tmp_path: Path) -> None:
    """Neither between plan and task nor within a task: a micro-batch is planned by offsets."""
    builder = LogBuilder(tmp_path, "t-0")
    for base in (0, 20, 40):
        segment = builder.segment(base)
        for offset in range(base, base + 20):
            segment.batch(offset, [("k", b"v" * 200_000)])
    builder.write(index_interval=4096)
    stream = reader(tmp_path)
    start = stream.initialOffset()
    (task,) = stream.partitions(start, all_available(stream, start))
    swapped(tmp_path)
    offsets, batches = [], 0
    for batch in stream.read(task):
        offsets += batch["offset"].to_pylist()
        batches += 1
        swapped(tmp_path)
    assert [*range(60)] == offsets
    assert batches > 2


def test_a_repeated_micro_batch_has_the_same_rows(tmp_path: Path) -> None:
    """Whatever was appended since: its end is in the checkpoint."""
    write_log(tmp_path)
    stream = reader(tmp_path)
    start = stream.initialOffset()
    end = stream.latestOffset(start, ReadMaxRows(100))
    first = rows_between(stream, start, end)
    write_log(tmp_path, offsets=(0, 90))
    assert first == rows_between(reader(tmp_path, minPartitions="5"), start, end)


def test_no_offset_is_no_micro_batch(tmp_path: Path) -> None:
    """Also of a checkpoint without epochs and topic ids; Spark compares the text."""
    write_log(tmp_path, epochs=((0, 0), (3, 35)))
    start = {"t": {"0": 40}}
    assert start == all_available(reader(tmp_path), start)
    known = {"t": {"0": 40}, f"t#{ID}#0:3": {}}
    assert json.dumps(known) == json.dumps(all_available(reader(tmp_path), known))
    later = {"t": {"0": 30}, f"t#{ID}#0:0": {}}
    assert known == all_available(reader(tmp_path), later)
    stream = reader(tmp_path)
    assert stream.reportLatestOffset() is None
    assert known == all_available(stream, known)
    assert known == stream.reportLatestOffset()


def test_an_idle_stream_looks_once_a_second(tmp_path: Path) -> None:
    """Spark asks a hundred times."""
    write_log(tmp_path)
    stream = reader(tmp_path)
    end = all_available(stream, {"t": {"0": 40}})
    write_log(tmp_path, offsets=(0, 50))
    assert end == all_available(stream, end)
    assert {"0": 50} == all_available(reader(tmp_path), end)["t"]


AT_40 = {"t": {"0": 40}, f"t#{ID}#0:1": {}}


@pytest.mark.parametrize(
    ("log", "problem", "rest"),
    [
        ({"offsets": (45, 60)}, "begins at offset 45", [*range(45, 60)]),
        ({"offsets": (0, 5), "topic_id": OTHER_ID}, "made again", [*range(5)]),
        ({"offsets": (0, 60), "topic_id": OTHER_ID}, "made again", [*range(60)]),
        ({"offsets": (0, 30)}, "truncated to offset 30", []),
        (
            {"offsets": (0, 60), "epochs": ((1, 0), (2, 30))},
            "truncated to offset 30",
            [*range(30, 60)],
        ),
        (
            {"offsets": (35, 60), "epochs": ((2, 35),)},
            "truncated to offset 35",
            [*range(35, 60)],
        ),
        (None, "is gone", []),
    ],
)
def test_what_is_gone_is_a_failure(
    tmp_path: Path,
    log: dict[str, tuple[int, int]] | None,
    problem: str,
    rest: list[int],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """By name, both where the end is planned and where a planned micro-batch is repeated. On
    request the stream warns and continues with what is there: nothing of that is missed.
    """
    write_log(tmp_path, "u-0")
    write_log(tmp_path, epochs=((1, 0),))
    if log is None:
        shutil.rmtree(tmp_path / "t-0")
    else:
        write_log(tmp_path, **log)  # type: ignore[arg-type]  # one of its arguments each
    start = AT_40 | {"u": {"0": 40}}
    with pytest.raises(DataLoss, match=rf"are gone: t-0 .*{problem}.*failOnDataLoss=false"):
        all_available(reader(tmp_path), start)
    with pytest.raises(DataLoss, match="are gone: t-0 "):
        reader(tmp_path).partitions({"t": {"0": 10}, "u": {"0": 40}}, start)
    query = Query(end=start)
    with caplog.at_level(logging.WARNING):
        query.drain(reader(tmp_path, failOnDataLoss="false"))
    assert ({"t": rest} if rest else {}) == query.offsets
    assert problem in caplog.text
    query.drain(reader(tmp_path))
    assert ({"t": rest} if rest else {}) == query.offsets


def test_a_new_partition_that_does_not_begin_at_zero(tmp_path: Path) -> None:
    """Records were deleted before the stream saw it, as for Spark's Kafka source."""
    write_log(tmp_path)
    query = Query().drain(reader(tmp_path))
    write_log(tmp_path, "u-0", offsets=(20, 40))
    with pytest.raises(DataLoss, match="u-0 is new, and begins at offset 20"):
        query.advance(reader(tmp_path))
    query.drain(reader(tmp_path, failOnDataLoss="false"))
    assert {"t": [*range(40)], "u": [*range(20, 40)]} == query.offsets


def test_a_task_does_not_read_what_is_gone(tmp_path: Path) -> None:
    """It takes its own look: a topic that was made again since the plan is not the planned one."""
    for log, problem in (
        ({"topic_id": OTHER_ID}, "made again"),
        ({"offsets": (20, 40)}, "begins at offset 20"),
    ):
        write_log(tmp_path)
        stream = reader(tmp_path)
        (task,) = stream.partitions({}, all_available(stream, {}))
        write_log(tmp_path, **log)  # type: ignore[arg-type]  # as above
        with pytest.raises(DataLoss, match=problem):
            [*stream.read(task)]


def test_a_log_that_shows_less_is_waited_for(tmp_path: Path) -> None:
    """A planned end is not cut: with an older high watermark the micro-batch does not end early,
    and the next one does not go back.
    """
    write_log(tmp_path, high_watermark=40)
    stream = reader(tmp_path, highWatermark="checkpoint")
    start = stream.initialOffset()
    end = all_available(stream, start)
    (task,) = stream.partitions(start, end)
    write_log(tmp_path, high_watermark=30)
    assert end == all_available(reader(tmp_path, highWatermark="checkpoint"), end)
    with pytest.raises(StalePlan, match="shows fewer records than when"):
        stream.partitions(start, end)
    with pytest.raises(StalePlan, match="shows fewer records than when"):
        [*stream.read(task)]


def test_corrupt_batches_of_a_stream(tmp_path: Path) -> None:
    """They are skipped on request, with a report; the others come."""
    write_log(tmp_path / "logs")
    path = tmp_path / "logs/t-0" / f"{20:020d}.log"
    content = bytearray(path.read_bytes())
    content[content.index(b"t-0 25")] ^= 1
    path.write_bytes(content)
    skipping = {"onCorrupt": "skip", "corruptReport": str(tmp_path / "reports")}
    query = Query().drain(reader(tmp_path / "logs", **skipping))
    assert {"t": [*range(25), *range(26, 40)]} == query.offsets
    (report,) = (tmp_path / "reports").iterdir()
    assert 1 == json.loads(report.read_text())["corruptBatches"]


def test_a_table_of_sparks_catalog_is_refused(tmp_path: Path) -> None:
    """Spark would read it without options; what works is in the message."""
    given = {"path": str(tmp_path), "subscribe": "t", "owner": "me", "provider": "kafka-log"}
    with pytest.raises(PolicyError, match="CREATE TEMPORARY VIEW instead of CREATE TABLE"):
        KafkaLog(given).schema()


def test_an_older_spark_has_no_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it asks for first is refused by name, with what to use instead."""
    monkeypatch.delitem(sys.modules, "logwright.spark.kafka_log_stream")
    monkeypatch.setitem(sys.modules, "pyspark.sql.streaming.datasource", None)
    stream = KafkaLog({"path": str(tmp_path), "subscribe": "t"}).streamReader(SCHEMA)
    with pytest.raises(PolicyError, match=r"needs Spark 4\.2") as raised:
        stream.initialOffset()
    assert 'Use spark.read.format("kafka-log")' in str(raised.value)
