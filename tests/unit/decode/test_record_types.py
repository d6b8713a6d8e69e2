"""Several types of records in one topic: those that the columns have are named, others are left
out, and are not refused.
"""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path
from typing import Any

import fastavro
import pytest

from logwright.config.decoding import Decoding, RegistrySpec, spec_of
from logwright.decode.make import make_decoder
from logwright.errors import PolicyError
from tests.unit.decode.records import Pair, batch, decode

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [{"name": "id", "type": "int"}],
}
NEWER = ORDER | {"fields": [*ORDER["fields"], {"name": "n", "type": "int", "default": 7}]}  # type: ignore[misc]
RENAMED = {**ORDER, "name": "Purchase"}
CUSTOMER = {**ORDER, "name": "Customer"}
PROTO = """
syntax = "proto3"; package shop;
message Order { int32 id = 1; } message Customer { int32 id = 1; }
"""


def avro(schema_id: int, schema: dict[str, Any]) -> bytes:
    """A value of Avro."""
    content = io.BytesIO()
    fastavro.schemaless_writer(content, fastavro.parse_schema(schema), {"id": schema_id, "n": 1})
    return b"\0" + struct.pack(">i", schema_id) + content.getvalue()


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A directory with a directory of schemas."""
    (tmp_path / "s").mkdir()
    for number, schema in enumerate((ORDER, CUSTOMER, RENAMED, NEWER, CUSTOMER), 1):
        (tmp_path / f"s/{number}.avsc").write_text(json.dumps(schema))
    (tmp_path / "s/20.proto").write_text(PROTO)
    for number, title in ((30, "Order"), (31, "Order, renamed"), (32, "Customer")):
        schema = {"title": title, "type": "object", "properties": {"id": {"type": "integer"}}}
        (tmp_path / f"s/{number}.json").write_text(json.dumps(schema))
    return tmp_path


def outcome(
    base: Path, records: tuple[str, ...], *values: bytes | None
) -> tuple[list[Any], list[int], list[str]]:
    """The ids of the rows, the numbers of the records without a row, and the reasons."""
    pairs: list[Pair] = [(f"k{number}".encode(), value) for number, value in enumerate(values)]
    spec = RegistrySpec(schemas="s", records=records)
    decoder = make_decoder(Decoding(value=spec), base=base, topic="t", sample=[batch(pairs)])
    result = decode(decoder, batch(pairs))
    refused = {number for number, _, _ in result.refused}
    kept = [number for number in range(len(values)) if number not in refused]
    rows = [
        row["id"]
        for number, row in zip(kept, result.rows, strict=True)
        if number not in result.deleted
    ]
    return rows, result.deleted, [reason for _, _, reason in result.refused]


def test_a_type_of_avro(base: Path) -> None:
    """Records of another type have no row, and neither do tombstones."""
    values = (avro(1, ORDER), avro(2, CUSTOMER), None, avro(4, NEWER), avro(5, CUSTOMER))
    assert ([1, 4], [1, 2, 4], []) == outcome(base, ("shop.Order",), *values)
    assert ([2, 5], [0, 2, 3], []) == outcome(base, ("shop.Customer",), *values)
    refused = "has another type than the schema of the columns"
    assert ([2, 5], [2], [refused] * 2) == outcome(base, (), *values)


def test_a_renamed_type(base: Path) -> None:
    """Several names are one type."""
    names = ("shop.Order", "shop.Purchase")
    values = (avro(1, ORDER), avro(3, RENAMED), avro(2, CUSTOMER))
    assert ([1, 3], [2], []) == outcome(base, names, *values)
    framed = [
        b"\0" + struct.pack(">i", 30 + number) + b'{"id": %d}' % number for number in range(3)
    ]
    assert ([0, 1], [2], []) == outcome(base, ("Order", "Order, renamed"), *framed)


def test_a_message_of_protobuf(base: Path) -> None:
    """The type is a message of the file, by its full name."""
    frame = b"\0" + struct.pack(">i", 20)
    values = (frame + b"\0\x08\x01", frame + b"\2\2\x08\x02")
    assert ([1], [1], []) == outcome(base, ("shop.Order",), *values)
    assert ([2], [0], []) == outcome(base, ("shop.Customer",), *values)


def test_no_schema_of_the_types(base: Path) -> None:
    """Without a record of the types there are no columns."""
    with pytest.raises(PolicyError, match="has none of the types of records"):
        outcome(base, ("shop.Nothing",), avro(1, ORDER))


def test_keys_of_other_types(base: Path) -> None:
    """A record whose key is of another type is left out, whatever its value is."""
    pairs: list[Pair] = [
        (avro(1, ORDER), avro(1, ORDER)),
        (avro(2, CUSTOMER), b"not in the wire format"),
        (b"not in the wire format", avro(2, CUSTOMER)),
    ]
    spec = RegistrySpec(schemas="s", records=("shop.Order",))
    decoder = make_decoder(
        Decoding(key=spec, value=spec), base=base, topic="t", sample=[batch(pairs)]
    )
    result = decode(decoder, batch(pairs))
    assert ([1, 2], []) == (result.deleted, result.refused)
    decoded = decoder.decode(batch(pairs))
    assert ({1, 2}, 2) == (decoded.left_out, decoded.messages)
    assert {"key": {"id": 1}, "id": 1} == result.rows[0]


def test_as_an_option(tmp_path: Path) -> None:
    """The names are a list of the spec."""
    (tmp_path / "s").mkdir()
    text = "{format: registry, schemas: s, records: [shop.Order, Order]}"
    spec = spec_of(text, tmp_path, option="--value")
    assert isinstance(spec, RegistrySpec)
    assert ("shop.Order", "Order") == spec.records
    with pytest.raises(PolicyError, match="records"):
        spec_of("{format: registry, schemas: s, records: 5}", tmp_path, option="--value")
