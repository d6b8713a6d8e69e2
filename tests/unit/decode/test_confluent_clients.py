"""Records that Confluent's own serializers of Python write are decoded to the values put in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    header_schema_id_serializer,
    record_subject_name_strategy,
    topic_record_subject_name_strategy,
    topic_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import json_format, message_factory

from logwright.config.decoding import Decoding, RegistrySpec
from logwright.decode.ids_in_headers import with_ids
from logwright.decode.make import make_decoder
from logwright.decode.protoc import Compiled, compile_file
from logwright.records.schema import HEADERS_TYPE
from tests.confluent_registry import ConfluentRegistry, confluent_registry
from tests.unit.decode.records import batch, by_value, decode, reasons, values

TOPIC = "orders"
STRATEGIES = [
    topic_subject_name_strategy,
    record_subject_name_strategy,
    topic_record_subject_name_strategy,
]
CITY = {"type": "enum", "name": "City", "namespace": "shop", "symbols": ["A", "B"]}
ADDRESS: dict[str, Any] = {
    "type": "record",
    "name": "Address",
    "namespace": "shop",
    "fields": [{"name": "city", "type": "shop.City"}],
}
ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "to", "type": ["null", "shop.Address"]},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "notes", "type": {"type": "map", "values": "string"}},
        {"name": "lines", "type": {"type": "array", "items": ["null", "int"]}},
    ],
}
ROWS: list[dict[str, Any]] = [
    {
        "id": 7,
        "to": {"city": "B"},
        "price": Decimal("-12.30"),
        "day": date(2024, 2, 29),
        "at": datetime(2024, 2, 29, 1, 2, 3, 4, UTC),
        "notes": {"a": "ü", "": "b"},
        "lines": [1, None, -3],
    },
    {
        "id": -(2**63),
        "to": None,
        "price": Decimal("0.00"),
        "day": date(1969, 12, 31),
        "at": datetime(1960, 1, 1, tzinfo=UTC),
        "notes": {},
        "lines": [],
    },
]
MONEY = """
syntax = "proto3";
package bank;
message Money { string currency = 1; sint64 units = 2; }
"""
SHOP = """
syntax = "proto3";
package shop;
import "common/money.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Audit { string who = 1; }
message Order {
  enum Kind { NONE = 0; SALE = 3; }
  map<string, Line> by_name = 1;
  message Line { bank.Money price = 1; repeated uint32 counts = 2; map<int32, string> tags = 3; }
  repeated Line lines = 2;
  map<int64, bank.Money> totals = 3;
  message Deep { message Deeper { bytes raw = 1; Kind kind = 2; } Deeper deeper = 1; }
  oneof payment { string card = 4; Deep cash = 5; }
  optional int32 rank = 6;
  google.protobuf.Timestamp at = 7;
  google.protobuf.StringValue note = 8;
  Kind kind = 9;
}
"""
LINE = {"price": {"currency": "EUR", "units": -5}, "counts": [1, 4294967295], "tags": {-1: "a"}}
LINE_ROW = LINE | {"tags": [(-1, "a")]}
DEEPER = {"raw": b"\x00\xff", "kind": "SALE"}
AT = datetime(2024, 2, 29, 1, 2, 3, 4, UTC)
MESSAGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "shop.Audit": ({"who": "me"}, {"who": "me"}),
    "shop.Order": (
        {
            "by_name": {"x": LINE},
            "lines": [LINE, {}],
            "totals": {7: {"units": 1}},
            "cash": {"deeper": {"raw": "AP8=", "kind": 3}},
            "at": "2024-02-29T01:02:03.000004Z",
            "note": "",
            "kind": 4,
        },
        {
            "by_name": [("x", LINE_ROW)],
            "lines": [LINE_ROW, {"price": None, "counts": [], "tags": []}],
            "totals": [(7, {"currency": "", "units": 1})],
            "card": None,
            "cash": {"deeper": DEEPER},
            "rank": None,
            "at": AT,
            "note": "",
            "kind": "4",
        },
    ),
    "shop.Order.Line": (LINE, LINE_ROW),
    "shop.Order.Deep": ({"deeper": {}}, {"deeper": {"raw": b"", "kind": "NONE"}}),
    "shop.Order.Deep.Deeper": ({"raw": "AP8=", "kind": 3}, DEEPER),
}
"""Message → a value in JSON, and the row that it is."""

PERSON = {
    "title": "Person",
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "home": {"$ref": "address.json#/definitions/Address"},
        "other": {"type": "array", "items": {"$ref": "address.json#/definitions/Address"}},
    },
    "required": ["name"],
}
PLACES = {
    "definitions": {
        "Address": {
            "type": "object",
            "properties": {"city": {"$ref": "city.json"}, "zip": {"type": "integer"}},
        }
    }
}


@pytest.fixture
def registry() -> Iterator[ConfluentRegistry]:
    """A registry without schemas."""
    with confluent_registry() as served:
        yield served


def client(registry: ConfluentRegistry) -> SchemaRegistryClient:
    """Confluent's client of a registry."""
    return SchemaRegistryClient({"url": registry.url})


