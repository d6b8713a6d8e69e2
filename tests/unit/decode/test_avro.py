"""Avro's binary encoding: against fastavro, and where logwright is stricter."""

from __future__ import annotations

import datetime as dt
import io
import json
import struct
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from logwright.config.decoding import AvroSpec
from logwright.decode.avro import AvroDecoder
from logwright.decode.avro_schema import parse_avro
from logwright.decode.json_fields import UnusableSchema
from logwright.errors import PolicyError
from tests.unit.decode.records import by_value, columns, reasons

UTC = dt.UTC
PRIMITIVES = ("boolean", "int", "long", "float", "double", "bytes", "string")


def written(schema: Any, value: object) -> bytes:
    """The datum as fastavro writes it."""
    content = io.BytesIO()
    fastavro.schemaless_writer(content, fastavro.parse_schema(schema), value)
    return content.getvalue()


def decoder(schema: Any) -> AvroDecoder:
    return AvroDecoder(parse_avro(json.dumps(schema)))


def decoded(schema: Any, *content: bytes | None) -> tuple[list[Any], dict[int, str]]:
    """The values and the reasons."""
    part = decoder(schema).decode(pa.array(content, pa.binary()))
    part.values.validate(full=True)
    return part.values.to_pylist(), part.reasons


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ("boolean", True),
        ("int", -(2**31)),
        ("int", 2**31 - 1),
        ("long", -(2**63)),
        ("long", 2**63 - 1),
        ("long", 300),
        ("float", 1.5),
        ("double", -0.1),
        ("bytes", b"\x00\xff"),
        ("string", "größe😀"),
        (["null", "string"], None),
        (["null", "string"], "x"),
        (["string", "null"], "x"),
        ({"type": "array", "items": "long"}, [1, -1, 10**10]),
        ({"type": "array", "items": ["null", "long"]}, [1, None]),
        ({"type": "array", "items": {"type": "array", "items": "int"}}, [[], [1]]),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B"),
        ({"type": "fixed", "name": "F", "size": 3}, b"abc"),
    ],
)
def test_value(schema: Any, value: object) -> None:
    """What fastavro writes is read back; a tombstone is null."""
    assert ([value, None], {}) == decoded(schema, written(schema, value), None)


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"type": "int", "logicalType": "date"}, dt.date(2024, 2, 29), dt.date(2024, 2, 29)),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            dt.datetime(2024, 1, 1, 0, 0, 0, 5000, UTC),
            dt.datetime(2024, 1, 1, 0, 0, 0, 5000, UTC),
        ),
        (
            {"type": "long", "logicalType": "timestamp-micros"},
            dt.datetime(1969, 1, 1, 0, 0, 0, 5, UTC),
            dt.datetime(1969, 1, 1, 0, 0, 0, 5, UTC),
        ),
        (
            {"type": "long", "logicalType": "local-timestamp-millis"},
            dt.datetime(2024, 1, 1),  # noqa: DTZ001 - it has no zone
            dt.datetime(2024, 1, 1),  # noqa: DTZ001 - it has no zone
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
            Decimal("-123.45"),
            Decimal("-123.45"),
        ),
        (
            {
                "type": "fixed",
                "name": "D",
                "size": 16,
                "logicalType": "decimal",
                "precision": 38,
            },
            Decimal(10**37),
            Decimal(10**37),
        ),
        (
            {"type": "string", "logicalType": "uuid"},
            "00112233-4455-6677-8899-AABBCCDDEEFF",
            "00112233-4455-6677-8899-aabbccddeeff",
        ),
        ({"type": "long", "logicalType": "unknown"}, 7, 7),
        ({"type": "int", "logicalType": "time-millis"}, dt.time(0, 0, 1), 1000),
        ({"type": "map", "values": "int"}, {"a": 1}, [("a", 1)]),
        (["null", "int", "string"], "x", {"int": None, "string": "x"}),
        (["null", "int", "string"], None, None),
    ],
)
def test_logical_types_and_others(schema: Any, value: object, expected: object) -> None:
    """Logical types are Arrow's; a union of several types is a struct with one of them."""
    assert ([expected], {}) == decoded(schema, written(schema, value))


def test_decimals_of_38_digits() -> None:
    """None is rounded."""
    schema = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 10}
    value = Decimal("1234567890123456789012345678.9012345678")
    assert ([value], {}) == decoded(schema, written(schema, value))


RECORD = {
    "type": "record",
    "name": "R",
    "namespace": "n",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "inner", "type": ["null", {"type": "record", "name": "I", "fields": []}]},
        {
            "name": "other",
            "type": {
                "type": "record",
                "name": "O",
                "fields": [{"name": "s", "type": ["null", "string"]}],
            },
        },
        {"name": "again", "type": ["null", "O"]},
        {"name": "m", "type": {"type": "map", "values": ["null", "O"]}},
    ],
}


