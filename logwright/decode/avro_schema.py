"""Avro schemas as columns. fastavro checks a schema and resolves its names."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import fastavro
import pyarrow as pa
from fastavro.schema import SchemaParseException, UnknownType

from logwright.decode import leaves
from logwright.decode.avro_read import (
    Read,
    array_of,
    boolean,
    bytes_of,
    choice_of,
    double,
    enum_of,
    fixed_of,
    float_,
    int_,
    long,
    map_of,
    null,
    record_of,
    string,
)
from logwright.decode.cells import Cells
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


class _Kind(NamedTuple):
    """A type of Avro.

    Attributes:
        read: reads a value.
        node: its column.
        name: of a named type without namespace, else of the type.
        least: fewest bytes of a value.
    """

    read: Read
    node: Node
    name: str
    least: int = 1


_PRIMITIVES: Final[Mapping[str, _Kind]] = MappingProxyType(
    {
        "null": _Kind(null, _NULL, "null", 0),
        "boolean": _Kind(boolean, leaves.BOOLEAN, "boolean"),
        "int": _Kind(int_, leaves.INT, "int"),
        "long": _Kind(long, leaves.LONG, "long"),
        "float": _Kind(float_, _FLOAT, "float", 4),
        "double": _Kind(double, leaves.DOUBLE, "double", 8),
        "bytes": _Kind(bytes_of, leaves.BINARY, "bytes"),
        "string": _Kind(string, leaves.STRING, "string"),
    }
)


def _time(kind: pa.DataType, numerator: int, denominator: int) -> Leaf:
    """Return the leaf of a time, with what its values are multiplied by and divided by to have
    microseconds; what is smaller is cut off.
    """

    def convert(value: int) -> int:
        return leaves.in_years(value * numerator // denominator)

    return Leaf(type=kind, storage=pa.int64(), accepts=frozenset(), convert=convert)


def _days(value: int) -> int:
    leaves.in_years(value * _DAY)
    return value


_TIMES: Final[Mapping[tuple[str, str], Leaf]] = MappingProxyType(
    {
        ("int", "date"): Leaf(
            type=pa.date32(), storage=pa.int32(), accepts=frozenset(), convert=_days
        ),
        **{
            ("long", f"{prefix}timestamp-{name}"): _time(kind, *scale)
            for prefix, kind in (("", TIMESTAMP), ("local-", pa.timestamp("us")))
            for name, scale in (("millis", (1000, 1)), ("micros", (1, 1)), ("nanos", (1, 1000)))
        },
        ("string", "uuid"): leaves.UUID,
    }
)
"""(type, logicalType) → column. Other logical types are as without one; a time of day too."""


class AvroSchema(NamedTuple):
    """A schema that is ready to read data.

    Attributes:
        read: reads a datum.
        node: its column.
        name: the name of its type, without namespace.
        cells: counts while it reads.
    """

    read: Read
    node: Node
    name: str
    cells: Cells


def parse_avro(text: str | bytes, known: Mapping[str, Any] | None = None) -> AvroSchema:
    """Return the schema of a JSON text.

    Args:
        text: the schema.
        known: named schemas that it refers to; name → parsed by fastavro.

    Raises:
        UnusableSchema: it is not a schema, is recursive, or cannot be columns.
    """
    (parsed, named) = parse_names(text, known)
    try:
        parser = _Parser(named)
        kind = parser.kind(parsed, ())
        if is_empty(kind.node):
            raise UnusableSchema("has no fields that can be columns")
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise UnusableSchema("is not an Avro schema") from None
    return AvroSchema(kind.read, kind.node, kind.name, parser.cells)


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
    """Builds readers and columns."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._count = 0
        self.cells = Cells()

    def kind(self, schema: Any, path: tuple[str, ...]) -> _Kind:
        """Return the kind of a schema. `path`: the named types that it is in."""
        self._count += 1
        if self._count > MOST_FIELDS:
            raise UnusableSchema(f"has more than {MOST_FIELDS} fields")
        if len(path) > DEEPEST:
            raise UnusableSchema(f"is nested more than {DEEPEST} deep")
        if isinstance(schema, list):
            return self._union(schema, path)
        if isinstance(schema, str):
            if schema in _PRIMITIVES:
                return _PRIMITIVES[schema]
            if schema in path:
                raise UnusableSchema(f"is recursive: {schema} contains itself")
            return self.kind(self._named[schema], path)
        kind = schema["type"]
        if not isinstance(kind, str) or (kind not in _PRIMITIVES and kind not in _COMPLEX):
            return self.kind(kind, path)
        if kind in _PRIMITIVES:
            return _logical(schema, _PRIMITIVES[kind])
        return _COMPLEX[kind](self, schema, path)

    def _union(self, schemas: list[Any], path: tuple[str, ...]) -> _Kind:
        """Return the kind of a union: of null and one other the other, nullable; else a struct
        with a field for each, of which one is set.
        """
        kinds = [self.kind(one, path) for one in schemas]
        others = [one for one in kinds if one.name != "null"]
        if len(others) == 1:
            read = choice_of([(None, one.read) for one in kinds])
            return others[0]._replace(read=read, node=optional(others[0].node), least=1)
        if not others:
            return _Kind(choice_of([(None, null) for _ in kinds]), _NULL, "null")
        names = _distinct([one.name for one in kinds])
        fields = {
            name: optional(kind.node)
            for name, kind in zip(names, kinds, strict=True)
            if kind.name != "null" and not is_empty(kind.node)
        }
        tagged = [
            (None if kind.name == "null" else name, kind.read)
            for name, kind in zip(names, kinds, strict=True)
        ]
        return _Kind(choice_of(tagged), Struct(fields=fields), "union")

    def record(self, schema: Any, path: tuple[str, ...]) -> _Kind:
        """Return the kind of a record."""
        inside = (*path, schema["name"])
        kinds = {one["name"]: self.kind(one["type"], inside) for one in schema["fields"]}
        fields: dict[str, Node] = {}
        for field in schema["fields"]:
            kind = kinds[field["name"]]
            if is_empty(kind.node):
                continue
            node = _required(kind.node) if not _has_null(field["type"]) else kind.node
            default = _default(field, node)
            fields[field["name"]] = node if default is MISSING else replace(node, default=default)
        read = record_of([(name, kind.read) for name, kind in kinds.items()], self.cells)
        least = sum(kind.least for kind in kinds.values())
        node = _connect_leaf(schema, "struct") or Struct(fields=fields)
        return _Kind(read, node, _short(schema["name"]), least)

    def array(self, schema: Any, path: tuple[str, ...]) -> _Kind:
        """Return the kind of an array."""
        item = self.kind(schema["items"], (*path, "[]"))
        if not item.least:
            raise UnusableSchema("has an array whose items have no bytes")
        node = item.node if _has_null(schema["items"]) else _required(item.node)
        return _Kind(array_of(item.read, self.cells), Items(item=node), "array")

    def map(self, schema: Any, path: tuple[str, ...]) -> _Kind:
        """Return the kind of a map."""
        value = self.kind(schema["values"], (*path, "{}"))
        node = value.node if _has_null(schema["values"]) else _required(value.node)
        return _Kind(
            map_of(value.read, self.cells), Pairs(key=_required(leaves.STRING), value=node), "map"
        )

    def enum(self, schema: Any, path: tuple[str, ...]) -> _Kind:  # noqa: ARG002 - as the others
        """Return the kind of an enum: its symbols as strings."""
        return _Kind(enum_of(schema["symbols"]), leaves.STRING, _short(schema["name"]))

    def fixed(self, schema: Any, path: tuple[str, ...]) -> _Kind:  # noqa: ARG002 - as the others
        """Return the kind of a fixed."""
        size = schema["size"]
        if type(size) is not int or not 0 <= size <= _LARGEST_FIXED:
            raise UnusableSchema(f"has a fixed of more than {_LARGEST_FIXED} bytes")
        kind = _Kind(fixed_of(size), leaves.BINARY, _short(schema["name"]), size)
        return _logical(schema, kind)


