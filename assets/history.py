"""The asset `kafka_logs/maintenance_history`: what every run did to every log, as Parquet files."""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import dagster as dg

from logwright.assets.lib.partitions import MAINTENANCE_HISTORY, SEGMENT_SET
from logwright.history.model import HistoryRow
from logwright.history.schema import COLUMNS, SCHEMA_VERSION
from logwright.history.store import merge_days, read_history, write_history
from logwright.resources.clock import Clock
from logwright.resources.history import history_directory

if TYPE_CHECKING:
    import pyarrow as pa  # it costs time

SHOWN_ROWS: Final = 50
"""Rows of the table in the UI, newest first; the files have all."""

_SHOWN_COLUMNS: Final = (
    *("ended_at", "operation", "log", "bytes_before", "bytes_after"),
    *("records_before", "records_after", "wall_seconds", "why", "run_id"),
)
_SHOWN_SCHEMA: Final = dg.TableSchema(
    columns=[dg.TableColumn(one.name, one.type) for one in COLUMNS if one.name in _SHOWN_COLUMNS]
)


def record_history(context: dg.OpExecutionContext, rows: Sequence[HistoryRow]) -> Path | None:
    """Write the rows of this run's step as one file, named by run and step: a run may have several
    steps that write rows. The run continues if that fails, since the logs are changed already.
    Effects: writes a file; a warning in the run's log.
    """
    from pyarrow import ArrowException  # noqa: PLC0415 -- it costs time

    directory = history_directory(context.instance.storage_directory())
    again = f"-{context.retry_number}" if context.retry_number else ""
    try:
        return write_history(directory, rows, name=f"{context.run_id}-{context.op.name}{again}")
    except (OSError, ArrowException) as error:
        context.log.warning("%d rows of the history were not written: %s", len(rows), error)
        return None


def recent_rows(
    context: dg.AssetExecutionContext, *, since: date | None = None
) -> list[dict[str, Any]]:
    """Return the rows of the history, the oldest first; none, with a warning, if it cannot be read.
    Effects: reads.

    Args:
        since: only of runs that started on this day or later, UTC.
    """
    from pyarrow import ArrowException  # noqa: PLC0415 -- it costs time

    directory = history_directory(context.instance.storage_directory())
    try:
        rows: list[dict[str, Any]] = read_history(directory, since=since).to_pylist()
    except (OSError, ArrowException) as error:
        context.log.warning("the maintenance history cannot be read: %s", error)
        return []
    return rows


@dg.asset(
    key=MAINTENANCE_HISTORY,
    deps=[SEGMENT_SET],
    group_name="kafka_logs",
    kinds={"kafka", "parquet"},
    metadata={
        "dagster/column_schema": dg.TableSchema(
            columns=[
                dg.TableColumn(
                    column.name,
                    column.type,
                    description=column.description,
                    constraints=dg.TableColumnConstraints(nullable=column.nullable),
                )
                for column in COLUMNS
            ]
        ),
    },
)
def maintenance_history(
    context: dg.AssetExecutionContext, clock: Clock
) -> dg.MaterializeResult[None]:
    """The history of all maintenance: what each run did to each log, why, and what it saved.

    Runs append to it; this shows its newest rows and merges the small files of past days.
    """
    from pyarrow import ArrowException  # noqa: PLC0415 -- it costs time

    directory = history_directory(context.instance.storage_directory())
    today = datetime.fromtimestamp(clock.now_ms() / 1000, tz=UTC).date()
    try:
        merged = merge_days(directory, before=today)
        table = read_history(directory)
    except (OSError, ArrowException) as error:
        raise dg.Failure(
            description=f"the maintenance history in {directory} cannot be read: {error}",
            allow_retries=False,
        ) from error
    return dg.MaterializeResult(
        metadata={
            "dagster/row_count": len(table),
            "directory": dg.MetadataValue.path(str(directory)),
            "schema version": str(SCHEMA_VERSION),
            "files merged": merged,
            **history_totals(table),
            "newest rows": dg.MetadataValue.table(_newest(table), _SHOWN_SCHEMA),
        }
    )


def history_totals(table: "pa.Table") -> dict[str, int]:
    """Return totals: rows by operation, reclaimed bytes and purged bytes."""
    rows = table.select(["operation", "bytes_before", "bytes_after"]).to_pylist()
    totals = {"bytes reclaimed": 0, "bytes purged": 0}
    for row in rows:
        totals[row["operation"]] = totals.get(row["operation"], 0) + 1
        name = "bytes purged" if row["operation"] == "purge" else "bytes reclaimed"
        totals[name] += (row["bytes_before"] or 0) - (row["bytes_after"] or 0)
    return totals


def _newest(table: "pa.Table") -> list[dg.TableRecord]:
    newest = table.select(list(_SHOWN_COLUMNS)).slice(max(len(table) - SHOWN_ROWS, 0))
    return [dg.TableRecord(_cells(row)) for row in reversed(newest.to_pylist())]


def _cells(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row in the types of Dagster's tables."""
    return {
        name: f"{value:%F %T}Z" if isinstance(value, datetime) else "" if value is None else value
        for name, value in row.items()
    }
