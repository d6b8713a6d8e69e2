"""From the types of JSON's fields to columns: as the policies have them, inferred from records, or
of a JSON Schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from logwright.config.json_fields import ARRAY, STRUCT, JsonField, decimal_digits
from logwright.decode import leaves
from logwright.decode.columns import Items, Leaf, Node, Struct
from logwright.errors import invariant
from logwright.units import INT64_MAX

MOST_FIELDS: Final = 2000
DEEPEST: Final = 20
_LONGEST_NAME: Final = 255
_ELEMENT: Final = "element"
_ANYTHING: Final = "json"
_LEAVES: Final[Mapping[str, Leaf]] = MappingProxyType(
    {
        "binary": leaves.BASE64,
        "boolean": leaves.BOOLEAN,
        "date": leaves.DATE,
        "double": leaves.DOUBLE,
        "float": leaves.FLOAT,
        "int": leaves.INT,
        "json": leaves.JSON,
        "long": leaves.LONG,
        "string": leaves.STRING,
        "timestamp": leaves.ISO_TIMESTAMP,
    }
)
_SCALARS: Final[Mapping[type, str]] = MappingProxyType(
    {bool: "boolean", int: "long", float: "double", str: "string"}
)


def struct_of(fields: Sequence[JsonField], *, nullable: bool = True) -> Struct:
    """Return the column of an object with these fields."""
    return Struct(fields={one.name: node_of(one) for one in fields}, nullable=nullable)


def node_of(one: JsonField) -> Node:
    """Return the column of a field."""
    if one.type == STRUCT:
        return struct_of(one.fields, nullable=one.nullable)
    if one.type == ARRAY:
        return Items(item=node_of(one.fields[0]), nullable=one.nullable)
    digits = decimal_digits(one.type)
    if digits is not None:
        kind, convert = pa.decimal128(*digits), leaves.decimal_of(*digits)
        return Leaf(type=kind, accepts=frozenset(), convert=convert, nullable=one.nullable)
    return replace(_LEAVES[one.type], nullable=one.nullable)


def infer(objects: Iterable[Mapping[str, Any]]) -> tuple[JsonField, ...]:
    """Return the fields of a sample: all that occur, each nullable and with the widest of its
    types: long and double give double, other differences, null alone and what is nested too deep
    give json. In the order of their first occurrence; an empty name, and one of more than 255
    characters, is ignored.
    """
    found: dict[str, JsonField] = {}
    for one in objects:
        _add(found, one, 1)
    return _within_limits(tuple(found.values()))


def _add(found: dict[str, JsonField], one: Mapping[str, Any], depth: int) -> None:
    """Widen the fields so that an object fits."""
    for name, value in one.items():
        if not 0 < len(name) <= _LONGEST_NAME:
            continue
        field = _field(name, value, depth)
        known = found.get(name)
        found[name] = field if known is None else _wider(known, field)


def _field(name: str, value: object, depth: int) -> JsonField:
    """Return the field that a value fits into; a null fits into any, `_NOTHING`."""
    if value is None:
        return JsonField(name=name, type=_NOTHING)
    if depth >= DEEPEST:
        return JsonField(name=name, type=_ANYTHING)
    if isinstance(value, dict):
        fields: dict[str, JsonField] = {}
        _add(fields, value, depth + 1)
        return JsonField(name=name, type=STRUCT, fields=tuple(fields.values()))
    if isinstance(value, list):
        item = JsonField(name=_ELEMENT, type=_NOTHING)
        for one in value:
            item = _wider(item, _field(_ELEMENT, one, depth + 1))
        return JsonField(name=name, type=ARRAY, fields=(item,))
    if isinstance(value, int) and not -INT64_MAX - 1 <= value <= INT64_MAX:
        return JsonField(name=name, type="double")
    return JsonField(name=name, type=_SCALARS[type(value)])


_NOTHING: Final = "nothing"
"""The type of null while fields are inferred."""


def _wider(first: JsonField, second: JsonField) -> JsonField:
    """Return a field that both fit into."""
    kinds = {first.type, second.type}
    if _NOTHING in kinds:
        return second if first.type == _NOTHING else first
    if kinds == {STRUCT}:
        fields = {one.name: one for one in first.fields}
        for one in second.fields:
            known = fields.get(one.name)
            fields[one.name] = one if known is None else _wider(known, one)
        return first.model_copy(update={"fields": tuple(fields.values())})
    if kinds == {ARRAY}:
        item = _wider(first.fields[0], second.fields[0])
        return first.model_copy(update={"fields": (item,)})
    if len(kinds) == 1:
        return first
    kind = "double" if kinds == {"long", "double"} else _ANYTHING
    return JsonField(name=first.name, type=kind)


def _within_limits(fields: tuple[JsonField, ...]) -> tuple[JsonField, ...]:
    """Return the fields without `_NOTHING` and empty objects; if they are too many, those of the
    objects in them become json.
    """
    done = tuple(_finished(one) for one in fields)
    if _count(done) > MOST_FIELDS:
        nested = {STRUCT, ARRAY}
        done = tuple(
            JsonField(name=one.name, type=_ANYTHING) if one.type in nested else one for one in done
        )
    return done[:MOST_FIELDS]


def _finished(one: JsonField) -> JsonField:
    if one.type == _NOTHING or (one.type == STRUCT and not one.fields):
        return JsonField(name=one.name, type=_ANYTHING)
    return one.model_copy(update={"fields": tuple(_finished(child) for child in one.fields)})


def _count(fields: Sequence[JsonField]) -> int:
    return sum(1 + _count(one.fields) for one in fields)


class UnusableSchema(Exception):
    """A schema cannot be made into columns; `problem` says why, after the schema's name."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(problem)


