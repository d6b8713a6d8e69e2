"""Names and forms of Avro's schemas, as fastavro parses them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

PRIMITIVES: Final = frozenset(
    {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
)
RECORDS: Final = frozenset({"record", "error"})
_NAMED: Final = RECORDS | {"enum", "fixed"}
_TYPES: Final = PRIMITIVES | _NAMED | {"array", "map"}

Shape = dict[str, Any] | list[Any]
"""A schema as fastavro parses it: a union as a list, any other with its ``type`` as text."""


def normal(shape: Any, named: Mapping[str, Any]) -> Shape:
    """Return a schema with its type as text, or a union; a name is what it stands for.

    Args:
        shape: as fastavro parses it.
        named: full name → shape.
    """
    if isinstance(shape, str):
        return {"type": shape} if shape in PRIMITIVES else normal(named[shape], named)
    if isinstance(shape, list):
        return shape
    kind = shape["type"]
    if isinstance(kind, str) and (kind in _TYPES):
        return dict(shape)
    return normal(kind, named)


def is_named(shape: Shape) -> bool:
    """Return whether a type has a name of its own."""
    return isinstance(shape, dict) and shape["type"] in _NAMED


def name_of(shape: Shape) -> str:
    """Return the full name of a type, or the type; of a union ``union``."""
    if isinstance(shape, list):
        return "union"
    return str(shape["name"] if is_named(shape) else shape["type"])


def fits_by_name(writer: Shape, reader: Shape) -> bool:
    """Return whether the names of two named types let data of one be read as the other: that of the
    writer is the reader's without namespaces, or one of its aliases (Avro 1.12, "Schema
    resolution"). An alias without a namespace is of any, as fastavro has it.
    """
    name, known = name_of(writer), name_of(reader)
    aliases = aliases_of(reader).union(
        () if isinstance(reader, list) else reader.get("aliases", ())
    )
    return _short(name) == _short(known) or not aliases.isdisjoint((name, _short(name)))


def aliases_of(shape: Shape) -> frozenset[str]:
    """Return the full names that a named type has besides its own."""
    if isinstance(shape, list):
        return frozenset()
    namespace = name_of(shape).rpartition(".")[0]
    return frozenset(
        alias if "." in alias or not namespace else f"{namespace}.{alias}"
        for alias in shape.get("aliases", ())
    )


def branch_names(shapes: Sequence[Shape]) -> list[str]:
    """Return the names of the fields of a union's types: of a named type that without its
    namespace, or its full one with ``_`` for the points, if two have the same.
    """
    short = [_short(name_of(shape)) for shape in shapes]
    return [
        name if short.count(name) == 1 else name_of(shape).replace(".", "_")
        for name, shape in zip(short, shapes, strict=True)
    ]


def is_choice(shapes: Sequence[Shape]) -> bool:
    """Return whether a union has several types besides null, and is a struct of them."""
    return sum(name_of(shape) != "null" for shape in shapes) > 1


def _short(name: str) -> str:
    return name.rpartition(".")[2]
