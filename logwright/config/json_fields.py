"""The fields of JSON objects, as a mapping of the policies has them.

``name: type`` is a field, ``name: type not null`` one that every object must have, ``name: {…}`` an
object, ``name: [type]`` a list. ``a.b: type`` is the same as ``a: {b: type}``.
"""

from __future__ import annotations

import re
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from logwright.config.marked import Entries, Items, Marked, Text, nearest
from logwright.config.policy_checks import Checker

JSON_TYPES: Final = frozenset(
    {
        "binary",
        "boolean",
        "date",
        "double",
        "float",
        "int",
        "json",
        "long",
        "string",
        "timestamp",
    }
)
STRUCT: Final = "struct"
ARRAY: Final = "array"
MAP: Final = "map"
_DECIMAL: Final = re.compile(r"decimal\((\d{1,2}),(\d{1,2})\)", re.ASCII)
LARGEST_PRECISION: Final = 38
_NOT_NULL: Final = " not null"
_MOST_FIELDS: Final = 2000
_DEEPEST: Final = 20


class JsonField(BaseModel):
    """A field of an object.

    Attributes:
        type: one of `JSON_TYPES`, ``decimal(precision,scale)``, `STRUCT`, `ARRAY` or `MAP`; a map
            is found in schemas only.
        nullable: null, and a field that is missing, are allowed.
        fields: of a struct; of an array the one field that its items are like; of a map those of
            its key and its value.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    type: str
    nullable: bool = True
    fields: tuple[JsonField, ...] = Field(default=())


def decimal_digits(kind: str) -> tuple[int, int] | None:
    """Return precision and scale of a decimal's type, None if it is another type or invalid."""
    matched = _DECIMAL.fullmatch(kind)
    if matched is None:
        return None
    precision, scale = int(matched[1]), int(matched[2])
    return (precision, scale) if scale <= precision <= LARGEST_PRECISION and precision else None


def read_fields(checker: Checker, node: Marked) -> tuple[JsonField, ...] | None:
    """Return the fields of a mapping, None if it is not valid; the problems are reported to the
    checker.
    """
    before = len(checker.problems)
    tree = _Tree(checker).read(checker.mapping(node), 1)
    if not tree and len(checker.problems) == before:
        checker.report(node, "needs at least one field", value=False)
    return None if len(checker.problems) > before else tree


class _Tree:
    """Reads fields and counts them."""

    def __init__(self, checker: Checker) -> None:
        self._checker = checker
        self._count = 0

    def read(self, node: Entries, depth: int) -> tuple[JsonField, ...]:
        """Return the fields of a mapping, in its order."""
        fields: dict[str, JsonField] = {}
        for name, (_, value) in node.entries.items():
            path = name.split(".")
            self._count += len(path)
            if not all(path):
                self._checker.report(value, "needs a name between the dots", value=False)
            elif self._count > _MOST_FIELDS or depth + len(path) > _DEEPEST:
                rule = f"must be at most {_MOST_FIELDS} fields, {_DEEPEST} deep"
                self._checker.report(node, rule, value=False)
                return ()
            elif (field := self._field(path[-1], value, depth + len(path))) is not None:
                for part in reversed(path[:-1]):
                    field = JsonField(name=part, type=STRUCT, fields=(field,))
                self._add(fields, field, value)
        return tuple(fields.values())

    def _add(self, added: dict[str, JsonField], field: JsonField, node: Marked) -> None:
        """Add a field, or those of an object to the object of the same name."""
        known = added.get(field.name)
        if known is None:
            added[field.name] = field
        elif known.type == field.type == STRUCT:
            fields = {one.name: one for one in known.fields}
            for inner in field.fields:
                self._add(fields, inner, node)
            added[field.name] = known.model_copy(update={"fields": tuple(fields.values())})
        else:
            self._checker.report(node, "is already defined with another type", value=False)

    def _field(self, name: str, node: Marked, depth: int) -> JsonField | None:
        """Return one field, None if it is not valid."""
        if isinstance(node, Entries):
            fields = self.read(node, depth)
            if not fields and node.whole:
                self._checker.report(node, "needs at least one field", value=False)
            return JsonField(name=name, type=STRUCT, fields=fields) if fields else None
        if isinstance(node, Items):
            if len(node.items) != 1:
                self._checker.report(node, "must have the one type of its items", value=False)
                return None
            item = self._field("element", node.items[0], depth + 1)
            return None if item is None else JsonField(name=name, type=ARRAY, fields=(item,))
        return self._scalar(name, node)

    def _scalar(self, name: str, node: Text) -> JsonField | None:
        text = " ".join((node.text or "").lower().split())
        kind = text.removesuffix(_NOT_NULL).replace(" ", "")
        if kind in JSON_TYPES or decimal_digits(kind) is not None:
            return JsonField(name=name, type=kind, nullable=not text.endswith(_NOT_NULL))
        near = nearest(kind, JSON_TYPES)
        self._checker.report(node, f"must be a type; did you mean {near!r}?")
        return None
