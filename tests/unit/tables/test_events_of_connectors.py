"""Tables of the events that Debezium's connector wrote of a real PostgreSQL: all operations, large
values that an update leaves as they are, and changes of the table in the source.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.change_events import LARGE, in_bytes, kept, put_schemas
from tests.log_builder import LogBuilder, Pair
from tests.table_rows import read_table
from tests.table_world import place, update

FORMS = ("json", "avro")
Rows = dict[int, dict[str, Any]]


def events(name: str, form: str, topic: str, tmp_path: Path) -> tuple[list[Pair], dict[str, Any]]:
    """The records of a topic, and the spec of their values."""
    run = kept()[name]
    put_schemas(run, tmp_path / "schemas")
    of: dict[str, Any] = {"format": "json"}
    if form == "avro":
        of = {"format": "registry", "schemas": str(tmp_path / "schemas")}
    pairs = [
        in_bytes(pair)
        for pair, each in zip(run[form], run["topics"], strict=True)
        if each == f"shop.{topic}"
    ]
    return pairs, {"key": of, "value": {"format": "debezium", "of": of, "truncate": "delete"}}


def tables(
    pairs: list[Pair], settings: dict[str, Any], ends: list[int], tmp_path: Path
) -> tuple[list[Rows], list[Any]]:
    """The rows after each of some updates, by id; and what the last partition said of each."""
    where = place("parquet", tmp_path / "tables" / "t", **settings)
    assert where.directory is not None
    shown, said = [], []
    for end in ends:
        log = LogBuilder(tmp_path / f"logs-{end}", "t-0")
        segment = log.segment(0)
        for offset, pair in enumerate(pairs[:end]):
            segment.batch(offset, [pair])
        log.write()
        done = update(where, log.log_dir)
        assert (0, {}) == (done.quarantined, done.result.failures)
        rows = read_table("parquet", where.directory).to_pylist()
        shown.append({row["id"]: row for row in rows})
        assert len(rows) == len(shown[-1])
        said.extend(done.result.partitions)
    return shown, said


@pytest.mark.parametrize("form", FORMS)
def test_changes(tmp_path: Path, form: str) -> None:
    """Created, read, updated with and without large values, its key changed, deleted; with a column
    that is added, one that is dropped, one that is wider, and a wider key: as the source has it.
    """
    pairs, settings = events("changes", form, "public.changes", tmp_path)
    (rows,), (said,) = tables(pairs, settings | {"unique_by": "decoded"}, [len(pairs)], tmp_path)
    source = {int(row["id"]): row for row in kept()["changes"]["rows"]}
    assert {3, 4, 5, 5_000_000_000} == source.keys() == rows.keys()
    assert {at: int(row["n"]) for at, row in source.items()} == {
        at: row["n"] for at, row in rows.items()
    }
    added = {at: row["more"] for at, row in source.items()}
    added[5] = "m"  # Connect writes the default of a column in place of null
    if form == "json":
        added[3] = None  # an event before the column was added: JSON has no later schema's default
    assert added == {at: row["more"] for at, row in rows.items()}
    # The new key of a row has none of its large values, and what was before has another key.
    assert "b" * LARGE == source[3]["doc"]
    assert (None, 1) == (rows[3]["doc"], said.unknown)


@pytest.mark.parametrize("form", FORMS)
def test_large_values_that_an_update_leaves_as_they_are(tmp_path: Path, form: str) -> None:
    """They stay, of every type; one that is changed is new."""
    pairs, settings = events("changes", form, "public.changes", tmp_path)
    (first, second, third), _ = tables(pairs, settings, [2, 4, 5], tmp_path)
    assert [1, 2] == sorted(first)
    for at, letter in ((1, "a"), (2, "b")):
        assert (at, letter * LARGE) == (first[at]["n"], first[at]["doc"])
        assert letter.encode() * LARGE == first[at]["raw"]
        assert [letter * LARGE, "x"] == first[at]["tags"]
        assert [*range(1, LARGE + 1)] == first[at]["numbers"]
        assert LARGE // 10 == len(first[at]["ids"])
        assert [("k", letter * LARGE)] == first[at]["pairs"]
        assert large(first[at]) == large(second[at])
        assert at + 10 == second[at]["n"]
    assert large(first[1]) | {"doc": "b" * LARGE} == large(third[1])


def large(row: dict[str, Any]) -> dict[str, Any]:
    """The columns of large values."""
    return {name: row[name] for name in ("doc", "raw", "tags", "numbers", "ids", "pairs")}


@pytest.mark.parametrize("form", FORMS)
def test_a_truncation(tmp_path: Path, form: str) -> None:
    """It has no key, and the rows before it go."""
    pairs, settings = events("truncation", form, "public.emptied", tmp_path)
    assert [False, False, True, False] == [key is None for key, _ in pairs]
    (first, last), _ = tables(pairs, settings, [2, 4], tmp_path)
    assert ([1, 2], [3]) == (sorted(first), sorted(last))
