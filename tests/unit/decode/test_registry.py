"""The wire format of a schema registry: a directory, and a registry that answers over HTTP."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest
from google.protobuf import message_factory

from logwright.config.decoding import Decoding, RegistrySpec
from logwright.decode.make import make_decoder
from logwright.decode.model import SchemaUnavailable
from logwright.decode.protoc import compile_file
from logwright.errors import PolicyError
from tests.unit.decode.records import Result, by_value, columns, decode, reasons, values
from tests.unit.decode.schema_server import Registry, serving

FIRST = {
    "type": "record",
    "name": "Customer",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "score", "type": "float"},
        {"name": "old", "type": "string"},
    ],
}
SECOND = {
    "type": "record",
    "name": "Customer",
    "namespace": "shop",
    "fields": [
        {"name": "score", "type": "double"},
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "level", "type": "string", "default": "basic"},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
    ],
}
OTHER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
NARROW = {
    "type": "record",
    "name": "Customer",
    "fields": [{"name": "score", "type": "double"}, {"name": "id", "type": "string"}],
}
LACKING = {"type": "record", "name": "Customer", "fields": [{"name": "id", "type": "long"}]}
PROTO = """
syntax = "proto3";
package shop;
import "common/part.proto";
message Order { int64 id = 1; message Line { string sku = 1; } }
message Customer { int64 id = 1; optional string name = 2; common.Part part = 3; }
"""
PART = 'syntax = "proto3"; package common; message Part { int32 n = 1; }'
OLDER = """
syntax = "proto3"; package shop;
message Order { int64 i = 1; } message Customer { int32 id = 1; string gone = 9; }
"""


def framed(schema_id: int, datum: bytes, indexes: bytes = b"") -> bytes:
    """A value in the wire format."""
    return b"\0" + struct.pack(">i", schema_id) + indexes + datum


def avro(schema_id: int, schema: Any, value: object) -> bytes:
    """A value of an Avro schema."""
    content = io.BytesIO()
    fastavro.schemaless_writer(content, fastavro.parse_schema(schema), value)
    return framed(schema_id, content.getvalue())


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A directory with a directory of schemas."""
    schemas = tmp_path / "schemas"
    (schemas / "common").mkdir(parents=True)
    for number, schema in enumerate((FIRST, SECOND, OTHER, NARROW, LACKING), 1):
        (schemas / f"{number}.avsc").write_text(json.dumps(schema))
    (schemas / "20.proto").write_text(PROTO)
    (schemas / "19.proto").write_text(OLDER)
    (schemas / "common/part.proto").write_text(PART)
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    (schemas / "30.json").write_text(json.dumps(schema))
    (schemas / "40.avsc").write_text("{")
    (schemas / "notes.txt").write_text("")
    return tmp_path


def local(base: Path, schema_id: int | None, *content: bytes | None, **more: Any) -> Result:
    """Values by the directory of schemas."""
    return by_value(
        RegistrySpec(schemas="schemas", schema_id=schema_id, **more), *content, base=base
    )


