"""Avro schemas as columns. fastavro checks a schema and resolves its names."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import fastavro
import pyarrow as pa
from fastavro.schema import SchemaParseException, UnknownType

from logwright.decode import leaves
from logwright.decode.avro_defaults import default_of
from logwright.decode.avro_names import (
    RECORDS,
    branch_names,
    fits_by_name,
    is_choice,
    is_named,
    name_of,
    normal,
)
from logwright.decode.columns import (
    MISSING,
    Items,
    Leaf,
    Node,
    Pairs,
    Struct,
    is_empty,
    optional,
    required,
)
from logwright.decode.connect_decimals import of_unscaled
from logwright.decode.connect_types import UnknownUnit, leaf_of, logical_of
from logwright.decode.json_fields import DEEPEST, MOST_FIELDS, UnusableSchema
from logwright.decode.model import TIMESTAMP
from logwright.decode.refusal import Refused

_LARGEST_PRECISION: Final = 38
_DAY: Final = 86_400_000_000
_LARGEST_FIXED: Final = 1 << 20
_FLOAT: Final = Leaf(type=pa.float32(), accepts=frozenset({float}), convert=lambda value: value)
_NULL: Final = Leaf(type=pa.null(), accepts=frozenset(), convert=lambda _: None)

_PRIMITIVES: Final[Mapping[str, Leaf]] = MappingProxyType(
    {
        "null": _NULL,
        "boolean": leaves.BOOLEAN,
        "int": leaves.INT,
        "long": leaves.LONG,
        "float": _FLOAT,
        "double": leaves.DOUBLE,
        "bytes": leaves.BINARY,
        "string": leaves.STRING,
    }
)
_LEAST_BYTES: Final = MappingProxyType({"null": 0, "float": 4, "double": 8})


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """What the values of a type stand for, beyond the type.

    Attributes:
        family: such as ``timestamp``; values of another family are never converted.
        unit: in nanoseconds, of a time; else 0. Values of another unit are converted exactly.
    """

    family: str
    unit: int = 0


_UNITS: Final = MappingProxyType({"millis": 1_000_000, "micros": 1_000, "nanos": 1})


def _time(kind: pa.DataType, unit: int) -> Leaf:
    """Return the leaf of a time of a unit (ns); what is less than a microsecond is cut off."""

    def convert(value: int) -> int:
        return leaves.in_years(value * unit // 1000)

    return Leaf(type=kind, storage=pa.int64(), accepts=frozenset(), convert=convert)


def _days(value: int) -> int:
    leaves.in_years(value * _DAY)
    return value


_DATE: Final = Leaf(type=pa.date32(), storage=pa.int32(), accepts=frozenset(), convert=_days)


def _uuid_bytes(value: bytes) -> str:
    text = value.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


_UUID_BYTES: Final = Leaf(type=pa.string(), accepts=frozenset(), convert=_uuid_bytes)
_UUID_SIZE: Final = 16

_TIMES: Final[Mapping[tuple[str, str], tuple[Leaf, Meaning]]] = MappingProxyType(
    {
        ("int", "date"): (_DATE, Meaning(family="date")),
        ("int", "time-millis"): (leaves.INT, Meaning(family="time", unit=_UNITS["millis"])),
        ("long", "time-micros"): (leaves.LONG, Meaning(family="time", unit=_UNITS["micros"])),
        **{
            ("long", f"{family}-{name}"): (_time(kind, unit), Meaning(family=family, unit=unit))
            for family, kind in (("timestamp", TIMESTAMP), ("local-timestamp", pa.timestamp("us")))
            for name, unit in _UNITS.items()
        },
    }
)
"""(type, logicalType) → column, and what its values stand for."""


class AvroSchema(NamedTuple):
    """A schema of data.

    Attributes:
        shape: as fastavro parses it.
        named: its named types, and those that it refers to; full name → shape.
        node: its column, which may be empty.
    """

    shape: Any
    named: Mapping[str, Any]
    node: Node

    @property
    def name(self) -> str:
        """The full name of its type, or the type."""
        return name_of(normal(self.shape, self.named))

    def also_named(self, name: str) -> AvroSchema:
        """Return the schema with another name of its type as an alias."""
        shape = normal(self.shape, self.named)
        if isinstance(shape, list):
            return self
        return self._replace(shape={**shape, "aliases": [*shape.get("aliases", ()), name]})

    def is_named(self, other: AvroSchema) -> bool:
        """Return whether data of another schema are of this type: by name, or by an alias."""
        mine, others = normal(self.shape, self.named), normal(other.shape, other.named)
        if not is_named(mine) or not is_named(others):
            return True  # whether the types fit is a matter of each value
        return fits_by_name(others, mine)


def parse_avro(text: str | bytes, known: Mapping[str, Any] | None = None) -> AvroSchema:
    """Return the schema of a JSON text.

    Args:
        text: the schema.
        known: named schemas that it refers to; name → parsed by fastavro.

    Raises:
        UnusableSchema: it is not a schema, is recursive, or has types that cannot be columns.
    """
    (parsed, named) = parse_names(text, known)
    try:
        node = _Parser(named).kind(parsed, ())[0]
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise UnusableSchema("is not an Avro schema") from None
    return AvroSchema(parsed, named, node)


def parse_names(
    text: str | bytes, known: Mapping[str, Any] | None = None
) -> tuple[Any, dict[str, Any]]:
    """Return a schema as fastavro parses it, and all named ones with those in it.

    Raises:
        UnusableSchema: it is not a schema.
    """
    named: dict[str, Any] = dict(known or {})
    try:
        return fastavro.parse_schema(json.loads(text), named_schemas=named), named
    except (SchemaParseException, UnknownType):
        raise UnusableSchema("is not an Avro schema") from None
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise UnusableSchema("is not an Avro schema in JSON") from None


class _Parser:
    """Builds columns; of each also the fewest bytes that a value has."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._count = 0

    def kind(self, shape: Any, path: tuple[str, ...]) -> tuple[Node, int]:
        """Return the column of a schema. `path`: the named types that it is in."""
        self._count += 1
        if self._count > MOST_FIELDS:
            raise UnusableSchema(f"has more than {MOST_FIELDS} fields")
        if len(path) > DEEPEST:
            raise UnusableSchema(f"is nested more than {DEEPEST} deep")
        schema = normal(shape, self._named)
        if isinstance(schema, list):
            return self._union(schema, path)
        kind = schema["type"]
        if kind in _PRIMITIVES:
            return column_of(schema)[0], _LEAST_BYTES.get(kind, 1)
        return _COMPLEX[kind](self, schema, path)

    def _union(self, shapes: list[Any], path: tuple[str, ...]) -> tuple[Node, int]:
        """Return the column of a union: of null and one other the other, nullable; else a struct
        with a field for each, of which one is set.
        """
        kinds = [self.kind(each, path)[0] for each in shapes]
        normals = [normal(each, self._named) for each in shapes]
        branches = [
            (name, node)
            for name, shape, node in zip(branch_names(normals), normals, kinds, strict=True)
            if name_of(shape) != "null"
        ]
        if not is_choice(normals):
            return (optional(branches[0][1]) if branches else _NULL), 1
        fields = {name: optional(node) for name, node in branches if not is_empty(node)}
        return Struct(fields=fields), 1

    def record(self, schema: dict[str, Any], path: tuple[str, ...]) -> tuple[Node, int]:
        """Return the column of a record."""
        if schema["name"] in path:
            raise UnusableSchema(f"is recursive: {schema['name']} contains itself")
        inside = (*path, schema["name"])
        kinds = [(each, *self.kind(each["type"], inside)) for each in schema["fields"]]
        fields: dict[str, Node] = {}
        for field, kind, _ in kinds:
            if is_empty(kind):
                continue
            node = kind if self._has_null(field["type"]) else _required(kind)
            default = default_of(field, self._named)
            fields[field["name"]] = node if default is MISSING else replace(node, default=default)
        least = sum(size for _, _, size in kinds)
        return column_of(schema)[0] or Struct(fields=fields), least

    def array(self, schema: dict[str, Any], path: tuple[str, ...]) -> tuple[Node, int]:
        """Return the column of an array."""
        (item, least) = self.kind(schema["items"], (*path, "[]"))
        if not least:
            raise UnusableSchema("has an array whose items have no bytes")
        return Items(item=item if self._has_null(schema["items"]) else _required(item)), 1

    def map(self, schema: dict[str, Any], path: tuple[str, ...]) -> tuple[Node, int]:
        """Return the column of a map."""
        (value, _) = self.kind(schema["values"], (*path, "{}"))
        node = value if self._has_null(schema["values"]) else _required(value)
        return Pairs(key=_required(leaves.STRING), value=node), 1

    def enum(self, schema: dict[str, Any], path: tuple[str, ...]) -> tuple[Node, int]:  # noqa: ARG002 - as the others
        """Return the column of an enum: its symbols as strings."""
        return column_of(schema)[0], 1

    def fixed(self, schema: dict[str, Any], path: tuple[str, ...]) -> tuple[Node, int]:  # noqa: ARG002 - as the others
        """Return the column of a fixed."""
        size = schema["size"]
        if type(size) is not int or not 0 <= size <= _LARGEST_FIXED:
            raise UnusableSchema(f"has a fixed of more than {_LARGEST_FIXED} bytes")
        return column_of(schema)[0], size

    def _has_null(self, shape: Any) -> bool:
        """Return whether null is a value of a type."""
        schema = normal(shape, self._named)
        shapes = schema if isinstance(schema, list) else [schema]
        return any(name_of(normal(each, self._named)) == "null" for each in shapes)


