"""What becomes of columns with a newer schema: each row of the table in docs/columns.md."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from logwright.decode.renames import renamed_fields
from logwright.decode.schema_sources import SchemaText
from logwright.tables.growth import changes_of, refused_of

LONG = pa.int64()
INT = pa.int32()
TEXT = pa.string()


def schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (schema(a=INT), schema(a=INT), []),
        (schema(a=INT), schema(b=TEXT, a=INT), [("added", "b", "", "string")]),
        (schema(a=INT), schema(a=LONG), [("widened", "a", "int32", "int64")]),
        (schema(a=INT), schema(a=pa.float32()), [("widened", "a", "int32", "float")]),
        (schema(a=LONG), schema(a=pa.float64()), [("widened", "a", "int64", "double")]),
        (schema(a=pa.float32()), schema(a=pa.float64()), [("widened", "a", "float", "double")]),
        (schema(a=TEXT), schema(a=pa.binary()), [("widened", "a", "string", "binary")]),
        (schema(a=LONG), schema(a=INT), [("changed", "a", "int64", "int32")]),
        (schema(a=INT), schema(a=TEXT), [("changed", "a", "int32", "string")]),
        (schema(a=pa.binary()), schema(a=TEXT), [("changed", "a", "binary", "string")]),
        (
            schema(a=pa.decimal128(5, 2)),
            schema(a=pa.decimal128(9, 2)),
            [("changed", "a", "decimal128(5, 2)", "decimal128(9, 2)")],
        ),
        (schema(a=INT, b=TEXT), schema(a=INT), [("removed", "b", "string", "")]),
        (
            schema(a=TEXT),
            schema(a=pa.struct([("string", TEXT), ("int", INT)])),
            [("changed", "a", "string", "struct<string: string, int: int32>")],
        ),
        (
            schema(u=pa.struct([("string", TEXT), ("int", INT)])),
            schema(u=pa.struct([("string", TEXT), ("int", INT), ("P", pa.struct([("x", INT)]))])),
            [("added", "u.P", "", "struct<x: int32>")],
        ),
        (
            schema(key=pa.struct([("id", INT)])),
            schema(key=pa.struct([("id", LONG), ("of", TEXT)])),
            [("widened", "key.id", "int32", "int64"), ("added", "key.of", "", "string")],
        ),
        (
            schema(a=pa.struct([("b", pa.struct([("c", INT), ("d", INT)]))])),
            schema(a=pa.struct([("b", pa.struct([("c", TEXT)]))])),
            [("changed", "a.b.c", "int32", "string"), ("removed", "a.b.d", "int32", "")],
        ),
        (
            schema(a=pa.list_(pa.struct([("x", INT)]))),
            schema(a=pa.list_(pa.struct([("x", LONG)]))),
            [("widened", "a.element.x", "int32", "int64")],
        ),
        (
            schema(a=pa.map_(TEXT, INT)),
            schema(a=pa.map_(TEXT, LONG)),
            [("widened", "a.value", "int32", "int64")],
        ),
        (
            schema(a=pa.struct([pa.field("b", INT, nullable=False)])),
            schema(a=pa.struct([pa.field("b", INT)])),
            [("widened", "a.b", "not null", "nullable")],
        ),
        (
            schema(a=pa.struct([pa.field("b", INT)])),
            schema(a=pa.struct([pa.field("b", INT, nullable=False)])),
            [("changed", "a.b", "nullable", "not null")],
        ),
    ],
)
def test_what_becomes_of_columns(
    before: pa.Schema, after: pa.Schema, expected: list[tuple[str, str, str, str]]
) -> None:
    changes = changes_of(before, after)
    assert expected == [(each.kind, each.name, each.before, each.after) for each in changes]
    kinds = {each[0] for each in expected}
    assert bool(kinds & {"removed", "changed"}) == bool(refused_of(changes, "grow"))
    assert ("changed" in kinds) == bool(refused_of(changes, "follow"))
    assert len(expected) == len(refused_of(changes, "fixed"))


def text(kind: str, content: object) -> SchemaText:
    shown = content if isinstance(content, str) else json.dumps(content)
    return SchemaText(kind, shown.encode(), {})


def test_a_field_with_an_alias_is_renamed() -> None:
    """At any depth; without the alias it would be one removed and one added."""
    place = {
        "type": "record",
        "name": "Place",
        "fields": [{"name": "town", "type": "string", "aliases": ["city"]}],
    }
    fields = [
        {"name": "new", "type": "long", "aliases": ["old", "older"]},
        {"name": "places", "type": {"type": "array", "items": ["null", place]}},
        {"name": "home", "type": ["null", "Place"]},
    ]
    newer = text("AVRO", {"type": "record", "name": "C", "fields": fields})
    renamed = renamed_fields(newer, newer)
    expected = {"old": "new", "older": "new"}
    assert expected | {"places.element.city": "town", "home.city": "town"} == renamed
    before = schema(old=INT, home=pa.struct([("city", TEXT)]))
    after = schema(new=LONG, home=pa.struct([("town", TEXT)]))
    shown = [str(each) for each in changes_of(before, after, renamed)]
    assert [
        "old is renamed to new",
        "new is widened from int32 to int64",
        "home.city is renamed to home.town",
    ] == shown
    assert 4 == len(changes_of(before, after))


def test_a_field_of_protobuf_is_its_number() -> None:
    older = text(
        "PROTOBUF",
        """syntax = "proto3"; package shop;
        message Place { string city = 1; }
        message Other { int64 id = 1; }
        message C { string a = 1; string b = 2; repeated Place places = 3;
                    map<string, Place> by_name = 4; }""",
    )
    newer = text(
        "PROTOBUF",
        """syntax = "proto3"; package shop;
        message Place { string town = 1; }
        message C { string first = 1; string second = 5; repeated Place places = 3;
                    map<string, Place> named = 4; }""",
    )
    assert {
        "a": "first",
        "places.element.city": "town",
        "by_name": "named",
        "named.value.city": "town",
    } == renamed_fields(older, newer, "shop.C")
