"""Places in a table where a person can hide. `docs/what-is-searched.md` has the same kinds."""

from __future__ import annotations

import base64
import gzip
import json
import struct
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from urllib.parse import quote
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from tests.plants_in_tables import (
    DATES,
    NUMBERS,
    TIMES,
    UUIDS,
    Hidden,
    at_path,
    catalog,
    checkpoint,
    column,
    condition,
    days_of,
    empty_directory,
    equality_deletes,
    in_avro,
    in_delta,
    in_iceberg,
    list_of,
    manifest,
    micros_of,
    named_column,
    next_to,
    of_fields,
    position_deletes,
    puffin,
    removed,
    rows,
    schema_with,
    sidecar,
    strange_statistics,
    variant,
)

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
    Hidden("nested columns", "list", list_of(pa.list_)),
    Hidden("nested columns", "large_list", list_of(pa.large_list)),
    Hidden("nested columns", "list_view", list_of(pa.list_view)),
    Hidden("nested columns", "large_list_view", list_of(pa.large_list_view)),
    Hidden("nested columns", "list of views", list_of(pa.list_, pa.string_view())),
    Hidden("nested columns", "fixed_size_list", list_of(lambda kind: pa.list_(kind, 2))),
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
        keys=TIMES,
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
        "statistics in Delta's log",
        "time",
        in_delta(lambda who: removed(stats=json.dumps({"minValues": {"t": f"{who}.000Z"}}))),
        keys=TIMES,
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
_DELTA += [
    Hidden(
        "notes in Delta's log",
        "application of a transaction",
        in_delta(lambda who: {"txn": {"appId": f"of {who}", "version": 1}}),
    ),
    Hidden(
        "notes in Delta's log",
        "metadata of a domain",
        in_delta(
            lambda who: {
                "domainMetadata": {
                    "domain": "d",
                    "configuration": json.dumps({"owner": who}),
                    "removed": False,
                }
            }
        ),
    ),
    Hidden(
        "notes in Delta's log",
        "tag of a file",
        in_delta(lambda who: removed(tags={"batch": f"of {who}"})),
    ),
    Hidden(
        "conditions of Delta's log",
        "constraint of a table",
        in_delta(
            lambda who: {"metaData": {"configuration": {"delta.constraints.c": f"key <> '{who}'"}}}
        ),
    ),
    Hidden(
        "conditions of Delta's log",
        "default of a column",
        in_delta(
            lambda who: {
                "metaData": {
                    "schemaString": json.dumps(
                        {
                            "type": "struct",
                            "fields": [
                                {
                                    "name": "a",
                                    "type": "string",
                                    "metadata": {"CURRENT_DEFAULT": f"'{who}'"},
                                }
                            ],
                        }
                    )
                }
            }
        ),
    ),
    Hidden(
        "checkpoints of Delta's log",
        "one in JSON",
        in_delta(
            lambda who: removed(partitionValues={"customer": who}),
            at="00000000000000000010.checkpoint.12345678-1234-5678-1234-567812345678.json",
        ),
    ),
    Hidden(
        "checkpoints of Delta's log",
        "several commits together",
        in_delta(
            lambda who: removed(partitionValues={"customer": who}),
            at="00000000000000000000.00000000000000000004.compacted.json",
        ),
    ),
    Hidden(
        "checkpoints of Delta's log",
        "a part of one",
        sidecar,
    ),
    Hidden(
        "checkpoints of Delta's log",
        "one with rows, too",
        lambda root, who: rows(
            root / "_delta_log/_sidecars/12345678-1234-5678-1234-567812345678.parquet",
            {"add": [{"path": f"customer={quote(who)}/y.parquet"}]},
        ),
    ),
    Hidden(
        "checkpoints of Delta's log",
        "sums of a version",
        in_delta(
            lambda who: {"allFiles": [{"path": "y.parquet", "partitionValues": {"c": who}}]},
            at="00000000000000000001.crc",
        ),
    ),
    Hidden(
        "changes of Delta's rows",
        "a changed row",
        lambda root, who: rows(root / "_change_data/cdc-0.parquet", {"a": [who]}),
    ),
]
_ICEBERG = [
    Hidden(
        "metadata of Iceberg",
        "name of a branch",
        in_iceberg(lambda who: {"refs": {f"job-{who}": {"snapshot-id": 1, "type": "branch"}}}),
    ),
    Hidden(
        "metadata of Iceberg",
        "words on a column",
        in_iceberg(
            lambda who: {"schemas": [{"fields": [{"id": 1, "name": "a", "doc": f"of {who}"}]}]}
        ),
    ),
    Hidden(
        "metadata of Iceberg",
        "default of a column",
        in_iceberg(
            lambda who: {"schemas": [{"fields": [{"id": 1, "name": "a", "initial-default": who}]}]}
        ),
    ),
    Hidden(
        "metadata of Iceberg",
        "property of a statistic",
        in_iceberg(
            lambda who: {
                "statistics": [{"blob-metadata": [{"type": "x", "properties": {"of": who}}]}]
            }
        ),
    ),
    Hidden(
        "compressed metadata",
        "of Iceberg",
        next_to(
            "metadata/00001-12345678-1234-5678-1234-567812345678.gz.metadata.json",
            lambda who: gzip.compress(json.dumps({"properties": {"a": who}}).encode()),
        ),
        "not searched",
    ),
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
        "bound of a date",
        manifest(
            "int",
            "lower_bounds",
            lambda who: [{"key": 1, "value": struct.pack("<i", days_of(who))}],
            of_fields("date"),
        ),
        keys=DATES,
    ),
    Hidden(
        "manifests of Iceberg",
        "bound of a timestamp",
        manifest(
            "int",
            "lower_bounds",
            lambda who: [{"key": 1, "value": struct.pack("<q", micros_of(who))}],
            of_fields("timestamptz"),
        ),
        keys=TIMES,
    ),
    Hidden(
        "manifests of Iceberg",
        "bound of a decimal",
        manifest(
            "int",
            "lower_bounds",
            lambda who: [{"key": 1, "value": (100 * int(who)).to_bytes(4, "big", signed=True)}],
            of_fields("decimal(9, 2)"),
        ),
        keys=NUMBERS,
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
    Hidden("rows in Avro", "text", in_avro("string", lambda who: who)),
    Hidden("rows in Avro", "bytes", in_avro("bytes", lambda who: who.encode())),
    Hidden("rows in Avro", "number", in_avro("long", int), keys=NUMBERS),
    Hidden(
        "rows in Avro",
        "decimal",
        in_avro(
            {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
            lambda who: Decimal(f"{who}.00"),
        ),
        keys=NUMBERS,
    ),
    Hidden(
        "rows in Avro",
        "date",
        in_avro({"type": "int", "logicalType": "date"}, date.fromisoformat),
        keys=DATES,
    ),
    Hidden(
        "rows in Avro",
        "timestamp",
        in_avro(
            {"type": "long", "logicalType": "timestamp-millis"},
            lambda who: datetime.fromisoformat(f"{who}+00:00"),
        ),
        keys=TIMES,
    ),
    Hidden(
        "rows in Avro",
        "UUID",
        in_avro({"type": "fixed", "name": "u", "size": 16}, lambda who: UUID(who).bytes),
        keys=UUIDS,
    ),
    Hidden(
        "rows in JSON",
        "a number with many digits",
        next_to("rows.json", lambda who: f'{{"customer": {who}.0}}'.encode()),
        keys=("1234567890123456789", "1234567890123456788"),
    ),
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
    Hidden("other formats", "Puffin", next_to("metadata/x.stats", puffin), "not searched"),
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