_COMPLEX: Final[
    Mapping[str, Callable[[_Parser, dict[str, Any], tuple[str, ...]], tuple[Node, int]]]
] = MappingProxyType(
    {
        "record": _Parser.record,
        "error": _Parser.record,
        "array": _Parser.array,
        "map": _Parser.map,
        "enum": _Parser.enum,
        "fixed": _Parser.fixed,
    }
)


def column_of(schema: dict[str, Any]) -> tuple[Any, Meaning | None]:
    """Return the column of a type that has no other ones in it, and what its values stand for; of
    a record None, unless Kafka Connect has named it as a single value.

    Raises:
        UnusableSchema: its unit is not known.
    """
    kind, logical = schema["type"], schema.get("logicalType")
    plain = _plain(kind)
    if logical == "decimal" and plain is leaves.BINARY:
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if (
            type(precision) is int
            and type(scale) is int
            and 0 <= scale <= precision
            and 1 <= precision <= _LARGEST_PRECISION
        ):
            return _decimal(precision, scale), Meaning(family=f"decimal of scale {scale}")
    connect = _connect_leaf(schema, _BASES.get(kind, ""))
    if isinstance(logical, str) and (kind, logical) in _TIMES:
        (leaf, meaning) = _TIMES[kind, logical]
        unit = _CONNECT_UNITS.get(schema.get("connect.name"))
        if unit is not None and not logical.endswith(unit):
            raise UnusableSchema("has a field whose logicalType and connect.name contradict")
        if meaning.family != "time" or connect is None:
            return leaf, meaning
    if connect is not None:
        return connect, Meaning(family=_connect_family(schema))
    return _uuid(schema, plain), None


