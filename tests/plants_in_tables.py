"""Tables with somebody in them: what plants a person in each place of `tests.hidden_in_tables`."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import date, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

Plant = Callable[[Path, str], None]
PERSONS = ("ann@example.com", "eve@example.com")
NUMBERS = ("421177", "421178")
UUIDS = ("8d5f2a10-5a4e-4b7e-9c1d-0a1b2c3d4e5f", "8d5f2a10-5a4e-4b7e-9c1d-0a1b2c3d4e60")
DATES = ("1980-02-03", "1980-02-04")
TIMES = ("1980-02-03T04:05:06", "1980-02-03T04:05:07")
NOBODY = b"nobody"


class Hidden(NamedTuple):
    """A place in which somebody is.

    Attributes:
        kind: of the place, as the documents call it.
        plant: writes a table with somebody there.
        says: what is said of a request for the key.
        keys: of the request, and of somebody else.
    """

    kind: str
    name: str
    plant: Plant
    says: Literal["found", "not searched"] = "found"
    keys: tuple[str, str] = PERSONS


def rows(root: Path, columns: Mapping[str, Any] | None = None, **words: Any) -> None:  # noqa: ANN401 -- those of pyarrow
    """Write a file of a table in which nobody is, but in these columns."""
    root.parent.mkdir(parents=True, exist_ok=True)
    keys = pa.array([NOBODY], pa.binary())
    pq.write_table(pa.table({"key": keys, **(columns or {})}), root, **words)


def column(make: Callable[[str], Any], **words: Any) -> Plant:  # noqa: ANN401 -- those of pyarrow
    """A column with somebody in it."""

    def plant(root: Path, who: str) -> None:
        rows(root / "x.parquet", {"other": make(who)}, **words)

    return plant


def schema_with(change: Callable[[pa.Schema, str], pa.Schema]) -> Plant:
    """A file whose schema says a person."""

    def plant(root: Path, who: str) -> None:
        root.mkdir()
        table = pa.table({"key": pa.array([NOBODY]), "n": [1]})
        pq.write_table(table.cast(change(table.schema, who)), root / "x.parquet")

    return plant


def at_path(path: Callable[[str], str]) -> Plant:
    """A file with somebody in its path."""
    return lambda root, who: rows(root / path(who))


def in_delta(
    *actions: Callable[[str], dict[str, Any]], at: str = "00000000000000000000.json"
) -> Plant:
    """A table of Delta whose log has these actions."""

    def plant(root: Path, who: str) -> None:
        rows(root / "x.parquet")
        (root / "_delta_log").mkdir()
        lines = [json.dumps(action(who)) for action in actions]
        (root / "_delta_log" / at).write_text("\n".join(lines))

    return plant


def condition(text: Callable[[str], str], name: str = "predicate") -> Plant:
    """A commit of Delta with a condition."""
    return in_delta(
        lambda who: {
            "commitInfo": {
                "operation": "DELETE",
                "operationParameters": {name: json.dumps([text(who)])},
                "engineInfo": "Apache-Spark/3.5.0 Delta-Lake/3.2.0",
            }
        }
    )


def removed(**fields: Any) -> dict[str, Any]:  # noqa: ANN401 -- those of Delta
    """A file that is away."""
    path = "part-00000-12345678-1234-5678-1234-567812345678-c000.snappy.parquet"
    return {"remove": {"path": path, "dataChange": True, **fields}}


def checkpoint(fields: Callable[[str], dict[str, Any]]) -> Plant:
    """A checkpoint of Delta's log."""

    def plant(root: Path, who: str) -> None:
        rows(root / "x.parquet")
        (root / "_delta_log").mkdir()
        table = pa.Table.from_pylist([{"add": {"path": "y.parquet", **fields(who)}}])
        pq.write_table(table, root / "_delta_log/00000000000000000010.checkpoint.parquet")

    return plant


def sidecar(root: Path, who: str) -> None:
    """A part of a checkpoint of Delta's log, in a file of its own."""
    path = root / "_delta_log/_sidecars/12345678-1234-5678-1234-567812345678.parquet"
    path.parent.mkdir(parents=True)
    action = {"add": {"path": f"customer={quote(who)}/y.parquet", "dataChange": False}}
    pq.write_table(pa.Table.from_pylist([action]), path)


def in_avro(kind: object, value: Callable[[str], Any]) -> Plant:
    """Rows in a file of Avro."""

    def plant(root: Path, who: str) -> None:
        root.mkdir()
        fields = [{"name": "key", "type": "bytes"}, {"name": "a", "type": kind}]
        schema = {"type": "record", "name": "row", "fields": fields}
        with (root / "x.avro").open("wb") as file:
            fastavro.writer(file, schema, [{"key": NOBODY, "a": value(who)}])

    return plant


def in_iceberg(make: Callable[[str], dict[str, Any]]) -> Plant:
    """Metadata of a table of Iceberg."""

    def plant(root: Path, who: str) -> None:
        rows(root / "data/x.parquet")
        (root / "metadata").mkdir()
        (root / "metadata/v1.metadata.json").write_text(json.dumps(make(who)))

    return plant


