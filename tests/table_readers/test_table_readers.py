"""Who reads the tables, and whether right: by day the engines of the tests, by night many."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.table_readers.matrix import (
    BEGIN,
    DOCUMENT,
    END,
    ENGINES,
    Cell,
    judged,
    read_by,
    recorded,
    run,
    shown,
    with_control,
)
from tests.table_readers.written import CONTROL, TABLES, deleted_rows, most_groups, written
from tests.table_rows import Rows

BY_DAY = {
    "polars_parquet": "parquet",
    "duckdb_parquet": "parquet",
    "pyarrow_parquet": "parquet",
    "deltalake_query": "delta",
    "polars_delta": "delta",
    "pyiceberg_scan": "iceberg",
    "polars_iceberg": "iceberg",
}
KEYS = 1_000
ROWS: Rows = [(0, 1, b"a", b"b"), (0, 2, b"c", b"")]


def as_read(rows: Rows) -> dict[str, object]:
    return {"rows": [[one, two, key.hex(), value.hex()] for one, two, key, value in rows]}


@pytest.mark.parametrize(
    ("rows", "verdict", "detail"),
    [
        (ROWS[::-1], "right", ""),
        (ROWS[:1], "wrong", "of 2 rows 1 missing, 0 others"),
        (ROWS + ROWS[:1], "wrong", "of 2 rows 0 missing, 1 others"),
        ([ROWS[0], (0, 2, b"c", b"d")], "wrong", "of 2 rows 1 missing, 1 others"),
        ([], "wrong", "of 2 rows 2 missing, 0 others"),
    ],
)
def test_rows_are_judged(rows: Rows, verdict: str, detail: str) -> None:
    assert (verdict, detail) == judged(ROWS, as_read(rows))


def test_who_reads_nothing_refuses_nothing() -> None:
    """An engine that raises for each table has refused none of them."""
    assert ("ended", "") == judged(ROWS, None)
    raised = judged(ROWS, {"raised": "ValueError", "message": "deletion vectors"})
    assert ("refused", "ValueError: deletion vectors") == raised
    refused = Cell("r", "Delta, merge-on-read", *raised)
    assert [refused] == with_control([Cell("r", CONTROL["delta"], "right"), refused], "delta")[1:]
    (cell,) = with_control([refused], "delta")
    assert "not read" == cell.verdict


def test_the_engines_of_the_tests_read_all(tmp_path: Path) -> None:
    """Also the rows of files of which others are deleted."""
    expected, paths = written(tmp_path, KEYS)
    for title in TABLES:
        form, mode = TABLES[title]
        assert (mode == "merge-on-read") == any(deleted_rows(form, paths[title])), title
        for function, its_form in BY_DAY.items():
            if its_form == form:
                what = read_by(Path(sys.executable), function, paths[title], tmp_path / "out")
                assert ("right", "") == judged(expected, what), (title, function)


def test_the_document_has_what_was_measured() -> None:
    """Each cell of the last run that was kept, of each reader."""
    cells = recorded()
    names = {f"{one.name}: {each.title}" for one in ENGINES for each in one.readers}
    assert names == {one.reader for one in cells}
    for engine in ENGINES:
        for each in engine.readers:
            reader = f"{engine.name}: {each.title}"
            tables = {title for title, (form, _) in TABLES.items() if form == each.form}
            assert tables == {one.table for one in cells if one.reader == reader}
    kept = DOCUMENT.read_text().partition(BEGIN)[2].partition(END)[0]
    assert shown(cells) == kept


@pytest.mark.nightly
def test_engines_read_as_the_document_says(tmp_path: Path) -> None:
    """Each in an environment of its own, with the versions that are named."""
    expected, paths = written(tmp_path)
    assert min(map(most_groups, paths.values())) > 1
    cells = run(tmp_path, expected, paths, lambda _: None)
    measured = {(one.reader, one.table): one.verdict for one in cells}
    assert {(one.reader, one.table): one.verdict for one in recorded()} == measured