_COMPLEX: Final[Mapping[str, Callable[[_Parser, Any, tuple[str, ...]], _Kind]]] = MappingProxyType(
    {
        "record": _Parser.record,
        "error": _Parser.record,
        "array": _Parser.array,
        "map": _Parser.map,
        "enum": _Parser.enum,
        "fixed": _Parser.fixed,
    }
)


def _logical(schema: Any, kind: _Kind) -> _Kind:
    """Return the kind of a schema with its logical type."""
    logical = schema.get("logicalType")
    if logical == "decimal" and kind.node is leaves.BINARY:
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if (
            type(precision) is int
            and type(scale) is int
            and 0 <= scale <= precision
            and 1 <= precision <= _LARGEST_PRECISION
        ):
            return kind._replace(node=_decimal(precision, scale))
    connect = _connect_leaf(schema, _BASES.get(schema["type"], ""))
    if isinstance(logical, str) and (schema["type"], logical) in _TIMES:
        unit = _UNITS.get(schema.get("connect.name"))
        if unit is not None and not logical.endswith(unit):
            raise UnusableSchema("has a field whose logicalType and connect.name contradict")
        return kind._replace(node=_TIMES[schema["type"], logical])
    return kind if connect is None else kind._replace(node=connect)


_BASES: Final = MappingProxyType(
    {"int": "int32", "long": "int64", "string": "string", "bytes": "bytes", "fixed": "bytes"}
)
"""Type of Avro → the plain type of Kafka Connect."""