def test_record() -> None:
    """Fields, nested and named types; without those that have no values."""
    value = {
        "id": 1,
        "inner": None,
        "other": {"s": "x"},
        "again": {"s": None},
        "m": {"k": {"s": "y"}, "l": None},
    }
    expected = value | {"m": [("k", {"s": "y"}), ("l", None)]}
    del expected["inner"]
    assert ([expected, None], {}) == decoded(RECORD, written(RECORD, value), None)


@pytest.mark.parametrize(
    ("schema", "content", "reason"),
    [
        ("long", b"", "ends too early"),
        ("long", b"\xff", "ends too early"),
        ("long", b"\x80" * 9 + b"\x02", "a varint is too long"),
        ("long", b"\x80" * 10 + b"\x01", "a varint is too long"),
        ("long", b"\x80" * 1_000_000, "a varint is too long"),
        ("long", b"\x02\x00", "bytes are left after it"),
        ("int", b"\xff" * 9 + b"\x01", "an int is out of range"),
        ("int", b"\x80\x80\x80\x80\x10", "an int is out of range"),
        ("boolean", b"\x02", "a boolean is neither 0 nor 1"),
        ("boolean", b"", "ends too early"),
        ("double", b"1234567", "ends too early"),
        ("float", b"123", "ends too early"),
        ("string", b"\x04\xff\xfe", "a string is not UTF-8"),
        ("string", b"\x01a", "a length is more than the bytes that are left"),
        ("string", b"\x04a", "a length is more than the bytes that are left"),
        (
            "string",
            b"\xfe\xff\xff\xff\x0fx",
            "a length is more than the bytes that are left",
        ),
        (
            "bytes",
            b"\xfe" + b"\xff" * 8 + b"\x01x",
            "a length is more than the bytes that are left",
        ),
        (["null", "long"], b"\x01\x02", "the index of a union is out of range"),
        (["null", "long"], b"\x04\x02", "the index of a union is out of range"),
        (
            {"type": "enum", "name": "E", "symbols": ["A"]},
            b"\x01",
            "the index of an enum is out of range",
        ),
        ({"type": "fixed", "name": "F", "size": 4}, b"abc", "ends too early"),
        (
            {"type": "array", "items": "long"},
            b"\xfe" + b"\xff" * 8 + b"\x01\x02",
            "more items than bytes are left",
        ),
        ({"type": "array", "items": "long"}, b"\x02\x02", "ends too early"),
        (
            {"type": "map", "values": "long"},
            b"\x02\x02\xff\x02\x00",
            "a string is not UTF-8",
        ),
    ],
)
def test_refused(schema: Any, content: bytes, reason: str) -> None:
    """Malformed data, of which fastavro reads some."""
    values, refused = decoded(schema, content, None)
    assert ([None, None], {0: f"is not Avro: {reason}"}) == (values, refused)


def test_fastavro_reads_some_of_them() -> None:
    """Why the library does not read here; if this fails, it may."""
    for schema, content in (
        (["null", "long"], b"\x01\x02"),
        ("boolean", b"\x07"),
        ("long", b"\x80" * 30 + b"\x01"),
    ):
        fastavro.schemaless_reader(io.BytesIO(content), fastavro.parse_schema(schema), None)


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ("{", "is not an Avro schema in JSON"),
        ('"null"', "has no fields that can be columns"),
        ('["null"]', "has no fields that can be columns"),
        (
            '{"type": "record", "name": "E", "fields": [{"name": "n", "type": "null"}]}',
            "has no fields that can be columns",
        ),
        ('"nothing"', "is not an Avro schema"),
        ('{"type": "record"}', "is not an Avro schema"),
        ('{"type": "array", "items": "null"}', "has an array whose items have no bytes"),
        (
            '{"type": "array", "items": {"type": "record", "name": "E", "fields": []}}',
            "has an array whose items have no bytes",
        ),
        (
            '{"type": "record", "name": "L", "fields": [{"name": "n", "type": ["null", "L"]}]}',
            "is recursive: L contains itself",
        ),
        (
            json.dumps(
                {
                    "type": "record",
                    "name": "W",
                    "fields": [{"name": f"f{number}", "type": "int"} for number in range(3000)],
                }
            ),
            "has more than 2000 fields",
        ),
        ("[" * 100_000, "is not an Avro schema in JSON"),
    ],
)
def test_unusable_schema(schema: str, problem: str, tmp_path: Path) -> None:
    """A schema that cannot be columns is an error of the policies, with its file."""
    with pytest.raises(UnusableSchema) as raised:
        AvroDecoder(parse_avro(schema))
    assert problem == raised.value.problem
    (tmp_path / "v.avsc").write_text(schema)
    with pytest.raises(PolicyError, match=r"v\.avsc: the schema "):
        by_value(AvroSpec(schema_file="v.avsc"), base=tmp_path)


