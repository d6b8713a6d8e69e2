"""logwright's directories are made and removed below the log directory and nowhere else."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from logwright.errors import UnreadableFile
from logwright.steps import work
from logwright.steps.work import make_private, remove_private


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    directory = tmp_path / "logs/t-0"
    directory.mkdir(parents=True)
    return directory


@pytest.mark.parametrize("vanishes", ["a", "b", "c"])
def test_directory_that_its_last_user_removes_is_made_again(
    partition: Path, vanishes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory on the way vanishes right before, or right after, it is opened."""
    real, opening = work._make, os.open
    removed: list[str] = []

    def removed_once_made(directory: int, name: str, owner: os.stat_result) -> int:
        inner = real(directory, name, owner)
        if name == vanishes != "c" and not removed:
            os.rmdir(name, dir_fd=directory)
            removed.append(name)
        return inner

    def removed_before_it_is_opened(
        path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
    ) -> int:
        if path == vanishes == "c" and not removed:
            os.rmdir(path, dir_fd=dir_fd)
            removed.append(path)
        return opening(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(work, "_make", removed_once_made)
    monkeypatch.setattr(os, "open", removed_before_it_is_opened)
    with make_private(partition, "a", "b", "c") as made:
        assert removed == [vanishes]
        assert made.path == partition / "a/b/c"
        assert made.path.is_dir()


def test_directory_that_never_stays_is_given_up(
    partition: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trying again has an end, and leaves no descriptor open."""
    real = work._make

    def removed_once_made(directory: int, name: str, owner: os.stat_result) -> int:
        inner = real(directory, name, owner)
        os.rmdir(name, dir_fd=directory)
        return inner

    monkeypatch.setattr(work, "_make", removed_once_made)
    gc.collect()  # what other tests left open is not counted
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(OSError, match="does not stay"):
        make_private(partition, "a", "b")
    assert before == len(list(Path("/proc/self/fd").iterdir()))


def test_missing_partition_is_no_reason_to_try_again(partition: Path) -> None:
    """The error names it."""
    with pytest.raises(FileNotFoundError) as caught:
        make_private(partition.with_name("t-1"), "a")
    assert caught.value.filename == str(partition.with_name("t-1"))


@pytest.mark.parametrize("link", ["", "a", "a/b"])
def test_nothing_is_made_or_removed_behind_a_link(
    partition: Path, tmp_path: Path, link: str
) -> None:
    """Not in the partition's place either; what is removed through the links stays."""
    canary = tmp_path / "canary"
    (canary / "b/c").mkdir(parents=True)
    (canary / "c").mkdir()
    (canary / "a/b/c").mkdir(parents=True)
    if not link:
        partition.rmdir()
    elif link == "a/b":
        (partition / "a").mkdir()
    (partition / link).symlink_to(canary)
    before = sorted(canary.rglob("*"))
    with pytest.raises(UnreadableFile) as caught:
        make_private(partition, "a", "b", "c")
    assert caught.value.path == partition / link
    remove_private(partition, "a", "b", "c")
    assert before == sorted(canary.rglob("*"))
    assert (partition / link).is_symlink()


def test_link_in_the_place_of_what_is_removed_stays(partition: Path, tmp_path: Path) -> None:
    """And so does what it leads to."""
    (tmp_path / "canary").mkdir()
    (tmp_path / "canary/file").touch()
    (partition / "a").mkdir()
    (partition / "a/b").symlink_to(tmp_path / "canary")
    remove_private(partition, "a", "b")
    assert (tmp_path / "canary/file").exists()
    assert (partition / "a/b").is_symlink()


def test_link_during_a_removal_leads_nowhere(
    partition: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes a directory's place when that has been opened already."""
    (tmp_path / "canary/b").mkdir(parents=True)
    (tmp_path / "canary/b/file").touch()
    with make_private(partition, "a", "b") as made:
        os.close(made.create("file"))
    real = os.rmdir

    def swapped_once(path: str, *, dir_fd: int | None = None) -> None:
        if not (partition / "a").is_symlink():
            (partition / "a").rename(partition / "moved")
            (partition / "a").symlink_to(tmp_path / "canary")
        real(path, dir_fd=dir_fd)

    monkeypatch.setattr(os, "rmdir", swapped_once)
    remove_private(partition, "a", "b")
    assert (tmp_path / "canary/b/file").exists()
    assert list((partition / "moved").iterdir()) == []


def test_what_others_have_there_stays(partition: Path) -> None:
    """Only directories that are empty go along."""
    with make_private(partition, "a", "b", "c") as made:
        os.close(made.create("file"))
    (partition / "a/other").touch()
    remove_private(partition, "a", "b", "c")
    assert [partition / "a", partition / "a/other"] == sorted(partition.rglob("*"))


def test_file_is_made_in_the_directory_that_is_open(partition: Path, tmp_path: Path) -> None:
    """Whatever has its path by then."""
    (tmp_path / "canary/b").mkdir(parents=True)
    with make_private(partition, "a", "b") as made:
        (partition / "a").rename(partition / "moved")
        (partition / "a").symlink_to(tmp_path / "canary")
        os.close(made.create("file"))
        with pytest.raises(FileExistsError):
            made.create("file")
    assert (partition / "moved/b/file").stat().st_mode & 0o777 == 0o600
    assert list((tmp_path / "canary/b").iterdir()) == []
