"""Whether a table can have columns of their types, asked of the library that would write them:
before a file is written, since a library's error names neither the column nor a way out.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from logwright.errors import PreconditionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from logwright.tables.store import Store


class UnusableColumn(NamedTuple):
    """A column, or a field in one, that a format does not have.

    Attributes:
        path: names of the column and of the fields down to it.
        why: what it is.
    """

    path: str
    why: str


def require_types(store: Store, schema: pa.Schema, *, form: str) -> None:
    """Require that a table can have these columns.

    Args:
        store: the table.
        schema: its columns.
        form: name of its format, for the message.

    Raises:
        PreconditionError: one of them cannot be in a table of the format.
    """
    for field in schema:
        blamed = unusable(store, field, field.name)
        if blamed is not None:
            raise PreconditionError(
                f"the column {blamed.path} {blamed.why}, which a table of {form} cannot have.",
                remedy="Give another type or name in the schema that decodes it, or another format"
                " of tables.",
            )


def unusable(store: Store, field: pa.Field, path: str) -> UnusableColumn | None:
    """Return the innermost field to blame for a column that a table cannot have; None: it can."""
    if store.accepts(field):
        return None
    children = _children(field.type)
    for child in children:
        blamed = unusable(store, child, f"{path}.{child.name}")
        if blamed is not None:
            return blamed
    names = Counter(child.name.casefold() for child in children)
    same = [child.name for child in children if names[child.name.casefold()] > 1]
    if same:
        return UnusableColumn(path, f"has fields with names that differ by case only: {same[0]}")
    return UnusableColumn(path, f"is of the type {field.type}")


def _children(kind: pa.DataType) -> Sequence[pa.Field]:
    if pa.types.is_struct(kind):
        return list(kind)
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    return [kind.value_field] if pa.types.is_list(kind) or pa.types.is_large_list(kind) else []