def manifest(
    kind: str, field: str, value: Callable[[str], Any], metadata: Mapping[str, str] | None = None
) -> Plant:
    """A manifest of Iceberg, of a file that is away."""
    pair = {
        "type": "record",
        "name": "pair",
        "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": "bytes"}],
    }
    types: dict[str, Any] = {
        "partition": {
            "type": "record",
            "name": "r102",
            "fields": [{"name": "customer", "type": ["null", kind]}],
        },
        "lower_bounds": {"type": "array", "items": pair},
        "key_metadata": ["null", "bytes"],
    }

    def plant(root: Path, who: str) -> None:
        rows(root / "data/x.parquet")
        (root / "metadata").mkdir()
        data_file = {
            "type": "record",
            "name": "r2",
            "fields": [
                {"name": "file_path", "type": "string"},
                {"name": field, "type": types[field]},
            ],
        }
        schema = {
            "type": "record",
            "name": "manifest_entry",
            "fields": [{"name": "data_file", "type": data_file}],
        }
        entry = {"data_file": {"file_path": "data/away.parquet", field: value(who)}}
        path = root / "metadata/12345678-1234-5678-1234-567812345678-m0.avro"
        with path.open("wb") as file:
            fastavro.writer(file, schema, [entry], metadata=dict(metadata or {}))

    return plant


def of_fields(*types: str) -> dict[str, str]:
    """The schema of a table in the metadata of a manifest."""
    fields = [{"id": 1 + n, "name": f"c{n}", "type": kind} for n, kind in enumerate(types)]
    return {"schema": json.dumps({"type": "struct", "fields": fields})}


def days_of(text: str) -> int:
    """A date as Iceberg has it: days since 1970."""
    return (date.fromisoformat(text) - date(1970, 1, 1)).days


def micros_of(text: str) -> int:
    """A time as Iceberg has it: microseconds since 1970."""
    return round(datetime.fromisoformat(f"{text}+00:00").timestamp() * 1e6)


def next_to(name: str, content: Callable[[str], bytes]) -> Plant:
    """A file of another format next to the rows."""

    def plant(root: Path, who: str) -> None:
        rows(root / "x.parquet")
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content(who))

    return plant


def empty_directory(root: Path, who: str) -> None:
    """What a deletion of a partition leaves."""
    rows(root / "x.parquet")
    (root / f"customer={quote(who)}").mkdir()


def position_deletes(root: Path, who: str) -> None:
    """Deletes of rows in files, whose paths have somebody."""
    rows(root / "data/x.parquet")
    path = f"data/customer={quote(who)}/y.parquet"
    pq.write_table(pa.table({"file_path": [path], "pos": [0]}), root / "data/deletes.parquet")


def equality_deletes(root: Path, who: str) -> None:
    """Deletes of rows with a value."""
    rows(root / "data/x.parquet")
    pq.write_table(pa.table({"email": [who]}), root / "data/deletes.parquet")


def catalog(root: Path, who: str) -> None:
    """A catalog with a property."""
    rows(root / "x.parquet")
    with closing(sqlite3.connect(root / "catalog.db")) as connection:
        connection.execute("CREATE TABLE properties (name TEXT, value TEXT)")
        connection.execute("INSERT INTO properties VALUES ('owner', ?)", (f"mail to {who}",))
        connection.commit()


def named_column(root: Path, who: str) -> None:
    """A column for each person."""
    rows(root / "x.parquet", {f"of {who}": [1]})


def strange_statistics(root: Path, who: str) -> None:
    """Statistics of a row that is not there: somebody else is where it was."""
    rows(root / "x.parquet", {"other": [who]}, use_dictionary=False, compression="none")
    content = (root / "x.parquet").read_bytes()
    (root / "x.parquet").write_bytes(content.replace(who.encode(), b"x" * len(who), 1))


def variant(root: Path, who: str) -> None:
    """A column of the type variant, as DuckDB writes it."""
    import duckdb  # noqa: PLC0415 -- it takes a second

    root.mkdir()
    mails = f"CASE i WHEN 7 THEN 'a' WHEN 8 THEN '{who}' ELSE '{'z' * 30}' END"
    value = f"CASE WHEN i < 7 THEN i::VARIANT ELSE {{'mail': {mails}}}::VARIANT END"
    copied = f"FROM range(10) AS r(i) SELECT 'nobody'::BLOB AS key, {value} AS v"
    duckdb.sql(f"COPY ({copied}) TO '{root}/x.parquet'")


def list_of(kind: Callable[[pa.DataType], pa.DataType], of: pa.DataType | None = None) -> Plant:
    """A column of lists, in one of which somebody is."""
    return column(lambda who: pa.array([["x", who]], kind(of or pa.string())))


def puffin(who: str) -> bytes:
    """A file of statistics."""
    return b"PFA1" + who.encode() + b"PFA1"
