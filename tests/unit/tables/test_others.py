"""Rows that other programs have changed are noticed at the next update: made again from the log, or
refused with a way out. What keeps the rows is accepted.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from pyiceberg.catalog import load_catalog
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.types import StringType

from logwright.tables.model import InDoubt, OtherForm, UnknownTable
from logwright.tables.topic import LocatedTable, open_store
from tests.log_builder import LogBuilder
from tests.table_rows import FORMATS, expected_rows, table_rows
from tests.table_world import DAY_MS, NOW_MS, place, random_pairs, update, write_logs

PAIRS = [(f"k{number % 30}", f"v{number}") for number in range(80)]
CHANGED = "another program has changed the table"
Other = Callable[[Path], object]


def delta_rows(path: Path) -> pa.Table:
    query = QueryBuilder().register("t", DeltaTable(str(path))).execute("SELECT * FROM t")
    return pa.table(query.read_all())


def iceberg(path: Path) -> Table:
    uri = f"sqlite:///{path}/catalog.db"
    return load_catalog("logwright", type="sql", uri=uri).load_table("latest_state.t")


def rollback(path: Path) -> None:
    table = iceberg(path)
    first = table.snapshots()[0].snapshot_id
    table.manage_snapshots().set_current_snapshot(first).commit()


def lose_files(path: Path) -> None:
    for file in path.rglob("partition=0/bucket=*/*.parquet"):
        file.unlink()


def replace_one(path: Path) -> None:
    (chosen, *_) = sorted(path.rglob("rows.parquet"))
    with pq.ParquetFile(chosen) as file:
        rows = file.read()
    at = rows.schema.get_field_index("value")
    value = pa.array([b"hacked"] * len(rows), pa.binary())
    pq.write_table(rows.set_column(at, "value", value), chosen)


OTHERS: dict[str, tuple[str, Other]] = {
    "delta restore": ("delta", lambda path: DeltaTable(str(path)).restore(0)),
    "delta delete": ("delta", lambda path: DeltaTable(str(path)).delete('"offset" > 60')),
    "delta delete all": ("delta", lambda path: DeltaTable(str(path)).delete()),
    "delta update": (
        "delta",
        lambda path: DeltaTable(str(path)).update(updates={"value": "'hacked'"}),
    ),
    "delta append": (
        "delta",
        lambda path: write_deltalake(str(path), delta_rows(path).slice(0, 3), mode="append"),
    ),
    "delta overwrite with the same": (
        "delta",
        lambda path: write_deltalake(str(path), delta_rows(path), mode="overwrite"),
    ),
    "delta lost file": ("delta", lose_files),
    "iceberg delete": ("iceberg", lambda path: iceberg(path).delete("offset > 60")),
    "iceberg delete all": ("iceberg", lambda path: iceberg(path).delete("offset >= 0")),
    "iceberg append": (
        "iceberg",
        lambda path: iceberg(path).append(iceberg(path).scan().to_arrow().slice(0, 3)),
    ),
    "iceberg overwrite with the same": (
        "iceberg",
        lambda path: iceberg(path).overwrite(iceberg(path).scan().to_arrow()),
    ),
    "iceberg lost file": ("iceberg", lose_files),
    "parquet lost file": ("parquet", lose_files),
    "parquet replaced file": ("parquet", replace_one),
}


def two_updates(tmp_path: Path, form: str, **settings: object) -> tuple[LocatedTable, Path]:
    """A table after two updates, and the directory of a log that has not grown since."""
    where = place(form, tmp_path / "table", buckets=2, **settings)
    update(where, write_logs(tmp_path / "1", {0: PAIRS[:20], 1: PAIRS[:30]}))
    log_dir = write_logs(tmp_path / "2", {0: PAIRS, 1: PAIRS})
    update(where, log_dir)
    return where, log_dir


@pytest.mark.parametrize("name", OTHERS)
def test_changed_rows_are_made_again(tmp_path: Path, name: str) -> None:
    """Also if the log has nothing new; and the next update has nothing to do."""
    form, other = OTHERS[name]
    where, log_dir = two_updates(tmp_path, form)
    other(tmp_path / "table")
    done = update(where, log_dir).result
    assert all(CHANGED in one.step.reason for one in done.partitions)
    assert expected_rows(log_dir, "t") == table_rows(form, tmp_path / "table")
    assert ["nothing"] * 2 == [one.step.kind for one in update(where, log_dir).result.partitions]


KEEPING: dict[str, tuple[str, Other]] = {
    "compact": ("delta", lambda path: DeltaTable(str(path)).optimize.compact()),
    "z-order": ("delta", lambda path: DeltaTable(str(path)).optimize.z_order(["key"])),
    "vacuum": (
        "delta",
        lambda path: DeltaTable(str(path)).vacuum(
            0, dry_run=False, enforce_retention_duration=False
        ),
    ),
    "checkpoint": ("delta", lambda path: DeltaTable(str(path)).create_checkpoint()),
    "expiry": (
        "iceberg",
        lambda path: (
            iceberg(path)
            .maintenance.expire_snapshots()
            .by_ids([iceberg(path).snapshots()[0].snapshot_id])
            .commit()
        ),
    ),
}


@pytest.mark.parametrize("name", KEEPING)
def test_what_keeps_the_rows_is_accepted(tmp_path: Path, name: str) -> None:
    """The table is continued from there."""
    form, other = KEEPING[name]
    where, log_dir = two_updates(tmp_path, form)
    other(tmp_path / "table")
    assert not update(where, log_dir).result.changed
    grown = write_logs(tmp_path / "3", {0: [*PAIRS, ("k1", None), ("k2", "w")], 1: PAIRS})
    (done, _) = update(where, grown).result.partitions
    assert "upsert" == done.step.kind
    assert expected_rows(grown, "t") == table_rows(form, tmp_path / "table")


def test_a_replacement_with_other_rows_is_not_believed(tmp_path: Path) -> None:
    """Iceberg's operation "replace" says that the rows are the same; they are counted."""
    where, log_dir = two_updates(tmp_path, "iceberg")
    table = iceberg(tmp_path / "table")
    table.delete("offset > 60")
    path = Path(table.refresh().metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_text())
    metadata["snapshots"][-1]["summary"]["operation"] = Operation.REPLACE.value
    path.write_text(json.dumps(metadata))
    done = update(where, log_dir).result.partitions
    assert any("rows, and logwright left" in one.step.reason for one in done)
    assert expected_rows(log_dir, "t") == table_rows("iceberg", tmp_path / "table")


