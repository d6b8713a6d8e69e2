"""The table of a history: its logs, its updates, its rows and refusals by other programs."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder
from grpc_tools import protoc as google

from logwright.config.decoding import Decoding
from logwright.decode import protoc
from logwright.tables.topic import LocatedTable, open_store, update_topic
from tests.evolution.history import Entry, History, canonical
from tests.log_builder import START_MS, LogBuilder
from tests.table_world import place, topic_logs

OWN = frozenset({"partition", "bucket", "offset", "timestamp", "_key"})
_BATCH = 3
_SEGMENT = 9
Place = tuple[int, int]
"""Partition and offset."""


@dataclass(slots=True)
class Found:
    """What a table has.

    Attributes:
        rows: by place, its decoded columns; refused: by place, part → reason.
        reader: schema id and message of the columns: of the values, of the keys.
        raw_keys: by place, of the rows.
    """

    rows: dict[Place, dict[str, Any]] = field(default_factory=dict)
    refused: dict[Place, dict[str, str]] = field(default_factory=dict)
    raw_keys: dict[Place, bytes] = field(default_factory=dict)
    values: tuple[int, str | None] = (0, None)
    keys: tuple[int, str | None] = (0, None)
    decoding: str = ""


def places(entries: Sequence[Entry]) -> list[Place]:
    """Partition and offset of each record."""
    ends: dict[int, int] = {}
    contents = []
    for entry in entries:
        offset = ends.get(entry.partition, 0)
        contents.append((entry.partition, offset))
        ends[entry.partition] = offset + 1
    return contents


def write_logs(log_dir: Path, entries: Sequence[Entry]) -> None:
    """Write the logs of the topic t as they are with these records. Effects: replaces them."""
    shutil.rmtree(log_dir, ignore_errors=True)
    for partition in sorted({each.partition for each in entries}):
        pairs = [
            (each.raw_key, None if each.value is None else each.value.content)
            for each in entries
            if each.partition == partition
        ]
        log = LogBuilder(log_dir, f"t-{partition}")
        for start in range(0, len(pairs), _BATCH):
            if start % _SEGMENT == 0:
                segment = log.segment(start)
            segment.batch(start, pairs[start : start + _BATCH])
        log.write(high_watermark=len(pairs))


def located(history: History, root: Path, name: str, **more: int) -> LocatedTable:
    """The table of a history. `more`: options of the values' spec."""
    spec = {"format": "registry", "schemas": "s"}
    settings: dict[str, object] = {
        "key": spec if history.keys else {"format": "string"},
        "value": spec | more,
        "schema_changes": history.schema_changes,
    }
    there = place(history.form, root / name, buckets=2, **settings)
    return LocatedTable(topic="t", table=there.table, catalog={}, base=root)


def update(table: LocatedTable, log_dir: Path, *, rebuild: bool = False) -> Found:
    """Bring the table up to date, and read it. Effects: as said.

    Raises:
        LogwrightError: it cannot be, or a partition cannot.
    """
    logs = topic_logs(log_dir)
    done = update_topic(table, logs, now_ms=START_MS + 10**6, rebuild=rebuild)
    for error in done.result.failures.values():
        raise error
    return read(table)


def read(table: LocatedTable) -> Found:
    """What a table has. Effects: reads."""
    contents = Found()
    path = Path(str(table.table.path))
    for row in _rows(table.table.format, path):
        at = row["partition"], row["offset"]
        contents.raw_keys[at] = row["_key"] if "_key" in row else row["key"]
        contents.rows[at] = {name: row[name] for name in row if name not in OWN}
    for row in _rows(table.table.format, path.with_name(f"{path.name}_quarantine")):
        at = row["partition"], row["offset"]
        contents.refused.setdefault(at, {})[row["part"]] = row["reason"]
    snapshot = open_store(table).load()
    if snapshot is not None:
        contents.decoding = snapshot.form.decoding
        decoding = Decoding.model_validate_json(snapshot.form.decoding)
        contents.values, contents.keys = _reader(decoding.value), _reader(decoding.key)
    return contents


def _reader(spec: Any) -> tuple[int, str | None]:
    return getattr(spec, "schema_id", 0) or 0, getattr(spec, "message", None)


def _rows(form: str, path: Path) -> Iterator[dict[str, Any]]:
    """The rows, canonical, with partition and bucket."""
    if form == "delta":
        if (path / "_delta_log").is_dir():
            query = QueryBuilder().register("t", DeltaTable(str(path))).execute("SELECT * FROM t")
            yield from plain_rows(pa.table(query.read_all()))
        return
    for file in sorted(path.glob("partition=*/bucket=*/*.parquet")):
        (partition, bucket) = (int(each.partition("=")[2]) for each in file.parts[-3:-1])
        with pq.ParquetFile(file) as opened:
            for row in plain_rows(opened.read()):
                yield row | {"partition": partition, "bucket": bucket}


def plain_rows(table: pa.Table | pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """The rows of a table of Arrow, canonical."""
    columns = {
        field.name: [canonical(plain(each, field.type)) for each in column.to_pylist()]
        for field, column in zip(table.schema, _for_python(table), strict=True)
    }
    for number in range(table.num_rows):
        yield {name: values[number] for name, values in columns.items()}


def _for_python(table: pa.Table | pa.RecordBatch) -> list[Any]:
    return [column.cast(_without_times(column.type)) for column in table.columns]


def _without_times(kind: pa.DataType) -> pa.DataType:
    """The type with numbers for times, which Python's types do not have all of."""
    if pa.types.is_timestamp(kind) or pa.types.is_date32(kind):
        return pa.int32() if pa.types.is_date32(kind) else pa.int64()
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(each.name, _without_times(each.type)) for each in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _without_times(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_without_times(kind.value_type))
    return kind


def plain(value: Any, kind: pa.DataType) -> Any:  # noqa: PLR0911 - each type has its own
    """A value of Arrow: times and dates with their unit, a map as a dictionary."""
    if value is None:
        return None
    if pa.types.is_timestamp(kind):
        return f"time {value}"
    if pa.types.is_date32(kind):
        return f"date {value}"
    if pa.types.is_struct(kind):
        return {each.name: plain(value[each.name], each.type) for each in kind}
    if pa.types.is_map(kind):
        return {str(key): plain(each, kind.item_type) for key, each in value}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [plain(each, kind.value_type) for each in value]
    return value


def _in_this_process(command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
    """Run protoc as the command does, without a process."""
    status = google.main(command[2:])
    return subprocess.CompletedProcess(command, status, b"", b"")


@contextmanager
def fast_protoc() -> Iterator[None]:
    """Have protoc compile in this process: a process for each schema takes most of the time."""
    with mock.patch.object(protoc.subprocess, "run", _in_this_process):
        yield
