"""Each format: the table is what a plain dictionary over the log's records holds, also after the
process died at any of its effects.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFile

from logwright.errors import LogDirLocked, StepFailed
from logwright.tables import delta
from logwright.tables.local_files import lock_table
from logwright.tables.model import OtherForm, UnknownTable
from logwright.tables.topic import Place
from tests.table_rows import FORMATS, expected_rows, read_table, table_rows, version_of
from tests.table_world import DAY_MS, NOW_MS, place, random_pairs, update, write_logs

BUCKETS = 3
RECORDS = 150


class Died(BaseException):
    """The process is gone: nothing catches it."""


class Effects:
    """Counts effects, and dies before or after one of them."""

    def __init__(self) -> None:
        self.done = 0
        self.dies_at: int | None = None

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, counted."""

        def called(*arguments: object, **named: object) -> object:
            self._step()
            result = function(*arguments, **named)
            self._step()
            return result

        return called

    def _step(self) -> None:
        self.done += 1
        if self.done == self.dies_at:
            self.dies_at = None
            raise Died


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Effects]:
    """Count the effects of an update on the table: of the file system, and commits of libraries."""
    effects = Effects()
    places: list[tuple[Any, str]] = [
        *((os, name) for name in ("fsync", "replace", "unlink")),
        *((Path, name) for name in ("replace", "unlink", "mkdir")),
        (shutil, "rmtree"),
        (delta, "create_table_with_add_actions"),
        *((DeltaTable, name) for name in ("create_write_transaction", "vacuum")),
        *((SqlCatalog, name) for name in ("commit_table", "create_namespace_if_not_exists")),
        (PyArrowFile, "create"),
    ]
    with monkeypatch.context() as patched:
        for owner, name in places:
            patched.setattr(owner, name, effects.wrap(getattr(owner, name)))
        yield effects


def three_logs(tmp_path: Path, draw: random.Random) -> list[Path]:
    """The same two partitions at three times."""
    whole = {number: random_pairs(draw, 3 * RECORDS) for number in range(2)}
    return [
        write_logs(
            tmp_path / f"logs-{time}",
            {number: pairs[: time * RECORDS] for number, pairs in whole.items()},
        )
        for time in (1, 2, 3)
    ]


@pytest.mark.parametrize("form", FORMATS)
def test_first_load_upsert_and_rerun(tmp_path: Path, form: str, seed: int) -> None:
    """Only new offsets are read; a rerun has no new version; a bucket without changes stays."""
    logs = three_logs(tmp_path, random.Random(seed))
    where = place(form, tmp_path / "table", buckets=BUCKETS)
    done = update(where, logs[0])
    assert expected_rows(logs[0], "t") == table_rows(form, tmp_path / "table")
    assert {"rebuild"} == {one.step.kind for one in done.result.partitions}
    version = version_of(form, tmp_path / "table")
    again = update(where, logs[0])
    assert (version, False) == (version_of(form, tmp_path / "table"), again.result.changed)
    for log_dir in logs[1:]:
        done = update(where, log_dir)
        assert expected_rows(log_dir, "t") == table_rows(form, tmp_path / "table")
        for one in done.result.partitions:
            assert ("upsert", RECORDS) == (
                one.step.kind,
                one.step.end_offset - (one.step.start_offset or 0),
            )
            assert 0 < one.records <= RECORDS
        assert done.result.snapshot is not None
        assert len(expected_rows(log_dir, "t")) == done.result.snapshot.rows


@pytest.mark.parametrize("form", FORMATS)
def test_one_key_rewrites_one_bucket(tmp_path: Path, form: str) -> None:
    """The files of the others stay as they are."""
    pairs = [(f"k{number}", "v") for number in range(100)]
    first = write_logs(tmp_path / "a", {0: pairs})
    second = write_logs(tmp_path / "b", {0: [*pairs, ("k7", "w")]})
    where = place(form, tmp_path / "table", buckets=8)
    before = update(where, first).result.snapshot
    done = update(where, second).result
    assert before is not None
    assert done.snapshot is not None
    assert (1, 1, 1) == tuple(
        getattr(done.partitions[0], name) for name in ("records", "written", "buckets")
    )
    kept = {file.path for file in before.files} & {file.path for file in done.snapshot.files}
    assert len(kept) == (8 if form == "parquet" else 7)
    assert expected_rows(second, "t") == table_rows(form, tmp_path / "table")