def _plain(kind: str) -> Leaf | None:
    """Return the column of a type without a logical one."""
    if kind in _PRIMITIVES:
        return _PRIMITIVES[kind]
    return {"enum": leaves.STRING, "fixed": leaves.BINARY}.get(kind)


def _uuid(schema: dict[str, Any], plain: Leaf | None) -> Leaf | None:
    """Return the column of a UUID, if the type is one: a text, or 16 bytes (Avro 1.12)."""
    if schema.get("logicalType") == "uuid":
        if schema["type"] == "string":
            return leaves.UUID
        if schema["type"] == "fixed" and schema["size"] == _UUID_SIZE:
            return _UUID_BYTES
    return plain


_BASES: Final = MappingProxyType(
    {
        "int": "int32",
        "long": "int64",
        "string": "string",
        "bytes": "bytes",
        "fixed": "bytes",
        **dict.fromkeys(RECORDS, "struct"),
    }
)
"""Type of Avro → the plain type of Kafka Connect."""

_CONNECT_UNITS: Final[Mapping[object, str]] = MappingProxyType(
    {
        "org.apache.kafka.connect.data.Date": "date",
        "org.apache.kafka.connect.data.Timestamp": "millis",
        "io.debezium.time.Date": "date",
        "io.debezium.time.Timestamp": "millis",
        "io.debezium.time.MicroTimestamp": "micros",
        "io.debezium.time.NanoTimestamp": "nanos",
    }
)
"""Name of Kafka Connect's or Debezium's → how the logicalType of the same unit ends."""


def _connect_leaf(schema: Mapping[str, Any], base: str) -> Leaf | None:
    """Return the column of the name that Kafka Connect gave a schema, None if it says no more than
    Avro does.
    """
    given = _parameters(schema)
    try:
        logical = logical_of(
            schema.get("connect.name"),
            base,
            scale=_scale(schema),
            precision=given.get("connect.decimal.precision"),
        )
    except UnknownUnit:
        raise UnusableSchema("has a field of a type whose unit is not known") from None
    return None if logical is None else leaf_of(logical, logical.column)


def _parameters(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    parameters = schema.get("connect.parameters")
    return parameters if isinstance(parameters, dict) else {}


def _scale(schema: Mapping[str, Any]) -> object:
    """Return the scale of a decimal of Kafka Connect, as its schema has it."""
    return schema.get("scale", _parameters(schema).get("scale"))


def _connect_family(schema: Mapping[str, Any]) -> str:
    """Return what values of a name of Kafka Connect stand for. Of the parameters only the scale of
    a decimal says something of them: others are of the source's column, and change with it.
    """
    name = str(schema.get("connect.name"))
    return f"decimal of scale {_scale(schema)}" if name.endswith(".Decimal") else name


def _decimal(precision: int, scale: int) -> Leaf:
    def convert(value: bytes) -> Decimal:
        if len(value) > _LARGEST_PRECISION:
            raise Refused(f"does not fit into decimal({precision},{scale})")
        unscaled = int.from_bytes(value, "big", signed=True)
        if abs(unscaled) >= 10**precision:
            raise Refused(f"does not fit into decimal({precision},{scale})")
        return of_unscaled(value, scale)

    return Leaf(type=pa.decimal128(precision, scale), accepts=frozenset(), convert=convert)


def _required(node: Node) -> Node:
    return node if node is _NULL else required(node)
