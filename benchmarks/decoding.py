"""``decoding``: how fast values become columns, by format, and what schemas that evolved cost."""

from __future__ import annotations

import io
import json
import statistics
import struct
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import fastavro
import pyarrow as pa
from google.protobuf import message_factory

from benchmarks.table import table
from logwright.config.decoding import Decoding, RegistrySpec
from logwright.decode.make import make_decoder
from logwright.decode.protoc import compile_file

RECORDS: Final = 50_000
_NAMES: Final = ("id", "name", "price", "address", "tags")
_FRAME: Final = struct.Struct(">bi")


def decoding_rows(*, rounds: int) -> str:
    """Return a table: of each format the values of one second of CPU, where records have the schema
    of the columns, an older one (a field renamed or widened), and one with a type that may lose
    values, as a ratio of the first. Effects: starts protoc; writes to a temporary directory.

    Args:
        rounds: of which the median counts.
    """
    rows = []
    with tempfile.TemporaryDirectory() as directory:
        base = Path(directory)
        (base / "schemas").mkdir()
        for name, values in (("Avro", _avro), ("Protobuf", _protobuf), ("JSON Schema", _json)):
            rows.append((name, *_measured(base, list(values(base)), rounds)))
    head = ("format", "values a second", "older schema", "a type that may lose values")
    return table(head, rows)


def _measured(base: Path, cases: Sequence[tuple[int, list[bytes]]], rounds: int) -> list[str]:
    """Return the rate of the first case, and the ratios of the others to it."""
    (columns, _) = cases[0]
    taken: dict[int, list[float]] = {number: [] for number, _ in cases}
    for _ in range(rounds):
        for number, values in cases:
            spec = RegistrySpec(schemas="schemas", schema_id=columns)
            decoder = make_decoder(Decoding(value=spec), base=base, topic="t")
            records = _records(number, values)
            decoder.decode(records.slice(0, 1))
            start = time.process_time()
            decoded = decoder.decode(records)
            taken[number].append(time.process_time() - start)
            if decoded.refused.num_rows:
                raise RuntimeError(f"refused: {decoded.refused['reason'][0]}")
    medians = [statistics.median(seconds) for seconds in taken.values()]
    ratios = [f"{medians[0] / seconds:.2f}" for seconds in medians[1:]]
    return [f"{RECORDS / medians[0]:,.0f}", *ratios, *["–"] * (2 - len(ratios))]  # noqa: RUF001 -- nothing


def _records(schema_id: int, values: Sequence[bytes]) -> pa.RecordBatch:
    count = len(values)
    frame = _FRAME.pack(0, schema_id)
    return pa.record_batch(
        {
            "key": pa.array([b"k"] * count, pa.binary()),
            "value": pa.array([frame + value for value in values], pa.binary()),
            "topic": pa.array(["t"] * count),
            "partition": pa.array([0] * count, pa.int32()),
            "offset": pa.array(range(count), pa.int64()),
            "timestamp": pa.array([0] * count, pa.timestamp("us", "UTC")),
        }
    )


def _row(number: int) -> dict[str, Any]:
    address = {"city": "Wien", "zip": 1000 + number % 90}
    return dict(
        zip(_NAMES, (number, f"name {number}", number / 7, address, ["a", "b"]), strict=True)
    )


def _avro_schema(*, name: str = "name", number: str = "long", **more: object) -> dict[str, Any]:
    address = {
        "type": "record",
        "name": "Address",
        "fields": [{"name": "city", "type": "string"}, {"name": "zip", "type": "int"}],
    }
    kinds = (number, ["null", "string"], "double", address, {"type": "array", "items": "string"})
    fields: list[dict[str, Any]] = [
        {"name": field, "type": kind} for field, kind in zip(_NAMES, kinds, strict=True)
    ]
    fields[1] = {"name": name, "type": kinds[1], **more}
    return {"type": "record", "name": "Customer", "fields": fields}


def _avro(base: Path) -> Iterator[tuple[int, list[bytes]]]:
    newest = _avro_schema(name="title", aliases=["name"], default=None)
    schemas = {1: newest, 2: _avro_schema(number="int"), 3: _avro_schema(number="int")}
    schemas[3]["fields"][1]["type"] = ["null", "int", "string"]
    for number, schema in schemas.items():
        (base / f"schemas/{number}.avsc").write_text(json.dumps(schema))
        parsed = fastavro.parse_schema(schema)
        field = schema["fields"][1]["name"]
        rows = ({**_row(each), field: f"name {each}"} for each in range(RECORDS))
        yield number, [_datum(parsed, row) for row in rows]


def _datum(schema: object, row: object) -> bytes:
    content = io.BytesIO()
    fastavro.schemaless_writer(content, schema, row)
    return content.getvalue()


def _protobuf(base: Path) -> Iterator[tuple[int, list[bytes]]]:
    text = (
        'syntax = "proto3"; message Customer {{ {} id = 1; string {} = 2; double price = 3;'
        " Address address = 4; repeated string tags = 5;"
        " message Address {{ string city = 1; int32 zip = 2; }} }}"
    )
    # An int64 is read as an int32 where it fits: each message is parsed by both types.
    versions = {11: ("int32", "title"), 12: ("int32", "name"), 13: ("int64", "title")}
    for number, (kind, name) in versions.items():
        place = base / f"schemas/{number}.proto"
        place.write_text(text.format(kind, name))
        made = message_factory.GetMessageClass(compile_file(place).message("Customer"))
        rows = ({**_row(each), name: f"name {each}"} for each in range(RECORDS))
        known = {field.name for field in made.DESCRIPTOR.fields}
        yield (
            number,
            [
                b"\0" + made(**{each: row[each] for each in known}).SerializeToString()
                for row in rows
            ],
        )


def _json(base: Path) -> Iterator[tuple[int, list[bytes]]]:
    kinds: list[Any] = ["integer", "string", "number"]
    properties = {name: {"type": kind} for name, kind in zip(_NAMES, kinds, strict=False)}
    address = {"city": {"type": "string"}, "zip": {"type": "integer"}}
    properties["address"] = {"type": "object", "properties": address}
    properties["tags"] = {"type": "array", "items": {"type": "string"}}
    newest = {"type": "object", "title": "Customer", "properties": properties}
    older = {**newest, "properties": {**properties, "gone": {"type": "string"}}}
    for number, schema in {21: newest, 22: older}.items():
        (base / f"schemas/{number}.json").write_text(json.dumps(schema))
        yield number, [json.dumps(_row(each)).encode() for each in range(RECORDS)]
