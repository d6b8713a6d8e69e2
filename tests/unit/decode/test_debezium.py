"""Change events of Debezium as rows."""

from __future__ import annotations

import base64
import datetime as dt
import io
import json
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest

from logwright.config.decoding import AvroSpec, DebeziumSpec, Decoding, JsonSpec, RegistrySpec
from logwright.config.json_fields import JsonField
from logwright.decode.make import make_decoder
from logwright.errors import PolicyError
from tests.unit.decode.records import batch, by_value, columns, decode, reasons, values

UTC = dt.UTC
ROW = (JsonField(name="id", type="long", nullable=False), JsonField(name="tags", type="json"))
SPEC = DebeziumSpec(of=JsonSpec(fields=ROW))


def event(op: object, after: object, source: object = None, **more: object) -> bytes:
    """A change event in JSON."""
    time = {"ts_ms": 1500, "db": "shop"} if source is None else source
    return json.dumps({"op": op, "before": None, "after": after, "source": time, **more}).encode()


def wrapped(content: bytes) -> bytes:
    """As JsonConverter writes it, with its schema."""
    payload = json.loads(content)
    return json.dumps({"schema": schema_of(payload), "payload": payload}).encode()


def schema_of(value: object) -> dict[str, Any]:
    """The schema that Kafka Connect would have of a value."""
    if isinstance(value, dict):
        fields = [{**schema_of(one), "field": name} for name, one in value.items()]
        return {"type": "struct", "fields": fields, "optional": True}
    if isinstance(value, list):
        return {"type": "array", "items": schema_of(value[0]), "optional": True}
    kinds = {int: "int64", str: "string", float: "double", type(None): "string"}
    return {"type": kinds[type(value)], "optional": True}


@pytest.mark.parametrize("op", ["c", "u", "r"])
@pytest.mark.parametrize("wrap", [wrapped, bytes])
def test_a_row_after_the_change(op: str, wrap: Any) -> None:
    """Created, updated, read by a snapshot; with and without Kafka Connect's envelope."""
    result = by_value(SPEC, wrap(event(op, {"id": 7, "tags": [1], "more": 0})))
    time = dt.datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)
    assert [{"key": b"k", "_op": op, "_source_time": time, "id": 7, "tags": "[1]"}] == result.rows
    assert ([], []) == (result.refused, result.deleted)


@pytest.mark.parametrize("after", [None, {"id": 7}])
def test_a_delete_deletes(after: object) -> None:
    """Op d is a deletion like the tombstone after it, also if a row is given."""
    result = by_value(SPEC, event("c", {"id": 7}), event("d", after), None)
    assert [7, None, None] == columns(result, "id")
    assert ["c", "d", None] == columns(result, "_op")
    assert [1, 2] == result.deleted


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (event("t", None), "is a truncation with a key"),
        (event("", {"id": 1}), "is not a change of a row: its op is none of c, u, r, d"),
        (event(None, {"id": 1}), "field op is missing or null"),
        (event(1, {"id": 1}), "field op is not a string"),
        (b"{}", "field op is missing or null"),
        (event("c", None), "is a change without the row after it"),
        (event("u", "x"), "field after is not an object"),
        (event("u", {"id": "x"}), "field after.id is not a long"),
        (event("u", {}), "field after.id is missing or null"),
        (event("u", {"id": 1}, {"ts_ms": "x"}), "field source.ts_ms is not a long"),
        (
            event("u", {"id": 1}, {"ts_ms": 2**62}),
            "field source.ts_ms is not a time of the years 1 to 9999",
        ),
        (b'{"schema": {}, "payload": null}', "has a schema that is not one of Kafka Connect"),
        (b'{"schema": null, "payload": null}', "is not a JSON object"),
        (wrapped(b'{"op": "c"}'), "is a change without the row after it"),
        (b"[]", "is not a JSON object"),
    ],
)
def test_refused(content: bytes, reason: str) -> None:
    """The events before and after are rows."""
    good = event("c", {"id": 7})
    result = by_value(SPEC, good, content, good)
    assert [(1, "value", reason)] == result.refused
    assert [7, 7] == columns(result, "id")


