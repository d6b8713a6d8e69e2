"""Rows of files into logs, through Spark: order, partitions, and no row twice or never."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from logwright.config.kept import read_kept
from logwright.config.policies import Policies
from logwright.config.resolved import Sources, settings_of
from logwright.config.sources import read_sources
from logwright.config.topic import parse_settings
from logwright.errors import LogDirLocked, PolicyError, RefusedRecord
from logwright.format.kept_topics import KeptTopic
from logwright.format.names import TopicPartition
from logwright.ingest.ledger import list_input, next_run
from logwright.ingest.model import Appended
from logwright.locks import lock_partition
from logwright.spark.append import Target
from logwright.spark.ingest import ingest_frame, read_input
from logwright.spark.intake import Source, ingest_files
from logwright.units import TimestampMs
from tests.ingested import read_batches
from tests.metadata_builder import uuid_text
from tests.spark_session import Observed

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:::pyspark.*"),
]

NOW = 1_760_020_000_000


def write_rows(path: Path, rows: list[dict[str, object]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def target(log_dir: Path, *, partitions: int = 3, ingest_id: str = "one", **pairs: str) -> Target:
    log_dir.mkdir(exist_ok=True)
    config, _ = parse_settings({name.replace("_", "."): value for name, value in pairs.items()})
    return Target(
        log_dir=log_dir,
        topic="t",
        partitions={"t": partitions},
        settings={"t": config},
        ingest_id=ingest_id,
        now_ms=TimestampMs(NOW),
    )


def ingest(spark: SparkSession, to: Target, *paths: Path, form: str = "json") -> list[Appended]:
    return ingest_frame(read_input(spark, [str(path) for path in paths], form, {}), to)


def values(log_dir: Path, partition: int) -> list[bytes | None]:
    return [
        record.value
        for batch in read_batches(log_dir, partition=f"t-{partition}")
        for record in batch.records
    ]


def test_rows_keep_their_order_and_go_where_their_keys_say(
    observed: Observed, tmp_path: Path
) -> None:
    """Many files, many rows: file by file, row by row; keys as Kafka's producers place them."""
    random = Random(1)
    rows: list[dict[str, object]] = [
        {"key": f"k{random.randrange(50)}", "value": f"v{number}", "timestamp": NOW - number}
        for number in range(3000)
    ]
    for number in range(6):
        part = rows[number * 500 : (number + 1) * 500]
        write_rows(tmp_path / "in" / f"{number}.json", part)
    done = ingest(observed.spark, target(tmp_path / "logs"), tmp_path / "in")

    assert [0, 1, 2] == [one.partition.partition for one in done]
    assert 3000 == sum(one.records for one in done)
    order = {f"v{number}".encode(): number for number in range(3000)}
    for intake in done:
        stored = values(tmp_path / "logs", intake.partition.partition)
        numbers = [order[value] for value in stored if value is not None]
        assert intake.records == len(stored) == len(numbers)
        assert numbers == sorted(numbers)
    # murmur2("k1") and so on, by Kafka's DefaultPartitioner: a key is in one partition only.
    keys = [
        {r.key for b in read_batches(tmp_path / "logs", partition=f"t-{p}") for r in b.records}
        for p in range(3)
    ]
    assert [] == [one for one in keys[0] | keys[1] | keys[2] if sum(one in k for k in keys) > 1]


def test_explicit_partitions_nulls_headers_and_nested_values(
    observed: Observed, tmp_path: Path
) -> None:
    """All columns of Spark's Kafka sink."""
    headers = [{"key": "source", "value": "crm"}, {"key": "empty", "value": None}]
    rows: list[dict[str, object]] = [
        {"key": "a", "value": {"n": 1}, "partition": 2, "headers": headers, "timestamp": NOW},
        {"key": "a", "value": None, "partition": 2},
        {"key": None, "value": {"n": "3"}, "partition": 2, "timestamp": "2025-10-09T10:00:00Z"},
    ]
    path = write_rows(tmp_path / "rows.json", rows)
    ingest(observed.spark, target(tmp_path / "logs"), path)
    (batch,) = read_batches(tmp_path / "logs", partition="t-2")
    first, two, three = batch.records
    assert (b"a", b'{"n":"1"}', NOW) == (first.key, first.value, first.timestamp_ms)
    pairs = [(header.key, header.value) for header in first.headers]
    assert [(b"source", b"crm"), (b"empty", None)] == pairs
    assert (b"a", None, NOW, ()) == (two.key, two.value, two.timestamp_ms, two.headers)
    assert (None, b'{"n":"3"}', 1_760_004_000_000) == (three.key, three.value, three.timestamp_ms)


def test_a_repeated_run_appends_nothing(observed: Observed, tmp_path: Path) -> None:
    """The same id; another id appends after it."""
    path = write_rows(tmp_path / "rows.json", [{"key": str(n), "value": "v"} for n in range(100)])
    logs = tmp_path / "logs"
    first = ingest(observed.spark, target(logs), path)
    again = ingest(observed.spark, target(logs), path)
    assert [one.records for one in first] == [one.records for one in again]
    assert all(one.repeated for one in again)
    assert 100 == sum(len(values(logs, number)) for number in range(3))
    other = ingest(observed.spark, target(logs, ingest_id="two"), path)
    assert [one.end_offset for one in first] == [one.first_offset for one in other]
    assert 200 == sum(len(values(logs, number)) for number in range(3))