def test_evolved_schema(base: Path) -> None:
    """Records of an older schema get the columns of the newer: widened, with defaults, without
    what it has not.
    """
    old = avro(1, FIRST, {"id": -5, "score": 0.5, "old": "x"})
    new = {"id": 6, "score": 1.5, "name": "n", "level": "gold", "tags": ["a"]}
    result = local(base, 2, old, avro(2, SECOND, new), None, old)
    older = {"key": b"k", "id": -5, "score": 0.5, "name": None, "level": "basic", "tags": []}
    newer = {"key": b"k", **new}
    nothing = dict.fromkeys(newer) | {"key": b"k"}
    assert [older, newer, nothing, older] == result.rows
    assert ([], [2]) == (result.refused, result.deleted)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is not in the wire format of a schema registry"),
        (b"\0\0\0\0", "is not in the wire format of a schema registry"),
        (b"\1\0\0\0\1x", "is not in the wire format of a schema registry"),
        (b"plain", "is not in the wire format of a schema registry"),
        (framed(999, b""), "has the id of an unknown schema"),
        (framed(-1, b""), "has the id of an unknown schema"),
        (framed(2, b""), "is not Avro: ends too early"),
        (framed(40, b""), "has a schema that is not an Avro schema in JSON"),
        (avro(3, OTHER, {"id": 1}), "has another type than the schema of the columns"),
        (framed(30, b'{"id": 1}'), "has another type than the schema of the columns"),
        (
            avro(4, NARROW, {"id": "s", "score": 1}),
            "has a schema whose field id does not fit the columns",
        ),
        (
            avro(5, LACKING, {"id": 1}),
            "has a schema without field score, which has no default",
        ),
    ],
)
def test_refused(content: bytes, reason: str, base: Path) -> None:
    """The others are decoded."""
    good = avro(2, SECOND, {"id": 6, "score": 1, "name": None, "level": "", "tags": []})
    result = local(base, 2, good, content, good)
    assert [(1, "value", reason)] == result.refused
    assert [6, 6] == columns(result, "id")


def test_a_malformed_datum_does_not_spoil_its_schema(base: Path) -> None:
    """Of an older schema, too."""
    good = avro(1, FIRST, {"id": 1, "score": 1, "old": ""})
    result = local(base, 2, good, good[:-1], good + b"x", good)
    assert [1, 2] == [number for number, _, _ in result.refused]
    assert [1, 1] == columns(result, "id")


def protobuf(base: Path, file: str, message: str, /, **fields: Any) -> bytes:
    """A message of a file of the directory."""
    compiled = compile_file(base / "schemas" / file)
    made = message_factory.GetMessageClass(compiled.message(message))
    content: bytes = made(**fields).SerializeToString()
    return content


def test_protobuf(base: Path) -> None:
    """The indexes lead to the message; its columns are those of the first record with the id, or
    of the message that is named.
    """
    order = framed(20, protobuf(base, "20.proto", "shop.Order", id=4), b"\0")
    customer = protobuf(base, "20.proto", "shop.Customer", id=5, name="n", part={"n": 1})
    newer = framed(20, customer, b"\2\2")
    older = framed(19, protobuf(base, "19.proto", "shop.Customer", id=7, gone="x"), b"\2\2")
    spec = RegistrySpec(schemas="schemas", schema_id=20)
    result = by_value(spec, newer, older, order, base=base, sample=[values(newer)])
    assert [
        {"key": b"k", "id": 5, "name": "n", "part": {"n": 1}},
        {"key": b"k", "id": 7, "name": None, "part": None},
    ] == result.rows
    assert ["has another type than the schema of the columns"] == reasons(result)
    named = local(base, 20, order, message="shop.Order")
    assert [4] == columns(named, "id")
    assert [4] == columns(local(base, 20, order), "id")


@pytest.mark.parametrize(
    ("indexes", "reason"),
    [
        (b"", "ends within the indexes of its message"),
        (b"\2", "ends within the indexes of its message"),
        (b"\1", "has malformed indexes of its message"),
        (b"\xfe\xff\xff\xff\x0f", "has malformed indexes of its message"),
        (b"\2\x63", "has the index of an unknown message"),
        (b"\2\x40", "has the index of an unknown message"),
        (b"\4\0\x40", "has the index of an unknown message"),
        (b"\4\0\0", "has another type than the schema of the columns"),
    ],
)
def test_indexes_of_protobuf(indexes: bytes, reason: str, base: Path) -> None:
    """Wrong indexes are refused."""
    good = framed(20, b"", b"\0")
    result = local(base, 20, good, framed(20, b"", indexes), good, message="shop.Order")
    assert [(1, "value", reason)] == result.refused


def test_json(base: Path) -> None:
    """The columns are those of the JSON Schema."""
    result = local(base, 30, framed(30, b'{"id": 1}'), framed(30, b"{}"), framed(30, b"{"))
    assert [{"key": b"k", "id": 1}] == result.rows
    assert ["field id is missing or null", "is not JSON"] == reasons(result)