@pytest.mark.parametrize("form", FORMATS)
def test_tombstones(tmp_path: Path, form: str) -> None:
    """They take rows away, and what has no row changes nothing; a table can become empty."""
    pairs = [("a", "1"), ("b", "2")]
    where = place(form, tmp_path / "table", buckets=2)
    update(where, write_logs(tmp_path / "1", {0: pairs}, size=1))
    gone = [*pairs, ("a", None), ("x", None)]
    done = update(where, write_logs(tmp_path / "2", {0: gone}, size=1)).result
    assert (1, 2) == (done.partitions[0].deleted, done.partitions[0].records)
    assert [(0, 1, b"b", b"2")] == table_rows(form, tmp_path / "table")
    empty = [*gone, ("b", None)]
    assert update(where, write_logs(tmp_path / "3", {0: empty}, size=1)).result.snapshot is not None
    assert [] == table_rows(form, tmp_path / "table")
    back = [*empty, ("a", "3")]
    update(where, write_logs(tmp_path / "4", {0: back}, size=1))
    assert [(0, 5, b"a", b"3")] == table_rows(form, tmp_path / "table")


@pytest.mark.parametrize("form", FORMATS)
def test_rebuilds(tmp_path: Path, form: str, seed: int) -> None:
    """A partition is made again when its log is another one, and the reason is in the result."""
    draw = random.Random(seed)
    where = place(form, tmp_path / "table", buckets=BUCKETS)
    update(where, write_logs(tmp_path / "a", {0: random_pairs(draw, RECORDS)}))
    pairs = random_pairs(draw, RECORDS)
    begun = write_logs(tmp_path / "b", {0: pairs}, log_start=20)
    another = write_logs(tmp_path / "c", {0: random_pairs(draw, RECORDS)}, log_start=20)
    for log_dir, topic_id, reason in (
        (begun, None, "the log start offset was 0 and is 20"),
        (another, "B" * 22, "the topic id was None and is BBB"),
    ):
        (one,) = update(where, log_dir, topic_id=topic_id).result.partitions
        assert "rebuild" == one.step.kind
        assert reason in one.step.reason
        assert expected_rows(log_dir, "t") == table_rows(form, tmp_path / "table")


@pytest.mark.parametrize("form", FORMATS)
def test_a_log_that_was_cut_off(tmp_path: Path, form: str, seed: int) -> None:
    """Its table is made again: rows of records that are gone go too."""
    logs = three_logs(tmp_path, random.Random(seed))
    where = place(form, tmp_path / "table", buckets=BUCKETS)
    update(where, logs[1])
    done = update(where, logs[0])
    assert all("is below offset" in one.step.reason for one in done.result.partitions)
    assert expected_rows(logs[0], "t") == table_rows(form, tmp_path / "table")


@pytest.mark.parametrize("end", [60, 80, 100])
def test_a_log_that_was_cut_off_and_grew_again(tmp_path: Path, end: int, seed: int) -> None:
    """To less, as much or more: the table notices by the last batch that it holds."""
    draw = random.Random(seed)
    same, one, other = (random_pairs(draw, 40) for _ in range(3))
    where = place("parquet", tmp_path / "table", buckets=BUCKETS)
    update(where, write_logs(tmp_path / "a", {0: [*same, *one]}))
    log_dir = write_logs(tmp_path / "b", {0: [*same, *other, *one][:end]})
    (step,) = [part.step for part in update(where, log_dir).result.partitions]
    assert "rebuild" == step.kind
    assert expected_rows(log_dir, "t") == table_rows("parquet", tmp_path / "table")