def test_partitions_that_were_done_are_not_done_again(observed: Observed, tmp_path: Path) -> None:
    """A run that ends between two partitions: the next one does the rest, whatever was there."""
    path = write_rows(tmp_path / "rows.json", [{"key": str(n), "value": "v"} for n in range(100)])
    logs = tmp_path / "logs"
    ingest(observed.spark, target(logs, ingest_id="before"), path)
    held = lock_partition(logs, TopicPartition("t", 1))
    with held, pytest.raises(LogDirLocked):
        ingest(observed.spark, target(logs), path)
    before = [len(values(logs, number)) for number in range(3)]
    assert 100 < sum(before) < 200
    done = ingest(observed.spark, target(logs), path)
    assert [True, False, False] == [one.repeated for one in done]
    assert 200 == sum(len(values(logs, number)) for number in range(3))


def test_a_refused_row_stops_all_of_it(observed: Observed, tmp_path: Path) -> None:
    """A partition that there is not; a record that is too large; a column that is not known."""
    logs = tmp_path / "logs"
    good: list[dict[str, object]] = [{"key": str(n), "value": "v"} for n in range(50)]
    wrong = write_rows(tmp_path / "a.json", [*good, {"value": "v", "partition": 7}])
    large = write_rows(tmp_path / "b.json", [*good, {"key": "secret", "value": "x" * 5000}])
    foreign = write_rows(tmp_path / "c.json", [{"vaule": "v"}])
    with pytest.raises(RefusedRecord, match="partition that does not exist"):
        ingest(observed.spark, target(logs), wrong)
    with pytest.raises(RefusedRecord, match=r"more than max\.message\.bytes") as refused:
        ingest(observed.spark, target(logs, max_message_bytes="1000"), large)
    assert "secret" not in str(refused.value)
    with pytest.raises(PolicyError, match="unknown column 'vaule'"):
        ingest(observed.spark, target(logs), foreign)
    assert [] == list(logs.rglob("*.log"))
    assert [] == list(logs.rglob("t-*"))


def test_parquet_and_csv(observed: Observed, tmp_path: Path) -> None:
    """Binary values as they are; CSV's columns by its header."""
    rows = [(bytes([n]), bytes([255, n]), n) for n in range(20)]
    frame = observed.spark.createDataFrame(rows, "key binary, value binary, timestamp long")
    frame.coalesce(1).write.parquet(str(tmp_path / "p"))
    to = target(tmp_path / "one", partitions=1, message_timestamp_before_max_ms=str(2**62))
    ingest(observed.spark, to, tmp_path / "p", form="parquet")
    assert [value for _, value, _ in rows] == values(tmp_path / "one", 0)
    csv = tmp_path / "rows.csv"
    csv.write_text("key,value\na,1\nb,2\n")
    ingest(observed.spark, target(tmp_path / "two", partitions=1), csv, form="csv")
    assert [b"1", b"2"] == values(tmp_path / "two", 0)


def test_input_files_are_known_by_content(tmp_path: Path) -> None:
    """A run is of what is new; one that was interrupted comes first, with its own files."""
    path = write_rows(tmp_path / "in" / "a.json", [{"value": "v"}])
    run = next_run((), "t", 1, list_input(path.parent))
    assert run is not None
    write_rows(tmp_path / "in" / "b.json", [{"value": "w"}])
    again = next_run((run,), "t", 1, list_input(path.parent))
    assert run == again


def test_what_the_topic_was_given_is_kept_in_the_log_directory(
    observed: Observed, tmp_path: Path
) -> None:
    """So that the directory explains itself without the command's options; its id goes into the
    new partitions. A refused input keeps nothing.
    """
    log_dir = tmp_path / "logs"
    log_dir.mkdir()
    source = Source(path=str(tmp_path / "in"), file_format="json", topic="t", partitions=1)
    given = {"cleanup.policy": "compact", "log.roll.hours": "1"}
    sources = Sources(command_line=given, kept={"t": KeptTopic(topic_id=uuid_text(7))})

    def ingested() -> None:
        ingest_files(observed.spark, log_dir, source, sources, now_ms=TimestampMs(NOW))

    rows = write_rows(tmp_path / "in" / "a.json", [{"value": "no key", "timestamp": NOW}])
    with pytest.raises(RefusedRecord):
        ingested()
    assert {} == read_kept(log_dir)
    rows.unlink()
    write_rows(tmp_path / "in" / "b.json", [{"key": "k", "value": "v", "timestamp": NOW}])
    ingested()
    text = (log_dir / "t-0" / "partition.metadata").read_text()
    assert f"version: 0\ntopic_id: {uuid_text(7)}" == text
    read = read_sources(log_dir, policies=Policies(), command_line={})
    config, _ = settings_of(read, "t")
    assert (("compact",), 3_600_000) == (config.cleanup_policy, config.segment_ms)
    assert uuid_text(7) == read.topic_id("t")
