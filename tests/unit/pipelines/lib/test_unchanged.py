"""A directory that has not changed is read once; every change that matters to a tick is noticed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from logwright.pipelines.lib import unchanged
from logwright.pipelines.lib.unchanged import RACE_NS, Remembered, active_segment

OLD = "00000000000000000000.log"
ACTIVE = "00000000000000000007.log"


class Reader:
    """Lists a directory and counts how often."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.reads = 0

    def __call__(self) -> tuple[list[str], str | None]:
        """Read; as `Remembered.value` calls it."""
        self.reads += 1
        names = sorted(path.name for path in self.directory.iterdir())
        return names, active_segment(names)


def settle(directory: Path) -> None:
    """Make all that is there look as if nothing had changed for a minute."""
    past_ns = time.time_ns() - 60_000_000_000
    for path in (*directory.rglob("*"), directory):
        os.utime(path, ns=(past_ns, past_ns))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "t-0"
    (made / ".logwright" / "staging").mkdir(parents=True)
    for name in (OLD, ACTIVE):
        (made / name).write_bytes(b"12")
    settle(made)
    return made


def appended(directory: Path) -> None:
    with (directory / ACTIVE).open("ab") as file:
        file.write(b"3")


def created(directory: Path) -> None:
    (directory / "00000000000000000009.log").touch()


def renamed(directory: Path) -> None:
    (directory / OLD).rename(directory / f"{OLD}.deleted")


def staged(directory: Path) -> None:
    (directory / ".logwright" / "staging" / "plan").mkdir()


def recorded(directory: Path) -> None:
    (directory / ".logwright" / "retired").touch()


def replaced(directory: Path) -> None:
    """By a directory with the same names, sizes and times, as a restore leaves it."""
    directory.rename(directory.with_name("before"))
    (directory / ".logwright" / "staging").mkdir(parents=True)
    for name in (OLD, ACTIVE):
        (directory / name).write_bytes(b"12")
    settle(directory)


def test_an_unchanged_directory_is_read_once(directory: Path) -> None:
    """What was read the first time is returned."""
    remembered, reader = Remembered[list[str]](), Reader(directory)
    first = remembered.value(str(directory), reader)
    assert first == remembered.value(str(directory), reader)
    assert [".logwright", OLD, ACTIVE] == first
    assert 1 == reader.reads


@pytest.mark.parametrize("change", [appended, created, renamed, staged, recorded, replaced])
def test_a_change_is_noticed(directory: Path, change: Callable[[Path], None]) -> None:
    """The directory is read again."""
    remembered, reader = Remembered[list[str]](), Reader(directory)
    remembered.value(str(directory), reader)
    change(directory)
    value = remembered.value(str(directory), reader)
    assert 2 == reader.reads
    assert sorted(path.name for path in directory.iterdir()) == value


def test_a_directory_that_changed_just_now_is_not_remembered(directory: Path) -> None:
    """The next change may have the same time."""
    remembered, reader = Remembered[list[str]](), Reader(directory)
    now_ns = time.time_ns() - RACE_NS // 2
    os.utime(directory, ns=(now_ns, now_ns))
    remembered.value(str(directory), reader)
    remembered.value(str(directory), reader)
    assert 2 == reader.reads


def test_a_directory_that_is_gone_is_read_each_time(tmp_path: Path) -> None:
    """The error of the reader comes through, again and again."""
    remembered, reader = Remembered[list[str]](), Reader(tmp_path / "gone-0")
    for number in (1, 2):
        with pytest.raises(FileNotFoundError):
            remembered.value(str(tmp_path / "gone-0"), reader)
        assert number == reader.reads


def test_after_an_hour_it_is_read_again(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment that was written in place would not be noticed otherwise."""
    remembered, reader = Remembered[list[str]](), Reader(directory)
    remembered.value(str(directory), reader)
    monkeypatch.setattr(unchanged, "LISTED_AGAIN_NS", 0)
    remembered.value(str(directory), reader)
    assert 2 == reader.reads
