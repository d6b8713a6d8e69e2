"""Documents of MongoDB: Debezium has them as text, in MongoDB's extended JSON.

A value of a type that JSON does not have is an object with one name that begins with ``$``. Source:
the specification of MongoDB Extended JSON, both versions; JsonSerialization of
debezium-connector-mongodb (3.6.1), which writes the strict form of version 1.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from logwright.config.json_fields import JsonField
from logwright.decode.json_fields import struct_of
from logwright.decode.json_values import NOT_AN_OBJECT, has_decimal, objects, parse

_DOCUMENT: Final = "document"
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_BINARY: Final = "$binary"
_TYPE: Final = "$type"


class Rows:
    """Makes rows of documents.

    Args:
        path: the name of their field, for reasons.
        fields: of the rows, at the top of the documents; None: one column has the whole document.
    """

    def __init__(self, path: str, fields: tuple[JsonField, ...] | None) -> None:
        self._path = path
        self._node = None if fields is None else struct_of(fields, has_units=False)
        whole = pa.struct([pa.field(_DOCUMENT, pa.string())])
        self.type = whole if self._node is None else self._node.type

    def decode(self, texts: pa.Array, reasons: dict[int, str]) -> pa.Array:
        """Return the rows of documents, null for null; those that do not fit are refused.

        Args:
            texts: of type string.
            reasons: row → why it is refused; more are added.
        """
        refused: dict[int, str] = {}
        node = self._node
        exact = node is not None and has_decimal(node)
        parsed = parse(texts.cast(pa.binary()).to_pylist(), refused, exact=exact)
        if node is None:
            refused.update(dict.fromkeys(_others(parsed), NOT_AN_OBJECT))
            rows = pa.StructArray.from_arrays([texts], fields=list(self.type), mask=texts.is_null())
        else:
            rows = objects(node, _plain_of(parsed, refused), refused).values
        for row, reason in refused.items():
            inner = reason.replace("field ", f"field {self._path}.", 1)
            named = inner if reason.startswith("field ") else f"field {self._path} {reason}"
            reasons.setdefault(row, named)
        return rows


def _plain_of(parsed: list[Any], refused: dict[int, str]) -> list[Any]:
    """Return values of extended JSON as those of JSON; one that is nested too deep is refused."""
    values = []
    for row, value in enumerate(parsed):
        try:
            values.append(plain(value))
        except RecursionError:
            values.append(None)
            refused[row] = "is nested too deep"
    return values


def _others(parsed: list[Any]) -> list[int]:
    """Return the rows that have something else than an object."""
    values = enumerate(parsed)
    return [row for row, value in values if value is not None and type(value) is not dict]


def plain(value: Any) -> Any:
    """Return a value of extended JSON as one of JSON: a number of 64 bits as a number, a decimal
    and an id as texts, a time in ISO 8601, bytes in base64. Others stay as they are.
    """
    if type(value) is list:
        return [plain(one) for one in value]
    if type(value) is not dict:
        return value
    name = next(iter(value), "")
    if name.startswith("$"):
        known = _PLAIN.get(name)
        result = None if known is None else known(value)
        return value if result is None else result
    return {name: plain(one) for name, one in value.items()}


def _text(value: Mapping[str, Any]) -> str | None:
    (content,) = value.values() if len(value) == 1 else (None,)
    return content if type(content) is str else None


def _whole(value: Mapping[str, Any]) -> int | None:
    text = _text(value)
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def _double(value: Mapping[str, Any]) -> float | None:
    text = _text(value)
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def _date(value: Mapping[str, Any]) -> str | None:
    (content,) = value.values() if len(value) == 1 else (None,)
    milliseconds = plain(content)
    if type(milliseconds) is not int:
        return milliseconds if type(milliseconds) is str else None
    try:
        return (_EPOCH + dt.timedelta(milliseconds=milliseconds)).isoformat()
    except OverflowError:
        return None


def _bytes(value: Mapping[str, Any]) -> str | None:
    content = value[_BINARY]
    if type(content) is dict:
        content = content.get("base64")
    return content if type(content) is str and value.keys() <= {_BINARY, _TYPE} else None


_PLAIN: Final[Mapping[str, Callable[[Mapping[str, Any]], object]]] = MappingProxyType(
    {
        "$oid": _text,
        "$numberLong": _whole,
        "$numberInt": _whole,
        "$numberDouble": _double,
        "$numberDecimal": _text,
        "$date": _date,
        _BINARY: _bytes,
    }
)
