"""From the types of JSON's fields, as the policies have them, to columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

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
from logwright.errors import invariant

MOST_FIELDS: Final = 2000
DEEPEST: Final = 20
LONGEST_NAME: Final = 255
ANYTHING: Final = "json"
_TIMESTAMP: Final = "timestamp"
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


invariant(_LEAVES.keys() == JSON_TYPES, "every type of JSON has a column")
