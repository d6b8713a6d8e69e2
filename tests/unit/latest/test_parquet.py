"""Plain Parquet files: all of them or none, in row groups of bounded size."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from logwright.errors import DiskFull, PreconditionError
from logwright.format.names import TopicPartition
from logwright.latest import parquet
from logwright.latest.parquet import write_parquet
from logwright.records.schema import records_schema

SCHEMA = records_schema(("key", "partition", "offset"))
FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)


def batch(*offsets: int) -> pa.RecordBatch:
    """One row for each offset."""
    rows = [{"key": b"%d" % one, "partition": 0, "offset": one} for one in offsets]
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def names_in(directory: Path) -> list[str]:
    """What is in a directory."""
    return [path.name for path in directory.iterdir()]


def test_a_partition_without_rows_has_a_file(tmp_path: Path) -> None:
    """Its columns are known to readers; an empty directory is taken."""
    (tmp_path / "out").mkdir()
    rows = [(FIRST, iter([batch(1, 2), batch(5)])), (SECOND, iter(()))]
    first, second = write_parquet(tmp_path / "out", SCHEMA, rows)
    assert [1, 2, 5] == pq.read_table(first.path, partitioning=None)["offset"].to_pylist()
    assert ["key", "offset"] == pq.read_schema(second.path).names
    assert (first.rows, second.rows) == (3, 0)
    assert first.bytes == first.path.stat().st_size
    assert ["out"] == names_in(tmp_path)


@pytest.mark.parametrize("name", ["_ROW_GROUP_ROWS", "_ROW_GROUP_BYTES"])
def test_row_groups_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """By rows or by bytes: a group ends with the batch that reaches the bound."""
    monkeypatch.setattr(parquet, name, 3)
    (file,) = write_parquet(
        tmp_path / "out", SCHEMA, [(FIRST, iter([batch(1, 2, 3), batch(4, 5, 6), batch(7)]))]
    )
    metadata = pq.read_metadata(file.path)
    assert [3, 3, 1] == [
        metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)
    ]


class StoppedError(Exception):
    """Something else went wrong."""


@pytest.mark.parametrize(
    ("error", "expected"),
    [(StoppedError(), StoppedError), (OSError(errno.ENOSPC, "full"), DiskFull)],
)
def test_an_error_leaves_nothing(
    tmp_path: Path, error: Exception, expected: type[Exception]
) -> None:
    """Also if it occurs in the last partition."""

    def rows() -> Iterator[pa.RecordBatch]:
        yield batch(1)
        raise error

    with pytest.raises(expected):
        write_parquet(tmp_path / "out", SCHEMA, [(FIRST, iter([batch(1)])), (SECOND, rows())])
    assert [] == names_in(tmp_path)


def test_other_files_are_not_touched(tmp_path: Path) -> None:
    """No row is read if the directory has something."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("x")

    def rows() -> Iterator[pa.RecordBatch]:
        raise AssertionError
        yield batch()

    with pytest.raises(PreconditionError):
        write_parquet(tmp_path / "out", SCHEMA, [(FIRST, rows())])
    assert ["mine"] == names_in(tmp_path / "out")
