"""The rows of tables of the latest state, read without logwright's own code: by DuckDB from Parquet
files, by the query engine of `deltalake`, by Iceberg's metadata as its specification has them.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder

from logwright.tables.parquet import manifest_of
from tests.latest_rows import replayed
from tests.sequences.reading import read_content

FORMATS = ("parquet", "delta", "iceberg")

_DELETED = pa.table({"file_path": pa.array([], pa.string()), "pos": pa.array([], pa.int64())})
_WITHOUT_DELETED = """
SELECT * EXCLUDE (filename, file_row_number) FROM rows ANTI JOIN deleted
ON regexp_replace(deleted.file_path, '^file:(//)?', '') = rows.filename
AND deleted.pos = rows.file_row_number
"""

Rows = list[tuple[int, int, bytes, bytes]]
"""Partition, offset, key and value, sorted."""


def expected_rows(log_dir: Path, topic: str) -> Rows:
    """What a plain dictionary over the decoded records of a topic holds."""
    rows = []
    for directory in sorted(log_dir.glob(f"{topic}-*")):
        number = int(directory.name.rpartition("-")[2])
        rows += [
            (number, offset, key, value)
            for key, value, offset, _, _ in replayed(read_content(log_dir, directory.name))
        ]
    return sorted(rows)


def table_rows(form: str, path: Path, columns: Iterable[str] = ("key", "value")) -> list[Any]:
    """The rows of a table: partition, offset, and these columns."""
    table = read_table(form, path)
    names = ["partition", "offset", *columns]
    return sorted(zip(*(table[name].to_pylist() for name in names), strict=True))


def read_table(form: str, path: Path) -> pa.Table:
    """All of a table, by another engine."""
    if form == "delta":
        query = QueryBuilder().register("t", DeltaTable(str(path))).execute("SELECT * FROM t")
        return pa.table(query.read_all())
    if form == "iceberg":
        return read_iceberg(_in_sqlite(path))
    with duckdb.connect() as connection:
        pattern = f"{path}/partition=*/bucket=*/*.parquet"
        return connection.read_parquet(pattern, hive_partitioning=True).to_arrow_table()


def read_iceberg(metadata: str) -> pa.Table:
    """All of a table of Iceberg. `metadata`: location of its newest metadata file."""
    with duckdb.connect() as connection:
        files, deletes = _files_of(metadata)
        if not files:
            return pa.table({name: [] for name in ("partition", "offset", "key", "value")})
        connection.register("deleted", _DELETED)
        if deletes:
            connection.register("deleted", connection.read_parquet(deletes))
        rows = connection.read_parquet(
            files, hive_partitioning=False, filename=True, file_row_number=True
        )
        connection.register("rows", rows)
        return connection.sql(_WITHOUT_DELETED).to_arrow_table()


def iceberg_files(path: Path) -> tuple[list[str], list[str]]:
    """The data files and position delete files of a table's current snapshot, by catalog, metadata
    and manifests.
    """
    return _files_of(_in_sqlite(path))


def _in_sqlite(path: Path) -> str:
    with sqlite3.connect(path / "catalog.db") as catalog:
        ((location,),) = catalog.execute("SELECT metadata_location FROM iceberg_tables")
    return str(location)


def _files_of(location: str) -> tuple[list[str], list[str]]:
    metadata = json.loads(_local(location).read_text())
    current = metadata.get("current-snapshot-id")
    paths: tuple[list[str], list[str]] = [], []
    for snapshot in metadata["snapshots"]:
        if snapshot["snapshot-id"] != current:
            continue
        for manifest in _avro(snapshot["manifest-list"]):
            for entry in _avro(manifest["manifest_path"]):
                file = entry["data_file"]
                assert manifest["content"] == file["content"]
                if entry["status"] != 2:
                    paths[file["content"]].append(str(_local(file["file_path"])))
    return paths


def version_of(form: str, path: Path) -> object:
    """What changes with each version of a table."""
    if form == "delta":
        return DeltaTable(str(path)).version()
    if form == "iceberg":
        with sqlite3.connect(path / "catalog.db") as catalog:
            return catalog.execute("SELECT metadata_location FROM iceberg_tables").fetchall()
    return [
        (str(file), file.stat().st_ino, file.stat().st_mtime_ns)
        for file in sorted([*path.rglob("*.parquet"), manifest_of(path)])
    ]


def _avro(location: str) -> list[Any]:
    with _local(location).open("rb") as file:
        return list(fastavro.reader(file))


def _local(location: str) -> Path:
    return Path(location.removeprefix("file:").removeprefix("//"))


def files_with(table: Path, text: bytes) -> list[str]:
    """The files below a table that have a text, whether a version needs them or not."""
    files = sorted(path for path in table.rglob("*") if path.is_file())
    return [
        str(path.relative_to(table))
        for path in files
        if any(text in one for one in (path.read_bytes(), _content(path)))
    ]


def _content(path: Path) -> bytes:
    """What a file of Parquet or Avro has, decompressed; nothing of one that is not whole."""
    try:
        if path.suffix == ".parquet":
            with pq.ParquetFile(path) as file:
                return repr(file.read().to_pylist()).encode()
        if path.suffix == ".avro":
            with path.open("rb") as opened:
                return repr(list(fastavro.reader(opened))).encode()
    except (pa.ArrowInvalid, ValueError, EOFError):
        pass
    return b""
