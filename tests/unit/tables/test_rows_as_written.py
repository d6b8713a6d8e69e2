"""Rows of records whose schemas are others than that of the columns, in a table: what official
readers make of them, or refused alone.
"""

from __future__ import annotations

import base64
import io
import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fastavro
import pytest
from google.protobuf import message_factory

from logwright.config.decoding import Decoding
from logwright.decode.dumped import decoded_records
from logwright.decode.protoc import compile_file
from logwright.format.record import RecordHeader
from tests.log_builder import LogBuilder
from tests.table_rows import read_table
from tests.table_world import place, update, write_logs

SPEC = {"format": "registry", "schemas": "schemas"}
FORMATS = ("parquet", "delta", "iceberg")


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    """A schema of Avro."""
    return {
        "type": "record",
        "name": "A",
        "fields": [{"name": name, "type": kind} for name, kind in fields],
    }


def framed(schema_id: int, content: bytes, indexes: bytes = b"") -> bytes:
    """A value in the wire format of a registry."""
    return b"\0" + struct.pack(">i", schema_id) + indexes + content


def avro(schema_id: int, schema: object, value: object) -> bytes:
    """A value of Avro."""
    content = io.BytesIO()
    fastavro.schemaless_writer(content, fastavro.parse_schema(schema), value)
    return framed(schema_id, content.getvalue())


def schemas(base: Path, **files: object) -> None:
    """Write schemas, such as ``avsc_1``."""
    (base / "schemas").mkdir()
    for name, schema in files.items():
        kind, number = name.split("_")
        text = schema if isinstance(schema, str) else json.dumps(schema)
        (base / f"schemas/{number}.{kind}").write_text(text)


def outcome(
    base: Path,
    values: Sequence[bytes],
    *,
    form: str = "parquet",
    ends: Sequence[int] = (),
    name: str = "t",
) -> tuple[dict[int, dict[str, Any]], dict[int, str]]:
    """The rows and the reasons of the refused records, by offset.

    Args:
        base: has the schemas.
        values: of records with a key each.
        ends: numbers of records after which the table is updated; at last it always is.
    """
    where = place(form, base / name, key={"format": "string"}, value=SPEC)
    for end in (*ends, len(values)):
        pairs = [(f"k{number}", value) for number, value in enumerate(values[:end])]
        logs = write_logs(base / f"logs-{name}-{end}", {0: pairs}, size=1)
        update(where, logs)
    drop = {"partition", "bucket", "timestamp", "_key", "key", "offset"}
    rows = {
        row["offset"]: {column: value for column, value in row.items() if column not in drop}
        for row in read_table(form, base / name).to_pylist()
    }
    quarantine = base / f"{name}_quarantine"
    refused = read_table(form, quarantine).to_pylist() if quarantine.exists() else []
    return rows, {row["offset"]: row["reason"] for row in refused}


@pytest.mark.parametrize("form", FORMATS)
def test_a_null_record_with_required_fields(form: str, tmp_path: Path) -> None:
    """It is a row like any other, in the first version of a table and in a later one."""
    address = {"type": "record", "name": "B", "fields": [{"name": "city", "type": "string"}]}
    schema = record(
        ("id", "int"), ("address", ["null", address]), ("either", [address["name"], "int"])
    )
    schemas(tmp_path, avsc_1=schema)
    given = [
        {"id": 1, "address": {"city": "x"}, "either": 1},
        {"id": 2, "address": None, "either": {"city": "y"}},
        {"id": 3, "address": None, "either": 2},
    ]
    rows, refused = outcome(
        tmp_path, [avro(1, schema, each) for each in given], form=form, ends=(1, 2)
    )
    assert {} == refused
    assert [1, 2, 3] == [rows[at]["id"] for at in range(3)]
    assert [{"city": "x"}, None, None] == [rows[at]["address"] for at in range(3)]
    assert [1, None, 2] == [rows[at]["either"]["int"] for at in range(3)]
    assert {"city": "y"} == rows[1]["either"]["B"]


@pytest.mark.parametrize("form", FORMATS)
def test_values_that_may_be_null_later(form: str, tmp_path: Path) -> None:
    """A table whose items and values could not be null has null ones, and is read."""

    def schema(value: object) -> dict[str, Any]:
        lists, maps = {"type": "array", "items": value}, {"type": "map", "values": value}
        return record(("list", ["null", lists]), ("map", ["null", maps]))

    old, new = schema("float"), schema(["null", "float"])
    schemas(tmp_path, avsc_1=old, avsc_2=new)
    values = [
        avro(1, old, {"list": None, "map": None}),
        avro(1, old, {"list": [1.5], "map": {"a": 0.5}}),
        avro(2, new, {"list": [None, 2.5], "map": {"k": None}}),
    ]
    rows, refused = outcome(tmp_path, values, form=form, ends=(1, 2))
    assert {} == refused
    assert [None, [1.5], [None, 2.5]] == [rows[at]["list"] for at in range(3)]
    assert [None, {"a": 0.5}, {"k": None}] == [
        None if rows[at]["map"] is None else dict(rows[at]["map"]) for at in range(3)
    ]


