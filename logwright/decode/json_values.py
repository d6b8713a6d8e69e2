"""JSON objects in UTF-8, parsed by orjson.

orjson accepts what RFC 8259 does: no NaN, no trailing bytes, no half of a surrogate pair, no byte
order mark. Of a repeated name the last value counts. A whole number above 64 bits is a double.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import orjson
import pyarrow as pa

from logwright.config.json_fields import JsonField
from logwright.decode.columns import Node, build
from logwright.decode.json_fields import infer, struct_of
from logwright.decode.model import MAX_VALUE_BYTES, TOO_LARGE, Part

_NOT_JSON: Final = "is not JSON"
_NOT_AN_OBJECT: Final = "is not a JSON object"
_ENVELOPE: Final = frozenset({"schema", "payload"})
"""The keys of Kafka Connect's envelope (JsonConverter with schemas.enable)."""

_SAMPLE_ROWS: Final = 10_000
_SAMPLE_BYTES: Final = 16 << 20


class JsonDecoder:
    """Decodes JSON objects.

    Args:
        node: the column of the objects.
        unwrap: take the payload of Kafka Connect's envelope, where there is one.
    """

    def __init__(self, node: Node, *, unwrap: bool = False) -> None:
        self.node = node
        self._unwrap = unwrap

    @property
    def type(self) -> pa.DataType:
        """The type of the decoded values."""
        return self.node.type

    def decode(self, column: pa.Array) -> Part:
        """Decode a column of type binary."""
        return self.decode_values(column.to_pylist())

    def decode_values(self, values: list[Any]) -> Part:
        """Decode values; the list is used for what they are parsed to."""
        reasons: dict[int, str] = {}
        values = parse(values, reasons)
        if self._unwrap:
            values = [None if one is None else unwrapped(one) for one in values]
        objects: list[Any] = []
        for row, value in enumerate(values):
            if value is not None and type(value) is not dict:
                reasons[row] = _NOT_AN_OBJECT
                value = None  # noqa: PLW2901 - the row has no object
            objects.append(value)
        return Part(build(self.node, objects, reasons), reasons)


_NULL: Final = object()
"""The JSON value null, which is not an absent value."""


def parse(values: list[bytes | None], reasons: dict[int, str]) -> list[Any]:
    """Return the parsed values; None where there is none, `_NULL` for null.

    Args:
        values: JSON in UTF-8.
        reasons: row → why it is refused; those that are not JSON are added.
    """
    loads = orjson.loads
    found: list[Any] = []
    for row, value in enumerate(values):
        one = None
        if value is not None:
            if len(value) > MAX_VALUE_BYTES:
                reasons[row] = TOO_LARGE
            else:
                try:
                    one = loads(value)
                except orjson.JSONDecodeError:
                    reasons[row] = _NOT_JSON
                else:
                    one = _NULL if one is None else one
        found.append(one)
    return found


def unwrapped(value: Any) -> Any:
    """Return the payload of Kafka Connect's envelope, else the value itself."""
    if type(value) is dict and value.keys() == _ENVELOPE:
        payload = value["payload"]
        return _NULL if payload is None else payload
    return value


def infer_fields(
    columns: Iterable[pa.Array], *, unwrap: bool = False, inside: str | None = None
) -> tuple[JsonField, ...]:
    """Return the fields of the first objects: of at most 10,000 records and 16 MiB.

    Args:
        columns: keys or values, of type binary.
        unwrap: take the payload of Kafka Connect's envelope, where there is one.
        inside: the name of the object's field whose fields are asked for.
    """
    return infer(_sample(columns, unwrap=unwrap, inside=inside))


def _sample(
    columns: Iterable[pa.Array], *, unwrap: bool, inside: str | None
) -> Iterator[Mapping[str, Any]]:
    rows, size = 0, 0
    for column in columns:
        for value in column:
            if rows >= _SAMPLE_ROWS or size >= _SAMPLE_BYTES:
                return
            content = value.as_py()
            rows += 1
            size += len(content or b"")
            (one,) = parse([content], {})
            if unwrap:
                one = unwrapped(one)
            if inside is not None:
                one = one.get(inside) if type(one) is dict else None
            if type(one) is dict:
                yield one


def json_decoder(fields: tuple[JsonField, ...], *, unwrap: bool = False) -> JsonDecoder:
    """Return the decoder of objects with these fields."""
    return JsonDecoder(struct_of(fields), unwrap=unwrap)
