"""Records that the own classes of Debezium, Kafka Streams and MirrorMaker wrote are as put in."""

from __future__ import annotations

import base64
import datetime as dt
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from logwright.config.decoding import (
    DebeziumSpec,
    DecoderSpec,
    Decoding,
    JsonSpec,
    MirrorSpec,
    ScalarSpec,
    TimestampedSpec,
    WindowedSpec,
)
from logwright.decode.make import make_decoder
from tests.connect_events import PROJECT
from tests.log_builder import LogBuilder, Pair
from tests.oracle_runner import JVM_OPTIONS, classpath_of, java
from tests.table_rows import read_table
from tests.table_world import place, update
from tests.unit.decode.records import Result, batch, decode

pytestmark = pytest.mark.oracle

TIME = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
Written = Mapping[str, Sequence[tuple[bytes | None, bytes | None]]]


@pytest.fixture(scope="module")
def written() -> Written:
    """Name → what the classes wrote."""
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    command = [java(), *JVM_OPTIONS, quiet, "-cp", classpath_of(PROJECT), "connect.Written"]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return {
        name: [tuple(map(_bytes, pair)) for pair in pairs]
        for name, pairs in json.loads(answer.stdout).items()
    }


def _bytes(content: str | None) -> bytes | None:
    return None if content is None else base64.b64decode(content)


def decoded(written: Written, name: str, **specs: DecoderSpec) -> Result:
    records = batch(written[name], name)
    return decode(make_decoder(Decoding(**specs), base=Path("/"), sample=[records]), records)


def row(text: str, *, schemas: bool) -> dict[str, Any]:
    """A row of the source; without schemas bytes are texts, and a map an object."""
    raw: Any = text.encode()
    pairs: Any = [(text, text)]
    if not schemas:
        raw, pairs = base64.b64encode(raw).decode(), {text: text}
    shown = {"id": 1, "doc": text, "raw": raw, "tags": [text], "numbers": [1], "ids": [text]}
    return {**shown, "pairs": pairs}


@pytest.mark.parametrize("schemas", [True, False])
def test_events(written: Written, tmp_path: Path, *, schemas: bool) -> None:
    """Step by step, as a table that is updated after each record: created, updated, updated without
    values that the source left out, read by a snapshot, deleted, tombstone; then a truncation,
    which has no key, and a message, which has no row.
    """
    pairs: list[Pair] = [*written[f"events {'true' if schemas else 'false'}"]]
    assert [None] == [of for of, _ in pairs if of is None]
    value = {"format": "debezium", "truncate": "delete"}
    if not schemas:
        value["of"] = {"format": "json", "fields": json.loads(FIELDS)}
    where = place("parquet", tmp_path / "tables" / "t", key={"format": "json"}, value=value)
    assert where.directory is not None
    shown = []
    for end in range(1, len(pairs) + 1):
        log = LogBuilder(tmp_path / f"logs-{end}", "t-0")
        segment = log.segment(0)
        for offset, pair in enumerate(pairs[:end]):
            segment.batch(offset, [pair])
        log.write()
        done = update(where, log.log_dir)
        assert (0, {}) == (done.quarantined, done.result.failures)
        shown.append(read_table("parquet", where.directory).to_pylist())
    first, second = row("d", schemas=True), row("e", schemas=True)
    rows = [[{name: one[name] for name in first} for one in table] for table in shown]
    assert [[first], [second], [second], [first], [], [], [], []] == rows
    assert ["c", "u", "u", "r"] == [table[0]["_op"] for table in shown[:4]]
    assert [TIME] * 4 == [table[0]["_source_time"] for table in shown[:4]]
    (last,) = done.result.partitions
    assert 1 == last.messages


FIELDS = json.dumps(
    [
        {"name": "id", "type": "long"},
        {"name": "doc", "type": "string"},
        {"name": "raw", "type": "binary"},
        *(
            {"name": name, "type": "array", "fields": [{"name": "element", "type": kind}]}
            for name, kind in (("tags", "string"), ("numbers", "long"), ("ids", "string"))
        ),
        {
            "name": "pairs",
            "type": "map",
            "fields": [{"name": "key", "type": "string"}, {"name": "value", "type": "string"}],
        },
    ]
)


@pytest.mark.parametrize("schemas", ["true", "false"])
def test_flattened_events(written: Written, schemas: str) -> None:
    """As ExtractNewRecordState makes them, with fields that it adds."""
    spec = DebeziumSpec(flattened=True)
    result = decoded(written, f"flattened {schemas}", key=JsonSpec(), value=spec)
    assert [] == result.refused
    kept = [("d", "c"), ("e", "u"), (None, "u"), ("d", "r")]
    assert kept == [(one["doc"], one["__op"]) for one in result.rows[:4]]
    assert [1_767_312_000_000] * 4 == [one["__source_ts_ms"] for one in result.rows[:4]]
    assert [4, 5] == result.deleted
    records = batch(written[f"flattened {schemas}"])
    decoding = Decoding(key=JsonSpec(), value=spec)
    events = make_decoder(decoding, base=Path("/"), sample=[records]).decode(records)
    left_out = {"doc", "raw", "tags", "numbers", "ids"}
    assert left_out <= events.unavailable.keys()
    assert [[2]] * len(events.unavailable) == [
        [at for at, flag in enumerate(mask.to_pylist()) if flag]
        for mask in events.unavailable.values()
    ]


def test_streams(written: Written) -> None:
    """Windows of time and of sessions, those of a store's changelog, values with their time."""
    value = TimestampedSpec(of=ScalarSpec(format="long"))
    of = ScalarSpec(format="string")
    rows = [
        decoded(written, name, key=key, value=spec).rows[0]
        for name, key, spec in (
            ("time windows", WindowedSpec(of=of, size_ms=60_000), value),
            ("session windows", WindowedSpec(of=of, session=True), value),
            ("store", WindowedSpec(of=of, store=True), value.of),
        )
    ]
    minute, three = TIME + dt.timedelta(minutes=1), TIME + dt.timedelta(seconds=3)
    assert [minute, three, None] == [row["key"]["window_end"] for row in rows]
    assert [("ab", TIME, 7)] * 3 == [
        (row["key"]["key"], row["key"]["window_start"], row["value"]) for row in rows
    ]
    assert [TIME] * 2 == [one["value_timestamp"] for one in rows[:2]]


@pytest.mark.parametrize(
    ("topic", "key", "value"),
    [
        (
            "mm2-offset-syncs.eu.internal",
            {"topic": "orders", "partition": 3},
            {"upstream_offset": 7, "downstream_offset": 5},
        ),
        (
            "us.checkpoints.internal",
            {"group_id": "gröup", "topic": "orders", "partition": 3},
            {"upstream_offset": 7, "downstream_offset": 5, "metadata": "m"},
        ),
        (
            "eu.heartbeats",
            {"source_cluster": "eu", "target_cluster": "us"},
            {"heartbeat_time": TIME},
        ),
    ],
)
def test_mirror_maker(
    written: Written, topic: str, key: dict[str, Any], value: dict[str, Any]
) -> None:
    """Its own topics: what is mirrored where, and when that was alive."""
    result = decoded(written, topic, key=MirrorSpec(), value=MirrorSpec())
    assert [{"key": key, **value}] == result.rows
