"""JSON objects in UTF-8, parsed by orjson.

orjson accepts what RFC 8259 does: no NaN, no trailing bytes, no half of a surrogate pair, no byte
order mark. Of a repeated name the last value counts. A whole number above 64 bits is a double, but
for a decimal it is read again, with all its digits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import orjson
import pyarrow as pa

from logwright.decode.columns import Items, Leaf, Node, Pairs, Struct, build
from logwright.decode.model import MAX_VALUE_BYTES, NOTHING_USED, TOO_LARGE, Part
from logwright.units import INT64_MAX

NOT_AN_OBJECT: Final = "is not a JSON object"
_NOT_JSON: Final = "is not JSON"
_NOT_EXACT: Final = "has a number of too many digits, or is nested too deep"
_DECIMAL_SCHEMA: Final = b"org.apache.kafka.connect.data.Decimal"
_ROUNDED: Final = re.compile(
    rb"[0-9]{19}|[0-9]{7}\.[0-9]|\.[0-9]{10}|[0-9][eE][+-]?[0-9]{3}", re.ASCII
)
"""In each number that a double or an int64 may not have exactly: all others have at most 15 digits
around a point, or 18 without one.
"""

_DIGITS: Final = 20
"""The most characters of a whole number of 64 bits, with its sign."""

NULL: Final = object()
"""The JSON value null, which is not an absent value."""


class JsonDecoder:
    """Decodes JSON objects.

    Args:
        node: the column of the objects.
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        self._exact = has_decimal(node)

    @property
    def type(self) -> pa.DataType:
        """The type of the decoded values."""
        return self.node.type

    def decode(self, column: pa.Array) -> Part:
        """Decode a column of type binary."""
        return self.decode_values(column.to_pylist())

    def decode_values(self, values: list[Any]) -> Part:
        """Decode values."""
        reasons: dict[int, str] = {}
        return objects(self.node, parse(values, reasons, exact=self._exact), reasons)


def objects(node: Node, values: Sequence[Any], reasons: dict[int, str]) -> Part:
    """Return parsed values as a column; those that are not objects, and objects that have none
    of the fields, are refused.

    Args:
        node: the column of the objects.
        values: as `parse` returns them.
        reasons: row → why it is refused; more are added.
    """
    names = frozenset(node.fields if isinstance(node, Struct) else ())
    dicts: list[Any] = []
    for row, value in enumerate(values):
        is_object = type(value) is dict
        if is_object and value and names.isdisjoint(value):
            reasons[row] = NOTHING_USED
            is_object = False
        elif value is not None and not is_object:
            reasons[row] = NOT_AN_OBJECT
        dicts.append(value if is_object else None)
    return Part(build(node, dicts, reasons), reasons)


def has_decimal(node: Node) -> bool:
    """Return whether a column has decimals."""
    if isinstance(node, Leaf):
        return bool(pa.types.is_decimal(node.type))
    if isinstance(node, Items):
        return has_decimal(node.item)
    if isinstance(node, Pairs):
        return has_decimal(node.key) or has_decimal(node.value)
    return any(map(has_decimal, node.fields.values()))


def _whole(text: str) -> int | Decimal:
    """Return a whole number, above 64 bits as a decimal."""
    if len(text) <= _DIGITS:
        number = int(text)
        if -INT64_MAX - 1 <= number <= INT64_MAX:
            return number
    return Decimal(text)


def parse(values: list[bytes | None], reasons: dict[int, str], *, exact: bool) -> list[Any]:
    """Return the parsed values; None where there is none, `NULL` for null.

    Args:
        values: JSON in UTF-8.
        reasons: row → why it is refused; those that are not JSON are added.
        exact: have a number that would be rounded as a Decimal.
    """
    loads, rounded = orjson.loads, _ROUNDED.search
    parsed: list[Any] = []
    for row, value in enumerate(values):
        loaded = None
        if value is not None:
            if len(value) > MAX_VALUE_BYTES:
                reasons[row] = TOO_LARGE
            else:
                try:
                    loaded = loads(value)
                    if (exact or _DECIMAL_SCHEMA in value) and rounded(value):
                        loaded = json.loads(value, parse_float=Decimal, parse_int=_whole)
                except orjson.JSONDecodeError:
                    reasons[row] = _NOT_JSON
                except (ValueError, RecursionError):
                    loaded, reasons[row] = None, _NOT_EXACT
                else:
                    loaded = NULL if loaded is None else loaded
        parsed.append(loaded)
    return parsed
