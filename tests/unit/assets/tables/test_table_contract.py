"""The value contracts of a topic on the decoded columns of its table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from logwright.assets.tables.contract import contract_result
from logwright.config.policies import load_policies
from logwright.config.table import tables_of
from logwright.tables.topic import LocatedTable
from tests.log_builder import LogBuilder
from tests.table_world import update

NAMES = ("id", "price", "day", "offset", "more", "address")
VALUES = [
    json.dumps(dict(zip(NAMES, row, strict=True)))
    for row in (
        (1, "7.50", "2026-11-17", "near", "x", {"city": "Rome"}),
        (2, "0.50", "2026-11-18", "far", "y", {"city": ""}),
        (3, "12.00", None, None, None, None),
    )
]
SCHEMA = (
    "{format: json, schema: {id: long, price: 'decimal(6,2)', day: date, offset: string,"
    " more: json, address: {city: string}}}"
)


def checked(tmp_path: Path, tests: str, value: str = SCHEMA) -> dg.AssetCheckResult | None:
    """The result of the check on a table of the three values."""
    log = LogBuilder(tmp_path / "logs", "t-0")
    log.segment(0).batch(0, [(f"k{at}", one) for at, one in enumerate(VALUES)])
    log.write()
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "topics.yml").write_text(
        "version: 1\ntopics:\n  - name: t\n"
        f"    table: {{format: parquet, path: {tmp_path / 'table'}, key: string, value: {value}}}\n"
        f"    tests: [{tests}]\n"
    )
    policies = load_policies(tmp_path / "policies")
    place = LocatedTable(topic="t", table=tables_of(policies)["t"], catalog={}, base=tmp_path)
    done = update(place, tmp_path / "logs")
    assert done.result.snapshot is not None
    return contract_result(done.store, done.result.snapshot, done.columns, policies, "t")


def shown(result: dg.AssetCheckResult | None) -> dict[str, Any]:
    assert result is not None
    return {name: value.value for name, value in result.metadata.items()}


def test_fields_of_columns_are_checked(tmp_path: Path) -> None:
    """Nested ones, decimals as numbers, and a field whose column has another name."""
    result = checked(
        tmp_path,
        "{values: {format: json, columns: {id: {type: long, max_value: 2},"
        " price: {type: double, min_value: 1}, offset: {type: string, max_length: 3},"
        " address.city: {type: string, min_length: 1}}}}",
    )
    expected = {
        "rows checked": 3,
        "rows": 3,
        "columns looked at": 4,
        "columns not looked at": 0,
        "id: at most 2": "ERROR: rows 1, first offsets 2",
        "price: at least 1": "ERROR: rows 1, first offsets 1",
        "offset: max_length 3": "ERROR: rows 1, first offsets 0",
        "address.city: min_length 1": "ERROR: rows 1, first offsets 1",
    }
    assert expected == shown(result)
    assert result is not None
    assert (False, dg.AssetCheckSeverity.ERROR) == (result.passed, result.severity)


@pytest.mark.parametrize(
    ("column", "kind", "why"),
    [
        ("colour", "string", "the table has no such column"),
        ("key", "string", "the table has no such column"),
        ("address.street", "string", "the column address has no such field"),
        ("id.number", "long", "the column id has no such field"),
        ("day", "string", "it is a column of date32[day], which a rule of type string is not for"),
        ("more", "string", "its column has JSON as text"),
    ],
)
def test_what_is_not_looked_at_has_not_passed(
    tmp_path: Path, column: str, kind: str, why: str
) -> None:
    """Also if all that was looked at is right."""
    columns = f"{{id: {{type: long}}, {column}: {{type: {kind}}}}}"
    result = checked(tmp_path, f"{{values: {{format: json, columns: {columns}}}}}")
    assert result is not None
    assert (False, dg.AssetCheckSeverity.WARN) == (result.passed, result.severity)
    assert f"Not looked at: {column}." == result.description
    metadata = shown(result)
    assert why == metadata[f"not looked at: {column}"]
    assert (3, 1, 1) == tuple(
        metadata[name] for name in ("rows checked", "columns looked at", "columns not looked at")
    )


def test_a_contract_of_another_format(tmp_path: Path) -> None:
    """Of the whole value, which the table has not: no row was checked."""
    result = checked(
        tmp_path, "{values: {format: string, columns: {value: {type: string, max_length: 5}}}}"
    )
    assert result is not None
    assert not result.passed
    assert (0, 1) == tuple(shown(result)[one] for one in ("rows checked", "columns not looked at"))


def test_values_that_are_not_decoded(tmp_path: Path) -> None:
    """They are decoded as the contract says it, as for the output of a cleaning."""
    result = checked(
        tmp_path, "{values: {format: json, columns: {id: {type: long, max_value: 2}}}}", "binary"
    )
    assert result is not None
    assert not result.passed
    assert "ERROR: rows 1, first offsets 2" == shown(result)["id: at most 2"]
    right = "{values: {format: json, columns: {id: {type: long, max_value: 3}}}}"
    good = checked(tmp_path / "good", right, "binary")
    assert good is not None
    assert good.passed
