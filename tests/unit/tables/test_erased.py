"""After an erasure and an update no file of a table has the erased key: no version, no metadata,
whatever other programs have written to it before.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.table_rows import files_with
from tests.table_world import DAY_MS, NOW_MS, place, update, write_logs
from tests.unit.tables.test_others import iceberg

KEY = "alice@x.org"
OTHERS = [(f"k{number}", "v") for number in range(20)]


def nothing(path: Path) -> None:
    """No other program."""


def delta_delete(path: Path) -> None:
    """The row is removed by another program: it notes the condition, and values of columns."""
    DeltaTable(str(path)).delete(f"CAST(key AS STRING) = '{KEY}'")
    assert any(name.endswith(".json") for name in files_with(path, KEY.encode()))


def delta_checkpoint(path: Path) -> None:
    """A file with its statistics, then a checkpoint."""
    DeltaTable(str(path)).update(updates={"value": "'changed'"})
    DeltaTable(str(path)).create_checkpoint()


def iceberg_delete(path: Path) -> None:
    """Its manifest of removed files has the bounds of the key."""
    iceberg(path).delete("offset = 0")


def iceberg_append(path: Path) -> None:
    """The row once more."""
    rows = iceberg(path).scan().to_arrow()
    iceberg(path).append(rows.slice(0, 3))


ACTS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "parquet": ("parquet", nothing),
    "delta": ("delta", nothing),
    "delta delete": ("delta", delta_delete),
    "delta checkpoint": ("delta", delta_checkpoint),
    "iceberg": ("iceberg", nothing),
    "iceberg delete": ("iceberg", iceberg_delete),
    "iceberg append": ("iceberg", iceberg_append),
}


def leave_mark(log_dir: Path, text: str) -> None:
    """As an erasure does."""
    path = log_dir / "t-0/.logwright/erased.json"
    path.parent.mkdir()
    path.write_text(f"{text}\n")


@pytest.mark.parametrize("name", ACTS)
def test_no_file_has_the_erased_key(tmp_path: Path, name: str) -> None:
    """Also if the table is updated between the other program and the erasure."""
    form, act = ACTS[name]
    table = tmp_path / "table"
    where = place(form, table, buckets=1, keep_versions_ms=DAY_MS)
    first = {0: [(KEY, "v0"), *OTHERS], 1: OTHERS}
    update(where, write_logs(tmp_path / "1", first))
    act(table)
    more = {0: [*first[0], ("k1", "v2")], 1: [*OTHERS, ("k2", "v3")]}
    update(where, write_logs(tmp_path / "2", more))
    assert files_with(table, KEY.encode())
    erased = write_logs(tmp_path / "3", {0: [("k0", "v"), *more[0][1:]], 1: more[1]})
    leave_mark(erased, "a mark")
    done = update(where, erased, now_ms=NOW_MS + 1)
    assert done.result.snapshot is not None
    assert [] == files_with(table, KEY.encode())
    again = update(where, erased, now_ms=NOW_MS + 2)
    assert (False, done.result.snapshot.rows) == (again.result.changed, len(OTHERS) * 2)


def test_another_program_between_two_erasures(tmp_path: Path) -> None:
    """Old snapshots go before the update, too, but not logwright's newest one."""
    table = tmp_path / "table"
    where = place("iceberg", table, buckets=1, keep_versions_ms=DAY_MS)
    first = [("k1", "v1"), (KEY, "v0"), *OTHERS]
    for number, (key, text) in enumerate([("k1", "one"), ("k0", "another")]):
        log_dir = write_logs(tmp_path / str(number), {0: [(key, "v"), *first[1:]]})
        leave_mark(log_dir, text)
        update(where, log_dir)
        iceberg_append(table)
    log_dir = write_logs(tmp_path / "last", {0: [("k2", "v"), ("k1", "v"), *OTHERS]})
    leave_mark(log_dir, "the last")
    done = update(where, log_dir)
    assert ["records were erased from the log since"] == [
        partition.step.reason for partition in done.result.partitions
    ]
    assert [] == files_with(table, KEY.encode())
