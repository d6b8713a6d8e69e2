"""What a record of JSON Schema must become: its JSON value, valid by its own schema (jsonschema),
laid into columns as docs/decoding.md has them.

JSON Schema has no resolution: a property's name is its identity, and a value is what its text says.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from jsonschema import Draft7Validator

from tests.evolution.history import Expected, MustRefuse, Sent, canonical

NOTHING: Final = "nothing of the value is in the columns"
INVALID: Final = "not valid by its own schema"
_SCALARS: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "boolean": (bool,),
    "number": (int, float),
}


class JsonOfficial:
    """Of one reader's schema. Arguments: as `AvroOfficial`."""

    def __init__(
        self, files: Mapping[str, str], number: int, message: str | None, counts: Counter[str]
    ) -> None:
        self._schemas = {
            int(name.removesuffix(".json")): json.loads(text) for name, text in files.items()
        }
        self._reader = self._schemas[number]
        self._counts = counts

    def expect(self, sent: Sent) -> Expected:
        """What a key or value may become."""
        value = json.loads(sent.content[5:])
        writer = self._schemas[sent.number]
        refusals: list[str] = []
        if not Draft7Validator(writer).is_valid(value):
            refusals.append(INVALID)
        titles = writer.get("title"), self._reader.get("title")
        if titles[0] != titles[1]:
            refusals.append("another title")
        if value and not value.keys() & self._reader["properties"].keys():
            refusals.insert(0, NOTHING)
            if None not in titles and titles[0] != titles[1]:
                return Expected(refusals=tuple(refusals))
        columns = _Columns(self._reader)
        try:
            values = [canonical(columns.of(self._reader, value))]
        except MustRefuse as refused:
            return Expected(refusals=(refused.kind, *refusals))
        if columns.free:
            refusals.append(columns.free)
        values += self._without_undeclared(writer, value, values)
        return Expected(tuple(values), tuple(refusals))

    def _without_undeclared(self, writer: Any, value: Any, values: list[Any]) -> list[Any]:
        """The row without the properties that the writer's schema allows and does not name."""
        named = {name: each for name, each in value.items() if name in writer["properties"]}
        if len(named) == len(value):
            return []
        try:
            other = canonical(_Columns(self._reader).of(self._reader, named))
        except MustRefuse:
            return []
        self._counts["undeclared properties may be dropped"] += other not in values
        return [] if other in values else [other]


def _type_of(schema: Any) -> Any:
    """The type that a schema names, or that all its constants or its parts have."""
    if "type" in schema or "properties" in schema:
        return schema.get("type", "object")
    given = [schema["const"]] if "const" in schema else schema.get("enum", [])
    kinds = {type(each) for each in given}
    if len(kinds) == 1:
        return {str: "string", bool: "boolean", int: "integer"}.get(kinds.pop())
    return next((each["type"] for each in schema.get("allOf", ()) if "type" in each), None)


class _Columns:
    """Lays values into the columns of a schema. `free`: why they may be refused as well."""

    def __init__(self, whole: Any) -> None:
        self._whole = whole
        self.free = ""

    def of(self, schema: Any, value: Any) -> Any:
        """Return a value as its column has it.

        Raises:
            MustRefuse: the column cannot have it.
        """
        (inner, nullable) = self._without_null(schema)
        kind = _type_of(inner)
        if value is None:
            if nullable or self._takes_null(schema):
                return None
            raise MustRefuse("null, or missing")
        if kind == "object" and inner.get("properties"):
            return self._object(inner, value)
        if kind == "array":
            if type(value) is not list:
                raise MustRefuse("types do not match")
            items = inner.get("items", {})
            return [None if each is None else self.of(items, each) for each in value]
        if kind == "integer":
            return self._integer(value)
        if kind in _SCALARS:
            if type(value) not in _SCALARS[kind]:
                raise MustRefuse("types do not match")
            return float(value) if kind == "number" else value
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    def _takes_null(self, schema: Any) -> bool:
        definitions = self._whole.get("definitions", {})
        whole = {**schema, "definitions": definitions} if isinstance(schema, dict) else schema
        return bool(Draft7Validator(whole).is_valid(None))

    def _object(self, schema: Any, value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise MustRefuse("types do not match")
        required = schema.get("required", ())
        laid: dict[str, Any] = {}
        for name, inner in schema["properties"].items():
            each = value.get(name)
            if each is None and name not in required:
                laid[name] = None
            else:
                laid[name] = self.of(inner, each)
        return laid

    def _integer(self, value: Any) -> int:
        if type(value) is float and value.is_integer():
            self.free = "a whole number with a decimal point"
            return int(value)
        if type(value) is not int:
            raise MustRefuse("types do not match")
        if not -(2**63) <= value < 2**63:
            raise MustRefuse("more than 64 bits")
        return value

    def _without_null(self, schema: Any) -> tuple[Any, bool]:
        if "$ref" in schema:
            target = self._whole["definitions"][schema["$ref"].rpartition("/")[2]]
            return self._without_null(target)
        kinds = schema.get("type")
        if isinstance(kinds, list):
            others = [each for each in kinds if each != "null"]
            only = others[0] if len(others) == 1 else None
            return {**schema, "type": only}, len(others) < len(kinds)
        for word in ("oneOf", "anyOf"):
            if word in schema:
                rest = [each for each in schema[word] if each != {"type": "null"}]
                if len(rest) != 1:
                    return schema, len(rest) < len(schema[word])
                (inner, nullable) = self._without_null(rest[0])
                return inner, nullable or len(rest) < len(schema[word])
        return schema, False
