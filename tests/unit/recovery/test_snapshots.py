"""The producer snapshots of a log during a recovery; nothing is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.format.names import SNAPSHOT, segment_file_name
from logwright.format.snapshot import serialize_snapshot
from logwright.recovery.producers import SnapshotFiles

EMPTY = serialize_snapshot(())


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for number in (3, 5, 9):
        (tmp_path / segment_file_name(number, SNAPSHOT)).write_bytes(EMPTY)
    return tmp_path


def names(*numbers: int) -> tuple[str, ...]:
    return tuple(segment_file_name(number, SNAPSHOT) for number in numbers)


def test_only_snapshots_are_taken(directory: Path) -> None:
    """Other files of the partition have the same numbers."""
    files = SnapshotFiles.of(directory, [*names(9, 3), "00000000000000000007.log", "other"])
    assert [3, 9] == files.numbers()


@pytest.mark.parametrize(
    ("bases", "left"), [([3, 9], [3, 9]), ([3], [3, 9]), ([3, 12], [3]), ([5, 9], [5, 9])]
)
def test_strays_go(directory: Path, bases: list[int], left: list[int]) -> None:
    """A snapshot belongs to a segment, or is the one of a clean stop at the log end."""
    files = SnapshotFiles(directory, [3, 5, 9])
    files.remove_strays(bases)
    assert left == files.numbers()
    assert names(*(n for n in (3, 5, 9) if n not in left)) == files.removed()


def test_a_snapshot_that_is_the_same_is_not_written_again(directory: Path) -> None:
    """Only what differs from the disk becomes a step."""
    files = SnapshotFiles(directory, [3, 5, 9])
    files.write(5, EMPTY)
    files.write(9, b"changed")
    files.write(11, EMPTY)
    assert {9: b"changed", 11: EMPTY} == files.written()
    assert () == files.removed()


def test_a_damaged_snapshot_is_not_used(directory: Path) -> None:
    """It is a hint: the state is then read from the log."""
    (directory / names(5)[0]).write_bytes(EMPTY[:-1] + b"x")
    files = SnapshotFiles(directory, [3, 5])
    assert () == files.read(3)
    assert files.read(5) is None
