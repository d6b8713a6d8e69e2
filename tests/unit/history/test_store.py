"""The files of the maintenance history: whole or absent, merged without losing a row."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import fields, replace
from datetime import date
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from logwright.history import store
from logwright.history.model import HistoryRow
from logwright.history.schema import COLUMNS, SCHEMA_VERSION, VERSION_KEY, arrow_schema
from logwright.history.store import (
    MERGE_FILES,
    MERGED_KEY,
    merge_days,
    read_history,
    write_history,
)

DAY_MS = 86_400_000
NOON_MS = 1_767_268_800_000
"""2026-01-01T12:00Z."""
ROW = HistoryRow(
    run_id="run",
    log="t-0",
    topic="t",
    partition=0,
    log_dir="/logs",
    operation="clean",
    started_at_ms=NOON_MS,
    ended_at_ms=NOON_MS + 5,
    why="ratio 0.7",
    bytes_before=100,
    bytes_after=40,
)


def runs(root: Path, count: int, day: int = 0) -> None:
    """Write the files of this many runs of a day."""
    for number in range(count):
        at_ms = NOON_MS + day * DAY_MS + number
        row = replace(ROW, run_id=f"run-{day}-{number}", started_at_ms=at_ms, ended_at_ms=at_ms)
        write_history(root, [row, replace(row, log="t-1", partition=1)], name=row.run_id)


def identities(root: Path) -> list[tuple[str, str]]:
    """Run and log of each row."""
    return [(row["run_id"], row["log"]) for row in read_history(root).to_pylist()]


def test_columns_are_the_fields_of_a_row() -> None:
    """In the same order, ending with the version of logwright."""
    names = [field.name.removesuffix("_ms") for field in fields(HistoryRow)]
    names[names.index("compaction_delay")] = "compaction_delay_ms"
    assert [*names, "logwright_version"] == [column.name for column in COLUMNS]


def test_a_run_is_one_file_of_its_day(tmp_path: Path) -> None:
    """All values are as they were, times as UTC, and the file has the version of the schema."""
    path = write_history(tmp_path, [ROW], name="run")
    assert path == tmp_path / "date=2026-01-01/run.parquet"
    assert [path] == [one for one in tmp_path.rglob("*") if one.is_file()]
    (row,) = read_history(tmp_path).to_pylist()
    assert (100, 40, None) == (row["bytes_before"], row["bytes_after"], row["forecast_bytes"])
    assert "2026-01-01T12:00:00+00:00" == row["started_at"].isoformat()
    assert arrow_schema().equals(pq.read_schema(path))
    assert str(SCHEMA_VERSION).encode() == pq.read_schema(path).metadata[VERSION_KEY]


def test_nothing_done_is_no_file(tmp_path: Path) -> None:
    """And a history that does not exist has no rows."""
    assert write_history(tmp_path / "history", [], name="run") is None
    assert not (tmp_path / "history").exists()
    assert 0 == len(read_history(tmp_path / "history"))
    assert 0 == merge_days(tmp_path / "history", before=date(2030, 1, 1))


def test_an_interrupted_writer_leaves_nothing_that_a_reader_sees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a part of a file under its name, nor, if it had time, a temporary one."""

    def full(*given: object, **more: object) -> None:
        given[1].write(b"PAR1 and")  # type: ignore[attr-defined]
        raise OSError(28, "No space left on device")

    runs(tmp_path, 1)
    with monkeypatch.context() as patch:
        patch.setattr(pq, "write_table", full)
        with pytest.raises(OSError, match="No space"):
            write_history(tmp_path, [ROW], name="full")
    assert [] == list(tmp_path.rglob("*.logwright-tmp"))
    (tmp_path / "date=2026-01-01/.0a0b.logwright-tmp").write_bytes(b"PAR1 and")
    assert 2 == len(read_history(tmp_path))
    assert 2 == len(duckdb.read_parquet(f"{tmp_path}/*/*.parquet").fetchall())


KILLED = """\
import os, signal, sys
from pathlib import Path
import pyarrow.parquet as pq
from logwright.history.store import write_history
from tests.unit.history.test_store import ROW

def dies(table, file, **options):
    file.write(b"PAR1 and")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)

pq.write_table = dies
write_history(Path(sys.argv[1]), [ROW], name="killed")
"""