_UNITS: Final[Mapping[object, str]] = MappingProxyType(
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
    parameters = schema.get("connect.parameters")
    given = parameters if isinstance(parameters, dict) else {}
    scale = schema.get("scale", given.get("scale"))
    try:
        logical = logical_of(
            schema.get("connect.name"), base, scale=scale, precision=schema.get("precision")
        )
    except UnknownUnit:
        raise UnusableSchema("has a field of a type whose unit is not known") from None
    return None if logical is None else leaf_of(logical, logical.column)


def _decimal(precision: int, scale: int) -> Leaf:
    def convert(value: bytes) -> Decimal:
        if len(value) > _LARGEST_PRECISION:
            raise Refused(f"does not fit into decimal({precision},{scale})")
        unscaled = int.from_bytes(value, "big", signed=True)
        if abs(unscaled) >= 10**precision:
            raise Refused(f"does not fit into decimal({precision},{scale})")
        return of_unscaled(value, scale)

    return Leaf(type=pa.decimal128(precision, scale), accepts=frozenset(), convert=convert)


def _default(field: Mapping[str, Any], node: Node) -> object:
    """Return the default of a field as it is parsed from a datum; only null, numbers, booleans,
    strings and empty lists and maps have one.
    """
    if "default" not in field:
        return MISSING
    default = field["default"]
    if default is None or (isinstance(node, Leaf) and type(default) in node.accepts):
        return default
    if isinstance(node, Leaf) and float in node.accepts and type(default) is int:
        return float(default)
    return default if default in ([], {}) and not isinstance(node, Leaf | Struct) else MISSING


def _required(node: Node) -> Node:
    return node if node is _NULL else required(node)


def _has_null(schema: Any) -> bool:
    """Return whether null is a value of a field's type."""
    if isinstance(schema, dict) and not isinstance(schema.get("type"), str):
        return _has_null(schema.get("type"))
    return schema == "null" or (isinstance(schema, list) and any(map(_has_null, schema)))


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _distinct(names: list[str]) -> list[str]:
    """Return names with a number after those that occur before."""
    distinct: list[str] = []
    for name in names:
        number = 1
        while (numbered := name if number == 1 else f"{name}_{number}") in distinct:
            number += 1
        distinct.append(numbered)
    return distinct
