"""A failed output is kept under one name until it expires; what cannot be kept is still staged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from logwright.steps.failed_output import (
    FailedOutput,
    failed_outputs,
    forget_failed_output,
    keep_failed_output,
    parse_failed_output,
)
from logwright.units import TimestampMs

PLAN = "1760000000000-0123abcd-4567cdef"
OUTPUT = FailedOutput(TimestampMs(1_760_000_600_000), PLAN)


@pytest.fixture(autouse=True)
def _room(monkeypatch: pytest.MonkeyPatch) -> None:
    """However full the disk of this machine is."""
    monkeypatch.setattr("logwright.steps.failed_output.LEAST_FREE_SHARE", 0.0)


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """A partition for which a plan has staged two files."""
    staging = tmp_path / "logs/t-0/.logwright/staging" / PLAN
    staging.mkdir(parents=True)
    (staging / "0.log").write_bytes(b"12345")
    (staging / "0.index").write_bytes(b"123")
    return tmp_path / "logs/t-0"


def below(partition: Path) -> list[str]:
    work = partition / ".logwright"
    return sorted(str(one.relative_to(work)) for one in work.rglob("*") if one.is_file())


def test_one_rename_keeps_it(partition: Path) -> None:
    """The same files under the other name; the directory of staging directories goes."""
    file = partition / ".logwright/staging" / PLAN / "0.log"
    inode = file.stat().st_ino
    assert keep_failed_output(partition, OUTPUT)
    kept = partition / ".logwright/failed" / OUTPUT.name
    assert ["failed/" + f"{OUTPUT.name}/{name}" for name in ("0.index", "0.log")] == below(
        partition
    )
    assert inode == (kept / "0.log").stat().st_ino
    assert not (partition / ".logwright/staging").exists()
    assert 0o700 == kept.parent.stat().st_mode & 0o777
    assert {OUTPUT: 8} == failed_outputs(partition / ".logwright")


def test_the_newest_takes_the_place_of_the_one_before(partition: Path) -> None:
    """A log has at most one: a log that fails every hour must not fill the disk."""
    older = FailedOutput(TimestampMs(5), "1750000000000-0123abcd-00000000")
    directory = partition / ".logwright/failed" / older.name
    directory.mkdir(parents=True)
    (directory / "0.log").write_bytes(b"older")
    assert keep_failed_output(partition, OUTPUT)
    assert {OUTPUT: 8} == failed_outputs(partition / ".logwright")


def test_a_disk_with_little_space_keeps_nothing(
    partition: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It stays staged, for the caller to remove, and a warning says so."""
    monkeypatch.setattr("logwright.steps.failed_output.LEAST_FREE_SHARE", 1.1)
    before = below(partition)
    assert not keep_failed_output(partition, OUTPUT)
    assert before == below(partition)
    assert "the disk has little space" in caplog.text


@pytest.mark.parametrize("name", ["failed", "staging"])
def test_a_link_is_not_followed(partition: Path, tmp_path: Path, name: str) -> None:
    """The owner of a partition may put one there at any time."""
    outside = tmp_path / "outside"
    (outside / PLAN).mkdir(parents=True)
    (outside / "canary").write_bytes(b"canary")
    work = partition / ".logwright"
    if name == "staging":
        (work / name).rename(work / "aside")
    (work / name).symlink_to(outside)
    before = sorted(outside.rglob("*"))
    assert not keep_failed_output(partition, OUTPUT)
    assert {} == failed_outputs(work)
    forget_failed_output(partition)
    assert before == sorted(outside.rglob("*"))


def test_a_successful_cleaning_forgets_it(partition: Path) -> None:
    """The directory goes too; without one there is nothing to do."""
    assert keep_failed_output(partition, OUTPUT)
    forget_failed_output(partition)
    assert not os.path.lexists(partition / ".logwright/failed")
    forget_failed_output(partition)


def test_what_cannot_be_removed_stays_and_stops_nothing(partition: Path) -> None:
    """A file in place of the directory, or nothing to read at all: the cleaning has succeeded."""
    (partition / ".logwright/failed").write_bytes(b"not a directory")
    forget_failed_output(partition)
    assert (partition / ".logwright/failed").is_file()
    forget_failed_output(partition / "gone")


@pytest.mark.parametrize("name", ["", "1", PLAN, f"-1.{PLAN}", f"x.{PLAN}", f"1.{PLAN}.x"])
def test_another_name_is_none_of_a_kept_output(name: str) -> None:
    """Both parts are there, and nothing else."""
    assert parse_failed_output(name) is None
    assert OUTPUT == parse_failed_output(OUTPUT.name)
