"""Random records, and appending them in two ways: with logwright, and batch by batch with Kafka."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from logwright.config.topic import parse_settings
from logwright.format.batch import RecordBatch, parse_batch, walk_batches
from logwright.format.names import TopicPartition
from logwright.format.record import Record, read_records
from logwright.ingest.commit import (
    commit_append,
    plan_append,
    prepare_log_dir,
    stage_append,
)
from logwright.ingest.model import Appended, AppendOptions, AppendPlan
from logwright.ingest.schema import SCHEMA
from logwright.ingest.staging import make_directory
from logwright.units import TimestampMs

Row = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]
"""Key, value, headers, timestamp."""

PARTITION = TopicPartition("t", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch as it is on disk."""

    segment: int
    header: RecordBatch
    records: tuple[Record, ...]


def random_rows(random: Random, count: int, *, around_ms: int, spread_ms: int) -> list[Row]:
    """Records with all that a record can have: nulls, empty bytes, headers, times out of order."""

    def content(most: int) -> bytes | None:
        return None if random.random() < 0.1 else random.randbytes(random.randrange(most))

    rows: list[Row] = []
    for number in range(count):
        headers = [(f"h{index}", content(20)) for index in range(random.choice((0, 0, 0, 1, 2)))]
        time = around_ms + number * spread_ms // count + random.randrange(-50, 50)
        rows.append((content(20) or b"k", content(random.choice((10, 100, 700))), headers, time))
    return rows


def arrow(rows: list[Row], offsets: list[int] | None = None) -> pa.RecordBatch:
    """Rows as the columns that an append takes."""
    headers = [[{"key": k.encode(), "value": v} for k, v in pairs] for _, _, pairs, _ in rows]
    columns = [[row[0] for row in rows], [row[1] for row in rows], headers, [r[3] for r in rows]]
    schema = SCHEMA
    if offsets is not None:
        schema = schema.append(pa.field("offset", pa.int64()))
        columns.append(offsets)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)],
        schema=schema,
    )


def planned(
    log_dir: Path,
    pairs: dict[str, str],
    *,
    now_ms: int,
    ingest_id: str = "one",
    options: AppendOptions | None = None,
    partition: TopicPartition = PARTITION,
) -> AppendPlan | Appended:
    """The plan of an append, directories made."""
    prepare_log_dir(log_dir)
    plan = plan_append(
        log_dir,
        partition,
        parse_settings(pairs)[0],
        ingest_id=ingest_id,
        now_ms=TimestampMs(now_ms),
        options=options or AppendOptions(),
    )
    if isinstance(plan, AppendPlan):
        make_directory(plan)
    return plan


def append(
    log_dir: Path,
    rows: list[Row],
    pairs: dict[str, str],
    *,
    now_ms: int,
    ingest_id: str = "one",
    options: AppendOptions | None = None,
    pieces: int = 1,
    offsets: list[int] | None = None,
) -> Appended:
    """Append rows to t-0, in this number of pieces."""
    plan = planned(log_dir, pairs, now_ms=now_ms, ingest_id=ingest_id, options=options)
    if isinstance(plan, Appended):
        return plan
    size = -(-len(rows) // pieces) or 1
    parts = [
        arrow(rows[at : at + size], None if offsets is None else offsets[at : at + size])
        for at in range(0, len(rows), size)
    ]
    return commit_append(plan, stage_append(plan, parts))


def read_batches(log_dir: Path, first_offset: int = 0, partition: str = "t-0") -> list[Batch]:
    """Every batch from an offset on, by the plain readers."""
    batches = []
    for path in sorted((log_dir / partition).glob("*.log")):
        content = path.read_bytes()
        end = 0
        for span in walk_batches(content):
            header = parse_batch(content, span.position)
            end = span.position + span.bytes
            if header.base_offset >= first_offset:
                whole = content[span.position : end]
                records = read_records(header, whole)
                batches.append(Batch(segment=int(path.stem), header=header, records=records))
        assert end == len(content)
    return batches


def request(
    log_dir: Path, rows: list[Row], batches: list[Batch], pairs: dict[str, str], *, now_ms: int
) -> dict[str, Any]:
    """The request to Kafka: these rows, in batches of this many records."""
    encoded = [
        {"key": _text(key), "value": _text(value), "timestamp": time}
        | {"headers": [[name, _text(content)] for name, content in headers]}
        for key, value, headers, time in rows
    ]
    parts, at = [], 0
    for batch in batches:
        count = len(batch.records)
        parts.append({"codec": batch.header.codec, "records": encoded[at : at + count]})
        at += count
    assert at == len(rows)
    return {
        "request": "append",
        "dir": str(log_dir),
        "partition": "t-0",
        "config": pairs,
        "batches": parts,
        "now": now_ms,
    }


def _text(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()