def of_json_schema(schema: object) -> tuple[JsonField, ...]:
    """Return the fields of an object that a JSON Schema describes.

    ``type``, ``properties``, ``required``, ``items``, null in a union and ``$ref`` within the
    document are used; what has several types is json. Constraints are not checked.

    Raises:
        UnusableSchema: it does not describe an object with properties, or has too many.
    """
    found = _Schema(schema).field("", schema, (), required=True)
    if found.type != STRUCT:
        raise UnusableSchema("does not describe an object with properties")
    return found.fields


class _Schema:
    """A JSON Schema while it is read."""

    def __init__(self, root: object) -> None:
        self._root = root
        self._count = 0

    def field(
        self, name: str, schema: object, path: tuple[str, ...], *, required: bool
    ) -> JsonField:
        """Return the field of a schema. `path`: the references that lead to it."""
        self._count += 1
        if self._count > MOST_FIELDS:
            raise UnusableSchema(f"has more than {MOST_FIELDS} fields")
        found, nullable = _without_null(schema)
        reference = found.get("$ref") if isinstance(found, dict) else None
        if isinstance(reference, str):
            if reference in path or len(path) > DEEPEST:
                return JsonField(name=name, type=_ANYTHING, nullable=nullable or not required)
            one = self.field(name, self._target(reference), (*path, reference), required=required)
            return one.model_copy(update={"nullable": one.nullable or nullable})
        kind, fields = self._type(found, path)
        return JsonField(name=name, type=kind, nullable=nullable or not required, fields=fields)

    def _type(self, found: object, path: tuple[str, ...]) -> tuple[str, tuple[JsonField, ...]]:
        if not isinstance(found, dict) or len(path) > DEEPEST:
            return _ANYTHING, ()
        kind, properties = found.get("type"), found.get("properties")
        if kind == "object" and isinstance(properties, dict) and properties:
            required = found.get("required")
            names = required if isinstance(required, list) else []
            return STRUCT, tuple(
                self.field(name, one, (*path, ""), required=name in names)
                for name, one in properties.items()
            )
        if kind == "array":
            item = self.field(_ELEMENT, found.get("items"), (*path, ""), required=False)
            return ARRAY, (item,)
        scalars = {"integer": "long", "number": "double", "string": "string", "boolean": "boolean"}
        return scalars.get(kind, _ANYTHING) if isinstance(kind, str) else _ANYTHING, ()

    def _target(self, reference: str) -> object:
        """Return what a reference within the document refers to; None if it is elsewhere."""
        node = self._root
        if not reference.startswith("#"):
            return None
        for part in reference[1:].split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            node = node.get(name) if isinstance(node, dict) else None
        return node


def _without_null(schema: object) -> tuple[object, bool]:
    """Return a schema without the alternative null, and whether it had one."""
    if not isinstance(schema, dict):
        return schema, True
    kinds = schema.get("type")
    if isinstance(kinds, list):
        others = [kind for kind in kinds if kind != "null"]
        only = others[0] if len(others) == 1 else None
        return {**schema, "type": only}, len(others) < len(kinds)
    for word in ("oneOf", "anyOf"):
        choices = schema.get(word)
        if isinstance(choices, list):
            rest = [one for one in choices if one != {"type": "null"}]
            found = rest[0] if len(rest) == 1 else {}
            return found, len(rest) < len(choices)
    return schema, not kinds and "$ref" not in schema


invariant(_LEAVES.keys() >= set(_SCALARS.values()), "every scalar of JSON has a column")
