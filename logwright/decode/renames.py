"""Which fields a newer schema has under another name, as the formats know it: Avro by the aliases
of a field (Avro 1.12, "Aliases"), Protobuf by its number (Protobuf, "Updating A Message Type").
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from logwright.decode.json_fields import UnusableSchema
from logwright.decode.protoc import Compiled, compile_file
from logwright.decode.schema_sources import SchemaText, as_files

_DEEPEST: Final = 20
_MAP_ENTRY: Final = 2
"""Number of the value in the entry of a map."""


def renamed_fields(
    before: SchemaText, after: SchemaText, message: str | None = None
) -> dict[str, str]:
    """Return earlier name → newer name of the fields. The earlier name follows the newer names of
    the fields that it is in, with ``element`` of a list and ``value`` of a map. Effects: of
    Protobuf starts protoc.

    Args:
        before, after: schemas of a registry.
        message: the name of Protobuf's message.

    Raises:
        UnusableSchema: a schema is malformed.
    """
    if after.kind == "AVRO":
        return dict(_of_avro(after))
    if after.kind == "PROTOBUF" and before.kind == "PROTOBUF" and message is not None:
        (old, new) = (_compiled(each) for each in (before, after))
        return dict(_of_protobuf(old.message(message), new.message(message), "", 0))
    return {}


def _of_avro(schema: SchemaText) -> Iterator[tuple[str, str]]:
    named: dict[str, Any] = {}
    try:
        for text in schema.references.values():
            _note(json.loads(text), named)
        parsed = json.loads(schema.text)
    except (ValueError, RecursionError):
        raise UnusableSchema("is not an Avro schema in JSON") from None
    _note(parsed, named)
    yield from _avro_fields(parsed, named, "", 0)


def _note(shape: Any, named: dict[str, Any]) -> None:
    """Note the records by name, the full one and that without its namespace."""
    if isinstance(shape, list):
        for each in shape:
            _note(each, named)
    if not isinstance(shape, Mapping):
        return
    if isinstance(shape.get("name"), str) and "fields" in shape:
        name = str(shape["name"])
        named[name] = named[name.rpartition(".")[2]] = shape
        if isinstance(shape.get("namespace"), str):
            named[f"{shape['namespace']}.{name}"] = shape
    for each in (*shape.get("fields", ()), shape.get("items"), shape.get("values")):
        _note(each, named)
    _note(shape.get("type"), named)


def _avro_fields(
    shape: Any,
    named: Mapping[str, Any],
    path: str,
    depth: int,
) -> Iterator[tuple[str, str]]:
    if isinstance(shape, list):
        types = [each for each in shape if each != "null"]
        if len(types) == 1:
            yield from _avro_fields(types[0], named, path, depth)
        return
    if isinstance(shape, str):
        shape = named.get(shape)
    if not isinstance(shape, Mapping) or depth > _DEEPEST:
        return
    for field in shape.get("fields", ()):
        for alias in field.get("aliases", ()):
            yield f"{path}{alias}", str(field["name"])
        yield from _avro_fields(field.get("type"), named, f"{path}{field['name']}.", depth + 1)
    if "items" in shape:
        yield from _avro_fields(shape["items"], named, f"{path}element.", depth + 1)
    if "values" in shape:
        yield from _avro_fields(shape["values"], named, f"{path}value.", depth + 1)
    if isinstance(shape.get("type"), (Mapping, list)):
        yield from _avro_fields(shape["type"], named, path, depth + 1)


def _compiled(schema: SchemaText) -> Compiled:
    with as_files(schema) as path:
        return compile_file(path, schema.directory)


def _of_protobuf(before: Any, after: Any, path: str, depth: int) -> Iterator[tuple[str, str]]:
    if depth > _DEEPEST:
        return
    for number, field in after.fields_by_number.items():
        old = before.fields_by_number.get(number)
        if old is None:
            continue
        if old.name != field.name:
            yield f"{path}{old.name}", field.name
        (kind, old_kind) = (field.message_type, old.message_type)
        if kind is None or old_kind is None:
            continue
        inner = f"{path}{field.name}."
        if kind.GetOptions().map_entry and old_kind.GetOptions().map_entry:
            (kind, old_kind) = (
                each.fields_by_number[_MAP_ENTRY].message_type for each in (kind, old_kind)
            )
            inner = f"{inner}value."
        elif field.is_repeated:
            inner = f"{inner}element."
        if kind is not None and old_kind is not None:
            yield from _of_protobuf(old_kind, kind, inner, depth + 1)
