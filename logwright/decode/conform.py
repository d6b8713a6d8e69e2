"""Columns of one schema as columns of another: what a writer's schema gives, as a reader's."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logwright.decode.columns import MISSING, Items, Leaf, Node, Pairs, Struct, build
from logwright.decode.model import Part


class DoesNotConform(Exception):
    """Columns of a schema are not those of another; `reason` names the first field."""

    def __init__(self, field: str) -> None:
        self.reason = f"has a schema whose field {field} does not fit the columns"
        super().__init__(field)


_WIDER: Final[Mapping[pa.DataType, tuple[pa.DataType, ...]]] = MappingProxyType(
    {
        pa.int32(): (pa.int64(), pa.float32(), pa.float64()),
        pa.int64(): (pa.float32(), pa.float64()),
        pa.float32(): (pa.float64(),),
        pa.string(): (pa.binary(),),
    }
)
"""Type of a writer → what it is converted to without refusing any value (Avro's promotions)."""


def conformed(part: Part, node: Node) -> Part:
    """Return what a writer's schema gives as a column of a node; refused rows stay refused.

    Raises:
        DoesNotConform: as `conform`.
    """
    accepted = part.values
    if part.reasons:
        rows = np.arange(len(accepted))
        refused = np.isin(rows, list(part.reasons))
        accepted = accepted.take(pa.array(rows, mask=refused))
    return Part(conform(accepted, node), part.reasons)


def conform(values: pa.Array, node: Node, path: str = "") -> pa.Array:
    """Return the values as a column of a node, by the names of fields: those that the node does
    not have are dropped, those that the values do not have get the default, or null.

    Raises:
        DoesNotConform: a type cannot be converted, or a field without a default is missing.
    """
    if values.type == node.type:
        return values
    if isinstance(node, Struct) and pa.types.is_struct(values.type):
        return _struct(values, node, path)
    if isinstance(node, Items) and pa.types.is_list(values.type):
        items = conform(values.values, node.item, f"{path}[]")
        return pa.ListArray.from_arrays(_offsets(values), items, type=node.type)
    if isinstance(node, Pairs) and pa.types.is_map(values.type):
        keys = conform(values.keys, node.key, f"{path}.key")
        items = conform(values.items, node.value, f"{path}.value")
        return pa.MapArray.from_arrays(_offsets(values), keys, items, type=node.type)
    if isinstance(node, Leaf):
        return _leaf(values, node, path)
    raise DoesNotConform(path)


def _leaf(values: pa.Array, node: Leaf, path: str) -> pa.Array:
    if pa.types.is_null(values.type) and node.nullable:
        return pa.nulls(len(values), node.type)
    if node.type in _WIDER.get(values.type, ()):
        return pc.cast(values, node.type, safe=False)
    raise DoesNotConform(path)


def _offsets(values: pa.Array) -> pa.Array:
    """Return the offsets of lists, null where the list is null."""
    valid = values.is_valid()
    present = pa.concat_arrays([valid, pa.array([True])])
    return pc.if_else(present, values.offsets, pa.scalar(None, pa.int32()))


def _struct(values: pa.Array, node: Struct, path: str) -> pa.Array:
    arrays = []
    names = {field.name for field in values.type}
    for name, child in node.fields.items():
        inner = f"{path}.{name}" if path else name
        if name in names:
            field = values.field(name)
            if field.null_count and not child.nullable and _adds_null(values, field):
                raise DoesNotConform(inner)
            arrays.append(conform(field, child, inner))
        elif child.default is not MISSING:
            arrays.append(build(child, [child.default] * len(values), {}))
        elif child.nullable:
            arrays.append(pa.nulls(len(values), child.type))
        else:
            raise DoesNotConform(inner)
    return pa.StructArray.from_arrays(
        arrays, fields=list(node.type), mask=values.is_null() if values.null_count else None
    )


def _adds_null(values: pa.Array, field: pa.Array) -> bool:
    """Return whether a field is null where its record is not."""
    return bool(pc.any(pc.and_(values.is_valid(), field.is_null())).as_py())