def test_the_highest_id_that_records_use_by_default(base: Path) -> None:
    """Not that of the directory, which has schemas of other topics; nor one that nobody knows. What
    was chosen is in the decoder's own specs.
    """
    spec = RegistrySpec(schemas="schemas")
    ids = (30, 10, 7_777_777)
    sample = [values(*(framed(number, b'{"id": 1}') for number in ids))]
    decoder = make_decoder(Decoding(value=spec), base=base, sample=sample)
    assert "id" in decoder.schema.names
    assert RegistrySpec(schemas="schemas", schema_id=30) == decoder.decoding.value
    with pytest.raises(PolicyError, match="no record with a schema's id"):
        make_decoder(Decoding(value=spec), base=base)
    again = Decoding.model_validate_json(decoder.decoding.model_dump_json())
    assert decoder.schema == make_decoder(again, base=base).schema


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"schema_id": 40}, r"schema 40 is not an Avro schema in JSON"),
        ({"schema_id": 999}, r"schema 999 is unknown"),
        ({"schema_id": 20, "message": "shop.No"}, r"schema 20 has no message shop.No"),
    ],
)
def test_unusable_columns(more: dict[str, Any], problem: str, base: Path) -> None:
    """The schema of the columns must be there and be usable."""
    with pytest.raises(PolicyError, match=problem):
        by_value(RegistrySpec(schemas="schemas", **more), base=base)


def test_directory_is_not_there(tmp_path: Path) -> None:
    """It may have been removed after the policies were read."""
    with pytest.raises(SchemaUnavailable):
        by_value(RegistrySpec(schemas="schemas", schema_id=1), base=tmp_path)
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas/1.avsc").mkdir()
    with pytest.raises(SchemaUnavailable):
        by_value(RegistrySpec(schemas="schemas", schema_id=1), base=tmp_path)


@pytest.fixture
def registry() -> Iterator[Registry]:
    """A registry that has the two versions of a schema."""
    with serving() as served:
        served.add(1, json.dumps(FIRST))
        served.add(2, json.dumps(SECOND))
        yield served


def test_registry(registry: Registry) -> None:
    """Each schema is asked for once, unknown ones too; columns by the highest id of the sample."""
    old = avro(1, FIRST, {"id": 1, "score": 0, "old": ""})
    new = avro(2, SECOND, {"id": 2, "score": 0, "name": None, "level": "", "tags": []})
    spec = RegistrySpec(url=registry.url)
    decoder = make_decoder(Decoding(value=spec), base=Path("/"), sample=[values(old, new)])
    for _ in range(3):
        result = decode(decoder, values(old, new, framed(7, b""), framed(7, b"x")))
        assert [1, 2] == columns(result, "id")
        assert ["has the id of an unknown schema"] * 2 == reasons(result)
    assert {f"/schemas/ids/{number}": 1 for number in (1, 2, 7)} == registry.asked


def test_references(registry: Registry) -> None:
    """Schemas that a schema refers to are read too, deeply, each once."""
    reference = {"name": "shop.Address", "subject": "shop/address", "version": 3}
    fields = [{"name": "home", "type": "shop.Address"}, {"name": "work", "type": "shop.Address"}]
    record = {"type": "record", "name": "P", "namespace": "q", "fields": fields}
    registry.add(5, json.dumps(record), references=[reference])
    city = {"name": "shop.City", "subject": "city", "version": 1}
    address = {
        "type": "record",
        "name": "shop.Address",
        "fields": [{"name": "city", "type": "shop.City"}],
    }
    registry.answers["/subjects/shop%2Faddress/versions/3"] = {
        "schema": json.dumps(address),
        "references": [city],
    }
    registry.answers["/subjects/city/versions/1"] = {
        "schema": '{"type": "enum", "name": "shop.City", "symbols": ["A", "B"]}'
    }
    spec = RegistrySpec(url=registry.url, schema_id=5)
    result = by_value(spec, framed(5, b"\x02\x00"))
    assert [{"key": b"k", "home": {"city": "B"}, "work": {"city": "A"}}] == result.rows
    registry.answers["/subjects/city/versions/1"] = {
        "schema": json.dumps(address),
        "references": [reference],
    }
    with pytest.raises(PolicyError):
        by_value(spec)