@pytest.mark.parametrize("form", FORMATS)
def test_an_unset_message(form: str, tmp_path: Path) -> None:
    """A message of plain fields that is not set is null."""
    text = 'syntax = "proto3"; message M { int64 id = 1; A a = 2; } message A { string city = 1; }'
    schemas(tmp_path, proto_1=text)
    values = [framed(1, b"\x08\x01", b"\0"), framed(1, b"\x08\x02\x12\x03\x0a\x01x", b"\0")]
    rows, refused = outcome(tmp_path, values, form=form)
    assert ({}, [None, {"city": "x"}]) == (refused, [rows[at]["a"] for at in (0, 1)])


def test_updates_that_are_cut_otherwise(tmp_path: Path) -> None:
    """A record is refused alone: its neighbours of the same schema are rows, in one update or in
    many.
    """
    old, new = record(("x", ["null", "string"])), record(("x", "string"))
    schemas(tmp_path, avsc_1=old, avsc_2=new)
    values = [
        avro(2, new, {"x": "w"}),
        avro(1, old, {"x": "good"}),
        avro(1, old, {"x": None}),
        avro(1, old, {"x": "too"}),
    ]
    whole = outcome(tmp_path, values, name="whole")
    assert whole == outcome(tmp_path, values, name="cut", ends=(1, 2, 3))
    rows, refused = whole
    assert {0: {"x": "w"}, 1: {"x": "good"}, 3: {"x": "too"}} == rows
    assert {2: "has a schema whose field x does not fit the columns"} == refused


def test_a_renamed_field_of_protobuf(tmp_path: Path) -> None:
    """A field is known by its number: its value is what Google's reader of the newer schema has."""
    text = 'syntax = "proto3"; message Order {{ int64 id = 1; string {} = 2; }}'
    schemas(tmp_path, proto_1=text.format("customer_name"), proto_2=text.format("customer"))
    content = b"\x08\x01\x12\x03Ada"
    descriptor = compile_file(tmp_path / "schemas/2.proto").message("Order")
    official = message_factory.GetMessageClass(descriptor).FromString(content)
    rows, refused = outcome(tmp_path, [framed(1, content, b"\0"), framed(2, content, b"\0")])
    assert {} == refused
    assert rows[0] == rows[1] == {"id": official.id, "customer": official.customer}


def test_another_type_in_the_topic(tmp_path: Path) -> None:
    """Objects of another JSON Schema are not rows of nulls, whether the schemas have titles or not,
    and whether they have a field in common or not.
    """

    def kind(*names: str, title: str | None = None) -> dict[str, Any]:
        properties = {name: {"type": "integer"} for name in names}
        return {"type": "object", "properties": properties} | ({"title": title} if title else {})

    schemas(
        tmp_path,
        json_1=kind("order", "id", title="Order"),
        json_2=kind("invoice"),
        json_3=kind("customer", "id", title="Customer"),
    )
    values = [
        framed(1, b'{"order": 1, "id": 1}'),
        framed(2, b'{"invoice": 2}'),
        framed(3, b'{"customer": 3}'),
    ]
    rows, refused = outcome(tmp_path, values)
    assert {2: {"customer": 3, "id": None}} == rows
    assert {
        0: "has another type than the schema of the columns",
        1: "has none of the fields of the columns",
    } == refused


@pytest.mark.parametrize("form", FORMATS)
def test_the_id_of_a_schema_in_a_header(form: str, tmp_path: Path) -> None:
    """Its value is the datum alone, which can begin like one in the wire format: without the header
    it would be the row of another schema.
    """
    six = record(("a", "int"), *((name, "int") for name in "bcdef"))
    for field in six["fields"]:
        field["default"] = 9
    schemas(tmp_path, avsc_1=record(("a", "int")), avsc_7=six)
    value = avro(7, six, dict(zip("abcdef", (0, 0, 0, 0, -1, 3), strict=True)))[5:]
    assert avro(1, record(("a", "int")), {"a": 3}) == value
    header = RecordHeader(key=b"__value_schema_id", value=framed(7, b""))
    log = LogBuilder(tmp_path / "logs", "t-0")
    segment = log.segment(0)
    segment.batch(0, [("k0", value)], headers=(RecordHeader(key=b"other", value=b"1"), header))
    segment.batch(1, [("k1", value)])
    segment.batch(2, [("k2", value[:5])], headers=(header,))
    log.write()
    update(place(form, tmp_path / "t", value=SPEC), tmp_path / "logs")
    rows = read_table(form, tmp_path / "t").to_pylist()
    assert {0: (0, -1, 3), 1: (3, 9, 9)} == {
        row["offset"]: (row["a"], row["e"], row["f"]) for row in rows
    }
    (refused,) = read_table(form, tmp_path / "t_quarantine").to_pylist()
    assert 2 == refused["offset"]


def test_the_id_of_a_schema_in_a_header_that_is_shown(tmp_path: Path) -> None:
    """`dump --decode` looks at the headers, too."""
    schemas(tmp_path, avsc_7=record(("a", "int")))
    line = {"offset": 5, "key": None, "value": base64.b64encode(b"\6").decode()}
    header = {
        "key": "__value_schema_id",
        "value": base64.b64encode(framed(7, b"")).decode(),
    }
    given: list[dict[str, Any]] = [line | {"headers": [header]}, line | {"offset": 6}]
    spec = Decoding.model_validate({"value": SPEC})
    decoded_records("t", spec, tmp_path, [[dict(each) for each in given]])(given)
    assert {"a": 3} == given[0]["value"]
    assert "is not in the wire format of a schema registry" == given[1]["valueRefused"]
