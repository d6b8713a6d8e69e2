"""JSON with the schema of Kafka Connect, which decides units and types."""

from __future__ import annotations

import base64
import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from logwright.config.decoding import DebeziumSpec, DecoderSpec, Decoding, JsonSpec
from logwright.config.json_fields import JsonField
from logwright.decode.make import make_decoder
from tests.unit.decode.records import Result, by_value, columns, decode, reasons, values

TIME, DATA = "io.debezium.time.", "io.debezium.data."
KAFKA = "org.apache.kafka.connect.data."
MICROS = 5_097_600_000_000
"""1970-03-01 in microseconds; as milliseconds it would be in the year 2131."""
MARCH = dt.datetime(1970, 3, 1, tzinfo=dt.UTC)


def schema(base: str, name: str | None = None, **more: object) -> dict[str, Any]:
    """A schema as JsonConverter writes it."""
    named = {} if name is None else {"name": name, "version": 1}
    return {"type": base, "optional": True, **named, **more}


def connect(value: object, described: dict[str, Any], *, event: bool = False) -> bytes:
    """A record with the field f, with its schema."""
    row = {"type": "struct", "optional": True, "fields": [{**described, "field": "f"}]}
    payload: dict[str, Any] = {"f": value}
    if event:
        op = {"type": "string", "optional": False, "field": "op"}
        row = {"type": "struct", "fields": [{**row, "field": "after"}, op]}
        payload = {"after": payload, "op": "c"}
    return json.dumps({"schema": row, "payload": payload}).encode()


def as_column(kind: str, *content: bytes, event: bool = False) -> Result:
    """Decode with the field f configured."""
    spec: DecoderSpec = JsonSpec(fields=(JsonField(name="f", type=kind),))
    return by_value(DebeziumSpec(of=spec) if event else spec, *content)


def inferred(*content: bytes, event: bool = False) -> Result:
    """Decode with inferred fields."""
    spec = DebeziumSpec() if event else JsonSpec()
    records = values(*content)
    return decode(make_decoder(Decoding(value=spec), base=Path("/"), sample=[records]), records)


@pytest.mark.parametrize("event", [True, False])
@pytest.mark.parametrize("kind", ["timestamp", None])
def test_a_micro_is_no_milli(kind: str | None, event: bool) -> None:
    """A timestamp near 1970 would be one as milliseconds, too."""
    value = connect(MICROS, schema("int64", f"{TIME}MicroTimestamp"), event=event)
    result = inferred(value, event=event) if kind is None else as_column(kind, value, event=event)
    assert [MARCH] == columns(result, "f")