def test_a_killed_writer_leaves_no_broken_file(tmp_path: Path) -> None:
    """Readers see the other runs; the next run of that name writes its file."""
    runs(tmp_path, 1)
    done = subprocess.run([sys.executable, "-c", KILLED, tmp_path], timeout=120, check=False)
    assert -signal.SIGKILL == done.returncode
    assert 1 == len(list(tmp_path.rglob("*.logwright-tmp")))
    assert 2 == len(read_history(tmp_path))
    assert 2 == len(duckdb.read_parquet(f"{tmp_path}/*/*.parquet").fetchall())
    assert write_history(tmp_path, [ROW], name="killed") is not None
    assert 3 == len(read_history(tmp_path))
    for old, left in ((False, 1), (True, 0)):
        (temporary,) = tmp_path.rglob("*.logwright-tmp")
        if old:
            os.utime(temporary, (0, 0))
        merge_days(tmp_path, before=date(2026, 1, 2))
        assert left == len(list(tmp_path.rglob("*.logwright-tmp")))
    assert 3 == len(read_history(tmp_path))


def test_files_of_past_days_are_merged(tmp_path: Path) -> None:
    """Into one file for each day that has many; the rows are the same; today's files stay."""
    runs(tmp_path, MERGE_FILES, day=0)
    runs(tmp_path, MERGE_FILES - 1, day=1)
    runs(tmp_path, MERGE_FILES, day=2)
    before = identities(tmp_path)
    assert MERGE_FILES - 1 == merge_days(tmp_path, before=date(2026, 1, 3))
    counts = [len(list(day.glob("*.parquet"))) for day in sorted(tmp_path.glob("date=*"))]
    assert [1, MERGE_FILES - 1, MERGE_FILES] == counts
    assert before == identities(tmp_path)
    assert 0 == merge_days(tmp_path, before=date(2026, 1, 3))


@pytest.mark.parametrize("left", range(MERGE_FILES + 1))
def test_an_interrupted_merge_counts_no_row_twice(tmp_path: Path, left: int) -> None:
    """However many of the sources it has left; the next merge removes them."""
    runs(tmp_path, MERGE_FILES)
    before = identities(tmp_path)
    (day,) = tmp_path.glob("date=*")
    sources = {path: path.read_bytes() for path in sorted(day.glob("*.parquet"))}
    merge_days(tmp_path, before=date(2026, 1, 2))
    for path in list(sources)[:left]:
        path.write_bytes(sources[path])
    assert before == identities(tmp_path)
    assert left == merge_days(tmp_path, before=date(2026, 1, 2))
    assert before == identities(tmp_path)
    assert 1 == len(list(day.glob("*.parquet")))


def test_a_run_of_the_night_is_merged_later(tmp_path: Path) -> None:
    """It adds a file to a day that is merged already; the merged file keeps its sources' names."""
    runs(tmp_path, MERGE_FILES)
    merge_days(tmp_path, before=date(2026, 1, 2))
    write_history(tmp_path, [replace(ROW, run_id="late")], name="late")
    merge_days(tmp_path, before=date(2026, 1, 2))
    assert 2 * MERGE_FILES + 1 == len(read_history(tmp_path))
    (merged,) = tmp_path.rglob("merged-*.parquet")
    assert MERGED_KEY in pq.read_schema(merged).metadata


def test_a_reader_survives_a_merge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that a merge removes after the reader has listed them are not missed."""
    runs(tmp_path, MERGE_FILES)
    before = identities(tmp_path)
    listed = store._current

    def merged_meanwhile(folder: Path) -> list[Path]:
        files = listed(folder)
        monkeypatch.setattr(store, "_current", listed)
        merge_days(tmp_path, before=date(2026, 1, 2))
        return files

    monkeypatch.setattr(store, "_current", merged_meanwhile)
    assert before == identities(tmp_path)
    assert 1 == len(list(tmp_path.rglob("*.parquet")))


def test_an_older_file_lacks_columns(tmp_path: Path) -> None:
    """They are null; columns of a newer one are left out."""
    path = write_history(tmp_path, [ROW], name="old")
    assert path is not None
    table = pq.read_table(path, partitioning=None)
    older = table.drop_columns(["forecast_bytes"]).append_column("later", pa.array(["x"]))
    pq.write_table(older, path)
    table = read_history(tmp_path)
    assert [column.name for column in COLUMNS] == table.schema.names
    assert [None] == table.column("forecast_bytes").to_pylist()


def test_since(tmp_path: Path) -> None:
    """Only days from this one on are read."""
    runs(tmp_path, 1, day=0)
    runs(tmp_path, 1, day=1)
    (tmp_path / "date=not-a-day").mkdir()
    assert 2 == len(read_history(tmp_path, since=date(2026, 1, 2)))
