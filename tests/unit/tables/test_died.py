"""Updates that die at any of their effects: the table is the old one or the new one, and the next
update makes it right.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from logwright.tables.topic import LocatedTable
from tests.table_deaths import Died, counted
from tests.table_rows import FORMATS, expected_rows, iceberg_files, read_table, table_rows
from tests.table_schemas import ID, LEVEL, Schemas, record
from tests.table_world import place, three_logs, update, write_logs

BUCKETS = 2
PARTS = 12
"""An update dies at every effect; those of one test are so far apart."""

STRIDES = pytest.mark.parametrize("stride", [3, pytest.param(1, marks=pytest.mark.nightly)])
"""At which effects updates die: at each third one, before some and after others; nightly at all."""


@pytest.mark.crash
@pytest.mark.rotates(PARTS)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("form", FORMATS)  # a part by day, of each form
def test_died_at_every_effect(
    tmp_path: Path, form: str, seed: int, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever an update dies, the table is the old one or the new one, and the next update makes
    it right; a reader of Parquet files may see both, bucket by bucket, but no key twice.
    """
    logs = three_logs(tmp_path, random.Random(seed))
    settings = {"buckets": BUCKETS, "keep_versions_ms": 1}
    update(place(form, tmp_path / "other" / "table", **settings), logs[0])  # compiles the kernels
    start = place(form, tmp_path / "start" / "table", **settings)
    with counted(monkeypatch) as effects:
        update(start, logs[0])
        first = effects.done
    counts = {}
    for time, log_dir in enumerate(logs[:2]):
        trial = tmp_path / f"count-{time}"
        where = moved(start, trial, form) if time else place(form, trial / "table", **settings)
        with counted(monkeypatch) as effects:
            update(where, log_dir)
            counts[time] = effects.done
    assert counts[0] == first
    for time, log_dir in enumerate(logs[:2]):
        old = [] if time == 0 else expected_rows(logs[0], "t")
        new = expected_rows(log_dir, "t")
        assert counts[time] > PARTS
        for at in range(1 + part, counts[time] + 1, PARTS):
            trial = tmp_path / f"{time}-{at}"
            where = moved(start, trial, form) if time else place(form, trial / "table", **settings)
            with counted(monkeypatch) as effects:
                effects.dies_at = at
                with pytest.raises(Died):
                    update(where, log_dir)
            check_what_is_seen(form, trial / "table", old, new)
            update(where, log_dir)
            assert new == table_rows(form, trial / "table"), at
            update(where, logs[2])
            assert expected_rows(logs[2], "t") == table_rows(form, trial / "table"), at
            check_what_is_left(form, trial / "table")
            shutil.rmtree(trial)


