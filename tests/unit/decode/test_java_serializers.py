"""Records that serializers of Java wrote (`tests.java_serializers`) are decoded to the values put
in.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from logwright.config.decoding import RegistrySpec
from tests.java_serializers import FILE, written
from tests.unit.decode.records import Result, by_value, reasons, values
from tests.unit.decode.schema_server import Registry, serving

KINDS = ("AVRO", "JSON", "PROTOBUF")
Written = dict[str, Any]


@pytest.fixture(scope="module")
def made() -> Written:
    """What was written."""
    records: Written = json.loads(FILE.read_text())
    return records


@pytest.fixture
def registry(made: Written) -> Iterator[Registry]:
    """A registry with what was registered."""
    with serving() as served:
        for schema_id, (schema, kind) in enumerate(zip(made["schemas"], KINDS, strict=True), 1):
            assert [] == schema["references"]
            served.add(schema_id, schema["schema"], kind)
        yield served


def decoded(registry: Registry, records: list[Written]) -> Result:
    """What is decoded of records, with the schema that they use."""
    content = [base64.b64decode(each["value"]) for each in records]
    return by_value(RegistrySpec(url=registry.url), *content, sample=[values(*content)])


def as_put_in(value: Any) -> Any:
    """A decoded value as the file has it."""
    match value:
        case bytes():
            return base64.b64encode(value).decode()
        case datetime():
            return value.replace(tzinfo=None)
        case dict():
            return {name: as_put_in(each) for name, each in value.items()}
        case list() if value and isinstance(value[0], tuple):
            return {name: as_put_in(each) for name, each in value}
    return value if value is None or isinstance(value, (int, float, list)) else str(value)


def test_avro(made: Written, registry: Registry) -> None:
    """Numbers, bytes, unions, names that are used again, logical types, of Apache Avro."""
    result = decoded(registry, made["avro"])
    assert [] == result.refused
    assert 16 == len(result.rows)
    for row, record in zip(result.rows, made["avro"], strict=True):
        times = {
            name: datetime.fromisoformat(record["row"][name]).replace(tzinfo=None)
            for name in ("millis", "micros")
        }
        del row["key"]
        shown = as_put_in(row)
        shown["places"] = shown["places"] or {}
        assert record["row"] | times == shown


def test_json(made: Written, registry: Registry) -> None:
    """Objects of a JSON Schema; a field that is not there is null."""
    result = decoded(registry, made["json"])
    assert [] == result.refused
    missing = {"age": None, "score": None, "tags": None}
    expected = [{"key": b"k"} | missing | record["row"] for record in made["json"]]
    assert expected == result.rows


def test_protobuf_with_the_name_of_its_message(made: Written, registry: Registry) -> None:
    """Apicurio's format has a message's name where Confluent's has indexes. It is not decoded as
    Confluent's: each is refused.
    """
    content = [base64.b64decode(each["value"]) for each in made["protobuf"]]
    assert [b"\7\n\5Order", b"\6\n\4Line"] == [each[5 : 6 + each[5]] for each in content]
    spec = RegistrySpec(url=registry.url, schema_id=3, message="shop.Order")
    result = by_value(spec, *content)
    assert [] == result.rows
    expected = ["has malformed indexes of its message", "has the index of an unknown message"]
    assert expected == reasons(result)


@pytest.mark.oracle
def test_what_is_kept_is_what_they_write(made: Written) -> None:
    """The file is made by the project."""
    assert made == written()
