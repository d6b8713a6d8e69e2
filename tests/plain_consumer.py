"""What a KafkaConsumer sees of a log, read as plainly as possible: twin of `logwright.records`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from logwright.format.batch import RecordBatch, parse_batch, walk_batches
from logwright.format.control import ControlType, parse_control_key
from logwright.format.record import Record, read_records
from logwright.log.model import PartitionLog
from logwright.records.model import Isolation

Row = tuple[bytes | None, bytes | None, int, int, int, tuple[tuple[str, bytes | None], ...] | None]
"""Key, value, offset, timestamp in ms, timestamp type, headers or None."""

LARGEST_MS = (2**63 - 1) // 1000
"""What is beyond has no microseconds."""


@dataclass(frozen=True)
class PlainBatch:
    """A batch and its records."""

    header: RecordBatch
    records: tuple[Record, ...]


def plain_batches(directory: Path) -> Iterator[PlainBatch]:
    """All batches of a partition's directory, in order."""
    for path in sorted(directory.glob("*.log")):
        content = path.read_bytes()
        for span in walk_batches(content):
            whole = content[span.position : span.position + span.bytes]
            header = parse_batch(whole)
            yield PlainBatch(header, read_records(header, whole))


def consume(
    log: PartitionLog, isolation: Isolation, start: int = 0, end: int | None = None
) -> list[Row]:
    """The rows that a consumer gets, within [start, end)."""
    limit = log.high_watermark
    if isolation == "read_committed":
        limit = min(limit, log.last_stable_offset)
    last = limit if end is None else min(limit, end)
    first = max(log.log_start_offset, start)
    batches = list(plain_batches(log.directory))
    return [
        plain_row(batch.header, record)
        for number, batch in enumerate(batches)
        if not batch.header.is_control
        and not (isolation == "read_committed" and _is_aborted(batches, number))
        for record in batch.records
        if first <= record.offset < last
    ]


def plain_row(header: RecordBatch, record: Record) -> Row:
    """One record as a row."""
    headers = tuple((one.key.decode(errors="replace"), one.value) for one in record.headers)
    kind = int(header.is_log_append_time)
    time = min(max(record.timestamp_ms, -LARGEST_MS), LARGEST_MS)
    return (record.key, record.value, record.offset, time, kind, headers or None)


def _is_aborted(batches: list[PlainBatch], number: int) -> bool:
    """Whether the next marker of a batch's producer ends its transaction with ABORT."""
    own = batches[number].header
    if not own.is_transactional or own.producer_id < 0:
        return False
    for later in batches[number:]:
        if later.header.is_control and later.header.producer_id == own.producer_id:
            for record in later.records[:1]:
                kind = parse_control_key(record.key)
                if kind in {ControlType.ABORT, ControlType.COMMIT}:
                    return kind is ControlType.ABORT
    return False


def arrow_rows(batches: Iterable[pa.RecordBatch]) -> list[Row]:
    """The rows of record batches that have all columns."""
    return [row for batch in batches for row in _rows_of(batch)]


def _rows_of(batch: pa.RecordBatch) -> Iterator[Row]:
    batch.validate(full=True)
    columns: dict[str, list[Any]] = {
        name: batch.column(name).to_pylist() for name in ("key", "value", "offset", "timestampType")
    }
    times = batch.column("timestamp").cast("int64").to_pylist()
    for row, headers in enumerate(batch.column("headers").to_pylist()):
        pairs = None if headers is None else tuple((one["key"], one["value"]) for one in headers)
        yield (
            columns["key"][row],
            columns["value"][row],
            columns["offset"][row],
            times[row] // 1000,
            columns["timestampType"][row],
            pairs,
        )
