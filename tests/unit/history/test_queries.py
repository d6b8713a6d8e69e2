"""The page about the history: its columns are those of the code, and its queries run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from logwright.history.schema import COLUMNS
from logwright.history.store import write_history
from tests.unit.history.test_store import DAY_MS, NOON_MS, ROW

PAGE = (Path(__file__).parents[3] / "docs/history.md").read_text()
RUN = "0b5f"
CLEAN = replace(
    ROW,
    run_id=RUN,
    bytes_read=100,
    bytes_written=30,
    records_before=10,
    records_after=4,
    removed_superseded=3,
    removed_tombstones=1,
    removed_null_keys=0,
    removed_aborted=1,
    removed_markers=1,
    compaction_delay_ms=0,
    wall_seconds=0.5,
)
ROWS = (
    CLEAN,
    replace(CLEAN, log="u-1", topic="u", compaction_delay_ms=70, forecast_bytes=80),
    replace(ROW, run_id=RUN, operation="recover", why="nothing to repair", bytes_before=None),
    replace(ROW, run_id=RUN, operation="retain", segments_deleted=2, offsets_deleted=20),
)
LATER = replace(
    ROW, operation="purge", started_at_ms=NOON_MS + DAY_MS, ended_at_ms=NOON_MS + DAY_MS
)


def blocks(kind: str) -> list[str]:
    """The page's blocks of code with exactly this word after the fence."""
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


QUERIES = [query.replace("'RUN'", f"'{RUN}'") for query in blocks("sql")]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history of two runs on two days."""
    directory = tmp_path_factory.mktemp("history")
    write_history(directory, ROWS, name=RUN)
    write_history(directory, [LATER], name="later")
    return directory


@pytest.fixture
def duck(root: Path) -> Iterator[Callable[[str], list[tuple[Any, ...]]]]:
    """Run a query with DuckDB, after the page's first one."""
    (opening,) = blocks("sql duckdb")
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(opening.replace("HISTORY", str(root)))
        yield lambda query: connection.execute(query).fetchall()


def test_columns() -> None:
    """The page's table is the schema."""
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.+) \|$", PAGE, re.MULTILINE)
    assert [(one.name, one.type, one.description) for one in COLUMNS] == rows


def test_there_are_queries() -> None:
    """Else the tests below would prove nothing."""
    assert 8 == len(QUERIES)


@pytest.mark.parametrize("number", range(len(QUERIES)))
def test_query_finds_rows(duck: Callable[[str], list[tuple[Any, ...]]], number: int) -> None:
    """Every query of the page runs with DuckDB and has a result."""
    assert [] != duck(QUERIES[number])


def test_bytes_by_day(duck: Callable[[str], list[tuple[Any, ...]]]) -> None:
    """Purges count apart."""
    days = [(day.isoformat(), reclaimed, freed) for day, reclaimed, freed in duck(QUERIES[0])]
    assert [("2026-01-01", 180, None), ("2026-01-02", None, 60)] == days


@pytest.mark.spark
@pytest.mark.usefixtures("observed")
def test_spark_finds_the_same(root: Path, duck: Callable[[str], list[tuple[Any, ...]]]) -> None:
    """Every query of the page, in one session, after its opening for Spark."""
    (opening,) = blocks("sql spark")
    session = SparkSession.builder.getOrCreate()
    session.sql("DROP VIEW IF EXISTS history")
    session.sql(opening.replace("HISTORY", str(root)))
    try:
        for query in QUERIES:
            rows = [tuple(map(plain, row)) for row in session.sql(query).collect()]
            assert [tuple(map(plain, row)) for row in duck(query)] == rows
    finally:
        session.sql("DROP VIEW IF EXISTS history")


def plain(value: object) -> object:
    """A time in UTC, whichever time zone the session has."""
    return value.astimezone(UTC) if isinstance(value, datetime) else value