def of_value(headers: list[Any] | None = None) -> SerializationContext:
    """What is serialized."""
    return SerializationContext(TOPIC, MessageField.VALUE, headers)


def referring(registry: ConfluentRegistry) -> Schema:
    """The schema of an order, whose types are of other subjects."""
    (city, address) = (
        SchemaReference("shop.City", "city", 1),
        SchemaReference("shop.Address", "address", 1),
    )
    registered = client(registry)
    registered.register_schema("city", Schema(json.dumps(CITY), "AVRO"))
    registered.register_schema("address", Schema(json.dumps(ADDRESS), "AVRO", [city]))
    return Schema(json.dumps(ORDER), "AVRO", [address])


def decoded(registry: ConfluentRegistry, *content: bytes) -> list[dict[str, Any]]:
    """The rows, without keys, of values of which none is refused."""
    result = by_value(RegistrySpec(url=registry.url), *content, sample=[values(*content)])
    assert [] == result.refused
    return [{name: row[name] for name in row if name != "key"} for row in result.rows]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_avro(strategy: Any, registry: ConfluentRegistry) -> None:
    """References, a union, logical types; the names of subjects are nothing to a record."""
    conf = {"subject.name.strategy": strategy}
    serialize = AvroSerializer(client(registry), referring(registry), conf=conf)
    written = [serialize(row, of_value()) for row in ROWS]
    rows = [row | {"notes": list(row["notes"].items())} for row in ROWS]
    assert rows == decoded(registry, *written)
    registry.deleted.update({"city", "address"})
    assert rows == decoded(registry, *written)


def compiled(directory: Path) -> Compiled:
    """The messages of a shop, as a producer has them."""
    (directory / "common").mkdir()
    (directory / "common/money.proto").write_text(MONEY)
    (directory / "shop.proto").write_text(SHOP)
    return compile_file(directory / "shop.proto")


def protobuf(
    registry: ConfluentRegistry,
    types: Compiled,
    name: str,
    headers: list[Any] | None = None,
    **conf: Any,
) -> tuple[bytes, dict[str, Any]]:
    """What Confluent's serializer makes of a message, and the row that it is."""
    (content, row) = MESSAGES[name]
    made = message_factory.GetMessageClass(types.message(name))
    settings = {"subject.name.strategy": topic_record_subject_name_strategy}
    serialize = ProtobufSerializer(made, client(registry), settings | conf)
    message = json_format.ParseDict(content, made())
    return serialize(message, of_value(headers)), row


@pytest.mark.parametrize("name", MESSAGES)
def test_protobuf(name: str, registry: ConfluentRegistry, tmp_path: Path) -> None:
    """Each message of a file by its place, next to maps whose entries are messages of the text."""
    (value, row) = protobuf(registry, compiled(tmp_path), name)
    assert ["common/money.proto", f"{TOPIC}-{name}"] == sorted(registry.subjects)
    schema_id = registry.subjects[f"{TOPIC}-{name}"][0]
    assert "option map_entry = true;" in registry.schemas[schema_id - 1]["schema"]
    assert [row] == decoded(registry, value)


NORMALIZED = {"normalize.schemas": True}


