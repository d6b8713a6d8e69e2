"""Nobody who is in a table is gone: a search says where, or that it did not look."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog

from logwright.erasure.find.columns import hits_in
from logwright.erasure.find.result import SearchResult
from logwright.erasure.find.tables import search_table_files
from logwright.erasure.keys import KeySet
from logwright.erasure.request import Request
from tests.found import SECRET
from tests.hidden_in_tables import HIDDEN, unions
from tests.plants_in_tables import PERSONS, Hidden

PAGE = Path(__file__).parents[4] / "docs/what-is-searched.md"
NAMES = [f"{hidden.kind}: {hidden.name}" for hidden in HIDDEN]


def by_hmac(key: str) -> KeySet:
    """A request that has no filter: nothing but the HMAC is known of it."""
    hmac = SECRET.hmac(key.encode())
    request = Request(id="r", topics="t", hmac=hmac, filter=None, received_at_ms=0, deadline_ms=0)
    return KeySet.of(SECRET, requests=[request])


def in_clear(key: str) -> KeySet:
    return KeySet.of(SECRET, clear=[key.encode()])


def said_of(result: SearchResult) -> str:
    """What is said of the request."""
    if result.findings:
        return "found"
    return "not searched" if result.unsearched else "gone"


@pytest.mark.parametrize("hidden", HIDDEN, ids=NAMES)
def test_hidden(hidden: Hidden, tmp_path: Path) -> None:
    """It is found, or named as not searched, whether the key is known or its HMAC only; and nobody
    else is found there. No path or reason has the key.
    """
    hidden.plant(tmp_path / "t", hidden.keys[0])
    for request in (in_clear, by_hmac):
        result = search_table_files(tmp_path / "t", request(hidden.keys[0]))
        assert hidden.says == said_of(result)
        shown = [row.path for row in result.findings]
        shown += [text for part in result.unsearched for text in (part.path, part.problem)]
        for name in (hidden.keys[0], quote(hidden.keys[0])):
            assert not [text for text in shown if name in text]
        other = search_table_files(tmp_path / "t", request(hidden.keys[1]))
        assert [] == other.findings
    hidden.plant(tmp_path / "twin", hidden.keys[1])
    twin = search_table_files(tmp_path / "twin", in_clear(hidden.keys[0]))
    proved = hidden.says == "found" and hidden.name != "values"
    assert ("gone" if proved else "not searched") == said_of(twin)


@pytest.mark.parametrize("name", unions(PERSONS[0]))
def test_types_of_arrow(name: str) -> None:
    """Those that no Parquet file has, too; a row is found by its number."""
    for who, rows in zip(PERSONS, ([2], []), strict=True):
        batch = pa.record_batch({"x": unions(who)[name]})
        hits, problems, _ = hits_in(batch, 0, in_clear(PERSONS[0]), ())
        assert (rows, []) == ([row for _, _, row, _ in hits], problems)


def test_all_types_of_arrow_are_searched_or_named() -> None:
    """A type that is not known has a problem, which has its position and no name of a column."""
    interval = pa.array([pa.MonthDayNano([1, 2, 3])])
    for column in (interval, pa.array([[interval[0]]]), interval.dictionary_encode()):
        batch = pa.record_batch({"n": [1], PERSONS[0]: column})
        hits, (problem,), _ = hits_in(batch, 0, in_clear(PERSONS[0]), ())
        assert [] == hits
        assert problem == (
            "its column 2 has values of the type month_day_nano_interval, which is not searched"
        )
    for column in (pa.nulls(2), pa.array([True, None]), pa.array([], pa.list_(pa.null()))):
        assert ([], [], set()) == hits_in(pa.record_batch({"x": column}), 0, in_clear("1"), ())


def test_serializers_of_kafka() -> None:
    """A key may be a number as a serializer wrote it, where a column has the number."""
    batch = pa.record_batch({"a": [7], "b": pa.array([7], pa.int16()), "c": [7.0]})
    for size, columns in ((2, 1), (4, 3), (8, 3)):
        keys = KeySet.of(SECRET, clear=[(7).to_bytes(size, "big")])
        having = [name for name in "abc" if hits_in(batch.select([name]), 0, keys, ())[0]]
        assert columns == len(having)


def write_tables(root: Path) -> list[Path]:
    """Tables of two libraries, after what they can do without a condition."""
    for number in range(3):
        rows = pa.table({"key": [b"a", b"b"], "p": ["x", "y"], "n": [1001, 1002]})
        write_deltalake(root / "delta", rows, mode="append", partition_by=["p"])
        last = DeltaTable(root / "delta")
        if number == 1:
            last.optimize.compact()
            last.create_checkpoint()
    last.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    (root / "iceberg").mkdir()
    address = f"file://{root}/iceberg"
    catalog = SqlCatalog("c", uri=f"sqlite:///{root}/iceberg/catalog.db", warehouse=address)
    catalog.create_namespace("db")
    rows = rows.drop_columns(["p"])
    table = catalog.create_table("db.t", schema=rows.schema)
    table.append(rows)
    table.overwrite(rows)
    catalog.close()
    return [root / "delta", root / "iceberg"]


def test_no_false_alarm(tmp_path: Path) -> None:
    """Numbers and words that writers leave in each table are not keys."""
    numbers = [str(number) for number in range(100) if f"-{number}" not in str(tmp_path)]
    words = ["snappy.parquet", "py-1", "rs", "c000", "part-00000", "metadata.json", "name-mapping"]
    keys = KeySet.of(SECRET, clear=[text.encode() for text in [*numbers, *words]])
    for root in write_tables(tmp_path):
        result = search_table_files(root, keys)
        assert [] == result.findings
        assert [] == result.unsearched


def test_the_page_names_the_same_kinds() -> None:
    """The table of the document is the list of the tests."""
    section = PAGE.read_text().partition("\n## Tables\n")[2].partition("\n## ")[0]
    kinds = re.findall(r"^\| ([^|]+?) \| [^|]+ \| (found|not searched) \|$", section, re.MULTILINE)
    assert {(hidden.kind, hidden.says) for hidden in HIDDEN} == set(kinds)
    assert len(kinds) == len(set(kinds))
