"""Tables of Delta and Iceberg over many versions: rows that are deleted by position, files that are
written again, and old versions.
"""

from __future__ import annotations

import json
import os
import random
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyiceberg.catalog import load_catalog

from logwright.errors import InvariantError
from logwright.tables import delta
from logwright.tables.files import AGE_MS
from logwright.tables.merge import MergeLimits
from logwright.tables.model import UnknownTable
from logwright.tables.topic import LocatedTable, open_store, read_rows
from tests.log_builder import Pair
from tests.table_rows import Rows, expected_rows, iceberg_files, table_rows
from tests.table_world import DAY_MS, NOW_MS, place, random_pairs, three_logs, update, write_logs

BUCKETS = 3
MERGING = ("delta", "iceberg")
KEYS = 120
VERSIONS = 9


def grown(tmp_path: Path, pairs: list[Pair], version: int) -> Path:
    """The log at one of the versions."""
    end = 300 + version * 20
    return write_logs(tmp_path / f"logs-{version}", {0: pairs[:end]})


def own_rows(where: LocatedTable) -> Rows:
    """The rows as logwright's own reader has them, for previews and checks."""
    store = open_store(where)
    snapshot = store.load()
    assert snapshot is not None
    columns = ["offset", "key", "value"]
    rows = pa.Table.from_batches(read_rows(store, snapshot, columns))
    assert snapshot.rows == rows.num_rows
    return sorted((0, *row.values()) for row in rows.to_pylist())


def test_what_was_not_loaded_has_no_deleted_rows_to_show(tmp_path: Path) -> None:
    """A store of Delta that was not loaded fails, instead of showing rows that are deleted."""
    where = place("delta", tmp_path / "table", buckets=BUCKETS)
    logs = write_logs(tmp_path / "logs", {0: [(b"a", b"1")]})
    snapshot = update(where, logs).result.snapshot
    assert snapshot is not None
    with pytest.raises(InvariantError, match="not loaded"):
        next(iter(read_rows(open_store(where), snapshot, ["offset"])))


@pytest.mark.parametrize("form", MERGING)
def test_many_updates(tmp_path: Path, form: str, seed: int) -> None:
    """Whichever files are written again, and whichever only lose rows, by limits that change."""
    draw = random.Random(seed)
    pairs = random_pairs(draw, 1000, keys=KEYS)
    where = place(form, tmp_path / "table", buckets=BUCKETS, keep_versions_ms=1)
    kept = written_again = 0
    before: frozenset[str] = frozenset()
    for version in range(VERSIONS):
        limits = MergeLimits(
            small_bytes=draw.choice([0, 0, 0, 10**6]),
            deleted_share=draw.choice([0.1, 0.25, 0.6]),
            files=draw.choice([2, 4, 8]),
        )
        log_dir = grown(tmp_path, pairs, version)
        snapshot = update(replace(where, limits=limits), log_dir).result.snapshot
        assert snapshot is not None
        files = frozenset(file.path for file in snapshot.files)
        kept, written_again = kept + len(before & files), written_again + len(before - files)
        before = files
        expected = expected_rows(log_dir, "t")
        assert expected == table_rows(form, tmp_path / "table"), version
        assert expected == own_rows(where), version
    assert kept > 0
    assert written_again > 0


@pytest.mark.parametrize("form", MERGING)
def test_copy_on_write(tmp_path: Path, form: str, seed: int) -> None:
    """By the setting, no row of a file is deleted; also in a table that had such rows."""
    pairs = random_pairs(random.Random(seed), 1000, keys=KEYS)
    whole = place(form, tmp_path / "whole", buckets=BUCKETS, update_mode="copy-on-write")
    mixed = place(form, tmp_path / "mixed", buckets=BUCKETS)
    for version in range(VERSIONS):
        log_dir = grown(tmp_path, pairs, version)
        snapshot = update(whole, log_dir).result.snapshot
        assert snapshot is not None
        assert (0, BUCKETS) == (sum(snapshot.deleted.values()), len(snapshot.files))
        assert expected_rows(log_dir, "t") == table_rows(form, tmp_path / "whole")
        if version == VERSIONS - 1:
            mixed = place(form, tmp_path / "mixed", buckets=BUCKETS, update_mode="copy-on-write")
        snapshot = update(mixed, log_dir).result.snapshot
        assert expected_rows(log_dir, "t") == table_rows(form, tmp_path / "mixed")
    assert snapshot is not None
    assert (0, BUCKETS) == (sum(snapshot.deleted.values()), len(snapshot.files))
    if form == "delta":
        table = DeltaTable(str(tmp_path / "whole"))
        assert (1, 2) == (table.protocol().min_reader_version, table.protocol().min_writer_version)
        assert len(expected_rows(log_dir, "t")) == table.to_pyarrow_table().num_rows