def test_a_rollback_of_iceberg_is_continued(tmp_path: Path) -> None:
    """The snapshot has the progress of then: the new offsets are read again."""
    where, log_dir = two_updates(tmp_path, "iceberg")
    rollback(tmp_path / "table")
    done = update(where, log_dir).result.partitions
    assert ["upsert"] * 2 == [one.step.kind for one in done]
    assert expected_rows(log_dir, "t") == table_rows("iceberg", tmp_path / "table")


def test_files_of_other_programs_in_a_parquet_table(tmp_path: Path) -> None:
    """They are refused by name, and stay; moved away, the table is continued."""
    where, log_dir = two_updates(tmp_path, "parquet")
    stranger = tmp_path / "table/partition=0/bucket=0/part-0.parquet"
    shutil.copyfile(stranger.with_name("rows.parquet"), stranger)
    with pytest.raises(InDoubt, match="1 Parquet files are not of the table") as caught:
        update(where, log_dir)
    assert "Move them away" in str(caught.value)
    stranger.unlink()
    assert not update(where, log_dir).result.changed


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_other_columns_are_refused(tmp_path: Path, form: str) -> None:
    """By name, with a way out that works."""
    where, log_dir = two_updates(tmp_path, form)
    if form == "delta":
        rows = delta_rows(tmp_path / "table").slice(0, 0)
        rows = rows.append_column("more", pa.array([], pa.string()))
        write_deltalake(str(tmp_path / "table"), rows, mode="append", schema_mode="merge")
    else:
        with iceberg(tmp_path / "table").update_schema() as change:
            change.add_column("more", StringType())
    with pytest.raises(OtherForm, match="has changed the columns") as caught:
        update(where, log_dir)
    assert "Remove the table" in str(caught.value)
    shutil.rmtree(tmp_path / "table")
    update(where, log_dir)
    assert expected_rows(log_dir, "t") == table_rows(form, tmp_path / "table")


def test_a_log_of_delta_that_was_cleaned(tmp_path: Path) -> None:
    """Without a commit of logwright it is refused, and it is said what was lost."""
    where, log_dir = two_updates(tmp_path, "delta")
    table = DeltaTable(str(tmp_path / "table"))
    table.optimize.z_order(["key"])
    table = DeltaTable(str(tmp_path / "table"))
    table.create_checkpoint()
    for path in (tmp_path / "table/_delta_log").glob("*.json"):
        if int(path.stem) < table.version():
            path.unlink()
    with pytest.raises(UnknownTable, match="it was cleaned, and has no commit of logwright"):
        update(where, log_dir)


