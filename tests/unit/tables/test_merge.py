"""Which files of a bucket are written again, as a table; rows by position."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from logwright.tables.merge import FileChange, MergeLimits, files_to_write_again
from logwright.tables.model import DataFile
from logwright.tables.rewrite import rows_of_keys, without

LIMITS = MergeLimits(small_bytes=1000, deleted_share=0.25, files=3)


def change(path: str, rows: int, before: int = 0, added: int = 0, size: int = 5000) -> FileChange:
    """A file whose first rows were deleted before, and the next ones are added."""
    file = DataFile(partition=0, bucket=0, path=path, rows=rows, bytes=size)
    positions = np.arange(before + added, dtype=np.int64)
    return FileChange(file=file, before=positions[:before], added=positions[before:])


@pytest.mark.parametrize(
    ("changes", "limits", "expected"),
    [
        ([], LIMITS, ""),
        ([change("a", 100, added=1)], None, "a"),
        ([change("a", 100, added=1)], LIMITS, ""),
        ([change("a", 100, added=25)], LIMITS, ""),
        ([change("a", 100, added=26)], LIMITS, "a"),
        ([change("a", 100, before=20, added=6)], LIMITS, "a"),
        ([change("a", 100, before=20, added=6), change("b", 10)], LIMITS, ""),
        ([change("a", 100, size=1000)], LIMITS, "a"),
        ([change("a", 100, size=1001)], LIMITS, ""),
        ([change("a", 100, size=600), change("b", 9, size=400)], LIMITS, "ab"),
        ([change("a", 100), change("b", 5, added=5)], LIMITS, "b"),
        ([change("b", 5), change("a", 100), change("c", 7)], LIMITS, "bc"),
        ([change("b", 5), change("a", 100, added=40), change("c", 7)], LIMITS, "abc"),
    ],
)
def test_files_to_write_again(
    changes: list[FileChange], limits: MergeLimits | None, expected: str
) -> None:
    """Small buckets, those with many deleted rows, and the smaller ones of many files."""
    files = files_to_write_again(changes, limits)
    assert expected == "".join(sorted(one.file.path for one in files))


def batches(*sizes: int) -> list[pa.RecordBatch]:
    """Keys k0, k1 … in batches of these sizes."""
    keys = iter(range(sum(sizes)))
    return [
        pa.record_batch({"key": pa.array([f"k{next(keys)}".encode() for _ in range(size)])})
        for size in sizes
    ]


@pytest.mark.parametrize(
    "deleted", [[], [0], [9], [0, 1, 2], [2, 3], [4, 5, 6, 7], list(range(10))]
)
def test_rows_without(deleted: list[int]) -> None:
    """By position over batches."""
    kept = without(batches(3, 1, 4, 2), np.array(deleted, dtype=np.int64))
    rows = [key.decode() for batch in kept for key in batch["key"].to_pylist()]
    assert [f"k{number}" for number in range(10) if number not in deleted] == rows


@pytest.mark.parametrize("wanted", [[], [7], [0, 9], [3, 20], [2, 3, 4]])
def test_rows_of_keys(wanted: list[int]) -> None:
    """By position over batches, with their keys."""
    keys = pa.array([f"k{number}".encode() for number in wanted], pa.binary())
    rows, keys_of_rows = rows_of_keys(batches(3, 1, 4, 2), "key", keys)
    there = [number for number in wanted if number < 10]
    assert there == rows.tolist()
    assert [f"k{number}".encode() for number in there] == keys_of_rows.to_pylist()
