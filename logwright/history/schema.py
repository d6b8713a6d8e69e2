"""The columns of the maintenance history, and their types in Arrow and Parquet."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from logwright.history.model import HistoryRow

SCHEMA_VERSION: Final = 1
"""Grows when a column is added. Columns are neither renamed nor removed nor change their type."""
VERSION_KEY: Final = b"logwright.history.schema"
"""Key of the version in a file's metadata."""

ColumnType = Literal["string", "int32", "int64", "double", "timestamp"]


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Attributes:
        type: ``timestamp`` is ms since the epoch, UTC.
        nullable: null where it does not apply or is not known.
    """

    name: str
    type: ColumnType
    description: str
    nullable: bool = True


COLUMNS: Final = (
    Column("run_id", "string", "run of Dagster", nullable=False),
    Column("log", "string", "partition key of the log", nullable=False),
    Column("topic", "string", "topic", nullable=False),
    Column("partition", "int32", "partition number", nullable=False),
    Column("log_dir", "string", "log directory", nullable=False),
    Column("operation", "string", "clean, roll, retain, purge or recover", nullable=False),
    Column("started_at", "timestamp", "clock of the decision, UTC", nullable=False),
    Column("ended_at", "timestamp", "when the step of the run had ended, UTC", nullable=False),
    Column("why", "string", "reason of the decision, with its numbers", nullable=False),
    Column("bytes_before", "int64", ".log bytes of the log; of a purge, bytes of retired files"),
    Column("bytes_after", "int64", "the same afterwards"),
    Column("bytes_read", "int64", ".log bytes in the range of a cleaning"),
    Column("bytes_written", "int64", ".log bytes that it wrote"),
    Column("records_before", "int64", "records in the range of a cleaning"),
    Column("records_after", "int64", "records that it kept"),
    Column("removed_superseded", "int64", "records with a later record of the same key"),
    Column("removed_tombstones", "int64", "tombstones past their delete horizon"),
    Column("removed_null_keys", "int64", "records without a key"),
    Column("removed_aborted", "int64", "records of aborted transactions"),
    Column("removed_markers", "int64", "transaction markers past their delete horizon"),
    Column("segments_deleted", "int64", "segments that retention deleted"),
    Column("offsets_deleted", "int64", "offsets by which retention raised the log start offset"),
    Column("compaction_delay_ms", "int64", "by how much max.compaction.lag.ms was exceeded, ms"),
    Column("delete_horizon", "timestamp", "earliest delete horizon that a cleaning kept"),
    Column("cpu_seconds", "double", "CPU seconds of the passes of a cleaning"),
    Column("wall_seconds", "double", "seconds of its passes and its commit, which logs share"),
    Column("forecast_bytes", "int64", "bytes that the plan expected the cleaning to reclaim"),
    Column("logwright_version", "string", "version of logwright", nullable=False),
)


def arrow_schema() -> pa.Schema:
    """Return the schema, with descriptions and version in its metadata."""
    import pyarrow as pa  # noqa: PLC0415 -- of an extra, and it costs time

    types = {
        "string": pa.string(),
        "int32": pa.int32(),
        "int64": pa.int64(),
        "double": pa.float64(),
        "timestamp": pa.timestamp("ms", tz="UTC"),
    }
    return pa.schema(
        [
            pa.field(
                column.name,
                types[column.type],
                nullable=column.nullable,
                metadata={"description": column.description},
            )
            for column in COLUMNS
        ],
        metadata={VERSION_KEY: str(SCHEMA_VERSION).encode()},
    )


def rows_to_table(rows: Iterable[HistoryRow]) -> pa.Table:
    """Return the rows as an Arrow table."""
    import pyarrow as pa  # noqa: PLC0415 -- of an extra, and it costs time

    package_version = version("logwright")
    values = [
        {
            column.name: getattr(
                row, f"{column.name}_ms" if column.type == "timestamp" else column.name
            )
            for column in COLUMNS[:-1]
        }
        | {"logwright_version": package_version}
        for row in rows
    ]
    return pa.Table.from_pylist(values, schema=arrow_schema())