def test_a_source_without_a_time() -> None:
    """Its time is null."""
    result = by_value(SPEC, event("c", {"id": 1}, {}), event("c", {"id": 1}, {"ts_ms": None}))
    assert [None, None] == columns(result, "_source_time")


def test_fields_are_inferred() -> None:
    """Of the rows of the first events; keys in Kafka Connect's envelope are unwrapped too."""
    records = batch(
        [
            (wrapped(b'{"id": 1}'), wrapped(event("c", {"id": 1, "n": "a"}))),
            (b'{"id": 2}', event("u", {"id": 2.5, "tags": [True]})),
            (b'{"id": 2}', event("d", None)),
            (b'{"id": 2}', None),
        ]
    )
    decoding = Decoding(key=JsonSpec(), value=DebeziumSpec())
    decoder = make_decoder(decoding, base=Path("/"), sample=[records])
    result = decode(decoder, records)
    assert [{"id": 1}, {"id": 2}, {"id": 2}, {"id": 2}] == columns(result, "key")
    assert [1.0, 2.5, None, None] == columns(result, "id")
    assert ["a", None, None, None] == columns(result, "n")
    assert [None, [True], None, None] == columns(result, "tags")
    again = Decoding.model_validate_json(decoder.decoding.model_dump_json())
    assert result == decode(make_decoder(again, base=Path("/")), records)


ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "fields": [
        {
            "name": "before",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "Value",
                    "fields": [
                        {"name": "id", "type": "int"},
                        {"name": "m", "type": {"type": "map", "values": "string"}},
                        {"name": "l", "type": {"type": "array", "items": "int"}},
                    ],
                },
            ],
        },
        {"name": "after", "type": ["null", "Value"]},
        {
            "name": "source",
            "type": {"type": "record", "name": "S", "fields": [{"name": "ts_ms", "type": "long"}]},
        },
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"]},
    ],
}


def avro(op: str, after: object) -> bytes:
    """A change event in Avro."""
    content = io.BytesIO()
    value = {"before": None, "after": after, "source": {"ts_ms": 1500}, "op": op, "ts_ms": None}
    fastavro.schemaless_writer(content, fastavro.parse_schema(ENVELOPE), value)
    return content.getvalue()


@pytest.mark.parametrize("of", ["avro", "registry"])
def test_avro(of: str, tmp_path: Path) -> None:
    """The envelope may be Avro, with a file or a registry's ids."""
    (tmp_path / "7.avsc").write_text(json.dumps(ENVELOPE))
    header = b"" if of == "avro" else b"\0" + struct.pack(">i", 7)
    spec = AvroSpec(schema_file="7.avsc") if of == "avro" else RegistrySpec(schemas=".")
    content = (
        header + avro("c", {"id": 1, "m": {"a": "b"}, "l": [1]}),
        header + avro("d", None),
        header + avro("t", None),
        header + b"\xff",
    )
    result = by_value(DebeziumSpec(of=spec), *content, base=tmp_path, sample=[values(*content)])
    assert [1, None] == columns(result, "id")
    assert [[("a", "b")], None] == columns(result, "m")
    assert [[1], None] == columns(result, "l")
    assert ([1], [2, 3]) == (result.deleted, [number for number, _, _ in result.refused])


def test_not_an_envelope(tmp_path: Path) -> None:
    """A schema without op and after is not one of change events."""
    (tmp_path / "v.avsc").write_text('"long"')
    with pytest.raises(PolicyError, match="it has no op and after"):
        by_value(DebeziumSpec(of=AvroSpec(schema_file="v.avsc")), base=tmp_path)


def test_nothing_to_infer() -> None:
    """Events without rows give no columns."""
    with pytest.raises(PolicyError, match="cannot be inferred"):
        by_value(DebeziumSpec(), sample=[values(event("d", None))])
    assert ["is not JSON"] == reasons(by_value(SPEC, b"x"))


