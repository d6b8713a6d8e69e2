"""What is shown of an update of a topic's table: never a key or a value, unless its policy asks for
a preview.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import dagster as dg

from logwright.assets.lib.partitions import SEGMENT_SET
from logwright.records.first import first_time_ms
from logwright.tables.columns import (
    BUCKET,
    KEY,
    OFFSET,
    PARTITION,
    RAW_KEY,
    TIMESTAMP,
    VALUE,
)
from logwright.tables.logs import TopicLog
from logwright.tables.model import Snapshot
from logwright.tables.quarantine import Reason
from logwright.tables.store import Store
from logwright.tables.topic import LocatedTable, TopicUpdate, read_rows
from logwright.tables.work import PartitionResult
from logwright.times import instant

if TYPE_CHECKING:
    import pyarrow as pa

SHOWN_PARTITIONS: Final = 500
SHOWN_REASONS: Final = 20
PREVIEW_ROWS: Final = 10
_LONGEST_CELL: Final = 100
_MS: Final = 1000
_MEANING: Final = {
    PARTITION: "partition of the record; part of the file's path",
    BUCKET: "bucket of the key; part of the file's path",
    OFFSET: "offset of the record",
    TIMESTAMP: "timestamp of the record, UTC",
    RAW_KEY: "the key as it is in the log",
    KEY: "the record's key",
    VALUE: "the record's value",
}
"""The columns that are not decoded from a key or a value, as the catalogue shows them."""
_OWN: Final = frozenset({PARTITION, BUCKET, OFFSET, TIMESTAMP})

Metadata = dict[str, Any]


def update_metadata(
    place: LocatedTable, update: TopicUpdate, logs: Mapping[int, TopicLog], *, now_ms: int
) -> Metadata:
    """Return the metadata of an update. Effects: may read the first record that the table does not
    hold.

    Args:
        logs: partition → its log.
        now_ms: when the logs were observed.
    """
    result = update.result
    rebuilt = [one for one in result.partitions if one.step.kind == "rebuild"]
    rows = [_row(one, logs[one.partition], now_ms) for one in result.partitions]
    snapshot = result.snapshot
    shown: Metadata = {
        "path": dg.MetadataValue.path(place.shown),
        "format": place.table.format,
        "new version": result.changed,
        "rows upserted": sum(one.written for one in result.partitions),
        "rows deleted": sum(one.deleted for one in result.partitions),
        "records read": sum(one.records for one in result.partitions),
        "bytes read": sum(one.bytes_read for one in result.partitions),
        "records refused": sum(one.refused for one in result.partitions),
        **_noted(result.partitions),
        "rows in quarantine": update.quarantined,
        "files written": sum(one.buckets for one in result.partitions),
        "files of old versions removed": update.removed_files,
        "partitions rebuilt": len(rebuilt),
        "lag offsets": sum(row["lag offsets"] for row in rows),
        "lag seconds": max((row["lag seconds"] for row in rows), default=0.0),
        "partitions": _table(rows),
        "dagster/column_schema": _schema(update.columns.full),
        "dagster/column_lineage": _lineage(update.columns.full, update.columns.key),
    }
    as_of_ms = [log.bound.recorded_ms for log in logs.values() if log.bound is not None]
    if as_of_ms:
        shown["as of"] = instant(min(as_of_ms))
        shown["at most seconds old"] = max(now_ms - min(as_of_ms), 0) / _MS
    waits = [one.partition for one in result.partitions if one.waits]
    if waits:
        shown["partitions that wait"] = str(waits)
    if rebuilt:
        reasons = dict.fromkeys(one.step.reason for one in rebuilt)
        shown["why rebuilt"] = "; ".join(islice(reasons, SHOWN_PARTITIONS))
    shown |= _columns(update)
    if result.gone:
        shown["partitions of an earlier topic removed"] = str(list(result.gone))
    if result.left:
        shown["partitions without a log, not updated"] = str(list(result.left))
    if snapshot is not None:
        shown |= {
            "dagster/row_count": snapshot.rows,
            "bytes": snapshot.bytes,
            "files": len(snapshot.files),
            "deleted rows in files": sum(snapshot.deleted.values()),
            "version": str(snapshot.version),
            "buckets": str(snapshot.form.buckets),
        }
    return shown


def _reasons(reasons: Sequence[Reason]) -> dg.TableMetadataValue:
    records = [
        dg.TableRecord({"records": each.records, "part": each.part, "reason": each.reason})
        for each in reasons[:SHOWN_REASONS]
    ]
    return dg.MetadataValue.table(records)


def _columns(update: TopicUpdate) -> Metadata:
    """Return what became of the columns, which fields have none, and why records were refused."""
    shown: Metadata = {}
    if update.reasons:
        shown["why refused"] = _reasons(update.reasons)
    if update.changes:
        shown["column changes"] = "; ".join(map(str, islice(update.changes, SHOWN_PARTITIONS)))
    if update.unknown:
        shown["fields without a column"] = str(list(islice(update.unknown, SHOWN_PARTITIONS)))
    return shown


def _noted(results: Sequence[PartitionResult]) -> Metadata:
    """Return what records came to that are neither rows, deletions nor refused."""
    return {
        "records without a key": sum(one.keyless for one in results),
        "messages": sum(one.messages for one in results),
        "truncations": sum(one.truncations for one in results),
        "rows with unknown values": sum(one.unknown for one in results),
    }


def preview(store: Store, snapshot: Snapshot, schema: "pa.Schema") -> dg.TableMetadataValue:
    """Return the first rows, for a topic whose policy asks for it. Effects: reads."""
    columns = [dg.TableColumn(field.name, str(field.type)) for field in schema]
    records = [
        dg.TableRecord({name: _cell(value) for name, value in row.items()})
        for row in islice(_rows(store, snapshot, schema.names), PREVIEW_ROWS)
    ]
    return dg.MetadataValue.table(records, dg.TableSchema(columns))


def _rows(store: Store, snapshot: Snapshot, names: list[str]) -> Iterator[dict[str, Any]]:
    for batch in read_rows(store, snapshot, names):
        yield from batch.slice(0, PREVIEW_ROWS).to_pylist()


def _cell(value: object) -> str | int | float | bool | None:
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, datetime):
        return f"{value:%F %T}Z"
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return text if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]}…"


def _row(result: PartitionResult, log: TopicLog, now_ms: int) -> dict[str, Any]:
    """Return a partition's row of the table. Effects: may read a record."""
    lag = max(int(log.log.high_watermark) - result.held, 0)
    first_ms = first_time_ms(log.log, result.held) if lag > 0 else None
    waits = 0.0 if first_ms is None else max(now_ms - first_ms, 0) / _MS
    return {
        "partition": result.partition,
        "held offset": result.held,
        "log start offset": int(log.log.log_start_offset),
        "last stable offset": int(log.log.last_stable_offset),
        "high watermark": int(log.log.high_watermark),
        "lag offsets": lag,
        "lag seconds": waits,
        "step": result.step.kind,
        "from offset": result.step.start_offset
        if result.step.start_offset is not None
        else int(log.log.log_start_offset),
        "records read": result.records,
        "bytes read": result.bytes_read,
        "rows upserted": result.written,
        "rows deleted": result.deleted,
        "records refused": result.refused,
        "records without a key": result.keyless,
        "why rebuilt": result.step.reason,
        "as of": "" if log.bound is None else str(instant(log.bound.recorded_ms)),
    }


def _table(rows: list[dict[str, Any]]) -> dg.TableMetadataValue | str:
    records = [dg.TableRecord(row) for row in rows[:SHOWN_PARTITIONS]]
    return dg.MetadataValue.table(records) if records else "none"


def _schema(schema: "pa.Schema") -> dg.TableSchema:
    return dg.TableSchema(
        [
            dg.TableColumn(
                field.name,
                str(field.type),
                description=_MEANING.get(field.name, "decoded"),
                constraints=dg.TableColumnConstraints(nullable=field.nullable),
            )
            for field in schema
        ]
    )


def _lineage(schema: "pa.Schema", key: str) -> dg.TableColumnLineage:
    """Return which part of a record each column is from: the log's segments have no columns, so
    these are the names of Spark's Kafka source.
    """
    from_key = {KEY, RAW_KEY, key}
    deps = {}
    for name in schema.names:
        if name in _OWN:
            part = KEY if name == BUCKET else name
        else:
            part = KEY if name in from_key else "value"
        deps[name] = [dg.TableColumnDep(asset_key=SEGMENT_SET, column_name=part)]
    return dg.TableColumnLineage(deps)
