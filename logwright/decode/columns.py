"""Strict conversion of parsed values into Arrow columns, with the rows that do not fit.

A tree of nodes describes a column. Values of the expected Python types are converted together;
only if one does not fit, each is looked at, and the rows to blame get a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from logwright.decode.cells import MOST_CELLS, TOO_MANY
from logwright.decode.refusal import Refused

MISSING: Final = object()
"""Stands for no default."""

IS_MISSING: Final = "is missing or null"
_ELEMENT: Final = "element"
_NONE: Final = type(None)
_PAIR: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A column of single values.

    Attributes:
        type: of the column.
        accepts: the Python types that Arrow converts without loss.
        convert: value → what Arrow converts; raises Refused.
        storage: what Arrow converts them to, if not `type`; it has the same width.
        nullable: null is allowed.
        default: of a field that is missing, or that a writer's schema does not have.
    """

    type: pa.DataType
    accepts: frozenset[type]
    convert: Callable[[Any], object]
    storage: pa.DataType | None = None
    nullable: bool = True
    default: object = MISSING


@dataclass(frozen=True, slots=True, kw_only=True)
class Struct:
    """A column of records with fields, parsed as dictionaries.

    In types each field, item and value is nullable, whether null is allowed or not: where a record
    is null its fields are, too, and a table's files stay as they are when null becomes allowed.
    """

    fields: Mapping[str, Node]
    nullable: bool = True
    default: object = MISSING
    type: pa.DataType = field(init=False)

    def __post_init__(self) -> None:
        fields = [pa.field(name, each.type) for name, each in self.fields.items()]
        object.__setattr__(self, "type", pa.struct(fields))


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """A column of lists."""

    item: Node
    nullable: bool = True
    default: object = MISSING
    type: pa.DataType = field(init=False)

    def __post_init__(self) -> None:
        element = pa.field(_ELEMENT, self.item.type)
        object.__setattr__(self, "type", pa.list_(element))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """A column of maps, parsed as dictionaries; if `listed`, as lists of pairs in lists."""

    key: Node
    value: Node
    listed: bool = False
    nullable: bool = True
    default: object = MISSING
    type: pa.DataType = field(init=False)

    def __post_init__(self) -> None:
        value = pa.field("value", self.value.type)
        object.__setattr__(self, "type", pa.map_(self.key.type, value))


Node = Leaf | Struct | Items | Pairs


@dataclass(frozen=True, slots=True)
class _Place:
    """Where values come from.

    Attributes:
        path: names of fields, for reasons.
        rows: row of each value; None: its own position.
        reasons: row → why it is refused; the first reason counts.
    """

    path: str
    rows: np.ndarray[Any, np.dtype[np.int64]] | None
    reasons: dict[int, str]

    def refuse(self, position: int, reason: str) -> None:
        row = position if self.rows is None else int(self.rows[position])
        self.reasons.setdefault(row, f"{self.path} {reason}" if self.path else reason)

    def at(self, name: str, positions: ArrayLike | None = None) -> _Place:
        """Return the place of a field; `positions`: of its values, None: of all."""
        path = f"{self.path}.{name}" if self.path else f"field {name}"
        if positions is None:
            return _Place(path, self.rows, self.reasons)
        chosen = np.asarray(positions, np.int64)
        return _Place(path, chosen if self.rows is None else self.rows[chosen], self.reasons)


def build(node: Node, values: Sequence[Any], reasons: dict[int, str]) -> pa.Array:
    """Return the values as a column of the node's type; null for what does not fit.

    Args:
        node: what is expected.
        values: parsed; null for rows without a value.
        reasons: row → why it is refused; those that do not fit are added.
    """
    return _build(optional(node), values, _Place("", None, reasons))


def is_empty(node: Node) -> bool:
    """Return whether a column would have no values: null alone, or records without fields. Files of
    tables cannot have such columns.
    """
    if isinstance(node, Leaf):
        return bool(pa.types.is_null(node.type))
    if isinstance(node, Struct):
        return not node.fields
    return is_empty(node.item if isinstance(node, Items) else node.value)


def optional(node: Node) -> Node:
    """Return a node that allows null."""
    return node if node.nullable else replace(node, nullable=True)


def required(node: Node) -> Node:
    """Return a node that does not allow null."""
    return replace(node, nullable=False) if node.nullable else node


def _build(node: Node, values: Sequence[Any], place: _Place) -> pa.Array:
    if isinstance(node, Leaf):
        return _leaf(node, values, place)
    expected = list if isinstance(node, Items) or _is_listed(node) else dict
    kinds = set(map(type, values))
    if not kinds <= {expected} and not (node.nullable and kinds <= {expected, _NONE}):
        values = _only(expected, values, place, nullable=node.nullable)
    if isinstance(node, Struct):
        return _struct(node, values, place)
    return _repeated(node, values, place)


