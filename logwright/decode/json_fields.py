"""From the types of JSON's fields to columns: as the policies have them, or of a JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from logwright.config.json_fields import (
    ARRAY,
    JSON_TYPES,
    MAP,
    STRUCT,
    JsonField,
    decimal_digits,
)
from logwright.decode import leaves
from logwright.decode.columns import Items, Leaf, Node, Pairs, Struct, required
from logwright.decode.connect_types import UnknownUnit, leaf_of, logical_of
from logwright.errors import invariant

MOST_FIELDS: Final = 2000
DEEPEST: Final = 20
LONGEST_NAME: Final = 255
ANYTHING: Final = "json"
_TIMESTAMP: Final = "timestamp"
_ELEMENT: Final = "element"
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


class _Logical(JsonField):
    """A field of a logical type of Kafka Connect, which a JSON Schema has as ``title``.

    Attributes:
        leaf: the `Leaf` that reads its values; pydantic would not know what is in one.
    """

    leaf: Any


def struct_of(
    fields: Sequence[JsonField], *, nullable: bool = True, has_units: bool = True
) -> Struct:
    """Return the column of an object with these fields.

    Args:
        fields: of the object.
        nullable: it may be null.
        has_units: a number as a timestamp is one of milliseconds; else it is refused.
    """
    named = {one.name: node_of(one, has_units=has_units) for one in fields}
    return Struct(fields=named, nullable=nullable)


def node_of(field: JsonField, *, has_units: bool = True) -> Node:
    """Return the column of a field."""
    if field.type == STRUCT:
        return struct_of(field.fields, nullable=field.nullable, has_units=has_units)
    if field.type in {ARRAY, MAP}:
        parts = [node_of(part, has_units=has_units) for part in field.fields]
        if field.type == ARRAY:
            return Items(item=parts[0], nullable=field.nullable)
        return Pairs(key=required(parts[0]), value=parts[1], nullable=field.nullable)
    return replace(_leaf(field, has_units=has_units), nullable=field.nullable)


def _leaf(field: JsonField, *, has_units: bool) -> Leaf:
    if isinstance(field, _Logical):
        leaf: Leaf = field.leaf
        return leaf
    if field.type == _TIMESTAMP and not has_units:
        return leaves.TEXT_TIMESTAMP
    digits = decimal_digits(field.type)
    if digits is not None:
        kind, convert = pa.decimal128(*digits), leaves.decimal_of(*digits)
        return Leaf(type=kind, accepts=frozenset(), convert=convert)
    return _LEAVES[field.type]


class UnusableSchema(Exception):
    """A schema cannot be made into columns; `problem` says why, after the schema's name."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(problem)


def of_json_schema(schema: object) -> tuple[JsonField, ...]:
    """Return the fields of an object that a JSON Schema describes.

    ``type``, ``properties``, ``required``, ``items``, null in a union and ``$ref`` within the
    document are used, and the logical types that Kafka Connect's converter has in ``title`` and
    ``connect.type``; what has several types is json. Constraints are not checked.

    Raises:
        UnusableSchema: it does not describe an object with properties, or has too many.
    """
    field = _Schema(schema).field("", schema, (), required=True)
    if field.type != STRUCT:
        raise UnusableSchema("does not describe an object with properties")
    return field.fields


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
        inner, nullable = _without_null(schema)
        reference = inner.get("$ref") if isinstance(inner, dict) else None
        if isinstance(reference, str):
            if reference in path or len(path) > DEEPEST:
                return JsonField(name=name, type=ANYTHING, nullable=nullable or not required)
            target = self.field(
                name, self._target(reference), (*path, reference), required=required
            )
            return target.model_copy(update={"nullable": target.nullable or nullable})
        leaf = _connect_leaf(inner)
        if leaf is not None:
            optional = nullable or not required
            return _Logical(name=name, type=ANYTHING, nullable=optional, leaf=leaf)
        kind, fields = self._type(inner, path)
        return JsonField(name=name, type=kind, nullable=nullable or not required, fields=fields)

    def _type(self, schema: object, path: tuple[str, ...]) -> tuple[str, tuple[JsonField, ...]]:
        if not isinstance(schema, dict) or len(path) > DEEPEST:
            return ANYTHING, ()
        kind, properties = schema.get("type"), schema.get("properties")
        if kind == "object" and isinstance(properties, dict) and properties:
            required = schema.get("required")
            names = required if isinstance(required, list) else []
            return STRUCT, tuple(
                self.field(name, content, (*path, ""), required=name in names)
                for name, content in properties.items()
            )
        if kind == "array":
            item = self.field(_ELEMENT, schema.get("items"), (*path, ""), required=False)
            return ARRAY, (item,)
        if (kind, schema.get("connect.type")) == ("string", "bytes"):
            return "binary", ()
        scalars = {"integer": "long", "number": "double", "string": "string", "boolean": "boolean"}
        return scalars.get(kind, ANYTHING) if isinstance(kind, str) else ANYTHING, ()

    def _target(self, reference: str) -> object:
        """Return what a reference within the document refers to; None if it is elsewhere."""
        node = self._root
        if not reference.startswith("#"):
            return None
        for part in reference[1:].split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            node = node.get(name) if isinstance(node, dict) else None
        return node


def _connect_leaf(schema: object) -> Leaf | None:
    """Return what reads values of a schema with a logical type, None if it has none."""
    if not isinstance(schema, dict):
        return None
    bases = {"object": "struct", "string": "string"}
    base = schema.get("connect.type", bases.get(str(schema.get("type")), ""))
    parameters = schema.get("connect.parameters")
    given = parameters if isinstance(parameters, dict) else {}
    try:
        logical = logical_of(schema.get("title"), base, scale=given.get("scale"))
    except UnknownUnit:
        raise UnusableSchema("has a field of a type whose unit is not known") from None
    return None if logical is None else leaf_of(logical, logical.column)


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
            choice = rest[0] if len(rest) == 1 else {}
            return choice, len(rest) < len(choices)
    return schema, not kinds and "$ref" not in schema


invariant(_LEAVES.keys() == JSON_TYPES, "every type of JSON has a column")