def test_a_normalized_text(registry: ConfluentRegistry, tmp_path: Path) -> None:
    """Its maps are fields, but this client counts their entries: which message a record is, does
    not follow from its indexes.
    """
    types = compiled(tmp_path)
    (line, row) = protobuf(registry, types, "shop.Order.Line", **NORMALIZED)
    (audit, other) = protobuf(registry, types, "shop.Audit", **NORMALIZED)
    assert "map<string, .shop.Order.Line> by_name = 1;" in registry.schemas[1]["schema"]
    assert [other] == decoded(registry, audit)
    spec = RegistrySpec(url=registry.url, schema_id=2, message="shop.Order.Line")
    assert [{"key": b"k", **row}] == by_value(spec, line).rows
    spec = spec.model_copy(update={"message": "shop.Audit"})
    result = by_value(spec, audit, line)
    assert [{"key": b"k", **other}] == result.rows
    (reason,) = reasons(result)
    assert reason.startswith("has indexes of its message that writers count in two ways")


def test_the_types_of_a_topic(registry: ConfluentRegistry, tmp_path: Path) -> None:
    """Values of another type than that of the columns are refused, alone."""
    types = compiled(tmp_path)
    (line, row) = protobuf(registry, types, "shop.Order.Line")
    (audit, _) = protobuf(registry, types, "shop.Audit")
    serialize = AvroSerializer(client(registry), json.dumps(CITY | {"name": "Town"}))
    spec = RegistrySpec(url=registry.url, schema_id=2, message="shop.Order.Line")
    result = by_value(spec, line, audit, serialize("A", of_value()), line)
    assert [{"key": b"k", **row}] * 2 == result.rows
    assert ["has another type than the schema of the columns"] * 2 == reasons(result)


HEADER = {"schema.id.serializer": header_schema_id_serializer}


def with_headers(pairs: list[Any], headers: list[list[Any]]) -> pa.RecordBatch:
    """Records with headers."""
    listed = [[{"key": name, "value": value} for name, value in each] for each in headers]
    return batch(pairs).append_column("headers", pa.array(listed, HEADERS_TYPE))


def test_ids_in_headers(registry: ConfluentRegistry, tmp_path: Path) -> None:
    """A schema's GUID, and the place of a message, are in the last header of the name; without the
    headers a datum is not taken for a framed one.
    """
    types = compiled(tmp_path)
    name = "shop.Order.Deep.Deeper"
    headers: list[Any] = [("__value_schema_id", b"\0\0\0\0\1")]
    (value, row) = protobuf(registry, types, name, headers, **HEADER)
    (framed, _) = protobuf(registry, types, name)
    assert 21 == len(headers[1][1])
    assert framed.endswith(value)
    spec = Decoding(
        key=RegistrySpec(url=registry.url, schema_id=2, message=name),
        value=RegistrySpec(url=registry.url, schema_id=2, message=name),
    )
    of_key = [("__key_schema_id", headers[1][1])]
    pairs = [(framed, value), (value, framed), (framed, None), (framed, value), (framed, value)]
    listed = [headers, of_key, headers, [], [("__value_schema_id", b"\1\2")]]
    records = with_headers(pairs, listed)
    for part in ("key", "value"):
        assert with_ids(records, part).slice(1) == with_ids(records.slice(1), part)
    result = decode(make_decoder(spec, base=Path("/"), sample=[records]), records)
    assert [row, row, {"raw": None, "kind": None}] == [
        {name: each[name] for name in row} for each in result.rows
    ]
    assert [row] * 3 == [each["key"] for each in result.rows]
    assert [2] == result.deleted
    assert ["is not in the wire format of a schema registry"] * 2 == reasons(result)


def test_json(registry: ConfluentRegistry) -> None:
    """A JSON Schema that refers to a part of another document, which refers to a third one."""
    registered = client(registry)
    registered.register_schema("city", Schema('{"type": "string"}', "JSON"))
    city = SchemaReference("city.json", "city", 1)
    registered.register_schema("places", Schema(json.dumps(PLACES), "JSON", [city]))
    places = SchemaReference("address.json", "places", 1)
    schema = Schema(json.dumps(PERSON), "JSON", [places])
    conf = {"subject.name.strategy": record_subject_name_strategy}
    serialize = JSONSerializer(schema, registered, conf=conf)
    rows: list[dict[str, Any]] = [
        {"name": "a", "home": {"city": "B", "zip": 12}, "other": [{"city": "C", "zip": None}]},
        {"name": "b", "home": None, "other": None},
    ]
    written = [
        {"name": "a", "home": {"city": "B", "zip": 12}, "other": [{"city": "C"}]},
        {"name": "b"},
    ]
    assert rows == decoded(registry, *(serialize(each, of_value()) for each in written))
    assert "Person" in registry.subjects