@pytest.mark.crash
@pytest.mark.rotates(6)
@STRIDES
@pytest.mark.parametrize("form", FORMATS)
def test_died_with_refused_records(
    tmp_path: Path, form: str, seed: int, stride: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is in the quarantine table once, whenever the update died, and its key has no row."""
    draw = random.Random(seed)
    pairs = [
        (f"k{draw.randrange(20)}", draw.choice(['{"id": 1}', '{"id": 2}', "bad", None]))
        for _ in range(80)
    ]
    pairs[-1] = ("k0", "bad")
    logs = [write_logs(tmp_path / f"logs-{end}", {0: pairs[:end]}) for end in (40, 80)]
    value = {"format": "json", "fields": [{"name": "id", "type": "long"}]}
    settings = {"buckets": 2, "value": value, "keep_versions_ms": 1}
    known = {}
    for at in range(1, 500, stride):
        where = place(form, tmp_path / str(at) / "table", **settings)
        update(where, logs[0])
        first = refused_offsets(form, where)
        with counted(monkeypatch) as effects:
            effects.dies_at = at
            try:
                update(where, logs[1])
            except Died:
                known[at] = refused_offsets(form, where)
        update(where, logs[1])
        latest = [(0, row[1], row[2]) for row in expected_rows(logs[1], "t") if row[3] != b"bad"]
        assert latest == table_rows(form, tmp_path / str(at) / "table", ["key"])
        refused = refused_offsets(form, where)
        assert sorted(set(refused)) == sorted(refused)
        assert set(first) <= set(refused)
        assert 79 in refused
        shutil.rmtree(tmp_path / str(at))
        if at not in known:
            break
    assert len(known) * stride > 10
    assert any(79 in found for found in known.values())


@pytest.mark.crash
@pytest.mark.rotates(6)
@STRIDES
@pytest.mark.parametrize("unique", ["partition", "topic"])
@pytest.mark.parametrize("form", FORMATS)
def test_died_while_columns_grow(
    tmp_path: Path, form: str, unique: str, stride: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table has all rows with the earlier columns, or all with the newer ones; a reader of
    Parquet files may see both, bucket by bucket. The next update makes it right.
    """
    schemas = Schemas(tmp_path)
    schemas.add(1, record(ID))
    schemas.add(2, record(ID, LEVEL))
    pairs = [(f"k{number % 9}", schemas.value(1, id=number)) for number in range(30)]
    newer = [(f"k{number}", schemas.value(2, id=number, level="x")) for number in (1, 20)]
    logs = [schemas.logs("logs-1", pairs), schemas.logs("logs-2", [*pairs, *newer])]
    settings = {"keep_versions_ms": 1, "unique": unique}
    old, new = (seen_rows(schemas, form, f"as-{end}", logs[end], settings) for end in (0, 1))
    died = set()
    for at in range(1, 500, stride):
        where = schemas.table(form, f"{at}/table", **settings)
        update(where, logs[0])
        with counted(monkeypatch) as effects:
            effects.dies_at = at
            try:
                update(where, logs[1])
            except Died:
                died.add(at)
        seen = grown_rows(form, tmp_path / str(at) / "table")
        if form == "parquet":  # the columns that a part of the files does not have are null
            known = [{"level": None, **row} for row in (*old, *new)]
            assert all({"level": None, **row} in known for row in seen)
            assert len({row["key"] for row in seen}) == len(seen)
        else:
            assert seen in (old, new)
        update(where, logs[1])
        assert new == grown_rows(form, tmp_path / str(at) / "table")
        shutil.rmtree(tmp_path / str(at))
        if at not in died:
            break
    assert len(died) * stride > 10


def seen_rows(
    schemas: Schemas, form: str, name: str, logs: Path, settings: dict[str, object]
) -> list[dict[str, Any]]:
    """The rows of a table that is made of some logs."""
    where = schemas.table(form, f"{name}/table", **settings)
    update(where, logs)
    assert where.directory is not None
    return grown_rows(form, where.directory)


def grown_rows(form: str, path: Path) -> list[dict[str, Any]]:
    """Offset, key and columns of the values of a table, by another reader."""
    if form == "parquet":
        with duckdb.connect() as connection:
            files = f"{path}/partition=*/bucket=*/*.parquet"
            table = connection.read_parquet(files, union_by_name=True).to_arrow_table()
    else:
        table = read_table(form, path)
    names = [name for name in ("offset", "key", "id", "level") if name in table.column_names]
    rows: list[dict[str, Any]] = table.select(names).to_pylist()
    return sorted(rows, key=lambda row: int(row["offset"]))


def refused_offsets(form: str, where: LocatedTable) -> list[int]:
    assert where.directory is not None
    path = where.directory.with_name("table_quarantine")
    if not path.exists():
        return []
    return [int(offset) for offset in read_table(form, path)["offset"].to_pylist()]


def moved(start: LocatedTable, trial: Path, form: str) -> LocatedTable:
    """A copy of a table. That of Iceberg has absolute paths: it is made there again."""
    assert start.directory is not None
    if form != "iceberg":
        shutil.copytree(start.directory.parent, trial)
    where = place(form, trial / "table", buckets=BUCKETS, keep_versions_ms=1)
    if form == "iceberg":
        update(where, start.directory.parent.parent / "logs-1")
    return where


def check_what_is_seen(form: str, path: Path, old: list[Any], new: list[Any]) -> None:
    """What a reader sees after the death."""
    exists = {
        "parquet": any(path.glob("partition=*/bucket=*/*.parquet")),
        "delta": DeltaTable.is_deltatable(str(path)),
        "iceberg": (path / "catalog.db").exists() and is_in_catalog(path),
    }[form]
    seen = table_rows(form, path) if exists else []
    if form != "parquet":
        assert seen in (old, new)
        return
    assert len({(one[0], one[2]) for one in seen}) == len(seen)
    assert set(seen) <= {*old, *new}


def check_what_is_left(form: str, path: Path) -> None:
    """No file of an update that died stays, if old versions are not kept."""
    names = {one.name for one in path.rglob("*") if one.is_file()}
    files = {name for name in names if name.endswith(".parquet")}
    if form == "delta":
        live = pa.table(DeltaTable(str(path)).get_add_actions())["path"].to_pylist()
        assert files == {Path(one).name for one in live}
        assert {".json"} == {one.suffix for one in (path / "_delta_log").iterdir()}
        assert len([name for name in names if name.startswith("deletion_vector")]) <= 1
    elif form == "iceberg":
        data, deletes = iceberg_files(path)
        assert files == {Path(one).name for one in (*data, *deletes)}


def is_in_catalog(path: Path) -> bool:
    with closing(sqlite3.connect(path / "catalog.db")) as catalog:
        query = "SELECT count(*) FROM sqlite_master WHERE name = 'iceberg_tables'"
        ((made,),) = catalog.execute(query)
        return bool(made and list(catalog.execute("SELECT * FROM iceberg_tables")))
