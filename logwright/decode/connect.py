"""JSON as Kafka Connect's JsonConverter writes it: each record with its schema, or without one.

::

    {"schema": {"type": "struct", "fields": [...]}, "payload": {...}}

A payload is read by the schema next to it, and never by that of another record. An object without
such an envelope is read by the columns alone.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import orjson
import pyarrow as pa

from logwright.config.json_fields import STRUCT, JsonField
from logwright.decode.columns import Node, Struct
from logwright.decode.connect_schema import Contradiction, node_for, read_schema
from logwright.decode.json_fields import UnusableSchema, node_of, struct_of
from logwright.decode.json_values import NOT_AN_OBJECT, NULL, has_decimal, objects, parse
from logwright.decode.model import Part

_SCHEMA: Final = "schema"
_PAYLOAD: Final = "payload"
_ENVELOPE: Final = frozenset({_SCHEMA, _PAYLOAD})
_NO_SCHEMA: Final = b"null"
_MOST_SCHEMAS: Final = 1000
"""Schemas that are kept read."""


class Opened(NamedTuple):
    """A value without its envelope.

    Attributes:
        schema: as it was embedded, None if there was none.
        payload: the value; `NULL` if it is null.
    """

    schema: object
    payload: Any


def opened(value: Any) -> Opened:
    """Return a parsed value without its envelope, if it has one."""
    if type(value) is not dict or value.keys() != _ENVELOPE:
        return Opened(None, value)
    payload = value[_PAYLOAD]
    return Opened(value[_SCHEMA], NULL if payload is None else payload)


def text_of(schema: object) -> bytes:
    """Return a schema as text: equal for equal schemas. Empty if it is nested too deep for one."""
    try:
        return orjson.dumps(schema, default=str)
    except orjson.JSONEncodeError:
        return b""


class _Group(NamedTuple):
    """Payloads of one schema.

    Attributes:
        node: what reads them, or why they are refused.
        rows: of the payloads.
    """

    node: Node | str
    rows: list[int]
    payloads: list[Any]


class ConnectDecoder:
    """Decodes JSON objects, with or without the schema of Kafka Connect.

    Args:
        fields: the columns. If one has a name of the envelope, the envelope is an object as any
            other, and the schema still says how its payload is read.
        is_event: the objects are Debezium's; a number without a schema is then no timestamp, since
            its unit depends on the connector's settings and on the column.
    """

    def __init__(self, fields: tuple[JsonField, ...], *, is_event: bool) -> None:
        self._column = JsonField(name="", type=STRUCT, fields=fields)
        self._has_envelope = not any(one.name in _ENVELOPE for one in fields)
        self.node: Node = struct_of(fields, has_units=not is_event)
        self._exact = has_decimal(self.node)
        self._nodes: dict[bytes, Node | str] = {}

    @property
    def type(self) -> pa.DataType:
        """The type of the decoded values."""
        return self.node.type

    def decode(self, column: pa.Array) -> Part:
        """Decode a column of type binary."""
        reasons: dict[int, str] = {}
        groups: dict[bytes, _Group] = {}
        values = parse(column.to_pylist(), reasons, exact=self._exact)
        for row, value in enumerate(values):
            if value is None:
                continue
            (schema, payload) = opened(value)
            key = _NO_SCHEMA if schema is None else text_of(schema)
            group = groups.get(key)
            if group is None:
                group = groups[key] = _Group(self._node(key, schema), [], [])
            group.rows.append(row)
            group.payloads.append(payload if self._has_envelope else value)
        if len(groups) == 1 and not reasons and None not in values:
            return self._decoded(*groups.values())
        parts = [pa.nulls(1, self.type)]
        order = np.zeros(len(values), np.int64)
        position = 1
        for group in groups.values():
            part = self._decoded(group)
            reasons.update({group.rows[at]: reason for at, reason in part.reasons.items()})
            parts.append(part.values)
            order[group.rows] = np.arange(position, position + len(group.rows))
            position += len(group.rows)
        return Part(pa.concat_arrays(parts).take(pa.array(order)), reasons)

    def _node(self, key: bytes, schema: object) -> Node | str:
        """Return what reads payloads of a schema, or why they are refused."""
        if key == _NO_SCHEMA:
            return self.node
        if not key:
            return "has a schema that is nested too deep"
        if key not in self._nodes:
            if len(self._nodes) >= _MOST_SCHEMAS:
                self._nodes.clear()
            self._nodes[key] = self._read(schema)
        return self._nodes[key]

    def _read(self, raw: object) -> Node | str:
        try:
            schema = read_schema(raw)
        except UnusableSchema as error:
            return f"has a schema that {error.problem}" if self._has_envelope else self.node
        try:
            if self._has_envelope:
                is_object = schema.base == STRUCT
                return node_for(schema, self._column) if is_object else NOT_AN_OBJECT
            return Struct(
                fields={
                    field.name: node_for(schema, field, _PAYLOAD)
                    if field.name == _PAYLOAD
                    else node_of(field)
                    for field in self._column.fields
                }
            )
        except Contradiction as error:
            return error.reason

    def _decoded(self, group: _Group) -> Part:
        """Decode payloads of one schema."""
        if not isinstance(group.node, str):
            return objects(group.node, group.payloads, {})
        count = len(group.rows)
        return Part(pa.nulls(count, self.type), dict.fromkeys(range(count), group.node))