@pytest.mark.parametrize("form", FORMATS)
def test_a_partition_that_has_no_log_here(tmp_path: Path, form: str) -> None:
    """Its rows cannot be made again: the whole update is refused, and nothing is removed."""
    where, log_dir = two_updates(tmp_path, form)
    lose_files(tmp_path / "table")
    shutil.move(log_dir / "t-1", tmp_path / "away")
    with pytest.raises(InDoubt, match="partition 1 has no log here"):
        update(where, log_dir)
    shutil.move(tmp_path / "away", log_dir / "t-1")
    update(where, log_dir)
    assert expected_rows(log_dir, "t") == table_rows(form, tmp_path / "table")


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_in_doubt_stays_so_until_it_is_made_again(tmp_path: Path, form: str) -> None:
    """A log that cannot be read keeps its partition in doubt, also after a commit of the other."""
    where, log_dir = two_updates(tmp_path, form)
    for path in sorted((tmp_path / "table").rglob("partition=1/bucket=*/*.parquet")):
        path.unlink()
    segment = log_dir / "t-1" / f"{0:020d}.log"
    good = segment.read_bytes()
    segment.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    done = update(where, log_dir).result
    assert ({1}, True) == (done.failures.keys(), done.changed)
    segment.write_bytes(good)
    (_, partition) = update(where, log_dir).result.partitions
    assert CHANGED in partition.step.reason
    assert expected_rows(log_dir, "t") == table_rows(form, tmp_path / "table")


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_old_versions_go_by_age_also_if_nothing_is_new(tmp_path: Path, form: str) -> None:
    """In every run."""
    where, log_dir = two_updates(tmp_path, form, keep_versions_ms=DAY_MS)
    files = len(list((tmp_path / "table").rglob("*.parquet")))
    assert 0 == update(where, log_dir).removed_files
    table = where.table.model_copy(update={"keep_versions_ms": 0})
    done = update(replace(where, table=table), log_dir)
    assert not done.result.changed
    assert 0 < done.removed_files < files


@pytest.mark.parametrize("form", ["delta", "iceberg"])
@pytest.mark.parametrize("killed", [False, True])
def test_after_an_erasure_old_versions_go_at_once(
    tmp_path: Path, form: str, *, killed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever their age; and after an update that died before that, in the next one."""
    where, log_dir = two_updates(tmp_path, form, keep_versions_ms=DAY_MS)
    for number in (0, 1):
        work = log_dir / f"t-{number}/.logwright"
        work.mkdir()
        (work / "erased.json").write_text("of no use, but another one\n")
    if killed:
        with monkeypatch.context() as patch:
            store = type(open_store(where))
            patch.setattr(store, "remove_old", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                update(where, log_dir)
    done = update(where, log_dir)
    assert done.removed_files > 0
    snapshot = done.result.snapshot
    assert snapshot is not None
    left = {path.name for path in (tmp_path / "table").rglob("partition=*/bucket=*/*.parquet")}
    assert {Path(file.path).name for file in snapshot.files} == left


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_deleted_rows_leave_the_files_by_age(tmp_path: Path, form: str) -> None:
    """Also if nothing is new: then the files are written again without them."""
    where = place(form, tmp_path / "table", buckets=2, keep_versions_ms=DAY_MS)
    update(where, write_logs(tmp_path / "1", {0: PAIRS}))
    log_dir = write_logs(tmp_path / "2", {0: [*PAIRS, ("k1", None)]})
    snapshot = update(where, log_dir).result.snapshot
    assert snapshot is not None
    assert 1 == sum(snapshot.deleted.values())
    assert not update(where, log_dir, now_ms=NOW_MS + DAY_MS - 1).result.changed
    done = update(where, log_dir, now_ms=NOW_MS + DAY_MS).result
    assert done.changed
    assert done.snapshot is not None
    assert 0 == sum(done.snapshot.deleted.values())
    assert expected_rows(log_dir, "t") == table_rows(form, tmp_path / "table")
    assert not update(where, log_dir, now_ms=NOW_MS + 9 * DAY_MS).result.changed


@pytest.mark.parametrize("form", FORMATS)
def test_a_key_whose_tombstone_is_gone(tmp_path: Path, form: str, seed: int) -> None:
    """Its row goes at once, whatever the time and the settings; other rows stay."""
    draw = random.Random(seed)
    pairs = random_pairs(draw, 100)
    where = place(form, tmp_path / "table", buckets=2)
    update(where, write_logs(tmp_path / "1", {0: pairs}, size=1))
    newest = {key: value for key, value in pairs if key is not None}
    (last, _) = pairs[-1]  # if it were gone, the table would be made again
    live = [key for key, value in newest.items() if value is not None and key != last]
    key = draw.choice(sorted(live))
    cleaned = [pair for pair in pairs if pair[0] != key]
    log_dir = tmp_path / "2"
    offsets = [at for at, pair in enumerate(pairs) if pair[0] != key]
    log = LogBuilder(log_dir)
    segment = log.segment(0)
    for at, pair in zip(offsets, cleaned, strict=True):
        segment.batch(at, [pair])
    log.segment(101).batch(101, [("new", "x")])  # the tombstone was at 100
    log.write(cleaner_checkpoint=101)
    (done,) = update(where, log_dir).result.partitions
    assert ("upsert", True, 1) == (done.step.kind, done.step.compares, done.deleted)
    assert expected_rows(log_dir, "t") == table_rows(form, tmp_path / "table")
