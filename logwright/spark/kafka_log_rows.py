"""The rows of ``kafka-log`` as Spark has them: columns, types, and what was left out of them.

Little is imported here, see `logwright.spark.kafka_log`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import types as T  # noqa: N812 -- Spark's own convention

from logwright import durable
from logwright.errors import PolicyError

if TYPE_CHECKING:
    import pyarrow as pa

    from logwright.records.model import ReadCounts, RecordsRange

_LOG = logging.getLogger(__name__)

_HEADERS: Final = T.ArrayType(
    T.StructType([T.StructField("key", T.StringType()), T.StructField("value", T.BinaryType())])
)
SCHEMA: Final = T.StructType(
    [
        T.StructField("key", T.BinaryType()),
        T.StructField("value", T.BinaryType()),
        T.StructField("topic", T.StringType()),
        T.StructField("partition", T.IntegerType()),
        T.StructField("offset", T.LongType()),
        T.StructField("timestamp", T.TimestampType()),
        T.StructField("timestampType", T.IntegerType()),
    ]
)
"""The schema of Spark's Kafka source (KafkaRecordToRowConverter, Spark 4)."""
WITH_HEADERS: Final = T.StructType([*SCHEMA.fields, T.StructField("headers", _HEADERS)])
"""The same with ``includeHeaders``."""


def refuse_schema(schema: T.StructType) -> None:
    """Refuse columns that records do not have.

    Raises:
        PolicyError: a column is unknown or has another type, or there is none.
    """
    known = {field.name: field.dataType for field in WITH_HEADERS.fields}
    for field in schema.fields:
        kind = known.get(field.name)
        if kind is None or field.dataType.simpleString() != kind.simpleString():
            wanted = "unknown" if kind is None else f"of type {kind.simpleString()}"
            raise PolicyError(
                f"the schema has the column {field.name} {field.dataType.simpleString()}, which is"
                f" {wanted}.",
                remedy=f"Valid columns are {WITH_HEADERS.simpleString()[len('struct<') : -1]}.",
            )
    if not schema.fields:
        raise PolicyError(
            "the schema has no column.", remedy="To count records, read the column offset."
        )


def as_spark_has_it(
    batches: Iterable[pa.RecordBatch], schema: T.StructType
) -> Iterator[pa.RecordBatch]:
    """Yield the batches with exactly the schema that Spark expects: it compares whether a column
    may be null.
    """
    import pyarrow as pa  # noqa: PLC0415 -- see the module

    expected = pa.schema([_arrow_field(field) for field in schema.fields])
    for batch in batches:
        arrays = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(batch.columns, expected, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=expected)


def _arrow_field(field: T.StructField) -> pa.Field:
    """Return a column as Spark has it in Arrow. Its own function has other arguments in each
    version.
    """
    import pyarrow as pa  # noqa: PLC0415 -- see the module

    from logwright.records.schema import RECORDS  # noqa: PLC0415

    kind = RECORDS.field(field.name).type
    if isinstance(field.dataType, T.ArrayType) and isinstance(
        field.dataType.elementType, T.StructType
    ):
        pair = zip(field.dataType.elementType.fields, (pa.string(), pa.binary()), strict=True)
        parts = [pa.field(one.name, type_, nullable=one.nullable) for one, type_ in pair]
        nullable = field.dataType.containsNull
        kind = pa.list_(pa.field("element", pa.struct(parts), nullable=nullable))
    return pa.field(field.name, kind, nullable=field.nullable)


def report_corrupt(records_range: RecordsRange, counts: ReadCounts, directory: Path | None) -> None:
    """Report batches that were skipped, if there are any. Effects: logs a warning; writes a file
    that replaces that of an earlier attempt.
    """
    if not counts.corrupt_batches:
        return
    file, position, offset = counts.first_corrupt or ("", -1, -1)
    _LOG.warning(
        "corrupt batches skipped topic-partition=%s batches=%d bytes=%d file=%s position=%d",
        records_range.partition,
        counts.corrupt_batches,
        counts.corrupt_bytes,
        file,
        position,
    )
    if directory is None:
        return
    report = {
        "topicPartition": str(records_range.partition),
        "startOffset": records_range.start_offset,
        "endOffset": records_range.end_offset,
        "corruptBatches": counts.corrupt_batches,
        "corruptBytes": counts.corrupt_bytes,
        "firstFile": file,
        "firstPosition": position,
        "firstOffset": offset,
    }
    durable.make_directory(directory)
    path = directory / f"{records_range.partition}-{records_range.start_offset}.json"
    durable.replace(path, json.dumps(report).encode())
