"""What a schema refers to: in a registry by subject and version, in a directory by file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest

from logwright.config.decoding import RegistrySpec
from logwright.decode.json_fields import UnusableSchema
from logwright.decode.model import SchemaUnavailable
from logwright.decode.protoc import compile_file, marked
from logwright.decode.schema_sources import SchemaDirectory, SchemaRegistry
from logwright.errors import PolicyError
from tests.unit.decode.records import by_value, columns
from tests.unit.decode.schema_server import Registry, serving

CITY = {"type": "enum", "name": "City", "namespace": "shop", "symbols": ["A", "B"]}
ADDRESS: dict[str, Any] = {
    "type": "record",
    "name": "Address",
    "namespace": "shop",
    "fields": [{"name": "city", "type": "shop.City"}, {"name": "zip", "type": "string"}],
}
CUSTOMER: dict[str, Any] = {
    "type": "record",
    "name": "Customer",
    "fields": [
        {"name": "home", "type": "shop.Address"},
        {"name": "born", "type": ["null", "shop.City"]},
    ],
}
ROW = {"home": {"city": "B", "zip": "1"}, "born": "A"}


@pytest.fixture
def registry() -> Iterator[Registry]:
    """A registry without schemas."""
    with serving() as served:
        yield served


def datum(schema_id: int) -> bytes:
    """A customer, encoded by fastavro."""
    named: dict[str, Any] = {}
    for each in (CITY, ADDRESS):
        fastavro.parse_schema(each, named_schemas=named)
    out = BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(CUSTOMER, named_schemas=named), ROW)
    return b"\0" + schema_id.to_bytes(4, "big") + out.getvalue()


def refer(name: str, subject: str, version: int = 1) -> dict[str, Any]:
    """A reference, as a registry has it."""
    return {"name": name, "subject": subject, "version": version}


def test_a_reference_that_was_deleted(registry: Registry) -> None:
    """A version that was deleted softly is there for the schemas that refer to it."""
    registry.add(
        1,
        json.dumps(CUSTOMER),
        references=[refer("shop.Address", "address"), refer("shop.City", "city")],
    )
    registry.answers["/subjects/address/versions/1"] = {
        "schema": json.dumps(ADDRESS),
        "references": [refer("shop.City", "city")],
    }
    registry.answers["/subjects/city/versions/1"] = {"schema": json.dumps(CITY)}
    registry.deleted.update({"/subjects/city/versions/1", "/subjects/address/versions/1"})
    result = by_value(RegistrySpec(url=registry.url, schema_id=1), datum(1))
    assert [{"key": b"k", **ROW}] == result.rows
    assert 1 == registry.asked["/subjects/city/versions/1"]


def test_one_version_by_two_names(registry: Registry) -> None:
    """Each file of Protobuf imports by its own name; the version is asked for once."""
    registry.add(1, "", "PROTOBUF", references=[refer("a.proto", "s"), refer("x/b.proto", "s")])
    registry.answers["/subjects/s/versions/1"] = {"schema": "message A {}"}
    schema = SchemaRegistry(registry.url).get(1)
    assert schema is not None
    assert {"a.proto": b"message A {}", "x/b.proto": b"message A {}"} == schema.references
    assert 1 == registry.asked["/subjects/s/versions/1"]


def test_two_schemas_of_one_name(registry: Registry) -> None:
    """Which of them a file imports is not guessed."""
    registry.add(1, "", "PROTOBUF", references=[refer("a.proto", "s"), refer("b.proto", "t")])
    registry.answers["/subjects/s/versions/1"] = {"schema": "message A {}"}
    registry.answers["/subjects/t/versions/1"] = {
        "schema": "message B {}",
        "references": [refer("a.proto", "s", 2)],
    }
    registry.answers["/subjects/s/versions/2"] = {"schema": "message A { }"}
    with pytest.raises(UnusableSchema, match="refers to two schemas by one name"):
        SchemaRegistry(registry.url).get(1)
    registry.answers["/subjects/t/versions/1"]["references"] = [refer("c.proto", "t")]
    with pytest.raises(UnusableSchema, match="refers to itself"):
        SchemaRegistry(registry.url).get(1)


def test_a_guid(registry: Registry) -> None:
    """The same answer as of an id."""
    guid = "6a5ae4a0-0a1c-4a0e-9d5c-3f7f2d6c2a11"
    registry.answers[f"/schemas/guids/{guid}"] = {"schema": '"long"'}
    schema = SchemaRegistry(registry.url).get_guid(guid)
    assert schema is not None
    assert ("AVRO", b'"long"') == (schema.kind, schema.text)
    assert SchemaRegistry(registry.url).get_guid("0") is None


@pytest.fixture
def schemas(tmp_path: Path) -> Path:
    """A directory of schemas."""
    directory = tmp_path / "schemas"
    directory.mkdir()
    return directory


def test_avro_in_a_directory(schemas: Path, tmp_path: Path) -> None:
    """A type is in the file of its name, and may refer to others."""
    for name, schema in (("1", CUSTOMER), ("shop.Address", ADDRESS), ("shop.City", CITY)):
        (schemas / f"{name}.avsc").write_text(json.dumps(schema))
    spec = RegistrySpec(schemas="schemas", schema_id=1)
    assert [{"key": b"k", **ROW}] == by_value(spec, datum(1), base=tmp_path).rows
    (schemas / "shop.City.avsc").unlink()
    with pytest.raises(PolicyError, match=r"refers to shop\.City\.avsc, which its directory"):
        by_value(spec, base=tmp_path)
    (schemas / "shop.City.avsc").write_text(json.dumps(CUSTOMER))
    with pytest.raises(PolicyError, match="is not an Avro schema"):
        by_value(spec, base=tmp_path)
    (schemas / "1.avsc").write_text(
        '{"type": "record", "name": "A", "fields": [{"name": "a", "type": "../b"}]}'
    )
    with pytest.raises(PolicyError, match="is not an Avro schema"):
        by_value(spec, base=tmp_path)


def test_json_in_a_directory(schemas: Path, tmp_path: Path) -> None:
    """A document is the file of its name; references within it are to itself."""
    address = {"$ref": "common/address.json#/definitions/Address"}
    first = {"type": "object", "properties": {"home": address, "n": {"type": "integer"}}}
    second = {
        "definitions": {
            "Address": {"type": "object", "properties": {"city": {"$ref": "#/definitions/City"}}},
            "City": {"type": "object", "properties": {"name": {"$ref": "text.json"}}},
        }
    }
    (schemas / "common").mkdir()
    (schemas / "1.json").write_text(json.dumps(first))
    (schemas / "common/address.json").write_text(json.dumps(second))
    (schemas / "text.json").write_text('{"type": "string"}')
    spec = RegistrySpec(schemas="schemas", schema_id=1)
    value = b'\0\0\0\0\1{"home": {"city": {"name": "x"}}, "n": 4}'
    result = by_value(spec, value, base=tmp_path)
    assert [{"city": {"name": "x"}}] == columns(result, "home")
    assert [4] == columns(result, "n")
    (schemas / "text.json").unlink()
    with pytest.raises(PolicyError, match=r"refers to text\.json, which its directory"):
        by_value(spec, base=tmp_path)
    for name in ("../text.json", "/text.json"):
        first["properties"] = {"home": {"$ref": name}}
        (schemas / "1.json").write_text(json.dumps(first))
        with pytest.raises(PolicyError, match="outside of its directory"):
            by_value(spec, base=tmp_path)


def test_a_reference_that_is_not_a_file(schemas: Path) -> None:
    """Nothing is decoded, nor refused."""
    (schemas / "1.avsc").write_text(json.dumps(ADDRESS))
    (schemas / "shop.City.avsc").mkdir()
    with pytest.raises(SchemaUnavailable):
        SchemaDirectory(schemas).get(1)


ENTRIES = b"""
syntax = "proto3";
package t;
message Outer {
  repeated .t.Outer.ItemsEntry items = 1;
  map<string, int32> more = 2;
  // option map_entry = true;
  message ItemsEntry {
    option map_entry = true;
    string key = 1;
    Inner value = 2;
  }
  message Inner { string a = 1 [json_name = "option map_entry = true;"]; }
}
"""


def test_the_entries_of_maps_in_a_text(tmp_path: Path) -> None:
    """They are maps; indexes count them, but not those that protoc makes of map<>."""
    file = tmp_path / "a.proto"
    file.write_bytes(marked(ENTRIES))
    compiled = compile_file(file)
    outer = compiled.message("t.Outer")
    entry = outer.fields_by_name["items"].message_type
    assert entry.GetOptions().map_entry
    assert {"t.Outer.ItemsEntry"} == compiled.entries
    names = [each.name for each in compiled.counted(outer.nested_types)]
    assert ["ItemsEntry", "Inner"] == names
    assert "option map_entry = true;" == compiled.message("t.Outer.Inner").fields[0].json_name
    file.write_bytes(marked(ENTRIES.replace(b"Inner value = 2;", b"")))
    with pytest.raises(UnusableSchema, match="the entry of a map without a key or value"):
        compile_file(file)
    uses = ENTRIES.replace(b"string a = 1", b"reserved 536870911; string a = 1")
    file.write_bytes(marked(uses))
    with pytest.raises(UnusableSchema, match="map_entry should not be set explicitly"):
        compile_file(file)
