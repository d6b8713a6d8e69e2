"""JSON Schema as columns, and objects of other schemas in them."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from jsonschema import Draft202012Validator

from logwright.decode.json_fields import UnusableSchema
from logwright.decode.json_schema import JsonSchema
from logwright.decode.json_values import JsonDecoder

CONNECT = "org.apache.kafka.connect.data."


def schema_of(schema: object, **references: object) -> JsonSchema:
    """A schema, and those that it refers to as ``NAME.json``."""
    others = {f"{name}.json": json.dumps(each).encode() for name, each in references.items()}
    return JsonSchema(json.dumps(schema).encode(), others)


def of(properties: dict[str, object], **more: object) -> dict[str, object]:
    """A schema of objects."""
    return {"type": "object", "properties": properties, **more}


def kinds_of(schema: JsonSchema) -> pa.DataType:
    """The type of the column."""
    return schema.written_by(schema).type


def decoded(
    columns: JsonSchema, content: str, written: JsonSchema | None = None
) -> tuple[Any, dict[int, str]]:
    """The row of one object, and why it is refused."""
    decoder = JsonDecoder(columns.written_by(written or columns))
    part = decoder.decode(pa.array([content.encode()], pa.binary()))
    return part.values.to_pylist()[0], part.reasons


def test_types() -> None:
    """Types, required fields, null in unions, references within the document and to others."""
    schema = schema_of(
        {
            "type": "object",
            "required": ["id", "address"],
            "properties": {
                "id": {"type": "integer"},
                "name": {"type": ["null", "string"]},
                "address": {"$ref": "#/definitions/address"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "next": {"oneOf": [{"type": "null"}, {"$ref": "#"}]},
                "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
                "anything": {},
                "map": {"type": "object"},
                "unknown": {"$ref": "unknown.json#/x"},
                "known": {"$ref": "other.json#/definitions/y"},
                "kind": {"const": "order"},
                "number": {"type": ["integer", "number"]},
            },
            "definitions": {"address": of({"zip": {"type": "number"}})},
        },
        other={
            "definitions": {"y": of({"z": {"$ref": "#/definitions/z"}}), "z": {"type": "boolean"}}
        },
    )
    kinds = {field.name: field.type for field in kinds_of(schema)}
    inner = kinds.pop("next")
    assert {
        "id": pa.int64(),
        "name": pa.string(),
        "address": pa.struct([("zip", pa.float64())]),
        "tags": pa.list_(pa.field("element", pa.string())),
        "either": pa.string(),
        "anything": pa.string(),
        "map": pa.string(),
        "unknown": pa.string(),
        "known": pa.struct([("z", pa.bool_())]),
        "kind": pa.string(),
        "number": pa.float64(),
    } == kinds
    assert pa.string() == inner.field("next").type  # JSON, where it contains itself
    (row, refused) = decoded(schema, '{"id": 1, "address": {}, "either": "x"}')
    assert (None, '"x"', {}) == (row["address"]["zip"], row["either"], refused)
    assert {0: "field address is missing or null"} == decoded(schema, '{"id": 1}')[1]


def test_types_of_kafka_connect() -> None:
    """The logical types that its converter writes as titles decide units, and texts of bytes."""
    micro = {"type": "integer", "title": "io.debezium.time.MicroTimestamp", "connect.type": "int64"}
    price = {
        "type": "number",
        "title": f"{CONNECT}Decimal",
        "connect.type": "bytes",
        "connect.parameters": {"scale": "2"},
    }
    schema = schema_of(
        of(
            {
                "at": {"oneOf": [{"type": "null"}, micro]},
                "day": {"type": "integer", "title": f"{CONNECT}Date", "connect.type": "int32"},
                "price": price,
                "blob": {"type": "string", "connect.type": "bytes"},
                "titled": {"type": "integer", "title": "Time of the order"},
                "pairs": {
                    "type": "object",
                    "connect.type": "map",
                    "additionalProperties": {"type": "integer"},
                },
            }
        )
    )
    content = (
        '{"at": 5097600000000, "day": 1, "price": 12345678901234567890.25, "blob": "AQ==",'
        ' "titled": 5, "pairs": {"a": 1}}'
    )
    expected = {
        "at": dt.datetime(1970, 3, 1, tzinfo=dt.UTC),
        "day": dt.date(1970, 1, 2),
        "price": Decimal("12345678901234567890.25"),
        "blob": b"\x01",
        "titled": 5,
        "pairs": [("a", 1)],
    }
    assert (expected, {}) == decoded(schema, content)
    assert (dict.fromkeys(expected), {}) == decoded(schema, "{}")
    with pytest.raises(UnusableSchema, match="unit is not known"):
        schema_of(of({"x": {**micro, "connect.type": "int32"}}))


@pytest.mark.parametrize(
    "schema",
    [
        None,
        True,
        {},
        {"type": "string"},
        {"type": "object"},
        {"type": "object", "properties": {}},
        {"type": "object", "properties": {f"f{number}": {} for number in range(3000)}},
    ],
)
def test_unusable(schema: object) -> None:
    """Only an object with properties, and not too many, has columns."""
    with pytest.raises(UnusableSchema):
        kinds_of(schema_of(schema))


def test_alternatives() -> None:
    """With alternatives an object has the properties of all; what all require is required, and one
    of two types is JSON. Parts that hold together add up.
    """
    card = of({"kind": {"const": "card"}, "id": {"type": "integer"}}, required=["kind", "id"])
    cash = of({"kind": {"const": "cash"}, "id": {"type": "string"}}, required=["kind"])
    schema = schema_of({"oneOf": [{"$ref": "#/d/card"}, cash], "d": {"card": card}})
    assert {"kind": pa.string(), "id": pa.string()} == {
        field.name: field.type for field in kinds_of(schema)
    }
    assert ({"kind": "card", "id": "1"}, {}) == decoded(schema, '{"kind": "card", "id": 1}')
    assert ({"kind": "cash", "id": None}, {}) == decoded(schema, '{"kind": "cash"}')
    assert {0: "field kind is missing or null"} == decoded(schema, '{"id": 1}')[1]
    base = of({"id": {"type": "integer"}}, required=["id"])
    both = schema_of({"allOf": [base, of({"name": {"type": "string"}})]})
    assert ({"id": 1, "name": "x"}, {}) == decoded(both, '{"id": 1, "name": "x"}')
    assert {0: "field id is missing or null"} == decoded(both, '{"name": "x"}')[1]


@pytest.mark.parametrize(
    ("content", "expected"), [("1.0", 1), ("-0.0", 0), ("1e3", 1000), ("1.5", None), ("1e30", None)]
)
def test_whole_numbers(content: str, expected: int | None) -> None:
    """A number without a fraction is an integer, however it is written."""
    (row, refused) = decoded(schema_of(of({"n": {"type": "integer"}})), f'{{"n": {content}}}')
    assert {"n": expected} == row
    assert (expected is None) == bool(refused)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, False),
        ({"type": ["string", "null"]}, True),
        ({}, True),
        ({"enum": ["a", None]}, True),
        ({"enum": ["a"]}, False),
        ({"type": ["string", "null"], "enum": ["a"]}, False),
        ({"const": None}, True),
        ({"const": "a"}, False),
        ({"allOf": [{"type": ["integer", "null"]}]}, True),
        ({"allOf": [{"type": ["integer", "null"]}, {"type": "integer"}]}, False),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, False),
        ({"anyOf": [{"type": "integer"}, {"type": ["string", "null"]}]}, True),
        ({"oneOf": [{"type": "null"}, {"type": "integer"}]}, True),
        ({"oneOf": [{"$ref": "#/definitions/n"}, {"type": "integer"}]}, True),
        ({"$ref": "#/definitions/n"}, True),
        ({"properties": {"a": {"type": "string"}}}, True),
    ],
)
def test_null_in_a_required_property(schema: object, expected: bool) -> None:
    """It is a value where a validator accepts it."""
    whole = of({"x": schema}, required=["x"], definitions={"n": {"enum": ["a", None]}})
    assert expected == Draft202012Validator(whole).is_valid({"x": None})
    assert expected == (not decoded(schema_of(whole), '{"x": null}')[1])
    assert decoded(schema_of(whole), '{"y": null}')[1]


@pytest.mark.parametrize("content", ["1e100", "-1e300", "1e-300", "1.5e100"])
def test_numbers_of_many_digits_beside_a_decimal(content: str) -> None:
    """They are read exactly, and refused alone."""
    price = {
        "type": "number",
        "title": f"{CONNECT}Decimal",
        "connect.type": "bytes",
        "connect.parameters": {"scale": "2"},
    }
    schema = schema_of(of({"n": {"type": "integer"}, "price": price}))
    (row, refused) = decoded(schema, f'{{"n": {content}, "price": 1.5}}')
    assert (None, [0]) == (row["n"], list(refused))


def test_addresses_that_are_not_addresses() -> None:
    """A reference that leads nowhere is JSON, as any other that is unknown."""
    for base, name in (("http://[", "x.json"), ("http://a/", "http://[x")):
        schema = schema_of(of({"a": {"$ref": name}}, **{"$id": base}))
        assert {"a": pa.string()} == {field.name: field.type for field in kinds_of(schema)}


def test_nothing_used() -> None:
    """An object that has none of the fields is not a row of nulls; an empty one is."""
    schema = schema_of(of({"a": {"type": "integer"}}))
    assert (None, {0: "has none of the fields of the columns"}) == decoded(schema, '{"b": 1}')
    assert ({"a": None}, {}) == decoded(schema, "{}")


def test_units_of_another_schema() -> None:
    """A number is never taken for one of another unit, nor a text for base64: values that the
    schemas do not say the same of are refused, and null is not.
    """
    micro = {"type": "integer", "title": "io.debezium.time.MicroTimestamp", "connect.type": "int64"}
    milli = {**micro, "title": f"{CONNECT}Timestamp"}
    blob = {"type": "string", "connect.type": "bytes"}
    columns = schema_of(of({"at": micro, "blob": blob, "text": {"type": "string"}}))
    refused = "has another unit or encoding in the schema of its record"
    for name, theirs, content in (
        ("at", milli, "1"),
        ("at", {"type": "integer"}, "1"),
        ("blob", {"type": "string"}, '"AQ=="'),
        ("text", blob, '"AQ=="'),
    ):
        written = schema_of(of({name: theirs}))
        assert {0: f"field {name} {refused}"} == decoded(
            columns, f'{{"{name}": {content}}}', written
        )[1]
        assert {} == decoded(columns, f'{{"{name}": null, "text": null}}', written)[1]
    same = {"at": dt.datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=dt.UTC), "blob": None, "text": None}
    assert (same, {}) == decoded(columns, '{"at": 1}', schema_of(of({"at": micro})))
