"""How the columns of a table change with a newer schema, and whether they may. Pure.

The rules are those of docs/columns.md. A type is wider than another if Avro promotes to it (Avro
1.12, "Schema resolution"), which rounds large whole numbers as floating point; a struct, if it has
all fields of the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

import pyarrow as pa

from logwright.config.table import SchemaChanges

Kind = Literal["added", "widened", "renamed", "removed", "changed"]

_WIDER: Final[Mapping[pa.DataType, tuple[pa.DataType, ...]]] = MappingProxyType(
    {
        pa.int32(): (pa.int64(), pa.float32(), pa.float64()),
        pa.int64(): (pa.float32(), pa.float64()),
        pa.float32(): (pa.float64(),),
        pa.string(): (pa.binary(),),
    }
)
_ALLOWED: Final[Mapping[SchemaChanges, frozenset[Kind]]] = MappingProxyType(
    {
        "fixed": frozenset(),
        "grow": frozenset({"added", "widened", "renamed"}),
        "follow": frozenset({"added", "widened", "renamed", "removed"}),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnChange:
    """What becomes of a column, or of a field in one.

    Attributes:
        kind: added; widened: to a type that its values are promoted to; renamed; removed; changed:
            to any other type.
        name: of the column, with the names of the fields in it: ``customer.address.city``.
        before, after: its types; empty: there is none. Of a renamed one `before` is its name.
    """

    kind: Kind
    name: str
    before: str = ""
    after: str = ""

    def __str__(self) -> str:
        match self.kind:
            case "added":
                return f"{self.name} is added, {self.after}"
            case "removed":
                return f"{self.name} is removed, {self.before}"
            case "renamed":
                return f"{self.before} is renamed to {self.name}"
            case "widened" | "changed":
                return f"{self.name} is {self.kind} from {self.before} to {self.after}"


def changes_of(
    before: pa.Schema, after: pa.Schema, renamed: Mapping[str, str] = MappingProxyType({})
) -> tuple[ColumnChange, ...]:
    """Return what becomes of the columns: those of `after` in their order, then removed ones.

    Args:
        before, after: the columns.
        renamed: earlier name → the name that the newer schema gives it. The earlier name follows
            the newer names of the fields that it is in: ``customer.old`` → ``new``.
    """
    return tuple(_Changes(renamed).fields(list(before), list(after), ""))


def refused_of(
    changes: tuple[ColumnChange, ...], allowed: SchemaChanges
) -> tuple[ColumnChange, ...]:
    """Return the changes that a table does not make by itself."""
    return tuple(each for each in changes if each.kind not in _ALLOWED[allowed])


class _Changes:
    """Finds the changes of columns and of the fields in them."""

    def __init__(self, renamed: Mapping[str, str]) -> None:
        self._renamed = renamed

    def fields(
        self, before: list[pa.Field], after: list[pa.Field], path: str
    ) -> Iterator[ColumnChange]:
        """Yield those of fields. `path`: of the struct that they are in, with a point."""
        known = {field.name: field for field in before}
        names = {field.name for field in after}
        gone = [name for name in known if name not in names]
        earlier = {self._renamed.get(f"{path}{name}"): name for name in gone}
        for field in after:
            name = f"{path}{field.name}"
            old = known.get(field.name)
            if old is None and field.name in earlier:
                old = known[earlier[field.name]]
                gone.remove(old.name)
                yield ColumnChange(kind="renamed", name=name, before=f"{path}{old.name}")
            if old is None:
                yield ColumnChange(kind="added", name=name, after=str(field.type))
            else:
                yield from self._field(old, field, name)
        for name in gone:
            yield ColumnChange(kind="removed", name=f"{path}{name}", before=str(known[name].type))

    def _field(self, before: pa.Field, after: pa.Field, name: str) -> Iterator[ColumnChange]:
        if before.nullable != after.nullable:
            (old, new) = ("nullable" if one.nullable else "not null" for one in (before, after))
            kind: Kind = "widened" if after.nullable else "changed"
            yield ColumnChange(kind=kind, name=name, before=old, after=new)
        yield from self._type(before.type, after.type, name)

    def _type(self, before: pa.DataType, after: pa.DataType, name: str) -> Iterator[ColumnChange]:
        if before == after:
            return
        if pa.types.is_struct(before) and pa.types.is_struct(after):
            yield from self.fields(list(before), list(after), f"{name}.")
        elif pa.types.is_list(before) and pa.types.is_list(after):
            yield from self._field(before.value_field, after.value_field, f"{name}.element")
        elif pa.types.is_map(before) and pa.types.is_map(after):
            yield from self._type(before.key_type, after.key_type, f"{name}.key")
            yield from self._field(before.item_field, after.item_field, f"{name}.value")
        else:
            kind: Kind = "widened" if after in _WIDER.get(before, ()) else "changed"
            yield ColumnChange(kind=kind, name=name, before=str(before), after=str(after))