def test_messages_are_no_rows() -> None:
    """Op m, of pg_logical_emit_message, says nothing of a row: it is neither a row nor refused."""
    message = json.dumps({"op": "m", "source": {"ts_ms": 1}, "message": {"prefix": "p"}}).encode()
    records = values(event("c", {"id": 7}), message, wrapped(message))
    decoder = make_decoder(Decoding(value=SPEC), base=Path("/"))
    assert [1, 2] == decode(decoder, records).deleted
    assert 2 == decoder.decode(records).messages


@pytest.mark.parametrize("truncate", ["refuse", "delete"])
def test_records_without_a_key(truncate: str) -> None:
    """A truncation never has one: it is refused, or says which rows go. Others say nothing, but one
    that cannot be decoded may be a truncation.
    """
    content = (
        event("c", {"id": 1}),
        event("t", None),
        event("m", None),
        b"{",
        None,
        event("t", None),
    )
    records = batch([(None, one) for one in content])
    spec = SPEC.model_copy(update={"truncate": truncate})
    result = make_decoder(Decoding(value=spec), base=Path("/")).keyless(records)
    refused = {row["offset"]: row["reason"] for row in result.refused.to_pylist()}
    stays = "is a truncation, and the rows before it stay"
    if truncate == "refuse":
        assert () == result.truncations
        assert [101, 103, 105] == sorted(refused)
        assert refused[101].startswith(stays)
    else:
        assert (101, 105) == result.truncations
        assert [103] == sorted(refused)
    assert "is not JSON" == refused[103]
    assert 1 == result.messages


PLACEHOLDER = "__debezium_unavailable_value"


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("string", PLACEHOLDER),
        ("json", PLACEHOLDER),
        ("json", {PLACEHOLDER: PLACEHOLDER}),
        ("binary", base64.b64encode(PLACEHOLDER.encode()).decode()),
        ("string", base64.b64encode(PLACEHOLDER.encode()).decode()),
        ("array", [PLACEHOLDER]),
        ("numbers", list(PLACEHOLDER.encode())),
    ],
)
def test_values_that_were_left_out(kind: str, value: object) -> None:
    """A placeholder is null, and marked; values that are like it are not."""
    element = {"array": "string", "numbers": "long"}.get(kind)
    parts = () if element is None else (JsonField(name="element", type=element),)
    field = JsonField(name="f", type="array" if element else kind, fields=parts)
    decoding = Decoding(value=DebeziumSpec(of=JsonSpec(fields=(field,))))
    decoder = make_decoder(decoding, base=Path("/"))
    other = {"array": [PLACEHOLDER, "a"], "numbers": [1]}.get(kind, "AAAA")
    records = values(*(event("u", {"f": one}) for one in (value, other, None, value)))
    decoded = decoder.decode(records)
    assert ["f"] == list(decoded.unavailable)
    assert [True, False, False, True] == decoded.unavailable["f"].to_pylist()
    shown = [row["f"] for row in decode(decoder, records).rows]
    assert [True, False, True, True] == [one is None for one in shown]
    kept = values(event("u", {"f": other}))
    assert {} == decoder.decode(kept).unavailable


def test_flattened_events() -> None:
    """The row is the value; ``__deleted`` says that it was deleted, also if it is not whole."""
    fields = (*ROW, JsonField(name="__op", type="string"))
    spec = DebeziumSpec(of=JsonSpec(fields=fields), flattened=True)
    row = {"id": 7, "tags": [1], "__op": "u"}
    content = [
        {**row, "__deleted": "false"},
        row,
        {"id": 7, "__deleted": "true", "__op": "d"},
        {"__deleted": "true"},
        {"__deleted": "false"},
        {**row, "__deleted": "yes"},
        {**row, "tags": PLACEHOLDER},
    ]
    records = values(*(json.dumps(one).encode() for one in content), None)
    decoder = make_decoder(Decoding(value=spec), base=Path("/"))
    result = decode(decoder, records)
    assert ["key", "id", "tags", "__op"] == list(result.rows[0])
    assert [7, 7, None, None, 7, None] == columns(result, "id")
    assert [2, 3, 7] == result.deleted
    assert [
        (4, "value", "field id is missing or null"),
        (5, "value", "field __deleted is neither true nor false"),
    ] == result.refused
    assert [False] * 4 + [True, False] == decoder.decode(records).unavailable["tags"].to_pylist()


