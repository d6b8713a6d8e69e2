"""The check of a topic's value contracts on the decoded columns of its table.

A rule of a contract is about a field of the value. In the table that is a column, or a field in
one. A rule is *not looked at* if there is none, or if the column has values that the rule's type
has not, such as dates: then the check has not passed.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import islice
from typing import Any, Final, NamedTuple

import dagster as dg
import pyarrow as pa

from logwright.assets.segments.values import contracts_of
from logwright.config.decoding import Decoding, JsonSpec
from logwright.config.json_fields import JsonField
from logwright.config.policies import Policies
from logwright.config.topic_tests import ValueContract
from logwright.decode.rows import RESERVED
from logwright.tables.columns import KEY, OFFSET, RAW_KEY, VALUE, Columns
from logwright.tables.model import Snapshot
from logwright.tables.store import Store
from logwright.tables.topic import read_rows

CONTRACT: Final = "table_contract"
_CHUNK: Final = 5_000
_SHOWN_OFFSETS: Final = 10
_PREFIX: Final = f"{VALUE}_"
_JSON: Final = "json"


class Looked(NamedTuple):
    """What a contract can be checked on.

    Attributes:
        contract: with the rules that are looked at.
        columns: field of the value → column of the table.
        missing: rule → why it is not looked at.
    """

    contract: ValueContract
    columns: Mapping[str, str]
    missing: Mapping[str, str]


def contract_result(
    store: Store, snapshot: Snapshot, columns: Columns, policies: Policies, topic: str
) -> dg.AssetCheckResult | None:
    """Check the topic's value contracts on the table's rows; None if it has no contract, or the
    table no row. Effects: reads rows.
    """
    contracts = contracts_of(policies, topic)
    if not contracts or not snapshot.rows:
        return None
    metadata: dict[str, Any] = {}
    broken: set[str] = set()
    missing: dict[str, str] = {}
    checked, rules = 0, 0
    for contract, severity in contracts:
        looked = looked_at(columns, contract, json_texts(snapshot))
        missing |= looked.missing
        rules += len(looked.contract.columns)
        count, failed = _broken_rules(store, snapshot, columns, looked)
        checked = max(checked, count)
        for rule, offsets in sorted(failed.items()):
            shown = ", ".join(map(str, sorted(offsets)[:_SHOWN_OFFSETS]))
            metadata[rule] = f"{severity}: rows {len(offsets)}, first offsets {shown}"
            broken.add(severity)
    metadata |= {f"not looked at: {name}": why for name, why in sorted(missing.items())}
    counts = {
        "rows checked": checked,
        "rows": snapshot.rows,
        "columns looked at": rules,
        "columns not looked at": len(missing),
    }
    only_warned = "ERROR" not in broken and bool(broken or missing)
    return dg.AssetCheckResult(
        check_name=CONTRACT,
        passed=not broken and not missing,
        severity=dg.AssetCheckSeverity.WARN if only_warned else dg.AssetCheckSeverity.ERROR,
        description=f"Not looked at: {', '.join(sorted(missing))}." if missing else None,
        metadata={**counts, **metadata},
    )


def json_texts(snapshot: Snapshot) -> frozenset[str]:
    """Return the fields of a table's values whose column has JSON as text, with their paths."""
    spec = Decoding.model_validate_json(snapshot.form.decoding).value
    return frozenset(_texts("", (spec.fields or ()) if isinstance(spec, JsonSpec) else ()))


def _texts(path: str, fields: Sequence[JsonField]) -> Iterator[str]:
    for field in fields:
        if field.type == _JSON:
            yield f"{path}{field.name}"
        yield from _texts(f"{path}{field.name}.", field.fields)


def looked_at(
    columns: Columns, contract: ValueContract, texts: Collection[str] = frozenset()
) -> Looked:
    """Return which rules of a contract can be checked on the columns of a table.

    Args:
        texts: fields whose column has JSON as text.
    """
    if _is_raw(columns):
        return Looked(contract, {VALUE: VALUE}, {})
    roots: dict[str, str] = {}
    missing: dict[str, str] = {}
    for name, rule in contract.columns:
        root, *path = name.split(".")
        column = _column_of(columns, root, whole=contract.format != _JSON)
        if column is None:
            missing[name] = "the table has no such column"
            continue
        roots[root] = column
        kind = _kind_at(columns.stored.field(column).type, path)
        if kind is None:
            missing[name] = f"the column {column} has no such field"
        elif name in texts:
            missing[name] = "its column has JSON as text"
        elif not _fits(kind, rule.type):
            missing[name] = f"it is a column of {kind}, which a rule of type {rule.type} is not for"
    rules = tuple(each for each in contract.columns if each[0] not in missing)
    return Looked(contract.model_copy(update={"columns": rules}), roots, missing)


def _is_raw(columns: Columns) -> bool:
    """Whether values are bytes: then they are checked as for the output of a cleaning."""
    return VALUE in columns.decoded and columns.stored.field(VALUE).type == pa.binary()


def _column_of(columns: Columns, field: str, *, whole: bool) -> str | None:
    """Return the column of a field of the value, None if there is none; `whole`: of the value."""
    values = [name for name in columns.decoded if name not in (KEY, RAW_KEY)]
    if whole:
        return VALUE if values == [VALUE] else None
    name = f"{_PREFIX}{field}" if field.lower() in RESERVED else field
    return name if name in values else None


def _kind_at(kind: pa.DataType, path: Sequence[str]) -> pa.DataType | None:
    """Return the type of a field in a column, None if it is not there."""
    for name in path:
        if not pa.types.is_struct(kind) or kind.get_field_index(name) < 0:
            return None
        kind = kind.field(name).type
    return kind


def _fits(kind: pa.DataType, rule: str) -> bool:
    """Return whether values of a column can be of a rule's type."""
    types = pa.types
    number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    text = types.is_string(kind) or types.is_large_string(kind)
    fits = {"long": number, "double": number, "string": text, "boolean": kind == pa.bool_()}
    return bool(fits[rule])


def _rows(
    store: Store, snapshot: Snapshot, looked: Mapping[str, str]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the offset and the value's fields of the rows."""
    names = sorted({OFFSET, *looked.values()})
    for batch in read_rows(store, snapshot, names):
        for row in batch.to_pylist():
            yield row[OFFSET], {field: _plain(row[name]) for field, name in looked.items()}


def _plain(value: Any) -> Any:  # noqa: ANN401 - a value of any type
    """Return a value with numbers instead of decimals, as JSON has them."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    return value


def _broken_rules(
    store: Store, snapshot: Snapshot, columns: Columns, looked: Looked
) -> tuple[int, dict[str, list[int]]]:
    """Return how many rows were checked, and rule → offsets of the rows that break it. Effects:
    reads.
    """
    from logwright.assets.segments.value_frames import (  # noqa: PLC0415 - pandera takes a second
        failures,
        row_failures,
        schemas_of,
    )

    contract = looked.contract
    failed: dict[str, list[int]] = {}
    if not contract.columns:
        return 0, failed
    schemas = schemas_of(contract)
    rows = islice(_rows(store, snapshot, looked.columns), contract.max_records)
    raw = _is_raw(columns)
    count = 0
    while chunk := list(islice(rows, _CHUNK)):
        count += len(chunk)
        if raw:
            failed_rows = failures(schemas, [(offset, row[VALUE]) for offset, row in chunk])
        else:
            failed_rows = row_failures(schemas, chunk)
        for failure in failed_rows:
            failed.setdefault(failure.rule, []).append(failure.offset)
    return count, failed
