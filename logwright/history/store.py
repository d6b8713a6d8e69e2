"""The files of the maintenance history: ``date=YYYY-MM-DD/<run id>-<step>.parquet``.

A reader sees all of a file or nothing of it. The date is that of the first row's start, UTC.

The files of a day that is over are merged into one. Between the rename of the merged file and the
removal of its sources a reader that does not know of it, such as DuckDB, sees their rows twice; the
merged file has the names of its sources, so that `read_history` ignores them, and the next merge
removes what an interrupted one left. No order of these steps loses a row.
"""

from __future__ import annotations

import json
import os
import secrets
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from logwright import durable
from logwright.history.schema import arrow_schema, rows_to_table
from logwright.locks import release, try_lock

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from logwright.history.model import HistoryRow

MERGE_FILES: Final = 8
"""A day with fewer files is not merged."""
MERGED_KEY: Final = b"logwright.history.merged"
"""Key of the names of a merged file's sources in its metadata, a JSON list."""

_MERGED_PREFIX: Final = "merged-"
_LOCK: Final = ".merge.lock"
_ATTEMPTS: Final = 3


def write_history(directory: Path, rows: Sequence[HistoryRow], *, name: str) -> Path | None:
    """Write the rows of one step of a run as one file.

    Args:
        directory: the root of the history; it is made if it does not exist.
        rows: of the step; none: no file.
        name: of the file, without its suffix; a file of that name is replaced.

    Returns:
        the file, None if there are no rows.

    Raises:
        OSError: it cannot be written; no file of that name was made or changed.
    """
    if not rows:
        return None
    started = datetime.fromtimestamp(rows[0].started_at_ms / 1000, tz=UTC)
    folder = directory / f"date={started:%Y-%m-%d}"
    durable.make_directory(folder)
    return _write(rows_to_table(rows), folder / f"{name}.parquet")


def read_history(directory: Path, *, since: date | None = None) -> pa.Table:
    """Return all rows, the oldest first. Effects: reads.

    Args:
        directory: the root; if it does not exist, there are no rows.
        since: only of runs that started on this day or later, UTC.

    Raises:
        OSError, pyarrow.ArrowException: a file is unreadable.
    """
    import pyarrow as pa  # noqa: PLC0415 -- of an extra, and it costs time

    tables = []
    for day, folder in _days(directory):
        if since is None or day >= since:
            tables += _read_day(folder)
    if not tables:
        return arrow_schema().empty_table()
    return pa.concat_tables(tables).sort_by([("started_at", "ascending"), ("log", "ascending")])


def merge_days(directory: Path, *, before: date) -> int:
    """Merge the files of each day before this one that has many. Effects: writes and removes files.

    Returns:
        the number of files that are fewer now; 0 if another process merges.

    Raises:
        OSError, pyarrow.ArrowException: a file cannot be read or written. No row is lost.
    """
    if not directory.is_dir():
        return 0
    lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        if not try_lock(lock, "exclusive"):
            return 0
        removed = sum(_merge(folder) for day, folder in _days(directory) if day < before)
        release(lock)
    finally:
        os.close(lock)
    return removed


def _read_day(folder: Path) -> list[pa.Table]:
    """Return the tables of one day; read again if a merge removed a file meanwhile."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return [_read(path) for path in _current(folder)]
        except FileNotFoundError:
            continue
    return [_read(path) for path in _current(folder)]


def _days(directory: Path) -> list[tuple[date, Path]]:
    days = []
    for path in directory.glob("date=*"):
        try:
            days.append((date.fromisoformat(path.name.removeprefix("date=")), path))
        except ValueError:
            continue
    return sorted(days)


def _merge(folder: Path) -> int:
    """Merge the files of one day; return the number of files that are fewer."""
    import pyarrow as pa  # noqa: PLC0415 -- of an extra, and it costs time

    current = _current(folder)
    stale = set(folder.glob("*.parquet")) - set(current)
    _remove(stale)
    durable.remove_leftovers(folder)
    if len(current) < MERGE_FILES:
        return len(stale)
    table = pa.concat_tables(map(_read, current))
    names = json.dumps([path.name for path in current]).encode()
    marked = table.replace_schema_metadata({**table.schema.metadata, MERGED_KEY: names})
    _write(marked, folder / f"{_MERGED_PREFIX}{secrets.token_hex(8)}.parquet")
    _remove(current)
    return len(stale) + len(current) - 1


def _current(folder: Path) -> list[Path]:
    """Return the files of a day that no merged file replaces."""
    import pyarrow.parquet as pq  # noqa: PLC0415 -- of an extra, and it costs time

    files = sorted(folder.glob("*.parquet"))
    replaced: set[str] = set()
    for path in files:
        if path.name.startswith(_MERGED_PREFIX):
            names = (pq.read_schema(path).metadata or {}).get(MERGED_KEY, b"[]")
            replaced.update(json.loads(names))
    return [path for path in files if path.name not in replaced]


def _read(path: Path) -> pa.Table:
    """Return one file's rows in today's schema: columns that it lacks are null."""
    import pyarrow as pa  # noqa: PLC0415 -- of an extra, and it costs time
    import pyarrow.parquet as pq  # noqa: PLC0415

    table = pq.read_table(path, partitioning=None)
    schema = arrow_schema()
    columns = [
        table.column(field.name).cast(field.type)
        if field.name in table.schema.names
        else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _write(table: pa.Table, path: Path) -> Path:
    """Write a file so that its name has all of it or does not exist."""
    import pyarrow.parquet as pq  # noqa: PLC0415 -- of an extra, and it costs time

    with durable.replacing(path) as file:
        pq.write_table(table, file, compression="zstd")
    return path


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
