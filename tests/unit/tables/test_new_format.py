"""A table format is one file and one registration: policies and updates have it by that."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType

import duckdb
import pytest
from pydantic import ValidationError

from logwright import extras
from logwright.config.policies import check_policies
from logwright.config.table import FORMATS, TopicTable, tables_of
from logwright.errors import StepFailed
from logwright.tables.model import UnknownTable
from logwright.tables.store import Store
from logwright.tables.topic import open_store, table_errors
from tests.planted_table import LIST, LISTED, planted
from tests.table_rows import Rows, expected_rows
from tests.table_world import NOW_MS, place, three_logs, update


@pytest.fixture
def _registered() -> Iterator[None]:
    """The new format."""
    with planted():
        yield


pytestmark = pytest.mark.usefixtures("_registered")


def listed_rows(directory: Path) -> Rows:
    """The rows of the files in the list, by DuckDB."""
    files = [
        str(directory / file["path"])
        for file in json.loads((directory / LIST).read_text())["files"]
    ]
    with duckdb.connect() as connection:
        rows = connection.read_parquet(files, hive_partitioning=False)
        return sorted(rows.project('partition, "offset", key, value').fetchall())


def test_updates(tmp_path: Path) -> None:
    """Three updates have the rows of the logs; files of earlier versions go."""
    where = place(LISTED, tmp_path / "table", buckets=3)
    for log_dir in three_logs(tmp_path, random.Random(1)):
        done = update(where, log_dir)
        assert expected_rows(log_dir, "t") == listed_rows(tmp_path / "table")
        assert done.result.snapshot is not None
        files = {file.path for file in done.result.snapshot.files}
        assert files == {path.name for path in (tmp_path / "table").glob("*.parquet")}
    assert not update(where, log_dir).result.changed


def test_policies(tmp_path: Path) -> None:
    """A topic's entry may have it; a catalog is for others."""
    path = tmp_path / "p.yml"
    entry = "version: 1\ntopics:\n  - name: t\n    table: {format: listed, path: /t%s}\n"
    path.write_text(entry % "")
    policies = check_policies(tmp_path).policies
    assert policies is not None
    table = tables_of(policies)["t"]
    assert TopicTable(format=LISTED, path="/t") == table
    assert NOW_MS == table.held_until_ms(NOW_MS, at_once=False)
    path.write_text(entry % ", catalog: {type: rest}")
    (problem,) = check_policies(tmp_path).problems
    assert "catalog is for the format iceberg" in str(problem)
    with pytest.raises(ValidationError, match="'parquet', 'delta', 'iceberg' or 'listed'"):
        TopicTable(format="csv", path="/t")


def test_its_errors_are_ours(tmp_path: Path) -> None:
    """A table that is not of logwright is refused, and an overtaken commit is reported as such."""
    first, second, _ = three_logs(tmp_path, random.Random(2))
    where = place(LISTED, tmp_path / "table")
    update(where, first)
    (tmp_path / "table/busy").touch()
    with pytest.raises(StepFailed, match="another process has changed the table"):
        update(where, second)
    assert expected_rows(first, "t") == listed_rows(tmp_path / "table")
    (tmp_path / "table" / LIST).write_text("{}")
    with table_errors(where), pytest.raises(UnknownTable, match="the list is not of logwright"):
        open_store(where).load()


def test_its_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where what a format needs is not installed, the message names it."""
    monkeypatch.setattr(extras, "MODULES", MappingProxyType({"listing": ("no_such_module",)}))
    monkeypatch.setitem(FORMATS, LISTED, FORMATS[LISTED]._replace(extra="listing"))
    with pytest.raises(
        extras.MissingExtra, match="a table of the format listed needs no_such_module"
    ):
        open_store(place(LISTED, tmp_path / "table"))


@pytest.mark.parametrize("form", sorted(FORMATS))
def test_every_format_is_a_store(form: str, tmp_path: Path) -> None:
    """The class of each format is there, and has all that an update needs."""
    assert isinstance(open_store(place(form, tmp_path / "table")), Store)