def test_each_record_has_its_own_unit() -> None:
    """A column whose unit changed has one time; a record in between without a schema is refused,
    since Debezium's unit depends on settings.
    """
    records = [
        connect(MICROS // 1000, schema("int64", f"{TIME}Timestamp"), event=True),
        json.dumps({"op": "c", "after": {"f": MICROS}}).encode(),
        connect(MICROS, schema("int64", f"{TIME}MicroTimestamp"), event=True),
        json.dumps({"op": "c", "after": {"f": "1970-03-01T00:00:00Z"}}).encode(),
        connect(MICROS * 1000, schema("int64", f"{TIME}NanoTimestamp"), event=True),
        connect("1970-03-01T02:00:00+02:00", schema("string", f"{TIME}ZonedTimestamp"), event=True),
        connect(MICROS // 1000, schema("int64", f"{KAFKA}Timestamp"), event=True),
    ]
    result = as_column("timestamp", *records, event=True)
    assert [MARCH] * 6 == columns(result, "f")
    reason = "field after.f is a number whose unit is not known: its record has no schema"
    assert [(1, "value", reason)] == result.refused


@pytest.mark.parametrize(
    ("name", "base", "stored", "text"),
    [
        (f"{TIME}Timestamp", "int64", -1, "1969-12-31T23:59:59.999"),
        (f"{TIME}MicroTimestamp", "int64", -1, "1969-12-31T23:59:59.999999"),
        (f"{TIME}NanoTimestamp", "int64", -1, "1969-12-31T23:59:59.999999999"),
        (f"{KAFKA}Timestamp", "int64", 1500, "1970-01-01T00:00:01.500Z"),
        (f"{TIME}Date", "int32", -1, "1969-12-31"),
        (f"{TIME}Time", "int32", 3_723_004, "01:02:03.004"),
        (f"{TIME}MicroTime", "int64", -3_600_000_001, "-01:00:00.000001"),
        (f"{TIME}NanoTime", "int64", 1, "00:00:00.000000001"),
        (f"{TIME}MicroDuration", "int64", -1_500_000, "PT-1.500000S"),
        (f"{TIME}NanoDuration", "int64", 5, "PT0.000000005S"),
        (f"{TIME}Year", "int32", 1999, "1999"),
        (f"{KAFKA}Decimal", "bytes", "/w==", "-0.01"),
        (f"{DATA}VariableScaleDecimal", "struct", {"scale": 3, "value": "AQ=="}, "0.001"),
    ],
)
def test_all_can_be_texts(name: str, base: str, stored: object, text: str) -> None:
    """An exact one, nanoseconds included; so they are in columns of json."""
    more: dict[str, Any] = {"parameters": {"scale": "2"}}
    if base == "struct":
        more |= {"fields": [schema("int32", field="scale"), schema("bytes", field="value")]}
    content = connect(stored, schema(base, name, **more))
    assert [text] == columns(as_column("string", content), "f")
    assert [json.dumps(text)] == columns(as_column("json", content), "f")


@pytest.mark.parametrize(
    ("kind", "described", "value"),
    [
        ("long", schema("int64", f"{TIME}MicroTimestamp"), MICROS),
        ("date", schema("int64", f"{TIME}MicroTimestamp"), MICROS),
        ("timestamp", schema("int32", f"{TIME}Date"), 5),
        ("int", schema("int32", f"{TIME}Date"), 5),
        ("timestamp", schema("int64"), MICROS),
        ("date", schema("int32"), 5),
        ("timestamp", schema("int32", f"{TIME}Time"), 5),
        ("double", schema("bytes", f"{KAFKA}Decimal", parameters={"scale": "2"}), "AQ=="),
        ("binary", schema("bytes", f"{KAFKA}Decimal", parameters={"scale": "2"}), "AQ=="),
        ("string", schema("bytes"), "AQ=="),
        ("string", schema("int32"), 1),
        ("long", schema("string"), "1"),
        ("string", schema("array", items=schema("string")), ["a"]),
    ],
)
def test_a_column_that_contradicts(kind: str, described: dict[str, Any], value: object) -> None:
    """Both types are named; the records with another schema are rows."""
    good = {
        "timestamp": schema("int64", f"{TIME}Timestamp"),
        "date": schema("int32", f"{TIME}Date"),
    }
    fits = good.get(
        kind, schema({"long": "int64", "int": "int32", "binary": "bytes"}.get(kind, kind))
    )
    null = connect(None, fits)
    result = as_column(kind, null, connect(value, described), null)
    label = described.get("name", described["type"])
    reason = f"field f is {label} in the schema of its record, and {kind} in the columns"
    assert [(1, "value", reason)] == result.refused
    assert [None, None] == columns(result, "f")


@pytest.mark.parametrize(
    ("described", "value", "reason"),
    [
        (schema("int64", f"{TIME}MicroTimestamp"), 2**62, "field f is not a time of the years"),
        (schema("int64", f"{TIME}MicroTimestamp"), 1.5, "field f is not a long"),
        (schema("int64", f"{TIME}MicroTimestamp"), "1", "field f is not a long"),
        (
            schema("string", f"{TIME}ZonedTimestamp"),
            "2024-02-30T00:00:00Z",
            "field f is not a time",
        ),
        (schema("string", f"{TIME}ZonedTimestamp"), "2024-02-03T00:00:00", "field f is not a time"),
        (schema("int64", f"{TIME}MicroTimestamp", optional=False), None, "field f is missing or"),
        (schema("int64", f"{TIME}PicoTimestamp"), 1, "has a schema that has a type whose unit"),
        (schema("int32", f"{TIME}MicroTimestamp"), 1, "has a schema that has a type whose unit"),
        (schema("uint64"), 1, "has a schema that is not one of Kafka Connect"),
        (schema("struct"), {}, "has a schema that has a struct without fields"),
    ],
)
def test_refused(described: dict[str, Any], value: object, reason: str) -> None:
    """What is not of its schema, and a schema whose unit is not known."""
    good = connect(MICROS, schema("int64", f"{TIME}MicroTimestamp"))
    result = as_column("timestamp", good, connect(value, described), good)
    ((number, _, reason_given),) = result.refused
    assert (1, True) == (number, reason_given.startswith(reason)), reason_given
    assert [MARCH, MARCH] == columns(result, "f")


@pytest.mark.parametrize("stored", ["AeJAfUFIE5jS", 34_742_117_483_472_326_866, None])
def test_decimals_keep_their_digits(stored: object) -> None:
    """In base64 or as a number, of more digits than a double has."""
    described = schema("bytes", f"{KAFKA}Decimal", parameters={"scale": "2"})
    number = int.from_bytes(base64.b64decode("AeJAfUFIE5jS"), "big")
    text = (
        f'{{"schema": {{"type": "struct", "fields": [{json.dumps(described | {"field": "f"})}]}},'
    )
    shown = f"{number // 100}.{number % 100:02}" if isinstance(stored, int) else json.dumps(stored)
    content = f'{text} "payload": {{"f": {shown}}}}}'.encode()
    expected = None if stored is None else Decimal(number).scaleb(-2)
    assert [expected] == columns(inferred(content), "f")
    assert [expected] == columns(as_column("decimal(38,2)", content), "f")


def test_a_missing_field_gets_its_default() -> None:
    """As the schema has it; null is null."""
    described = schema("int64", f"{TIME}MicroTimestamp", default=MICROS)
    content = json.loads(connect(None, described))
    missing = json.dumps({**content, "payload": {}}).encode()
    assert [None, MARCH] == columns(as_column("timestamp", connect(None, described), missing), "f")
    quoted = '"1970-03-01T00:00:00.000000"'
    shown = as_column("json", missing)
    assert [quoted] == columns(shown, "f")


@pytest.mark.parametrize(
    ("value", "expected"),
    [([[1, 2], [3, None]], [(1, 2), (3, None)]), ([], []), (None, None)],
)
def test_maps_of_pairs(value: object, expected: object) -> None:
    """Keys other than texts are in lists of pairs."""
    described = schema("map", keys=schema("int32", optional=False), values=schema("int64"))
    assert [expected] == columns(inferred(connect(value, described)), "f")


@pytest.mark.parametrize("value", [[[1]], [1], {"1": 2}, [[None, 1]], [["a", 1]]])
def test_malformed_maps(value: object) -> None:
    """Each is refused, and no other record."""
    described = schema("map", keys=schema("int32", optional=False), values=schema("int64"))
    result = inferred(
        connect([[1, 2]], described), connect(value, described), connect([[3, 4]], described)
    )
    assert [[(1, 2)], [(3, 4)]] == columns(result, "f")
    assert [1] == [number for number, _, _ in result.refused]


def test_a_map_of_texts_may_be_an_object() -> None:
    """With the fields that are configured."""
    described = schema("map", keys=schema("string", optional=False), values=schema("int32"))
    fields = (JsonField(name="a", type="int"), JsonField(name="b", type="int"))
    spec = JsonSpec(fields=(JsonField(name="f", type="struct", fields=fields),))
    result = by_value(spec, connect({"a": 1, "c": 2}, described))
    assert [{"a": 1, "b": None}] == columns(result, "f")


def test_widest_of_schemas() -> None:
    """Fields are inferred from all schemas of the sample, and from objects without one."""
    content = [
        connect(1, schema("int32")),
        connect(2**40, schema("int64")),
        b'{"f": 3, "g": "x"}',
        connect(None, schema("int64")),
    ]
    result = inferred(*content)
    assert [1, 2**40, 3, None] == columns(result, "f")
    assert [None, None, "x", None] == columns(result, "g")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"connect.decimal.precision": "10"}, [Decimal("0.0100"), Decimal("0.0001")]),
        ({}, ["0.01", "0.0001"]),
    ],
)
def test_widest_of_decimals(given: dict[str, str], expected: list[object]) -> None:
    """A decimal of all their digits; a text if they are more than 38."""
    decimals = [
        connect("AQ==", schema("bytes", f"{KAFKA}Decimal", parameters={"scale": scale, **given}))
        for scale in ("2", "4")
    ]
    assert expected == columns(inferred(*decimals), "f")