def test_exponential_schema() -> None:
    """Types that contain each other twice, again and again, are not expanded without end."""
    fields = []
    for number in range(40):
        kind: Any = {
            "type": "record",
            "name": f"T{number}",
            "fields": [
                {"name": "a", "type": f"T{number - 1}" if number else "int"},
                {"name": "b", "type": f"T{number - 1}" if number else "int"},
            ],
        }
        fields.append({"name": f"f{number}", "type": kind})
    with pytest.raises(UnusableSchema, match="more than"):
        parse_avro(json.dumps({"type": "record", "name": "R", "fields": fields}))


def test_out_of_a_file(tmp_path: Path) -> None:
    """A value of a record's type has its fields as columns, any other is the column value."""
    (tmp_path / "v.avsc").write_text(json.dumps(RECORD))
    value = {"id": 5, "inner": None, "other": {"s": None}, "again": None, "m": {}}
    spec = AvroSpec(schema_file="v.avsc")
    result = by_value(spec, written(RECORD, value), None, b"", base=tmp_path)
    assert [5, None] == columns(result, "id")
    assert ["is not Avro: ends too early"] == reasons(result)
    (tmp_path / "w.avsc").write_text('"long"')
    assert [7] == columns(by_value(AvroSpec(schema_file="w.avsc"), b"\x0e", base=tmp_path))


def test_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value above the limit is not parsed."""
    monkeypatch.setattr("logwright.decode.avro.MAX_VALUE_BYTES", 3)
    assert {1: "is larger than 16 MiB"} == decoded("bytes", b"\x02a", b"\x06abc")[1]


def random_schema(random: Random, depth: int, names: list[str]) -> Any:
    """A schema; names of its types are appended."""
    kind = random.randrange(7 if depth else 2)
    if kind < 2:
        return random.choice(PRIMITIVES)
    if kind == 2:
        return {"type": "array", "items": random_schema(random, depth - 1, names)}
    if kind == 3:
        return {"type": "map", "values": random_schema(random, depth - 1, names)}
    if kind == 4:
        return ["null", random.choice(PRIMITIVES)]
    names.append(f"T{len(names)}")
    name = names[-1]
    if kind == 5:
        return {"type": "enum", "name": name, "symbols": ["A", "B", "C"]}
    count = random.randrange(1, 4)
    return {
        "type": "record",
        "name": name,
        "fields": [
            {"name": f"f{number}", "type": random_schema(random, depth - 1, names)}
            for number in range(count)
        ],
    }


def random_value(random: Random, schema: Any) -> Any:
    """A value of a schema."""
    if isinstance(schema, list):
        return random.choice([None, random_value(random, schema[1])])
    if isinstance(schema, str):
        return {
            "boolean": random.random() < 0.5,
            "int": random.randrange(-(2**31), 2**31) >> random.randrange(32),
            "long": random.randrange(-(2**63), 2**63) >> random.randrange(64),
            "float": struct.unpack("<f", struct.pack("<f", random.gauss(0, 1)))[0],
            "double": random.gauss(0, 1),
            "bytes": random.randbytes(random.randrange(5)),
            "string": "".join(random.choices("aé😀\x00", k=random.randrange(5))),
        }[schema]
    if schema["type"] == "array":
        return [random_value(random, schema["items"]) for _ in range(random.randrange(4))]
    if schema["type"] == "map":
        return {
            str(number): random_value(random, schema["values"])
            for number in range(random.randrange(4))
        }
    if schema["type"] == "enum":
        return random.choice(schema["symbols"])
    return {one["name"]: random_value(random, one["type"]) for one in schema["fields"]}


def test_random_schemas(seed: int) -> None:
    """Values of random schemas are what fastavro reads."""
    random = Random(seed)
    for _ in range(200):
        schema = random_schema(random, 3, [])
        contents = [written(schema, random_value(random, schema)) for _ in range(5)]
        parsed = fastavro.parse_schema(schema)
        expected = [
            fastavro.schemaless_reader(io.BytesIO(content), parsed, None) for content in contents
        ]
        node = decoder(schema)
        decoded_part = node.decode(pa.array(contents, pa.binary()))
        assert {} == decoded_part.reasons
        assert pa.array([as_arrow(one) for one in expected], node.type).equals(decoded_part.values)


def as_arrow(value: Any) -> Any:
    """A value with maps as Arrow has them: only records have fields f0, f1, …"""
    if isinstance(value, list):
        return [as_arrow(one) for one in value]
    if isinstance(value, dict):
        if "f0" in value:
            return {name: as_arrow(one) for name, one in value.items()}
        return [(name, as_arrow(one)) for name, one in value.items()]
    return value
