"""Which files are new, and which run comes first."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from logwright.errors import CorruptLogError, StalePlan, UnreadableFile
from logwright.ingest.ledger import (
    LEDGER,
    Run,
    list_input,
    next_run,
    read_ledger,
    record_run,
    waiting_files,
)


def landing(tmp_path: Path, *names: str) -> Path:
    directory = tmp_path / "in"
    directory.mkdir(exist_ok=True)
    for name in names:
        (directory / name).write_text(name)
    return directory


def test_a_file_is_new_once(tmp_path: Path) -> None:
    """By path and content: touching it does not make it new, changing it does."""
    log_dir = tmp_path / "logs"
    log_dir.mkdir()
    source = landing(tmp_path, "a", "b", ".hidden", "_SUCCESS")
    run = next_run((), "t", 1, list_input(source))
    assert run is not None
    assert ["a", "b"] == [Path(file.path).name for file in run.files]
    record_run(log_dir, replace(run, done=True))
    assert () == waiting_files(log_dir, "t", source)
    os.utime(source / "a", ns=(1, 1))
    runs = read_ledger(log_dir)
    assert next_run(runs, "t", 1, list_input(source)) is None
    assert next_run(runs, "other", 1, list_input(source)) is not None
    (source / "b").write_text("changed")
    again = next_run(runs, "t", 1, list_input(source))
    assert again is not None
    assert ["b"] == [Path(file.path).name for file in again.files]


def test_a_run_without_files_is_not_completed_by_another(tmp_path: Path) -> None:
    """It is repeated by its id: nobody else has its input."""
    source = landing(tmp_path, "a")
    other = Run(id="x", topic="t", partitions=1, files=())
    run = next_run((other,), "t", 1, list_input(source))
    assert run is not None
    assert ["a"] == [Path(file.path).name for file in run.files]


def test_an_interrupted_run_is_completed_first_with_its_own_files(tmp_path: Path) -> None:
    """What landed since waits; a file that has gone stops it."""
    log_dir = tmp_path / "logs"
    log_dir.mkdir()
    source = landing(tmp_path, "a")
    run = next_run((), "t", 1, list_input(source))
    assert run is not None
    record_run(log_dir, run)
    landing(tmp_path, "b")
    assert run == next_run(read_ledger(log_dir), "t", 1, list_input(source))
    assert ["a", "b"] == [Path(path).name for path in waiting_files(log_dir, "t", source)]
    (source / "a").unlink()
    with pytest.raises(StalePlan, match="removed or changed since"):
        next_run(read_ledger(log_dir), "t", 1, list_input(source))


def test_what_is_no_file_and_no_ledger_is_refused(tmp_path: Path) -> None:
    """Links are not followed; a ledger that is not ours is not guessed at."""
    source = landing(tmp_path)
    (source / "link").symlink_to(tmp_path)
    (source / "real").symlink_to(__file__)
    with pytest.raises(UnreadableFile, match="expected a regular file"):
        list_input(source)
    with pytest.raises(UnreadableFile, match="input does not exist"):
        list_input(tmp_path / "nowhere")
    (tmp_path / LEDGER).write_text("{}")
    with pytest.raises(CorruptLogError, match="malformed"):
        read_ledger(tmp_path)