def test_flattened_events_of_avro(tmp_path: Path) -> None:
    """Its schema has ``__deleted``, or it is not that of flattened events."""
    fields: list[dict[str, Any]] = [{"name": "id", "type": "int"}]
    (tmp_path / "other.avsc").write_text(
        json.dumps({"type": "record", "name": "V", "fields": fields})
    )
    fields.append({"name": "__deleted", "type": ["null", "string"], "default": None})
    schema = {"type": "record", "name": "V", "fields": fields}
    (tmp_path / "v.avsc").write_text(json.dumps(schema))
    content = []
    for number, deleted in ((1, "false"), (2, "true"), (3, None)):
        written = io.BytesIO()
        fastavro.schemaless_writer(written, schema, {"id": number, "__deleted": deleted})
        content.append(written.getvalue())
    spec = DebeziumSpec(of=AvroSpec(schema_file="v.avsc"), flattened=True)
    result = by_value(spec, *content, base=tmp_path)
    assert [1, None, 3] == columns(result, "id")
    assert [1] == result.deleted
    other = DebeziumSpec(of=AvroSpec(schema_file="other.avsc"), flattened=True)
    with pytest.raises(PolicyError, match="it has no __deleted"):
        by_value(other, base=tmp_path)


DOCUMENT = {
    "_id": {"$oid": "65a0c0ffee65a0c0ffee65a0"},
    "n": {"$numberLong": "9007199254740993"},
    "price": {"$numberDecimal": "12.50"},
    "at": {"$date": 1_700_000_000_123},
    "raw": {"$binary": "AAE=", "$type": "00"},
    "in": {"list": [{"$numberLong": "1"}, {"$numberInt": "2"}]},
    "plain": 1.5,
}


def test_documents_of_mongodb() -> None:
    """``after`` is a text: the column `document`, or fields of it, in extended JSON."""
    text = json.dumps(DOCUMENT)
    content = (event("c", text), event("d", None), event("u", "["), event("u", "[]"))
    whole = by_value(DebeziumSpec(documents=True), *content)
    assert [text, None] == columns(whole, "document")
    assert [1] == whole.deleted
    assert ["field after is not JSON", "field after is not a JSON object"] == reasons(whole)
    kinds = {"_id": "string", "n": "long", "price": "decimal(9,2)", "at": "timestamp"}
    kinds |= {"raw": "binary", "in": "json", "plain": "double"}
    fields = tuple(JsonField(name=name, type=kind) for name, kind in kinds.items())
    spec = DebeziumSpec(documents=True, of=JsonSpec(fields=fields))
    for wrap in (bytes, wrapped):
        (row,) = by_value(spec, wrap(content[0])).rows
        assert 9007199254740993 == row["n"]
        assert (Decimal("12.50"), b"\0\1", 1.5) == (row["price"], row["raw"], row["plain"])
        assert dt.datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC) == row["at"]
        assert {"list": [1, 2]} == json.loads(row["in"])
    wrong = by_value(spec, event("c", '{"n": "x"}'))
    assert ["field after.n is not a long"] == reasons(wrong)
    deep = by_value(spec, event("c", '{"in":' * 800 + "1" + "}" * 800), content[0])
    assert ["field after is nested too deep"] == reasons(deep)
    assert 9007199254740993 == deep.rows[0]["n"]


def test_specs_of_tables_that_were_made_before() -> None:
    """A table knows its spec by its JSON, which has none of the options at their defaults."""
    assert {"format": "debezium", "of": {"format": "json", "fields": None}} == json.loads(
        DebeziumSpec().model_dump_json()
    )
    spec = DebeziumSpec(flattened=True, unavailable="x")
    again = Decoding.model_validate_json(Decoding(value=spec).model_dump_json())
    assert spec == again.value
