"""The fields of JSON objects, inferred from the first records: from their values or, where they
have one, from their schemas.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from logwright.config.json_fields import (
    ARRAY,
    LARGEST_PRECISION,
    MAP,
    STRUCT,
    JsonField,
    decimal_digits,
)
from logwright.decode.connect import opened, text_of
from logwright.decode.connect_schema import field_of, read_schema
from logwright.decode.json_fields import (
    ANYTHING,
    DEEPEST,
    LONGEST_NAME,
    MOST_FIELDS,
    UnusableSchema,
)
from logwright.decode.json_values import parse
from logwright.units import INT64_MAX

_SAMPLE_ROWS: Final = 10_000
_SAMPLE_BYTES: Final = 16 << 20
_ELEMENT: Final = "element"
_SCALARS: Final[Mapping[type, str]] = MappingProxyType(
    {bool: "boolean", int: "long", float: "double", str: "string"}
)
_WHOLE: Final = frozenset({"int", "long"})
_NUMBERS: Final = _WHOLE | {"float", "double"}
_NOTHING: Final = "nothing"
"""The type of null while fields are inferred."""


def infer_fields(
    columns: Iterable[pa.Array], *, is_event: bool, inside: str | None = None
) -> tuple[JsonField, ...]:
    """Return the fields of the first objects: of at most 10,000 records and 16 MiB.

    Args:
        columns: keys or values, of type binary.
        is_event: they belong to Debezium's events, in which an envelope is always Kafka Connect's.
        inside: the name of the object's field whose fields are asked for.
    """
    fields: dict[str, JsonField] = {}
    known: dict[bytes, tuple[JsonField, ...] | None] = {}
    for value in _sample(columns):
        (schema, payload) = opened(value)
        if schema is not None:
            text = text_of(schema)
            if text not in known:
                known[text] = _of_schema(schema)
                _join(fields, _inside(known[text] or (), inside))
            if known[text] is None and not is_event:
                _add(fields, value, 1)
        elif inside is None:
            _add(fields, payload, 1)
        elif type(payload) is dict:
            _add(fields, payload.get(inside), 1)
    return _within_limits(tuple(fields.values()))


def infer(objects: Iterable[Mapping[str, Any]]) -> tuple[JsonField, ...]:
    """Return the fields of a sample: all that occur, each nullable and with the widest of its
    types: long and double give double, other differences, null alone and what is nested too deep
    give json. In the order of their first occurrence; an empty name, and one of more than 255
    characters, is ignored.
    """
    fields: dict[str, JsonField] = {}
    for content in objects:
        _add(fields, content, 1)
    return _within_limits(tuple(fields.values()))


def _sample(columns: Iterable[pa.Array]) -> Iterator[Any]:
    rows, size = 0, 0
    for column in columns:
        for value in column:
            if rows >= _SAMPLE_ROWS or size >= _SAMPLE_BYTES:
                return
            content = value.as_py()
            rows += 1
            size += len(content or b"")
            yield from parse([content], {}, exact=False)


def _of_schema(raw: object) -> tuple[JsonField, ...] | None:
    """Return the fields of a schema of Kafka Connect, None if it is not one of a struct."""
    try:
        field = field_of("", read_schema(raw))
    except UnusableSchema:
        return None
    return field.fields if field.type == STRUCT else None


def _inside(fields: tuple[JsonField, ...], name: str | None) -> tuple[JsonField, ...]:
    """Return the fields of a field, or all without a name."""
    if name is None:
        return fields
    return next((one.fields for one in fields if one.name == name and one.type == STRUCT), ())


def _join(known_fields: dict[str, JsonField], fields: Iterable[JsonField]) -> None:
    """Widen the fields so that others fit."""
    for field in fields:
        known = known_fields.get(field.name)
        known_fields[field.name] = field if known is None else _wider(known, field)


def _add(fields: dict[str, JsonField], value: Any, depth: int) -> None:
    """Widen the fields so that an object fits; anything else has no fields."""
    named = value.items() if type(value) is dict else ()
    _join(
        fields, (_field(name, one, depth) for name, one in named if 0 < len(name) <= LONGEST_NAME)
    )


def _field(name: str, value: object, depth: int) -> JsonField:
    """Return the field that a value fits into; a null fits into any, `_NOTHING`."""
    if value is None:
        return JsonField(name=name, type=_NOTHING)
    if depth >= DEEPEST:
        return JsonField(name=name, type=ANYTHING)
    if isinstance(value, dict):
        fields: dict[str, JsonField] = {}
        _add(fields, value, depth + 1)
        return JsonField(name=name, type=STRUCT, fields=tuple(fields.values()))
    if isinstance(value, list):
        item = JsonField(name=_ELEMENT, type=_NOTHING)
        for element in value:
            item = _wider(item, _field(_ELEMENT, element, depth + 1))
        return JsonField(name=name, type=ARRAY, fields=(item,))
    if isinstance(value, int) and not -INT64_MAX - 1 <= value <= INT64_MAX:
        return JsonField(name=name, type="double")
    return JsonField(name=name, type=_SCALARS[type(value)])


def _wider(first: JsonField, second: JsonField) -> JsonField:
    """Return a field that both fit into."""
    kinds = {first.type, second.type}
    if _NOTHING in kinds:
        return second if first.type == _NOTHING else first
    if kinds == {STRUCT}:
        fields = {one.name: one for one in first.fields}
        _join(fields, second.fields)
        return first.model_copy(update={"fields": tuple(fields.values())})
    if kinds in ({ARRAY}, {MAP}):
        parts = tuple(map(_wider, first.fields, second.fields))
        return first.model_copy(update={"fields": parts})
    if len(kinds) == 1:
        return first
    return JsonField(name=first.name, type=_wider_scalar(kinds))


def _wider_scalar(kinds: set[str]) -> str:
    """Return the type of two different ones."""
    if kinds <= _WHOLE:
        return "long"
    if kinds <= _NUMBERS:
        return "double"
    digits = [decimal_digits(kind) for kind in kinds]
    known = [one for one in digits if one is not None]
    if len(known) < len(kinds):
        return ANYTHING
    scale = max(scale for _, scale in known)
    precision = max(precision - scale for precision, scale in known) + scale
    return f"decimal({precision},{scale})" if precision <= LARGEST_PRECISION else "string"


def _within_limits(fields: tuple[JsonField, ...]) -> tuple[JsonField, ...]:
    """Return the fields without `_NOTHING` and empty objects; if they are too many, those of the
    objects in them become json.
    """
    done = tuple(_finished(one) for one in fields)
    if _count(done) > MOST_FIELDS:
        nested = {STRUCT, ARRAY, MAP}
        done = tuple(
            JsonField(name=field.name, type=ANYTHING) if field.type in nested else field
            for field in done
        )
    return done[:MOST_FIELDS]


def _finished(field: JsonField) -> JsonField:
    if field.type == _NOTHING or (field.type == STRUCT and not field.fields):
        return JsonField(name=field.name, type=ANYTHING)
    return field.model_copy(update={"fields": tuple(_finished(child) for child in field.fields)})


def _count(fields: Sequence[JsonField]) -> int:
    return sum(1 + _count(one.fields) for one in fields)