@pytest.mark.crash
@pytest.mark.parametrize("form", FORMATS)
def test_died_at_every_effect(
    tmp_path: Path, form: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever an update dies, the table is the old one or the new one, and the next update makes
    it right; a reader of Parquet files may see both, bucket by bucket, but no key twice.
    """
    logs = three_logs(tmp_path, random.Random(seed))
    settings = {"buckets": BUCKETS, "keep_versions_ms": 0}
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
        for at in range(1, counts[time] + 1):
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
            shutil.rmtree(trial)


@pytest.mark.crash
@pytest.mark.parametrize("form", FORMATS)
def test_died_with_refused_records(
    tmp_path: Path, form: str, seed: int, monkeypatch: pytest.MonkeyPatch
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
    settings = {"buckets": 2, "value": value, "keep_versions_ms": 0}
    known = {}
    for at in range(1, 500):
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
    assert len(known) > 10
    assert any(79 in found for found in known.values())


def refused_offsets(form: str, where: Place) -> list[int]:
    assert where.directory is not None
    path = where.directory.with_name("table_quarantine")
    if not path.exists():
        return []
    return [int(offset) for offset in read_table(form, path)["offset"].to_pylist()]


def moved(start: Place, trial: Path, form: str) -> Place:
    """A copy of a table. That of Iceberg has absolute paths: it is made there again."""
    assert start.directory is not None
    if form != "iceberg":
        shutil.copytree(start.directory, trial / "table")
    where = place(form, trial / "table", buckets=BUCKETS, keep_versions_ms=0)
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


def is_in_catalog(path: Path) -> bool:
    with closing(sqlite3.connect(path / "catalog.db")) as catalog:
        query = "SELECT count(*) FROM sqlite_master WHERE name = 'iceberg_tables'"
        ((made,),) = catalog.execute(query)
        return bool(made and list(catalog.execute("SELECT * FROM iceberg_tables")))


@pytest.mark.parametrize("form", FORMATS)
def test_other_files_are_not_touched(tmp_path: Path, form: str) -> None:
    """A directory with something else is refused by name."""
    log_dir = write_logs(tmp_path / "logs", {0: [("a", "1")]})
    table = tmp_path / "table"
    table.mkdir()
    (table / "holiday.jpg").write_bytes(b"x")
    with pytest.raises(UnknownTable, match="has 1 entries, but no table of logwright"):
        update(place(form, table), log_dir)
    assert b"x" == (table / "holiday.jpg").read_bytes()


@pytest.mark.parametrize("form", FORMATS)
def test_other_settings_are_refused(tmp_path: Path, form: str) -> None:
    """Another number of buckets, another decoding: by name, and the table stays as it is."""
    log_dir = write_logs(tmp_path / "logs", {0: [("a", "1")]})
    update(place(form, tmp_path / "table", buckets=2), log_dir)
    version = version_of(form, tmp_path / "table")
    for settings in ({"buckets": 3}, {"key": {"format": "string"}}):
        with pytest.raises(OtherForm, match="cannot be continued"):
            update(place(form, tmp_path / "table", **settings), log_dir)
    assert version == version_of(form, tmp_path / "table")
    assert not update(place(form, tmp_path / "table"), log_dir).result.changed


@pytest.mark.parametrize("form", FORMATS)
def test_one_process_at_a_time(tmp_path: Path, form: str) -> None:
    """The second is refused, and nothing is changed."""
    log_dir = write_logs(tmp_path / "logs", {0: [("a", "1")]})
    with lock_table(tmp_path / "table"), pytest.raises(LogDirLocked, match="another process"):
        update(place(form, tmp_path / "table"), log_dir)
    assert update(place(form, tmp_path / "table"), log_dir).result.changed


@pytest.mark.parametrize("form", FORMATS)
def test_a_corrupt_log_stops_only_its_partition(tmp_path: Path, form: str) -> None:
    """The other partition is updated; the next run has it too."""
    many = [(f"k{number}", "v") for number in range(100)]
    log_dir = write_logs(tmp_path / "logs", {0: [("a", "1")], 1: many})
    segment = log_dir / "t-1" / f"{0:020d}.log"
    good = segment.read_bytes()
    segment.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    done = update(place(form, tmp_path / "table"), log_dir)
    assert {1} == done.result.failures.keys()
    assert [(0, 0, b"a", b"1")] == table_rows(form, tmp_path / "table")
    segment.write_bytes(good)
    done = update(place(form, tmp_path / "table"), log_dir)
    assert {} == done.result.failures
    assert expected_rows(log_dir, "t") == table_rows(form, tmp_path / "table")


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the kind of the error, and none of its text."""

    def full(_: int) -> None:
        raise OSError(5, "s3cret")

    log_dir = write_logs(tmp_path / "logs", {0: [("a", "1")]})
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StepFailed, match="OSError EIO") as caught:
        update(place("parquet", tmp_path / "table"), log_dir)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_old_versions_are_removed(tmp_path: Path, form: str, seed: int) -> None:
    """After their time; before it their files stay."""
    logs = three_logs(tmp_path, random.Random(seed))
    kept = place(form, tmp_path / "table", buckets=BUCKETS, keep_versions_ms=DAY_MS)
    update(kept, logs[0])
    assert 0 == update(kept, logs[1]).removed_files
    files = len(list((tmp_path / "table").rglob("*.parquet")))
    short = place(form, tmp_path / "table", buckets=BUCKETS, keep_versions_ms=0)
    done = update(short, logs[2], now_ms=NOW_MS)
    assert done.removed_files >= files
    assert done.result.snapshot is not None
    left = len(list((tmp_path / "table").rglob("*.parquet")))
    assert len(done.result.snapshot.files) == left
    assert expected_rows(logs[2], "t") == table_rows(form, tmp_path / "table")
