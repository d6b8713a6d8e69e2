"""A small value cannot grow to a large column."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from logwright.config.decoding import AvroSpec, DecoderSpec, JsonSpec, ProtobufSpec
from logwright.config.json_fields import JsonField
from logwright.decode.cells import TOO_MANY
from tests.unit.decode.records import by_value, reasons

WIDTH = 500
ITEMS = 9_000
"""Times the width more than 4 million."""


def specs(base: Path) -> dict[str, tuple[DecoderSpec, bytes]]:
    """A list of empty records, each of which has many fields."""
    names = [f"f{number}" for number in range(WIDTH)]
    record = {
        "type": "record",
        "name": "R",
        "fields": [{"name": name, "type": ["null", "int"]} for name in names],
    }
    (base / "v.avsc").write_text(json.dumps({"type": "array", "items": record}))
    fields = " ".join(f"optional int32 {name} = {at};" for at, name in enumerate(names, 1))
    text = f'syntax = "proto3"; message M {{ repeated R r = 1; }} message R {{ {fields} }}'
    (base / "v.proto").write_text(text)
    inner = tuple(JsonField(name=name, type="int") for name in names)
    item = JsonField(name="element", type="struct", fields=inner)
    count = bytes([0x80 | ITEMS * 2 & 0x7F, 0x80 | ITEMS * 2 >> 7 & 0x7F, ITEMS * 2 >> 14])
    return {
        "json": (
            JsonSpec(fields=(JsonField(name="r", type="array", fields=(item,)),)),
            json.dumps({"r": [{}] * ITEMS}).encode(),
        ),
        "avro": (AvroSpec(schema_file="v.avsc"), count + bytes(ITEMS * WIDTH) + b"\0"),
        "protobuf": (ProtobufSpec(schema_file="v.proto", message="M"), b"\x0a\0" * ITEMS),
    }


@pytest.mark.parametrize("name", ["json", "avro", "protobuf"])
def test_too_many_cells(name: str, tmp_path: Path) -> None:
    """The value is refused, and a tombstone after it is a row."""
    (spec, content) = specs(tmp_path)[name]
    result = by_value(spec, content, None, base=tmp_path)
    (reason,) = reasons(result)
    assert reason.endswith(TOO_MANY)
    assert [1] == result.deleted
