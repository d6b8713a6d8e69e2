"""A table of Parquet files is its directory: engines read all of it, without a pattern."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from logwright.tables.parquet import EARLIER_MANIFEST, manifest_of
from tests.table_deaths import Died, counted
from tests.table_rows import expected_rows, table_rows
from tests.table_world import place, three_logs, update, write_logs


def by_polars(path: Path) -> pa.Table:
    """All rows, as Polars has them."""
    return pl.scan_parquet(path).collect().to_arrow()


def by_duckdb(path: Path) -> pa.Table:
    """All rows, as DuckDB has them."""
    with duckdb.connect() as connection:
        return connection.read_parquet(
            f"{path}/**/*.parquet", hive_partitioning=True
        ).to_arrow_table()


def by_pyarrow(path: Path) -> pa.Table:
    """All rows, as a dataset of Arrow has them."""
    return ds.dataset(path, format="parquet", partitioning="hive").to_table()


ENGINES = {"polars": by_polars, "duckdb": by_duckdb, "pyarrow": by_pyarrow}


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_a_directory_is_a_table(
    tmp_path: Path, engine: Callable[[Path], pa.Table], seed: int
) -> None:
    """After each update, also where records were refused, an engine has its rows by the name of
    the directory alone.
    """
    where = place("parquet", tmp_path / "table", buckets=2)
    for log_dir in three_logs(tmp_path, random.Random(seed)):
        update(where, log_dir)
        table = engine(tmp_path / "table")
        names = ("partition", "offset", "key", "value")
        rows = zip(*(table[name].to_pylist() for name in names), strict=True)
        assert expected_rows(log_dir, "t") == sorted(rows)


def test_a_removed_table_is_made_again(tmp_path: Path) -> None:
    """Whether its directory is gone or empty, and whatever form it had."""
    log_dir = write_logs(tmp_path / "logs", {0: [("a", "1"), ("b", "2")]})
    path = tmp_path / "table"
    for buckets in (1, 2, 3):
        assert update(place("parquet", path, buckets=buckets), log_dir).result.changed
        assert expected_rows(log_dir, "t") == table_rows("parquet", path)
        shutil.rmtree(path)
        if buckets == 2:
            path.mkdir()


@pytest.mark.crash
def test_a_table_of_an_earlier_version_is_continued(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever its first update dies; its manifest was among its files."""
    logs = three_logs(tmp_path, random.Random(seed))
    start = tmp_path / "start"
    update(place("parquet", start / "table", buckets=1), logs[0])
    manifest_of(start / "table").rename(start / "table" / EARLIER_MANIFEST)
    moved = set()
    for at in range(2, 17, 2):  # the manifest is moved by then
        shutil.copytree(start, tmp_path / "trial")
        path = tmp_path / "trial" / "table"
        where = place("parquet", path, buckets=1)
        with counted(monkeypatch) as effects:
            effects.dies_at = at
            with pytest.raises(Died):
                update(where, logs[1])
        moved.add(((path / EARLIER_MANIFEST).exists(), manifest_of(path).exists()))
        steps = update(where, logs[1]).result.partitions
        assert expected_rows(logs[1], "t") == table_rows("parquet", path), at
        assert "rebuild" not in {one.step.kind for one in steps}, at
        assert len(expected_rows(logs[1], "t")) == by_polars(path).num_rows, at
        shutil.rmtree(tmp_path / "trial")
    assert {(True, False), (True, True), (False, True)} == moved
