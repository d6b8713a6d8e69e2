"""A value contract as pandera schemas, and records' values as the frames that they validate.

Values are decoded as those of a table are (`logwright.decode`), but of JSON only the objects: with
a schema a value would be refused as a whole for its first wrong field, and a contract says which
fields are wrong.

Each column is checked in two frames, so that a wrong type is one failure and not also a missing
value: one with the kind of each cell (`long`, `null`, …), one with the cells of the right kind.

pandera puts the failing value into its failure cases. Only the check, the column and the row of a
case are read here, and no error of pandera is raised further: values stay out of every message.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pandas as pd
import pandera.pandas as pandera
import pyarrow as pa
from pandera.errors import SchemaErrors

from logwright.config.patterns import matches
from logwright.decode.json_values import parse
from logwright.decode.scalars import ScalarDecoder
from logwright.units import INT64_MAX

if TYPE_CHECKING:
    from logwright.config.topic_tests import ValueColumn, ValueContract

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
    kinds: pandera.DataFrameSchema
    cells: pandera.DataFrameSchema


def schemas_of(contract: ValueContract) -> Schemas:
    """Return the contract's schemas."""
    return Schemas(
        contract=contract,
        kinds=pandera.DataFrameSchema(
            {
                name: pandera.Column("string", _kind_checks(column))
                for name, column in contract.columns
            }
        ),
        cells=pandera.DataFrameSchema(
            {
                name: pandera.Column(_DTYPES[column.type], _cell_checks(column), nullable=True)
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
    form = schemas.contract.format
    decoded = _decoded(form, pa.array([value for _, value in rows], pa.binary()))
    good = []
    for (offset, _), value in zip(rows, decoded, strict=True):
        if value is None:
            yield Failure(f"value is {form}", offset)
        else:
            good.append((offset, value))
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
        typed = [_cell(_field(value, path), column) for _, value in rows]
        kinds[name] = pd.Series([kind for kind, _ in typed], offsets, dtype="string")
        cells[name] = pd.Series([cell for _, cell in typed], offsets, dtype=_DTYPES[column.type])
    yield from _cases(schemas.kinds, pd.DataFrame(kinds))
    yield from _cases(schemas.cells, pd.DataFrame(cells))


def _kind_checks(column: ValueColumn) -> list[pandera.Check]:
    kinds = [*_KINDS[column.type], _NULL]
    checks = [pandera.Check.isin(kinds, error=f"type {column.type}")]
    if not column.nullable:
        checks.append(pandera.Check.ne(_NULL, error="not null"))
    return checks


def _cell_checks(column: ValueColumn) -> list[pandera.Check]:
    checks: list[pandera.Check] = []
    if column.min_value is not None:
        checks.append(pandera.Check.ge(column.min_value, error=f"at least {column.min_value:g}"))
    if column.max_value is not None:
        checks.append(pandera.Check.le(column.max_value, error=f"at most {column.max_value:g}"))
    if column.min_length is not None:
        checks.append(
            pandera.Check.str_length(
                column.min_length, None, error=f"min_length {column.min_length}"
            )
        )
    if column.max_length is not None:
        checks.append(
            pandera.Check.str_length(
                None, column.max_length, error=f"max_length {column.max_length}"
            )
        )
    if column.regex is not None:
        matcher = partial(matches, column.regex)
        checks.append(pandera.Check(matcher, element_wise=True, error="regex"))
    if column.value_set is not None:
        allowed = [int(text) if column.type == "long" else text for text in column.value_set]
        checks.append(pandera.Check.isin(allowed, error="value_set"))
    return checks


def _cases(schema: pandera.DataFrameSchema, frame: pd.DataFrame) -> Iterator[Failure]:
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


def _decoded(form: str, column: pa.Array) -> list[dict[str, Any] | None]:
    """Return the fields of each value, None if it is not of this format."""
    if form == "json":
        parsed = parse(column.to_pylist(), {}, exact=False)
        return [value if isinstance(value, dict) else None for value in parsed]
    cells = ScalarDecoder(form).decode(column)[0]
    return [None if value is None else {"value": value} for value in cells.to_pylist()]


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
    return "string" if isinstance(value, str) else _OTHER
