"""Places in a table where a person can hide. `docs/what-is-searched.md` has the same kinds."""

from __future__ import annotations

import base64
import json
import sqlite3
import struct
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote
from uuid import UUID

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

Plant = Callable[[Path, str], None]
PERSONS = ("ann@example.com", "eve@example.com")
NUMBERS = ("421177", "421178")
UUIDS = ("8d5f2a10-5a4e-4b7e-9c1d-0a1b2c3d4e5f", "8d5f2a10-5a4e-4b7e-9c1d-0a1b2c3d4e60")
DATES = ("1980-02-03", "1980-02-04")
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


def _list(kind: Callable[[pa.DataType], pa.DataType], of: pa.DataType | None = None) -> Plant:
    return column(lambda who: pa.array([["x", who]], kind(of or pa.string())))


def _puffin(who: str) -> bytes:
    return b"PFA1" + who.encode() + b"PFA1"


_COLUMNS = [
    Hidden("bytes and text", "string", column(lambda who: [who])),
    Hidden("bytes and text", "binary", column(lambda who: [who.encode()])),
    Hidden(
        "bytes and text", "large_string", column(lambda who: pa.array([who], pa.large_string()))
    ),
    Hidden(
        "bytes and text", "large_binary", column(lambda who: pa.array([who], pa.large_binary()))
    ),
    Hidden("bytes and text", "string_view", column(lambda who: pa.array([who], pa.string_view()))),
    Hidden("bytes and text", "binary_view", column(lambda who: pa.array([who], pa.binary_view()))),
    Hidden(
        "bytes and text",
        "fixed_size_binary",
        column(lambda who: pa.array([who.encode()], pa.binary(len(who)))),
    ),
    Hidden("bytes and text", "json", column(lambda who: pa.array([who]).cast(pa.json_()))),
    Hidden("nested columns", "list", _list(pa.list_)),
    Hidden("nested columns", "large_list", _list(pa.large_list)),
    Hidden("nested columns", "list_view", _list(pa.list_view)),
    Hidden("nested columns", "large_list_view", _list(pa.large_list_view)),
    Hidden("nested columns", "list of views", _list(pa.list_, pa.string_view())),
    Hidden("nested columns", "fixed_size_list", _list(lambda kind: pa.list_(kind, 2))),
    Hidden("nested columns", "struct", column(lambda who: [{"a": {"b": who}}])),
    Hidden(
        "nested columns",
        "key of a map",
        column(lambda who: pa.array([[(who, 1)]], pa.map_(pa.string(), pa.int32()))),
    ),
    Hidden(
        "nested columns",
        "value of a map",
        column(lambda who: pa.array([[("a", [who])]], pa.map_(pa.string(), pa.list_(pa.string())))),
    ),
    Hidden("nested columns", "list of lists", column(lambda who: [[[], ["x", who]]])),
    Hidden("nested columns", "list of structs", column(lambda who: [[{"a": None}, {"a": who}]])),
    Hidden("dictionaries", "a value", column(lambda who: pa.array([who]).dictionary_encode())),
    Hidden(
        "dictionaries",
        "nested",
        column(lambda who: pa.array([[who]], pa.list_(pa.dictionary(pa.int32(), pa.string())))),
    ),
    Hidden(
        "dictionaries",
        "a value that no row has",
        column(lambda who: pa.DictionaryArray.from_arrays(pa.array([0]), pa.array(["x", who]))),
    ),
    Hidden(
        "dictionaries",
        "a value that no row has, in a file that does not say so",
        column(
            lambda who: pa.DictionaryArray.from_arrays(pa.array([0]), pa.array(["x", who])),
            store_schema=False,
        ),
    ),
    Hidden("a type that is not known", "variant", variant, "not searched"),
]
_NUMBERS = [
    *(
        Hidden(
            "numbers, UUIDs, dates and times",
            f"{kind}",
            column(lambda who, kind=kind: pa.array([int(who)], kind)),
            keys=NUMBERS,
        )
        for kind in (pa.int32(), pa.int64(), pa.uint32(), pa.uint64(), pa.float64())
    ),
    Hidden(
        "numbers, UUIDs, dates and times",
        "decimal",
        column(lambda who: pa.array([Decimal(f"{who}.00")], pa.decimal128(20, 2))),
        keys=NUMBERS,
    ),
    Hidden(
        "numbers, UUIDs, dates and times",
        "list of numbers",
        column(lambda who: [[1, int(who)]]),
        keys=NUMBERS,
    ),
    Hidden(
        "numbers, UUIDs, dates and times",
        "uuid",
        column(lambda who: pa.array([UUID(who).bytes], pa.uuid())),
        keys=UUIDS,
    ),
    Hidden(
        "numbers, UUIDs, dates and times",
        "16 bytes",
        column(lambda who: pa.array([UUID(who).bytes], pa.binary(16))),
        keys=UUIDS,
    ),
    Hidden(
        "numbers, UUIDs, dates and times",
        "date",
        column(lambda who: [date.fromisoformat(who)]),
        keys=DATES,
    ),
    Hidden(
        "numbers, UUIDs, dates and times",
        "timestamp",
        column(
            lambda who: pa.array([datetime.fromisoformat(who)], pa.timestamp("ms", "Asia/Tokyo"))
        ),
        keys=("1980-02-03T04:05:06", "1980-02-03T04:05:07"),
    ),
]
_SCHEMAS = [
    Hidden("names and metadata of a Parquet file", "name of a column", named_column),
    Hidden(
        "names and metadata of a Parquet file",
        "name in a struct",
        column(lambda who: [{who: 1}]),
    ),
    Hidden(
        "names and metadata of a Parquet file",
        "metadata of a column",
        schema_with(lambda schema, who: schema.set(1, schema.field(1).with_metadata({"of": who}))),
    ),
    Hidden(
        "names and metadata of a Parquet file",
        "metadata",
        schema_with(lambda schema, who: schema.with_metadata({"note": f"of {who}, again"})),
    ),
    Hidden(
        "names and metadata of a Parquet file",
        "metadata with JSON",
        schema_with(lambda schema, who: schema.with_metadata({"pandas": json.dumps([{who: 1}])})),
    ),
    Hidden("statistics of a Parquet file", "of a row that is not there", strange_statistics),
]
_PATHS = [
    Hidden("paths", "value of a partition", at_path(lambda who: f"customer={who}/x.parquet")),
    Hidden("paths", "escaped", at_path(lambda who: f"customer={quote(who)}/x.parquet")),
    Hidden("paths", "escaped twice", at_path(lambda who: f"c={quote(quote(who))}/x.parquet")),
    Hidden("paths", "name of a directory", at_path(lambda who: f"{who}/x.parquet")),
    Hidden("paths", "name of a file", at_path(lambda who: f"export-{who}.parquet")),
    Hidden("paths", "in base64", at_path(lambda who: f"c={_base64(who)}/x.parquet")),
    Hidden("paths", "a number", at_path(lambda who: f"c={who}/x.parquet"), keys=NUMBERS),
    Hidden("paths", "a number of a file", at_path(lambda who: f"{who}.parquet"), keys=NUMBERS),
    Hidden("paths", "an empty directory", empty_directory),
]


