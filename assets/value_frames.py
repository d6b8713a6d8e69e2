"""A value contract as pandera schemas, and records' values as the frames that they validate.

Each column is checked in two frames, so that a wrong type is one failure and not also a missing
value: one with the kind of each cell (`long`, `null`, …), one with the cells of the right kind.

pandera puts the failing value into its failure cases. Only the check, the column and the row of a
case are read here, and no error of pandera is raised further: values stay out of every message.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pandas as pd
import pandera.pandas as pa
from pandera.errors import SchemaErrors

from logwright.units import INT64_MAX

if TYPE_CHECKING:
    from logwright.config.topic_tests import ValueColumn, ValueContract

_NOT_DECODED: Final = object()
_LONG_BYTES: Final = 8
_NULL: Final = "null"
_OTHER: Final = "other"
_DTYPES: Final = {"long": "Int64", "double": "Float64", "string": "string", "boolean": "boolean"}
_KINDS: Final = {
    "long": ("long",),
    "double": ("long", "double"),
    "string": ("string",),
    "boolean": ("boolean",),
}


class Failure(NamedTuple):
    """A record that breaks a rule.

    Attributes:
        rule: name of the column and the check.
    """

    rule: str
    offset: int


class Schemas(NamedTuple):
    """A contract, and its schemas for the kinds and for the cells."""

    contract: ValueContract
    kinds: pa.DataFrameSchema
    cells: pa.DataFrameSchema


def schemas_of(contract: ValueContract) -> Schemas:
    """Return the contract's schemas."""
    return Schemas(
        contract=contract,
        kinds=pa.DataFrameSchema(
            {name: pa.Column("string", _kind_checks(column)) for name, column in contract.columns}
        ),
        cells=pa.DataFrameSchema(
            {
                name: pa.Column(_DTYPES[column.type], _cell_checks(column), nullable=True)
                for name, column in contract.columns
            }
        ),
    )


def failures(schemas: Schemas, rows: Sequence[tuple[int, bytes]]) -> Iterator[Failure]:
    """Yield the failures of some records.

    Args:
        schemas: of the contract.
        rows: (offset, value) of each record.
    """
    contract = schemas.contract
    decoded = [(offset, _decoded(contract.format, value)) for offset, value in rows]
    good = [(offset, value) for offset, value in decoded if value is not _NOT_DECODED]
    yield from (
        Failure(f"value is {contract.format}", offset)
        for offset, value in decoded
        if value is _NOT_DECODED
    )
    yield from row_failures(schemas, good)


def row_failures(schemas: Schemas, rows: Sequence[tuple[int, object]]) -> Iterator[Failure]:
    """Yield the failures of some decoded values.

    Args:
        schemas: of the contract.
        rows: (offset, decoded value) of each record.
    """
    if not rows:
        return
    contract = schemas.contract
    offsets = [offset for offset, _ in rows]
    kinds: dict[str, pd.Series[Any]] = {}
    cells: dict[str, pd.Series[Any]] = {}
    for name, column in contract.columns:
        path = name.split(".")
        found = [_cell(_field(value, path), column) for _, value in rows]
        kinds[name] = pd.Series([kind for kind, _ in found], offsets, dtype="string")
        cells[name] = pd.Series([cell for _, cell in found], offsets, dtype=_DTYPES[column.type])
    yield from _cases(schemas.kinds, pd.DataFrame(kinds))
    yield from _cases(schemas.cells, pd.DataFrame(cells))


def _kind_checks(column: ValueColumn) -> list[pa.Check]:
    kinds = [*_KINDS[column.type], _NULL]
    checks = [pa.Check.isin(kinds, error=f"type {column.type}")]
    if not column.nullable:
        checks.append(pa.Check.ne(_NULL, error="not null"))
    return checks


def _cell_checks(column: ValueColumn) -> list[pa.Check]:
    checks: list[pa.Check] = []
    if column.min_value is not None:
        checks.append(pa.Check.ge(column.min_value, error=f"at least {column.min_value:g}"))
    if column.max_value is not None:
        checks.append(pa.Check.le(column.max_value, error=f"at most {column.max_value:g}"))
    if column.min_length is not None:
        checks.append(
            pa.Check.str_length(column.min_length, None, error=f"min_length {column.min_length}")
        )
    if column.max_length is not None:
        checks.append(
            pa.Check.str_length(None, column.max_length, error=f"max_length {column.max_length}")
        )
    if column.regex is not None:
        checks.append(pa.Check(_matcher(column.regex), error="regex"))
    if column.value_set is not None:
        allowed = [int(text) if column.type == "long" else text for text in column.value_set]
        checks.append(pa.Check.isin(allowed, error="value_set"))
    return checks


def _matcher(pattern: str) -> Callable[[pd.Series[str]], pd.Series[bool]]:
    def matches(cells: pd.Series[str]) -> pd.Series[bool]:
        return cells.str.fullmatch(pattern)

    return matches


def _cases(schema: pa.DataFrameSchema, frame: pd.DataFrame) -> Iterator[Failure]:
    """Yield the failures of a frame, each with its offset: the index."""
    try:
        schema.validate(frame, lazy=True)
    except SchemaErrors as errors:
        cases = errors.failure_cases[["column", "check", "index"]]
    else:
        return
    for column, check, index in cases.itertuples(index=False):
        if pd.isna(index):  # of the frame, not of a record: the text may be an exception's
            yield Failure(f"{column}: could not be checked", int(frame.index[0]))
        else:
            yield Failure(f"{column}: {check}", int(index))


def _decoded(form: str, value: bytes) -> object:
    """Return the fields of a value, or `_NOT_DECODED`."""
    try:
        if form == "json":
            found: object = _JSON.decode(value.decode())
            return found if isinstance(found, dict) else _NOT_DECODED
        if form == "string":
            return {"value": value.decode()}
    except (ValueError, RecursionError):
        return _NOT_DECODED
    if len(value) != _LONG_BYTES:
        return _NOT_DECODED
    return {"value": int.from_bytes(value, "big", signed=True)}


def _refuse(_constant: str) -> None:
    """Refuse NaN and Infinity, which are not JSON."""
    raise ValueError


_JSON: Final = json.JSONDecoder(parse_constant=_refuse)
"""JSON in UTF-8, as RFC 8259 has it."""


def _field(value: object, path: Sequence[str]) -> object:
    """Return a field of an object, by the names on the way; None if it is missing."""
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _cell(value: object, column: ValueColumn) -> tuple[str, object]:
    """Return the kind of a value, and the value if the kind is right."""
    kind = _kind(value)
    if kind not in _KINDS[column.type]:
        return kind, None
    return kind, float(value) if column.type == "double" else value  # type: ignore[arg-type]  # its kind is a number's


def _kind(value: object) -> str:
    if value is None:
        return _NULL
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "long" if -INT64_MAX - 1 <= value <= INT64_MAX else _OTHER
    if isinstance(value, float):
        return "double" if math.isfinite(value) else _OTHER
    return "string" if isinstance(value, str) and _is_unicode(value) else _OTHER


def _is_unicode(text: str) -> bool:
    """Return whether a text has no half of a surrogate pair, which JSON can escape."""
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)
