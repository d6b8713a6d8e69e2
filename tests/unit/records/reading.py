"""How the tests of this folder write logs and read them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from logwright.log.load import observe
from logwright.log.model import PartitionLog
from logwright.records.model import BATCH_BYTES, BATCH_ROWS, ReadCounts, ReadRequest, RecordsRange
from logwright.records.plan import plan_records
from logwright.records.read import read_range
from logwright.records.schema import RECORDS
from tests.log_builder import LogBuilder
from tests.plain_consumer import Row, arrow_rows

EVERY_CODEC = range(5)
ALL = ReadRequest()


def observed(builder: LogBuilder, log_start: int | None = None) -> PartitionLog:
    """Write a log with what belongs to its producers, and observe it."""
    builder.write(producers=True, log_start=log_start)
    return observed_again(builder)


def observed_again(builder: LogBuilder) -> PartitionLog:
    """Observe a log that is written."""
    return observe(builder.log_dir, builder.partition, high_watermark="end")


def ranges(log: PartitionLog, request: ReadRequest = ALL) -> tuple[RecordsRange, ...]:
    """The ranges of a request."""
    return plan_records(log, request)


def read(
    log: PartitionLog,
    request: ReadRequest = ALL,
    columns: Sequence[str] = tuple(RECORDS.names),
    *,
    batch_rows: int = BATCH_ROWS,
    batch_bytes: int = BATCH_BYTES,
    counts: ReadCounts | None = None,
) -> list[pa.RecordBatch]:
    """All record batches of a request."""
    return [
        batch
        for records_range in ranges(log, request)
        for batch in read_range(
            records_range,
            columns=columns,
            batch_rows=batch_rows,
            batch_bytes=batch_bytes,
            counts=counts,
        )
    ]


def rows(log: PartitionLog, request: ReadRequest = ALL) -> list[Row]:
    """All rows of a request."""
    return arrow_rows(read(log, request))


def offsets(log: PartitionLog, request: ReadRequest = ALL) -> list[int]:
    """The offsets of a request."""
    return [row[2] for row in rows(log, request)]