def test_columns_named_like_the_envelope() -> None:
    """It is then an object as any other; its payload is read by its schema all the same."""
    content = connect(MICROS, schema("int64", f"{TIME}MicroTimestamp"))
    inner = (JsonField(name="f", type="timestamp"),)
    spec = JsonSpec(fields=(JsonField(name="payload", type="struct", fields=inner),))
    plain = b'{"schema": "v1", "payload": {"f": "1970-03-01T00:00:00Z"}}'
    result = by_value(spec, content, plain)
    assert [{"f": MARCH}] * 2 == columns(result, "payload")
    both = inferred(plain)
    assert (["v1"], [{"f": "1970-03-01T00:00:00Z"}]) == (
        columns(both, "schema"),
        columns(both, "payload"),
    )


def test_many_schemas() -> None:
    """More than are kept read: each record is decoded by its own."""
    content = [
        connect(MICROS, schema("int64", f"{TIME}MicroTimestamp", doc=str(number)))
        for number in range(1200)
    ]
    assert [MARCH] * 1200 == columns(as_column("timestamp", *content), "f")


@pytest.mark.parametrize("depth", [30, 400])
def test_a_deep_schema(depth: int) -> None:
    """It is refused by its depth."""
    described = schema("int32")
    for _ in range(depth):
        described = schema("array", items=described)
    result = as_column("timestamp", connect(None, described))
    assert ["deep" in reason for reason in reasons(result)] == [True]
