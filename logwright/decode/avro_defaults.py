"""Defaults of Avro's fields, as data are parsed (Avro 1.12, "Complex types")."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from logwright.decode.avro_names import RECORDS, branch_names, is_choice, name_of, normal
from logwright.decode.columns import MISSING
from logwright.units import INT32_MAX, INT64_MAX

Named = Mapping[str, Any]
"""Full name → schema."""


class _NotOfType(Exception):
    """A default is not of its field's type."""


def default_of(field: Mapping[str, Any], named: Named) -> object:
    """Return the default of a field as a datum with it would be parsed.

    Args:
        field: as fastavro parses it.
        named: the named types.

    Returns:
        `MISSING` without a default, or with one that is not of the field's type.
    """
    if "default" not in field:
        return MISSING
    try:
        return _parsed(field["default"], field["type"], named)
    except _NotOfType:
        return MISSING


def _parsed(raw: Any, shape: Any, named: Named) -> Any:
    """Return a default of a schema, parsed.

    Raises:
        _NotOfType: it is not of the schema.
    """
    schema = normal(shape, named)
    if isinstance(schema, list):
        return _of_union(raw, schema, named)
    kind = schema["type"]
    if kind in _SCALARS:
        return _SCALARS[kind](raw)
    return _COMPLEX[kind](raw, schema, named)


def _of_union(raw: Any, shapes: list[Any], named: Named) -> Any:
    """Return a default of the first type that it fits: that is the first one before Avro 1.12."""
    normals = [normal(shape, named) for shape in shapes]
    for name, shape in zip(branch_names(normals), normals, strict=True):
        try:
            value = _parsed(raw, shape, named)
        except _NotOfType:
            continue
        tagged = is_choice(normals) and name_of(shape) != "null"
        return {name: value} if tagged else value
    raise _NotOfType


def _of_record(raw: Any, schema: Mapping[str, Any], named: Named) -> dict[str, Any]:
    given = dict(_pairs(raw))
    record = {}
    for field in schema["fields"]:
        name = field["name"]
        value = _parsed(given[name], field["type"], named) if name in given else MISSING
        value = default_of(field, named) if value is MISSING else value
        if value is MISSING:
            raise _NotOfType
        record[name] = value
    return record


def _of_array(raw: Any, schema: Mapping[str, Any], named: Named) -> list[Any]:
    return [_parsed(item, schema["items"], named) for item in _of(list, raw)]


def _of_map(raw: Any, schema: Mapping[str, Any], named: Named) -> dict[str, Any]:
    return {name: _parsed(item, schema["values"], named) for name, item in _pairs(raw)}


def _of_enum(raw: Any, schema: Mapping[str, Any], _named: Named) -> str:
    if raw not in schema["symbols"]:
        raise _NotOfType
    return str(raw)


def _of_fixed(raw: Any, schema: Mapping[str, Any], _named: Named) -> bytes:
    content = _bytes(raw)
    if len(content) != schema["size"]:
        raise _NotOfType
    return content


def _of(expected: type, raw: Any) -> Any:
    if type(raw) is not expected:
        raise _NotOfType
    return raw


def _pairs(raw: Any) -> Any:
    return _of(dict, raw).items()


def _whole(largest: int) -> Callable[[Any], int]:
    def parsed(raw: Any) -> int:
        if type(raw) is not int or not -largest - 1 <= raw <= largest:
            raise _NotOfType
        return raw

    return parsed


def _number(raw: Any) -> float:
    if type(raw) not in {int, float}:
        raise _NotOfType
    return float(raw)


def _bytes(raw: Any) -> bytes:
    """Return bytes: a text has those of the code points 0 to 255."""
    try:
        return bytes(_of(str, raw).encode("latin-1"))
    except UnicodeEncodeError:
        raise _NotOfType from None


def _null(raw: Any) -> None:
    if raw is not None:
        raise _NotOfType


_SCALARS: Final[Mapping[str, Callable[[Any], Any]]] = MappingProxyType(
    {
        "null": _null,
        "boolean": lambda raw: _of(bool, raw),
        "int": _whole(INT32_MAX),
        "long": _whole(INT64_MAX),
        "float": _number,
        "double": _number,
        "bytes": _bytes,
        "string": lambda raw: _of(str, raw),
    }
)
_COMPLEX: Final[Mapping[str, Callable[[Any, Mapping[str, Any], Named], Any]]] = MappingProxyType(
    {
        **dict.fromkeys(RECORDS, _of_record),
        "array": _of_array,
        "map": _of_map,
        "enum": _of_enum,
        "fixed": _of_fixed,
    }
)
