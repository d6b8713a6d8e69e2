"""Rows of a frame as the ingest takes them."""

from __future__ import annotations

import resource
import signal
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import types as T  # noqa: N812 -- Spark's own convention

from logwright.errors import PolicyError, StepFailed
from logwright.format.names import TopicPartition
from logwright.ingest.schema import SCHEMA
from logwright.spark.kafka_log_options import write_options
from logwright.spark.kafka_log_spool import canonical, spool_rows
from logwright.spark.kafka_log_write import refuse_columns

TOPIC = write_options({"path": "/l", "topic": "t"})
_PAIR = T.StructType([T.StructField("key", T.StringType()), T.StructField("value", T.BinaryType())])
EACH_ITS_OWN = write_options({"path": "/l"})


def test_columns_get_the_types_of_the_ingest() -> None:
    """Text as UTF-8; what a frame does not have is null; the option's topic is that of all rows."""
    given = pa.record_batch(
        {
            "value": pa.array(["ä", None]),
            "headers": pa.array(
                [[{"key": "h", "value": b"x"}], None],
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            ),
            "topic": pa.array(["u", "u"]),
        }
    )
    rows = canonical(given, "t")
    assert set(SCHEMA) <= set(rows.schema)
    assert ["ä".encode(), None] == rows["value"].to_pylist()
    assert [[{"key": b"h", "value": b"x"}], None] == rows["headers"].to_pylist()
    assert [["t", "t"], [None, None]] == [rows[n].to_pylist() for n in ("topic", "partition")]
    assert ["u", "u"] == canonical(given, None)["topic"].to_pylist()


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", None])
def test_times_are_milliseconds_since_the_epoch(zone: str | None) -> None:
    """Whatever the session's time zone is; rounded down, also below the epoch."""
    micros = pa.array([1_760_000_000_123_999, -1, None], pa.int64())
    times = micros.cast(pa.timestamp("us", tz=zone))
    rows = canonical(pa.record_batch({"value": ["a"] * 3, "timestamp": times}), "t")
    assert [1_760_000_000_123, -1, None] == rows["timestamp"].to_pylist()
    numbers = pa.record_batch({"value": ["a"], "timestamp": pa.array([5], pa.int64())})
    assert [5] == canonical(numbers, "t")["timestamp"].to_pylist()
    zoned = datetime(2025, 10, 9, tzinfo=timezone(timedelta(hours=-4)))
    in_utc = pa.array([zoned.astimezone(UTC)], pa.timestamp("us", tz="UTC"))
    of_zone = in_utc.cast(pa.timestamp("us", tz="-04:00"))
    batch = pa.record_batch({"value": ["a"], "timestamp": of_zone})
    expected = int(zoned.astimezone(UTC).timestamp() * 1000)
    assert [expected] == canonical(batch, "t")["timestamp"].to_pylist()


@pytest.mark.parametrize(
    ("ddl", "problem"),
    [
        ("value int", "the column value int: no column of a record has this type"),
        ("value string, offset bigint", "the column offset bigint: .* has this name"),
        ("value string, partition bigint", "the column partition bigint: .* has this type"),
        ("value string, timestamp string", "the column timestamp string: .* has this type"),
        ("value string, headers list", "the column headers array<string>: .* has this type"),
        ("value string, headers int", "the column headers int: .* has this type"),
        ("key string", "the column value is missing"),
    ],
)
def test_columns_that_no_record_has(ddl: str, problem: str) -> None:
    """They are refused by name and type."""
    with pytest.raises(PolicyError, match=problem):
        refuse_columns(_schema(ddl), TOPIC)


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    """The error names it; nothing is left of it."""
    rows = pa.record_batch({"value": pa.array(["x" * 100_000] * 100)})
    slots = [TopicPartition("t", 0)]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with pytest.raises(StepFailed, match="the rows cannot be written: No such file"):
        spool_rows(tmp_path / "nowhere" / "rows", "t", slots, [rows])
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, before[1]))
    try:
        with pytest.raises(StepFailed, match="the rows cannot be written: File too large"):
            spool_rows(tmp_path / "rows", "t", slots, [rows])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert [] == list(tmp_path.iterdir())


def test_a_row_needs_a_topic() -> None:
    """Its own, or the option's."""
    for ddl in ("value string", "key binary, value binary, headers pairs"):
        refuse_columns(_schema(ddl), TOPIC)
    refuse_columns(_schema("topic string, value string, timestamp timestamp"), EACH_ITS_OWN)
    with pytest.raises(PolicyError, match="rows have no column topic"):
        refuse_columns(_schema("value string"), EACH_ITS_OWN)


def _schema(ddl: str) -> T.StructType:
    kinds: dict[str, T.DataType] = {
        "string": T.StringType(),
        "binary": T.BinaryType(),
        "int": T.IntegerType(),
        "bigint": T.LongType(),
        "timestamp": T.TimestampType(),
        "list": T.ArrayType(T.StringType()),
        "pairs": T.ArrayType(_PAIR),
    }
    fields = [one.strip().split(" ") for one in ddl.split(",")]
    return T.StructType([T.StructField(name, kinds[kind]) for name, kind in fields])
