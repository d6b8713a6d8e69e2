"""Schemas of Kafka Connect, as its JsonConverter embeds them in each record (``schemas.enable``).

A schema says how the values of a payload are read: which unit a number has, that a text is base64.
The columns are given; a column that the schema contradicts is an error, never a conversion.
Source: org.apache.kafka.connect.json.JsonSchema and JsonConverter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final, NoReturn

import numpy as np
import orjson
import pyarrow as pa

from logwright.config.json_fields import ARRAY, MAP, STRUCT, JsonField, decimal_digits
from logwright.decode import leaves
from logwright.decode.columns import (
    IS_MISSING,
    MISSING,
    Items,
    Leaf,
    Node,
    Pairs,
    Struct,
    required,
)
from logwright.decode.connect_types import Logical, UnknownUnit, leaf_of, logical_of
from logwright.decode.json_fields import DEEPEST, LONGEST_NAME, MOST_FIELDS, UnusableSchema, node_of
from logwright.decode.refusal import Refused

_ELEMENT: Final = "element"
_COLUMNS: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("int8", "int16", "int32"), "int"),
        "int64": "long",
        "float": "float",
        "double": "double",
        "boolean": "boolean",
        "string": "string",
        "bytes": "binary",
    }
)
"""Plain type → type of its column."""

_INTEGERS: Final = frozenset({"int8", "int16", "int32", "int64"})
_NOT_NUMBERS: Final = frozenset({"NaN", "Infinity", "-Infinity"})


class Contradiction(Exception):
    """A schema says another type than the column has; `reason` names both."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """A schema, read.

    Attributes:
        base: the plain type, by Connect's name.
        logical: what its name says of the unit, if anything.
        label: the name of the type, for reasons.
        optional: null is allowed.
        default: of a field that is missing, as the payload would have it.
        fields: of a struct.
        parts: of an array its items; of a map its keys and values.
    """

    base: str
    logical: Logical | None
    label: str
    optional: bool
    default: object
    fields: Mapping[str, Schema] = field(default_factory=dict)
    parts: tuple[Schema, ...] = ()


def read_schema(raw: object) -> Schema:
    """Return a schema of a parsed JSON value.

    Raises:
        UnusableSchema: it is none of Connect's, too large, or of a type whose unit is not known.
    """
    return _Reader().schema(raw, 1)


class _Reader:
    """Reads schemas and counts their fields."""

    def __init__(self) -> None:
        self._count = 0

    def schema(self, raw: object, depth: int) -> Schema:
        """Return a schema."""
        self._count += 1
        if self._count > MOST_FIELDS:
            raise UnusableSchema(f"has more than {MOST_FIELDS} fields")
        if depth > DEEPEST:
            raise UnusableSchema(f"is nested more than {DEEPEST} deep")
        base = raw.get("type") if isinstance(raw, dict) else None
        if not isinstance(raw, dict) or not isinstance(base, str):
            raise UnusableSchema("is not one of Kafka Connect")
        fields: dict[str, Schema] = {}
        parts: tuple[Schema, ...] = ()
        if base == STRUCT:
            fields = self._fields(raw.get("fields"), depth)
        elif base == ARRAY:
            parts = (self.schema(raw.get("items"), depth + 1),)
        elif base == MAP:
            parts = tuple(self.schema(raw.get(name), depth + 1) for name in ("keys", "values"))
        elif base not in _COLUMNS:
            raise UnusableSchema("is not one of Kafka Connect")
        logical = _logical(raw, base)
        return Schema(
            base=base,
            logical=logical,
            label=raw["name"] if logical is not None else base,
            optional=raw.get("optional") is True,
            default=raw.get("default", MISSING),
            fields=fields,
            parts=parts,
        )

    def _fields(self, raw: object, depth: int) -> dict[str, Schema]:
        fields: dict[str, Schema] = {}
        for member in raw if isinstance(raw, list) else (None,):
            name = member.get("field") if isinstance(member, dict) else None
            if not isinstance(name, str) or name in fields:
                raise UnusableSchema("has a struct without fields, or a field twice")
            fields[name] = self.schema(member, depth + 1)
        return fields


def _logical(raw: Mapping[str, Any], base: str) -> Logical | None:
    parameters = raw.get("parameters")
    given = parameters if isinstance(parameters, dict) else {}
    try:
        return logical_of(
            raw.get("name"),
            base,
            scale=given.get("scale"),
            precision=given.get("connect.decimal.precision"),
        )
    except UnknownUnit:
        raise UnusableSchema("has a type whose unit is not known") from None


def field_of(name: str, schema: Schema) -> JsonField:
    """Return the column that a schema asks for."""
    if schema.logical is not None:
        return JsonField(name=name, type=schema.logical.column)
    if schema.base == STRUCT:
        named = schema.fields.items()
        fields = tuple(field_of(*one) for one in named if 0 < len(one[0]) <= LONGEST_NAME)
        return JsonField(name=name, type=STRUCT, fields=fields)
    if schema.parts:
        names = (_ELEMENT,) if schema.base == ARRAY else ("key", "value")
        parts = tuple(map(field_of, names, schema.parts))
        return JsonField(name=name, type=schema.base, fields=parts)
    return JsonField(name=name, type=_COLUMNS[schema.base])


def node_for(schema: Schema, column: JsonField, path: str = "") -> Node:
    """Return what reads values of a schema for a column. Fields that the column does not have are
    left out, and fields that the schema does not have are null.

    Raises:
        Contradiction: the column has another type than the schema says.
    """
    node = _node(schema, column, path)
    nullable = schema.optional and column.nullable
    return replace(node, nullable=nullable, default=schema.default)


def _node(schema: Schema, column: JsonField, path: str) -> Node:
    if schema.logical is not None:
        leaf = leaf_of(schema.logical, column.type)
        if leaf is not None:
            return leaf
    elif column.type == "json":
        return replace(leaves.JSON, convert=lambda raw: orjson.dumps(_plain(schema, raw)).decode())
    elif schema.base == column.type == STRUCT:
        return _struct(schema.fields, column, path)
    elif schema.base == column.type == ARRAY:
        return Items(item=node_for(schema.parts[0], column.fields[0], f"{path}[]"))
    elif schema.base == MAP and column.type in {MAP, STRUCT}:
        return _map(schema, column, path)
    else:
        leaf = _plain_leaf(schema.base, column.type)
        if leaf is not None:
            return leaf
    raise Contradiction(
        f"field {path} is {schema.label} in the schema of its record, and {column.type} in the"
        " columns"
    )


def _struct(fields: Mapping[str, Schema], column: JsonField, path: str) -> Struct:
    return Struct(
        fields={
            part.name: node_for(
                fields[part.name], part, f"{path}.{part.name}" if path else part.name
            )
            if part.name in fields
            else _absent(part)
            for part in column.fields
        }
    )


def _absent(column: JsonField) -> Leaf:
    """Return what reads a column that a schema does not have: it is null."""

    def convert(_: object) -> NoReturn:
        raise Refused("is not in the schema of its record")

    kind = node_of(column).type
    return Leaf(type=kind, accepts=frozenset(), convert=convert, nullable=column.nullable)


def _map(schema: Schema, column: JsonField, path: str) -> Node:
    """Return what reads a map. With keys of strings it is an object, else a list of pairs."""
    (keys, values) = schema.parts
    is_object = keys.base == "string"
    if column.type == MAP:
        (key, value) = column.fields
        return Pairs(
            key=required(node_for(keys, key, f"{path}.key")),
            value=node_for(values, value, f"{path}.value"),
            listed=not is_object,
        )
    if not is_object:
        raise Contradiction(
            f"field {path} is a map with keys other than texts, and struct in the columns"
        )
    struct = _struct(dict.fromkeys((one.name for one in column.fields), values), column, path)
    nodes = zip(struct.fields.items(), column.fields, strict=True)
    return Struct(
        fields={name: replace(node, nullable=one.nullable) for (name, node), one in nodes}
    )


def _plain_leaf(base: str, kind: str) -> Leaf | None:
    """Return what reads a plain type for a column, None if there is nothing without a guess."""
    leaf = _LEAVES.get((base, kind))
    digits = decimal_digits(kind)
    if digits is None or base not in _INTEGERS | {"string"}:
        return leaf
    expected, convert = (str if base == "string" else int), leaves.decimal_of(*digits)

    def exactly(raw: Any) -> Decimal:
        if type(raw) is not expected:
            raise Refused("is not a decimal")
        return convert(raw)

    return Leaf(type=pa.decimal128(*digits), accepts=frozenset(), convert=exactly)


def _number(raw: Any) -> float:
    """Return a double; Connect writes those that JSON does not have as texts."""
    return float(raw) if type(raw) is str and raw in _NOT_NUMBERS else leaves.double(raw)


def _single(raw: Any) -> float:
    """Return a float as a double."""
    return float(np.float32(leaves.single(_number(raw))))


def _text_only(leaf: Leaf) -> Leaf:
    """Return a leaf that takes texts alone: a number would need a unit."""

    def convert(raw: Any) -> object:
        return leaf.convert(leaves.string(raw))

    return replace(leaf, convert=convert)


_DOUBLE: Final = replace(leaves.DOUBLE, convert=_number)
_FLOAT: Final = replace(leaves.FLOAT, convert=lambda raw: leaves.single(_number(raw)))
_LEAVES: Final[Mapping[tuple[str, str], Leaf]] = MappingProxyType(
    {
        **{(base, "int"): leaves.INT for base in _INTEGERS},
        **{(base, "long"): leaves.LONG for base in _INTEGERS},
        **{(base, "double"): leaves.DOUBLE for base in _INTEGERS},
        **{(base, "float"): leaves.FLOAT for base in _INTEGERS},
        ("float", "float"): _FLOAT,
        ("float", "double"): replace(leaves.DOUBLE, accepts=frozenset(), convert=_single),
        ("double", "double"): _DOUBLE,
        ("double", "float"): _FLOAT,
        ("boolean", "boolean"): leaves.BOOLEAN,
        ("string", "string"): leaves.STRING,
        ("string", "date"): leaves.DATE,
        ("string", "timestamp"): _text_only(leaves.ISO_TIMESTAMP),
        ("string", "binary"): leaves.BASE64,
        ("bytes", "binary"): leaves.BASE64,
    }
)
"""(plain type, column) → what reads it. A number has no unit, so it is neither date nor time."""


def _plain(schema: Schema, raw: Any) -> Any:
    """Return a value as JSON has it, with times and decimals as exact texts.

    Raises:
        Refused: it is not of its schema.
    """
    if raw is None:
        if not schema.optional:
            raise Refused(IS_MISSING)
        return None
    if schema.logical is not None:
        return schema.logical.text(raw)
    if schema.base in _SHOWN:
        return _SHOWN[schema.base](raw)
    if schema.base == STRUCT:
        named = _of(dict, raw)
        defaults = {name: one.default for name, one in schema.fields.items()}
        values = {name: one for name, one in defaults.items() if one is not MISSING} | named
        return {name: _plain(one, values.get(name)) for name, one in schema.fields.items()}
    if schema.base == ARRAY:
        return [_plain(schema.parts[0], one) for one in _of(list, raw)]
    return _plain_map(schema, raw)


def _plain_map(schema: Schema, raw: Any) -> Any:
    (keys, values) = schema.parts
    if keys.base == "string":
        return {name: _plain(values, one) for name, one in _of(dict, raw).items()}
    return [_pair(keys, values, one) for one in _of(list, raw)]


def _pair(keys: Schema, values: Schema, raw: Any) -> list[Any]:
    if type(raw) is not list or len(raw) != 2:  # noqa: PLR2004 - a key and a value
        raise Refused("is not a list of pairs")
    return [_plain(keys, raw[0]), _plain(values, raw[1])]


def _of(expected: type, raw: Any) -> Any:
    if type(raw) is not expected:
        raise Refused("is not a list" if expected is list else "is not an object")
    return raw


def _shown_number(raw: Any) -> float | str:
    number = _number(raw)
    return number if math.isfinite(number) else str(raw)


def _shown_bytes(raw: Any) -> str:
    leaves.BASE64.convert(raw)
    return str(raw)


_SHOWN: Final[Mapping[str, Callable[[Any], Any]]] = MappingProxyType(
    {
        **dict.fromkeys(_INTEGERS, leaves.integer(64)),
        "float": _shown_number,
        "double": _shown_number,
        "boolean": leaves.BOOLEAN.convert,
        "string": leaves.string,
        "bytes": _shown_bytes,
    }
)