def _base64(who: str) -> str:
    return base64.urlsafe_b64encode(who.encode()).decode()


_FORMS: Sequence[tuple[str, Callable[[str], str]]] = [
    ("quoted", lambda who: f"(key = '{who}')"),
    ("as Spark writes it", lambda who: f"(key#480 = {who})"),
    ("a function of Spark", lambda who: f"StartsWith(key#1, {who})"),
    ("without blanks", lambda who: f"key={who}"),
    ("a list", lambda who: f"key#1 IN (x,{who},y)"),
    ("a list of texts", lambda who: f"key IN ('x', '{who}')"),
    ("in double quotes", lambda who: f'"key" = "{who}"'),
    ("hex of Spark", lambda who: f"(key#480 = 0x{who.encode().hex().upper()})"),
    ("hex of SQL", lambda who: f"key = X'{who.encode().hex()}'"),
    ("hex of Trino", lambda who: f"key = X'{who.encode().hex(' ')}'"),
    ("base64", lambda who: f"(key = unbase64('{base64.b64encode(who.encode()).decode()}'))"),
    ("a list of bytes", lambda who: f"key = {', '.join(str(b) for b in who.encode())}"),
    ("as DataFusion writes it", lambda who: f'key = Utf8("{who}")'),
    ("escaped", lambda who: f"key = '{who.replace('@', chr(92) + 'u0040')}'"),
    ("escaped for an address", lambda who: f"url = '/c/{quote(who)}'"),
    ("in a CASE", lambda who: f"CASE WHEN (a#1 <=> {who}) THEN false ELSE true END"),
    ("long", lambda who: " OR ".join(f"(key = u{n})" for n in range(12)) + f" OR key = {who}"),
]
_DELTA = [
    *(Hidden("conditions of Delta's log", name, condition(form)) for name, form in _FORMS),
    Hidden(
        "conditions of Delta's log", "a number", condition(lambda w: f"(id#1 = {w})"), keys=NUMBERS
    ),
    Hidden(
        "conditions of Delta's log",
        "of a merge",
        condition(lambda who: f"(t.key = {who})", "mergePredicate"),
    ),
    Hidden(
        "notes in Delta's log",
        "userMetadata",
        in_delta(lambda who: {"commitInfo": {"userMetadata": f"deleted {who} as asked"}}),
    ),
    Hidden(
        "notes in Delta's log",
        "a number in userMetadata",
        in_delta(lambda who: {"commitInfo": {"userMetadata": who}}),
        keys=NUMBERS,
    ),
    Hidden(
        "notes in Delta's log",
        "engineInfo",
        in_delta(lambda who: {"commitInfo": {"engineInfo": f"job-of-{who}/1.0"}}),
    ),
    Hidden(
        "notes in Delta's log",
        "property",
        in_delta(lambda who: {"metaData": {"configuration": {"owner": f"mailto:{who}"}}}),
    ),
    Hidden(
        "notes in Delta's log",
        "a name twice in an object",
        next_to(
            "_delta_log/00000000000000000000.json",
            lambda who: f'{{"txn": {{"appId": "{who}", "appId": "x"}}}}'.encode(),
        ),
    ),
    Hidden(
        "values of partitions in Delta's log",
        "text",
        in_delta(lambda who: removed(partitionValues={"customer": who})),
    ),
    Hidden(
        "values of partitions in Delta's log",
        "number",
        in_delta(lambda who: removed(partitionValues={"customer": who})),
        keys=NUMBERS,
    ),
    Hidden(
        "values of partitions in Delta's log",
        "path",
        in_delta(lambda who: {"add": {"path": f"customer={quote(quote(who))}/y.parquet"}}),
    ),
    Hidden(
        "statistics in Delta's log",
        "text",
        in_delta(lambda who: removed(stats=json.dumps({"minValues": {"a": {"b": who}}}))),
    ),
    Hidden(
        "statistics in Delta's log",
        "number",
        in_delta(lambda who: removed(stats=json.dumps({"maxValues": {"id": int(who)}}))),
        keys=NUMBERS,
    ),
    Hidden(
        "checkpoints of Delta's log",
        "statistics",
        checkpoint(lambda who: {"stats": json.dumps({"minValues": {"a": who}})}),
    ),
    Hidden(
        "checkpoints of Delta's log",
        "parsed statistics",
        checkpoint(lambda who: {"stats_parsed": {"minValues": {"id": int(who)}}}),
        keys=NUMBERS,
    ),
    Hidden(
        "checkpoints of Delta's log",
        "path",
        checkpoint(lambda who: {"path": f"customer={quote(who)}/y.parquet"}),
    ),
]
_ICEBERG = [
    Hidden(
        "metadata of Iceberg",
        "summary",
        in_iceberg(lambda who: {"snapshots": [{"summary": {"job": f"of {who}"}}]}),
    ),
    Hidden("metadata of Iceberg", "property", in_iceberg(lambda who: {"properties": {"a": who}})),
    Hidden(
        "metadata of Iceberg",
        "number of a property",
        in_iceberg(lambda who: {"properties": {"customer-id": who}}),
        keys=NUMBERS,
    ),
    Hidden(
        "metadata of Iceberg",
        "query of a view",
        in_iceberg(lambda who: {"sql": f"(TABLE t) WHERE email='{who}' LIMIT 1"}),
    ),
    Hidden(
        "manifests of Iceberg",
        "value of a partition",
        manifest("string", "partition", lambda who: {"customer": who}),
    ),
    Hidden(
        "manifests of Iceberg",
        "number of a partition",
        manifest("long", "partition", lambda who: {"customer": int(who)}),
        keys=NUMBERS,
    ),
    Hidden(
        "manifests of Iceberg",
        "bound",
        manifest("int", "lower_bounds", lambda who: [{"key": 1, "value": who.encode()}]),
    ),
    Hidden(
        "manifests of Iceberg",
        "bound of a number",
        manifest(
            "int",
            "lower_bounds",
            lambda who: [{"key": 1, "value": struct.pack("<q", int(who))}],
            of_fields("long"),
        ),
        keys=NUMBERS,
    ),
    Hidden(
        "manifests of Iceberg",
        "bound of a UUID",
        manifest(
            "int",
            "lower_bounds",
            lambda who: [{"key": 1, "value": UUID(who).bytes}],
            of_fields("uuid"),
        ),
        keys=UUIDS,
    ),
    Hidden(
        "manifests of Iceberg",
        "metadata of keys",
        manifest("int", "key_metadata", lambda who: f"of {who}".encode()),
    ),
    Hidden("delete files of Iceberg", "positions", position_deletes),
    Hidden("delete files of Iceberg", "values", equality_deletes),
    Hidden("catalogs", "a property", catalog),
]
_OTHERS = [
    Hidden("rows in JSON", "text", next_to("rows.json", lambda who: f'{{"a": "{who}"}}'.encode())),
    Hidden(
        "rows in JSON",
        "number",
        next_to("rows.json", lambda who: f'{{"customer": {who}}}'.encode()),
        keys=NUMBERS,
    ),
    Hidden(
        "other formats", "text", next_to("x.csv", lambda who: f"a,{who}".encode()), "not searched"
    ),
    Hidden(
        "other formats", "ORC", next_to("x.orc", lambda who: b"ORC" + who.encode()), "not searched"
    ),
    Hidden("other formats", "Puffin", next_to("metadata/x.stats", _puffin), "not searched"),
    Hidden(
        "other formats",
        "metadata of Hudi",
        next_to(".hoodie/1.commit", lambda who: json.dumps({"a": who}).encode()),
        "not searched",
    ),
    Hidden(
        "other formats",
        "UTF-16",
        next_to("x.json", lambda w: f'"{w}"'.encode("utf-16")),
        "not searched",
    ),
]
HIDDEN = [*_COLUMNS, *_NUMBERS, *_SCHEMAS, *_PATHS, *_DELTA, *_ICEBERG, *_OTHERS]


def unions(who: str) -> dict[str, pa.Array]:
    """Columns of types that Arrow has and Parquet has not, with somebody in the last row."""
    words, types = pa.array(["x", "x", who]), pa.array([0, 1, 0], pa.int8())
    dense = [pa.array(["x", who]), pa.array([1])]
    runs = pc.run_end_encode(words)
    return {
        "sparse": pa.UnionArray.from_sparse(types, [words, pa.array([1, 2, 3])]),
        "dense": pa.UnionArray.from_dense(types, pa.array([0, 0, 1], pa.int32()), dense),
        "runs": runs,
        "a slice of runs": pc.run_end_encode(pa.array(["x", *words.to_pylist()])).slice(1),
        "dictionary of views": pa.DictionaryArray.from_arrays(
            pa.array([0, 0, 1]), pa.array(["x", who], pa.string_view())
        ),
        "dictionary of lists": pa.DictionaryArray.from_arrays(
            pa.array([0, 0, 1]), pa.array([["x"], [who]])
        ),
        "a slice of views": pa.array([[who], ["x"], [], [who]], pa.list_view(pa.string())).slice(1),
    }
