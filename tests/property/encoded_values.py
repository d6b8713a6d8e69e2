"""Values of every format that is decoded, each with a secret in it, and mutants of them."""

from __future__ import annotations

import io
import json
import struct
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import fastavro
from google.protobuf import message_factory
from google.protobuf.json_format import ParseDict

from logwright.config.decoding import (
    AvroSpec,
    DebeziumSpec,
    Decoding,
    InternalSpec,
    JsonSpec,
    ProtobufSpec,
    RegistrySpec,
    ScalarSpec,
)
from logwright.config.json_fields import JsonField
from logwright.decode.make import make_decoder
from logwright.decode.model import Decoder
from logwright.decode.protoc import compile_file

PLANTED = "hunter2-Correct-Horse"
"""It is in every value, and in no reason."""

AVRO: Any = {
    "type": "record",
    "name": "C",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "secret", "type": "string"},
        {"name": "maybe", "type": ["null", "double"]},
        {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "m", "type": {"type": "map", "values": {"type": "array", "items": "int"}}},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "t", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {
            "name": "d",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {"name": "u", "type": ["null", "int", "string", {"type": "fixed", "name": "F", "size": 2}]},
        {"name": "b", "type": "boolean"},
        {"name": "f", "type": "float"},
    ],
}
PROTO = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
message C {
  message In { string s = 1; repeated int64 n = 2; }
  int64 id = 1; string secret = 2; optional double maybe = 3; repeated In old = 4;
  map<string, In> m = 5; enum E { A = 0; B = 1; } E e = 6; google.protobuf.Timestamp t = 7;
  bytes raw = 8; uint64 big = 9; bool b = 10; float f = 11; repeated sint32 packed = 12;
}
"""
FIELDS = (
    JsonField(name="id", type="long", nullable=False),
    JsonField(name="secret", type="string"),
    JsonField(name="time", type="timestamp"),
    JsonField(name="price", type="decimal(9,2)"),
    JsonField(name="day", type="date"),
    JsonField(name="any", type="json"),
    JsonField(
        name="inner",
        type="struct",
        fields=(
            JsonField(name="l", type="array", fields=(JsonField(name="element", type="double"),)),
            JsonField(name="b", type="binary"),
            JsonField(name="f", type="float"),
            JsonField(name="i", type="int"),
        ),
    ),
)
ROW = {
    "id": 1234,
    "secret": PLANTED,
    "time": "2024-01-01T00:00:00Z",
    "price": 12.5,
    "day": "2024-01-01",
    "any": {"x": [PLANTED, None]},
    "inner": {"l": [1, 2.5], "b": "aGk=", "f": 1.5, "i": 3},
}
FORMATS = (
    "string",
    "long",
    "uuid",
    "json",
    "avro",
    "protobuf",
    "registry-avro",
    "registry-protobuf",
    "registry-json",
    "debezium",
    "debezium-avro",
    "consumer-offsets",
    "transaction-state",
)
HOSTILE = (
    b"\xff" * 9 + b"\x01",
    b"\xfe\xff\xff\xff\x0f",
    b"\x80" * 30,
    b"\x7f\xff\xff\xff",
    b"\xff\xff",
    b"\xed\xa0\x80",
    b"[" * 500,
    b'{"a":' * 500,
    b"1e999",
    b"9" * 400,
    b'"\\ud800"',
    b"\x00",
    b"",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """A format.

    Attributes:
        decoder: of the format.
        key: of all records.
        value: a good value, with the secret where the format has room for it.
        topic: of the records.
    """

    decoder: Decoder
    key: bytes
    value: bytes
    topic: str = "t"


def encoded(name: str, base: Path) -> Encoded:
    """A format by its name. Effects: writes schemas to a directory."""
    if name in {"consumer-offsets", "transaction-state"}:
        return _internal(name, base)
    (value, spec) = _specs(base)[name]
    decoder = make_decoder(Decoding(value=spec), base=base)
    return Encoded(decoder=decoder, key=b"k", value=value)


def _specs(base: Path) -> dict[str, tuple[bytes, Any]]:
    (base / "v.avsc").write_text(json.dumps(AVRO))
    (base / "v.proto").write_text(PROTO)
    schemas = base / "schemas"
    schemas.mkdir(exist_ok=True)
    (schemas / "1.avsc").write_text(json.dumps(AVRO))
    (schemas / "2.proto").write_text(PROTO)
    properties = {"id": {"type": "integer"}, "secret": {"type": "string"}}
    (schemas / "3.json").write_text(json.dumps({"type": "object", "properties": properties}))
    envelope = {
        "type": "record",
        "name": "Envelope",
        "fields": [
            {"name": "op", "type": "string"},
            {"name": "after", "type": ["null", AVRO]},
        ],
    }
    (base / "envelope.avsc").write_text(json.dumps(envelope))
    row = {
        "id": 7,
        "secret": PLANTED,
        "maybe": 0.5,
        "tags": ["a", None],
        "m": {"k": [1, 2]},
        "e": "B",
        "t": 5,
        "d": Decimal("1.25"),
        "u": "x",
        "b": True,
        "f": 1.5,
    }
    event = {"op": "c", "after": ROW, "source": {"ts_ms": 5}}
    json_value, avro_value = json.dumps(ROW).encode(), _avro(AVRO, row)
    message = _message(base / "v.proto")
    first, two, three = (b"\0" + struct.pack(">i", number) for number in (1, 2, 3))
    registry = {number: RegistrySpec(schemas="schemas", schema_id=number) for number in (1, 2, 3)}
    return {
        "string": (PLANTED.encode(), ScalarSpec(format="string")),
        "long": (PLANTED.encode()[:8], ScalarSpec(format="long")),
        "uuid": (str(uuid.UUID(int=5)).encode(), ScalarSpec(format="uuid")),
        "json": (json_value, JsonSpec(fields=FIELDS)),
        "avro": (avro_value, AvroSpec(schema_file="v.avsc")),
        "protobuf": (message, ProtobufSpec(schema_file="v.proto", message="C")),
        "registry-avro": (first + avro_value, registry[1]),
        "registry-protobuf": (two + b"\0" + message, registry[2]),
        "registry-json": (three + json_value, registry[3]),
        "debezium": (
            json.dumps(event).encode(),
            DebeziumSpec(of=JsonSpec(fields=FIELDS)),
        ),
        "debezium-avro": (
            _avro(envelope, {"op": "c", "after": row}),
            DebeziumSpec(of=AvroSpec(schema_file="envelope.avsc")),
        ),
    }


def _avro(schema: dict[str, Any], value: dict[str, Any]) -> bytes:
    content = io.BytesIO()
    fastavro.schemaless_writer(content, fastavro.parse_schema(schema), value)
    return content.getvalue()


def _message(path: Path) -> bytes:
    made = message_factory.GetMessageClass(compile_file(path).message("C"))
    inner = {"s": PLANTED, "n": [1, -1]}
    fields = {
        "id": 7,
        "secret": PLANTED,
        "maybe": 0.5,
        "old": [inner],
        "e": 1,
        "t": "2024-01-01T00:00:00.000006Z",
        "raw": "/w==",
        "big": 2**64 - 1,
        "m": {"k": inner},
        "packed": [1, 2, 3],
    }
    content: bytes = ParseDict(fields, made()).SerializeToString()
    return content


def _internal(name: str, base: Path) -> Encoded:
    text = struct.pack(">h", len(PLANTED)) + PLANTED.encode()
    spec = InternalSpec()
    topic = f"__{name.replace('-', '_')}"
    if name == "consumer-offsets":
        key = struct.pack(">h", 2) + text
        value = struct.pack(">h", 3) + text + struct.pack(">i", 4) + text * 2
        value += struct.pack(">qi", 1000, 1) + text * 4 + struct.pack(">ii", 9, 5)
        value += struct.pack(">ii", 0, 0)
    else:
        key = struct.pack(">h", 0) + text
        value = struct.pack(">hqhibi", 0, 5, 2, 60_000, 1, 1) + text
        value += struct.pack(">iiqq", 1, 3, 2000, 1000)
    decoder = make_decoder(Decoding(key=spec, value=spec), base=base, topic=topic)
    return Encoded(decoder=decoder, key=key, value=value, topic=topic)


def mutants(value: bytes, random: Random, count: int) -> Iterator[bytes]:
    """Values with one to three changes: bits, bytes, parts removed, repeated, put elsewhere, and
    what decoders fail on.
    """
    for _ in range(count):
        changed = bytearray(value)
        for _ in range(random.choice((1, 1, 2, 3))):
            _change(changed, random)
        yield bytes(changed)


def _change(content: bytearray, random: Random) -> None:
    start = random.randrange(len(content) + 1)
    end = min(len(content), start + random.randrange(1, 9))
    kind = random.randrange(7)
    if kind == 0 and start < len(content):
        content[start] ^= 1 << random.randrange(8)
    elif kind == 1:
        content[start:end] = random.randbytes(end - start)
    elif kind == 2:
        del content[start:end]
    elif kind == 3:
        del content[start:]
    elif kind == 4:
        content[start:start] = content[start:end] * random.choice((1, 2, 50))
    elif kind == 5:
        content[start:end] = random.choice(HOSTILE)
    else:
        content[start:start] = random.choice(HOSTILE)