def _only(expected: type, values: Sequence[Any], place: _Place, *, nullable: bool) -> list[Any]:
    """Return the values with null for those of another type, which are refused."""
    name = "a list" if expected is list else "an object"
    kept = []
    for position, value in enumerate(values):
        if type(value) is expected:
            kept.append(value)
            continue
        if value is not None:
            place.refuse(position, f"is not {name}")
        elif not nullable:
            place.refuse(position, IS_MISSING)
        kept.append(None)
    return kept


def _leaf(node: Leaf, values: Sequence[Any], place: _Place) -> pa.Array:
    kinds = set(map(type, values))
    array = None
    if kinds <= node.accepts or (node.nullable and kinds <= node.accepts | {_NONE}):
        try:
            array = pa.array(values, node.storage or node.type)
        except (ValueError, OverflowError, pa.ArrowException):
            array = None
    if array is None:
        array = pa.array(_converted(node, values, place), node.storage or node.type)
    return array if node.storage is None else array.view(node.type)


def _converted(node: Leaf, values: Sequence[Any], place: _Place) -> list[object]:
    """Return each value converted; null for those that do not fit."""
    converted: list[object] = []
    for position, value in enumerate(values):
        result = None
        if value is None:
            if not node.nullable:
                place.refuse(position, IS_MISSING)
        else:
            try:
                result = node.convert(value)
            except Refused as refused:
                place.refuse(position, refused.reason)
        converted.append(result)
    return converted


def _struct(node: Struct, values: Sequence[Any], place: _Place) -> pa.Array:
    if None in values:
        present = [position for position, value in enumerate(values) if value is not None]
        inner = [values[position] for position in present]
        whole = _fields(node, inner, place, present)
        order = np.full(len(values), -1, np.int64)
        order[present] = np.arange(len(present))
        return whole.take(pa.array(order, mask=order < 0))
    return _fields(node, values, place, None)


def _fields(
    node: Struct, values: Sequence[Any], place: _Place, positions: Sequence[int] | None
) -> pa.Array:
    """Return a column of records, none of which is null. `positions`: of the values, None: all."""
    if not node.fields:
        return pa.array([{}] * len(values), node.type)
    arrays = [
        _build(child, _values(name, child, values), place.at(name, positions))
        for name, child in node.fields.items()
    ]
    return pa.StructArray.from_arrays(arrays, fields=list(node.type))


def _values(name: str, child: Node, values: Sequence[Any]) -> list[Any]:
    """Return the values of a field."""
    if child.default is MISSING:
        return [value.get(name) for value in values]
    return [value.get(name, child.default) for value in values]


def _is_listed(node: Node) -> bool:
    return isinstance(node, Pairs) and node.listed


def _pairs(values: Sequence[Any], place: _Place) -> Sequence[Any]:
    """Return lists of pairs, null for other lists, which are refused."""
    kept = []
    for position, value in enumerate(values):
        fits = value is None or all(type(one) is list and len(one) == _PAIR for one in value)
        if not fits:
            place.refuse(position, "is not a list of pairs")
        kept.append(value if fits else None)
    return kept


def _width(node: Node) -> int:
    """Return how many cells a value of a column has, items not counted."""
    if isinstance(node, Struct):
        return sum(map(_width, node.fields.values()))
    return 1


def _within_limits(node: Items | Pairs, values: Sequence[Any], place: _Place) -> Sequence[Any]:
    """Return the values with null for those that would have too many cells, which are refused."""
    most = MOST_CELLS // _width(node.item if isinstance(node, Items) else node.value)
    if all(one is None or len(one) <= most for one in values):
        return values
    kept = list(values)
    for position, value in enumerate(values):
        if value is not None and len(value) > most:
            place.refuse(position, TOO_MANY)
            kept[position] = None
    return kept


def _repeated(node: Items | Pairs, values: Sequence[Any], place: _Place) -> pa.Array:
    values = _within_limits(node, values, place)
    if _is_listed(node):
        values = _pairs(values, place)
    lengths = np.fromiter((0 if one is None else len(one) for one in values), np.int64)
    ends = np.concatenate([[0], np.cumsum(lengths)])
    positions = np.repeat(np.arange(len(values)), lengths)
    nulls = np.fromiter((one is None for one in values), bool, len(values))
    offsets = pa.array(ends.astype(np.int32), mask=np.append(nulls, False))
    if isinstance(node, Items):
        inner = [item for one in values if one is not None for item in one]
        items = _build(node.item, inner, place.at(_ELEMENT, positions))
        return pa.ListArray.from_arrays(offsets, items, type=node.type)
    listed = node.listed
    pairs = [pair for one in values if one is not None for pair in (one if listed else one.items())]
    keys = [key for key, _ in pairs]
    key_column = _build(node.key, keys, place.at("key", positions))
    if key_column.null_count:
        bad = set(positions[key_column.is_null().to_numpy(zero_copy_only=False)].tolist())
        kept = [None if position in bad else one for position, one in enumerate(values)]
        return _repeated(node, kept, place)
    inner = [item for _, item in pairs]
    items = _build(node.value, inner, place.at("value", positions))
    return pa.MapArray.from_arrays(offsets, key_column, items, type=node.type)