def test_references_of_protobuf(registry: Registry) -> None:
    """Imports are files by the names of the references, which cannot lead elsewhere."""
    reference = {"name": "common/part.proto", "subject": "part", "version": 1}
    registry.add(6, PROTO, "PROTOBUF", references=[reference])
    registry.answers["/subjects/part/versions/1"] = {"schema": PART, "schemaType": "PROTOBUF"}
    spec = RegistrySpec(url=registry.url, schema_id=6, message="shop.Customer")
    result = by_value(spec, framed(6, b"\x08\x05\x1a\x02\x08\x07", b"\2\2"))
    assert [{"key": b"k", "id": 5, "name": None, "part": {"n": 7}}] == result.rows
    for name in ("../part.proto", "/part.proto", "a/../../b.proto"):
        registry.add(6, PROTO, "PROTOBUF", references=[reference | {"name": name}])
        with pytest.raises(PolicyError, match="outside of its directory"):
            by_value(spec)


def test_a_registry_that_recovers(registry: Registry) -> None:
    """An answer of 503 is asked for again."""
    registry.failures["/schemas/ids/2"] = 2
    assert [] == by_value(RegistrySpec(url=registry.url, schema_id=2)).rows
    assert 3 == registry.asked["/schemas/ids/2"]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (500, "status 500"),
        (401, "status 401"),
        (302, "status 302"),
        (b"<html>", "does not answer with JSON"),
        (b"[" * 100_000, "does not answer with JSON"),
        (b"[]", "does not answer with a JSON object"),
        (b" " * (5 << 20), "answers with more than 4194304 bytes"),
    ],
)
def test_a_registry_that_does_not_answer(
    answer: bytes | int, problem: str, registry: Registry
) -> None:
    """Its records are neither decoded nor refused; it is not followed elsewhere."""
    decoder = make_decoder(
        Decoding(value=RegistrySpec(url=registry.url, schema_id=2)), base=Path("/")
    )
    registry.answers["/schemas/ids/8"] = answer
    with pytest.raises(SchemaUnavailable, match=problem):
        decoder.decode(values(framed(8, b"")))
    assert 0 == registry.asked["/elsewhere"]


def test_nobody_listens() -> None:
    """The error has the address, and nothing of the exception's text."""
    with serving() as registry:
        url = registry.url
    with pytest.raises(SchemaUnavailable, match=f"{url} does not answer: ConnectionError"):
        by_value(RegistrySpec(url=url, schema_id=1))


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"schema": 7},
        {"schema": "{"},
        {"schema": '"long"', "schemaType": "XML"},
        {"schema": '"long"', "references": 7},
        {"schema": '"long"', "references": [{"name": "x"}]},
        {"schema": '"long"', "references": [{"name": "x", "subject": "y", "version": 1}]},
    ],
)
def test_unusable_answers(answer: dict[str, Any], registry: Registry) -> None:
    """A schema that cannot be used refuses its records, and no others."""
    registry.answers["/schemas/ids/9"] = answer
    new = avro(2, SECOND, {"id": 2, "score": 0, "name": None, "level": "", "tags": []})
    result = by_value(RegistrySpec(url=registry.url, schema_id=2), new, framed(9, b"x"), new)
    ((number, _, reason),) = result.refused
    assert (1, True) == (number, reason.startswith("has a schema that "))


def test_unknown_ids_are_not_asked_for_without_end(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log whose records have random ids does not become a load of the registry."""
    monkeypatch.setattr("logwright.decode.registry._MOST_UNKNOWN", 5)
    content = [framed(number, b"") for number in range(100, 150)]
    result = by_value(RegistrySpec(url=registry.url, schema_id=2), *content)
    assert ["has the id of an unknown schema"] * 50 == reasons(result)
    assert 6 == registry.asked.total()
