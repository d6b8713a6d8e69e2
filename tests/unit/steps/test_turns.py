"""Threads that take turns: one works, and lets another one work while it waits."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from logwright.steps.filesystem import RealFileSystem
from logwright.steps.turns import ALONE, Turns

WAIT_SECONDS = 30


def test_one_works_at_a_time() -> None:
    """The second begins when the first has left."""
    turns, begun = Turns(), Event()

    def second() -> None:
        with turns:
            begun.set()

    with ThreadPoolExecutor(1) as pool:
        with turns:
            other = pool.submit(second)
            assert not begun.wait(0.2)
        other.result(WAIT_SECONDS)
    assert begun.is_set()


def test_another_works_while_one_waits() -> None:
    """Who has waited goes on when the other waits or has left."""
    turns, came, goes = Turns(), Event(), Event()

    def second() -> None:
        with turns:
            came.set()
            with turns.waiting:
                assert goes.wait(WAIT_SECONDS)

    with ThreadPoolExecutor(1) as pool, turns:
        other = pool.submit(second)
        with turns.waiting:
            assert came.wait(WAIT_SECONDS)
        goes.set()
        with turns.waiting:
            other.result(WAIT_SECONDS)


def test_an_error_while_waiting_leaves_the_turn_where_it_was() -> None:
    """With who waited; then it is free."""
    turns = Turns()
    with pytest.raises(OSError, match="disk"), turns, turns.waiting:
        raise OSError("disk")
    with turns:
        pass


def test_who_is_alone_has_nobody_to_let_work() -> None:
    """Again and again."""
    for _ in range(2):
        with ALONE:
            pass


def test_a_file_system_lets_others_work_while_it_syncs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files and directories; and only then."""
    turns, free = Turns(), []
    (tmp_path / "file").touch()

    def fsync(_descriptor: int) -> None:
        free.append(turns._turn.acquire(blocking=False))
        turns._turn.release()

    monkeypatch.setattr(os, "fsync", fsync)
    with RealFileSystem(tmp_path, waiting=turns.waiting) as files, turns:
        files.fsync_file(tmp_path / "file")
        files.fsync_dir(tmp_path)
        assert turns._turn.locked()
    assert [True, True] == free