@pytest.mark.parametrize("form", MERGING)
def test_old_versions_are_removed(tmp_path: Path, form: str, seed: int) -> None:
    """After their time; before it their files stay."""
    logs = three_logs(tmp_path, random.Random(seed))
    kept = place(form, tmp_path / "table", buckets=BUCKETS, keep_versions_ms=DAY_MS)
    update(kept, logs[0])
    assert 0 == update(kept, logs[1]).removed_files
    short = place(form, tmp_path / "table", buckets=BUCKETS, keep_versions_ms=1)
    done = update(short, logs[2], now_ms=NOW_MS)
    assert done.removed_files > 0
    assert done.result.snapshot is not None
    left = {path.name for path in (tmp_path / "table").rglob("*.parquet")}
    used = {Path(file.path).name for file in done.result.snapshot.files}
    if form == "iceberg":
        used |= {Path(path).name for path in iceberg_files(tmp_path / "table")[1]}
    else:
        assert len(list((tmp_path / "table").glob("deletion_vector_*.bin"))) <= 1
    assert used == {name for name in left if "checkpoint" not in name}
    assert expected_rows(logs[2], "t") == table_rows(form, tmp_path / "table")


def test_versions_of_delta_can_be_read(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each, as long as it is kept, also beyond checkpoints of the log, however old its files."""
    monkeypatch.setattr(delta, "_CHECKPOINT_EVERY", 3)
    pairs = random_pairs(random.Random(seed), 1000, keys=KEYS)
    where = place("delta", tmp_path / "table", buckets=BUCKETS, keep_versions_ms=DAY_MS)
    versions = {}
    for version in range(VERSIONS):
        log_dir = grown(tmp_path, pairs, version)
        snapshot = update(where, log_dir).result.snapshot
        assert snapshot is not None
        versions[int(snapshot.version)] = expected_rows(log_dir, "t")
        for path in (tmp_path / "table").glob("deletion_vector_*.bin"):
            os.utime(path, (0, 0))
    assert list((tmp_path / "table/_delta_log").glob("*.checkpoint.parquet"))
    for number, expected in versions.items():
        table = DeltaTable(str(tmp_path / "table"), version=number)
        query = 'SELECT partition, "offset", key, value FROM t'
        read = pa.table(QueryBuilder().register("t", table).execute(query).read_all())
        assert expected == sorted(tuple(row.values()) for row in read.to_pylist()), number


def test_versions_of_iceberg_can_be_read(tmp_path: Path, seed: int) -> None:
    """By pyiceberg, and their totals are in the snapshots' summaries."""
    pairs = random_pairs(random.Random(seed), 1000, keys=KEYS)
    where = place("iceberg", tmp_path / "table", buckets=BUCKETS)
    expected = []
    for version in range(VERSIONS):
        log_dir = grown(tmp_path, pairs, version)
        update(where, log_dir)
        expected.append(expected_rows(log_dir, "t"))
    uri = f"sqlite:///{tmp_path}/table/catalog.db"
    table = load_catalog("logwright", type="sql", uri=uri).load_table("latest_state.t")
    columns = ("partition", "offset", "key", "value")
    for rows, snapshot in zip(expected, table.snapshots(), strict=True):
        read = table.scan(snapshot_id=snapshot.snapshot_id, selected_fields=columns).to_arrow()
        assert rows == sorted(zip(*(read[name].to_pylist() for name in columns), strict=True))
        assert snapshot.summary is not None
        totals = snapshot.summary.additional_properties
        live = int(totals["total-records"] or 0) - int(totals["total-position-deletes"] or 0)
        assert len(rows) == live


def test_rows_that_another_program_deleted(tmp_path: Path) -> None:
    """By a deletion vector or without it: they are noticed, and come back from the log."""
    pairs = [(f"k{number}", "v") for number in range(50)]
    where = place("delta", tmp_path / "table", buckets=1)
    update(where, write_logs(tmp_path / "a", {0: pairs}))
    log_dir = write_logs(tmp_path / "b", {0: [*pairs, ("k1", None)]})
    update(where, log_dir)
    log = tmp_path / "table/_delta_log"
    last = max(log.glob("*.json"))
    actions = [json.loads(line) for line in last.read_text().splitlines()]
    foreign = [{"commitInfo": {"timestamp": NOW_MS, "operation": "DELETE"}}]
    for action in actions:
        if "add" in action and "deletionVector" in action["add"]:
            added = action["add"]
            removed = {name: added[name] for name in ("path", "partitionValues", "size")}
            removed |= {"deletionTimestamp": NOW_MS, "dataChange": True}
            foreign.append({"remove": removed | {"deletionVector": added.pop("deletionVector")}})
            foreign.append({"add": added})
    assert len(foreign) == 3
    other = log / f"{int(last.stem) + 1:020d}.json"
    other.write_text("".join(f"{json.dumps(action)}\n" for action in foreign))
    (done,) = update(where, log_dir).result.partitions
    assert f"another program has changed the table: DELETE in version {other.stem[-1]}" == (
        done.step.reason
    )
    assert expected_rows(log_dir, "t") == table_rows("delta", tmp_path / "table")


def test_files_of_other_programs_stay(tmp_path: Path, seed: int) -> None:
    """Statistics next to the metadata of an Iceberg table, however old."""
    logs = three_logs(tmp_path, random.Random(seed))
    where = place("iceberg", tmp_path / "table", buckets=BUCKETS, keep_versions_ms=1)
    update(where, logs[0])
    statistics = tmp_path / "table/metadata/statistics.puffin"
    statistics.write_bytes(b"x")
    os.utime(statistics, (0, 0))
    (tmp_path / "table/metadata/others").mkdir()
    metadata = set((tmp_path / "table/metadata").glob("*.avro"))
    for log_dir in logs[1:]:
        assert update(where, log_dir).removed_files > 0
    assert statistics.exists()
    assert metadata - set((tmp_path / "table/metadata").glob("*.avro"))


def test_a_vector_of_a_bucket_that_no_version_knows_stays_for_a_time(tmp_path: Path) -> None:
    """It may be of a version that is about to be committed, also where no old version is kept."""
    log_dir = write_logs(tmp_path / "logs", {0: [("a", "1")]})
    where = place("delta", f"file://{tmp_path}/table", buckets=1, keep_versions_ms=0)
    update(where, log_dir)
    young, old = (tmp_path / f"table/deletion_vector_{name}.bin" for name in ("young", "old"))
    for path, age_ms in ((young, AGE_MS // 2), (old, AGE_MS * 2)):
        path.write_bytes(b"")
        os.utime(path, (time.time() - age_ms / 1000,) * 2)
    assert 1 == update(where, log_dir).removed_files
    assert [young] == list((tmp_path / "table").glob("deletion_vector_*.bin"))


@pytest.mark.parametrize("vectors", ["{", "[]", '{"x": 1}', '{"x": {"storageType": "i"}}'])
def test_deletion_vectors_that_are_not_readable(tmp_path: Path, vectors: str) -> None:
    """They are refused by name."""
    log_dir = write_logs(tmp_path / "logs", {0: [("a", "1")]})
    where = place("delta", tmp_path / "table", buckets=1)
    update(where, log_dir)
    log = tmp_path / "table/_delta_log"
    info = {"timestamp": NOW_MS, "operation": "WRITE"}
    info |= {
        name: value
        for name, value in DeltaTable(str(tmp_path / "table")).history(1)[0].items()
        if name.startswith("logwright.")
    }
    info[delta.VECTORS_KEY] = vectors
    (log / f"{1:020d}.json").write_text(json.dumps({"commitInfo": info}) + "\n")
    with pytest.raises(UnknownTable, match="its deletion vectors are not readable"):
        update(where, log_dir)
