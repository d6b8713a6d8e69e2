"""The values in a column of Arrow, however it is nested. Needs pyarrow.

What is not known to be without values has some: a type that is not named here is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

Rows = NDArray[np.int64]
Leaf = tuple["pa.Array", Rows]
"""An array of simple values, and the number of the row of each of them."""


class UnknownType(ValueError):
    """A column has values of a type that nobody taught the search."""


def leaves(column: pa.Array, rows: Rows | None = None) -> Iterator[Leaf]:
    """Yield the arrays of simple values in a column. Values of a dictionary that no row has are
    among them, too, as those of the first row.

    Raises:
        UnknownType: it has values of another type; the message has no name of a column.
    """
    import pyarrow as pa  # noqa: PLC0415 -- an extra

    types, kind = pa.types, column.type
    rows = np.arange(len(column), dtype=np.int64) if rows is None else rows
    if isinstance(kind, pa.BaseExtensionType):
        yield from leaves(column.storage, rows)
    elif types.is_dictionary(kind):
        indices = column.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        yield from _indexed(column.dictionary, indices, rows)
    elif types.is_run_end_encoded(kind):
        yield from _indexed(column.values, _runs(column), rows)
    elif types.is_struct(kind):
        for child in column.flatten():
            yield from leaves(child, rows)
    elif types.is_union(kind):
        yield from _of_union(column, rows)
    elif types.is_nested(kind):
        yield from _of_list(column, rows)
    elif not (types.is_null(kind) or types.is_boolean(kind)):
        yield column, rows


def _of_list(column: pa.Array, rows: Rows) -> Iterator[Leaf]:
    """Yield the values in a column of lists of any kind, or of maps."""
    import pyarrow as pa  # noqa: PLC0415 -- an extra
    import pyarrow.compute as pc  # noqa: PLC0415

    types, kind = pa.types, column.type
    if types.is_map(kind):
        entry = pa.struct([kind.key_field, kind.item_field])
        plain = column.cast(pa.large_list(entry))
        parents = plain.value_parent_indices()
    elif types.is_list(kind) or types.is_large_list(kind):
        plain, parents = column, column.value_parent_indices()
    elif (
        types.is_fixed_size_list(kind) or types.is_list_view(kind) or types.is_large_list_view(kind)
    ):
        plain, parents = column, pc.list_parent_indices(column)
    else:
        raise UnknownType(type_name(kind))
    yield from leaves(plain.flatten(), rows[parents.to_numpy(zero_copy_only=False)])


def _of_union(column: pa.Array, rows: Rows) -> Iterator[Leaf]:
    codes = column.type_codes.to_numpy(zero_copy_only=False)
    for number, code in enumerate(column.type.type_codes):
        child = column.field(number)
        child_rows = rows
        if column.type.mode == "dense":
            child_rows = np.full(len(child), _first(rows), dtype=np.int64)
            chosen = codes == code
            offsets = column.offsets.to_numpy(zero_copy_only=False)
            child_rows[offsets[chosen]] = rows[chosen]
        yield from leaves(child, child_rows)


def _indexed(values: pa.Array, indices: Rows, rows: Rows) -> Iterator[Leaf]:
    """Yield values, each once, as of the first row that has it; then those of all rows.

    Args:
        indices: of the value of each row, below 0 if it has none.
    """
    import pyarrow as pa  # noqa: PLC0415 -- an extra

    firsts = np.full(len(values), _first(rows), dtype=np.int64)
    used = np.flatnonzero(indices >= 0)[::-1]
    firsts[indices[used]] = rows[used]
    yield from leaves(values, firsts)
    try:
        taken = values.take(pa.array(indices, mask=indices < 0))
    except pa.ArrowNotImplementedError:
        return  # views: a row counts for all that have its value
    yield from leaves(taken, rows)


def _runs(column: pa.Array) -> Rows:
    """Return the index of each row's value."""
    ends = column.run_ends.to_numpy(zero_copy_only=False).astype(np.int64)
    places = np.arange(len(column), dtype=np.int64) + column.offset
    return np.asarray(np.searchsorted(ends, places, side="right"), dtype=np.int64)


def _first(rows: Rows) -> int:
    return int(rows[0]) if len(rows) else 0


def type_name(kind: pa.DataType) -> str:
    """Return the name of a type without the names of its fields, which can be a person's."""
    return str(kind).partition("<")[0].partition("[")[0]
