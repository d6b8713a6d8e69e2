"""The columns of records: those of Spark's Kafka source (KafkaRecordToRowConverter, Spark 4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

KEY: Final = "key"
VALUE: Final = "value"
TOPIC: Final = "topic"
PARTITION: Final = "partition"
OFFSET: Final = "offset"
TIMESTAMP: Final = "timestamp"
TIMESTAMP_TYPE: Final = "timestampType"
HEADERS: Final = "headers"

COLUMNS: Final = (KEY, VALUE, TOPIC, PARTITION, OFFSET, TIMESTAMP, TIMESTAMP_TYPE)
"""The columns without the headers, in their order."""

HEADERS_TYPE: Final = pa.list_(
    pa.field(
        "element",
        pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]),
        nullable=False,
    )
)
RECORDS: Final = pa.schema(
    [
        pa.field(KEY, pa.binary()),
        pa.field(VALUE, pa.binary()),
        pa.field(TOPIC, pa.string(), nullable=False),
        pa.field(PARTITION, pa.int32(), nullable=False),
        pa.field(OFFSET, pa.int64(), nullable=False),
        pa.field(TIMESTAMP, pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field(TIMESTAMP_TYPE, pa.int32(), nullable=False),
        pa.field(HEADERS, HEADERS_TYPE),
    ]
)
"""All columns. `timestamp` is the record's, or the batch's maxTimestamp under LogAppendTime; a
record without one has -1 ms. `timestampType`: 0 is CreateTime, 1 LogAppendTime. `headers` is null
for a record without headers."""


def records_schema(columns: Sequence[str]) -> pa.Schema:
    """Return the schema of these columns, in this order.

    Raises:
        ValueError: there is no such column, or one is named twice.
    """
    unknown = [name for name in columns if name not in RECORDS.names]
    if unknown or len(set(columns)) != len(columns):
        known = ", ".join(RECORDS.names)
        message = f"columns {list(columns)}: expected some of {known}, each once"
        raise ValueError(message)
    return pa.schema([RECORDS.field(name) for name in columns])
