"""A deletion, an undo, a purge and an append of the same log at once, one inside the other at every
step.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from logwright import locks
from logwright.deletion import commit as deletion_run
from logwright.deletion.commit import delete_log, find_deleted, purge_deleted, restore_log
from logwright.errors import CannotUndo, LogDirLocked, LogwrightError, StalePlan
from logwright.format.names import DELETED_LOGS, TopicPartition
from logwright.ingest import commit as ingest_run
from logwright.ingest.model import AppendPlan
from logwright.ingest.staging import make_directory
from logwright.steps.filesystem import RealFileSystem
from logwright.units import TimestampMs
from tests import fixtures
from tests.comparison import CHECKPOINTS, read_checkpoint
from tests.crash.filesystems import InterceptedFileSystem
from tests.ingested import Row, append, planned

T0 = TopicPartition("t", 0)
NOW_MS = TimestampMs(1_760_000_100_000)
LATER_MS = TimestampMs(NOW_MS + 60_000)
MOST_POINTS = 200


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A log with entries in all four checkpoints, one of them its log start offset."""
    directory = fixtures.copy_before("delete-records", tmp_path)
    for name in CHECKPOINTS:
        (directory / name).write_text("0\n1\nt 0 101\n")
    return directory


def again(log_dir: Path, number: int) -> Path:
    return shutil.copytree(log_dir, log_dir.parent / str(number))


def files(log_dir: Path) -> dict[str, bytes]:
    paths = (log_dir / "t-0").glob("*")
    return {path.name: path.read_bytes() for path in paths if path.is_file()}


def entries(log_dir: Path) -> list[dict[str, int]]:
    return [read_checkpoint(log_dir / name) for name in CHECKPOINTS]


def purge(log_dir: Path) -> None:
    purge_deleted(log_dir, now_ms=LATER_MS, delay_ms=60_000)


def undo(log_dir: Path) -> None:
    restore_log(log_dir, find_deleted(log_dir, T0))


class Meanwhile:
    """Does another operation right before point `at` of one: a call of the file system, or the
    taking of the checkpoints' lock. If it finds that lock taken it is done again by `finish`.

    Attributes:
        points: how many there were.
        error: what the other operation raised.
    """

    def __init__(self, other: Callable[[], object], at: int) -> None:
        self.other = other
        self.at = at
        self.points = 0
        self.waits = False
        self.error: LogwrightError | None = None

    def point(self) -> None:
        """One more."""
        self.points += 1
        if self.points == self.at:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(locks, "CHECKPOINTS_WAIT_SECONDS", 0.0)
                for module in (deletion_run, ingest_run):
                    patch.setattr(module, "APPEND_WAIT_SECONDS", 0.0)
                self.do()

    def do(self) -> None:
        """The other operation, or as far as it comes."""
        self.waits = False
        try:
            self.other()
        except LogDirLocked:
            self.waits = True
        except LogwrightError as error:
            self.error = error

    def finish(self) -> None:
        """Do what had to wait."""
        if self.waits:
            self.do()
        assert not self.waits

    @contextmanager
    def lock(self, log_dir: Path) -> Iterator[None]:
        """`lock_checkpoints`, the taking of which is a point."""
        self.point()
        with locks.lock_checkpoints(log_dir):
            yield


class Watched(InterceptedFileSystem):
    """The real file system, each of whose calls is a point."""

    def __init__(self, meanwhile: Meanwhile, root: Path) -> None:
        super().__init__(RealFileSystem(root))
        self.before_call = meanwhile.point  # type: ignore[method-assign]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.inner.__exit__(kind, error, trace)  # type: ignore[attr-defined]


def at_every_point(
    log_dir: Path, first: Callable[[Path], object], second: Callable[[Path], object]
) -> Iterator[tuple[Path, LogwrightError | None, LogwrightError | None]]:
    """Copies of a log directory in which both were done; what the first and the second raised."""
    for at in range(1, MOST_POINTS):
        copy = again(log_dir, at)
        meanwhile = Meanwhile(partial(second, copy), at)
        raised: LogwrightError | None = None
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(deletion_run, "RealFileSystem", partial(Watched, meanwhile))
            patch.setattr(deletion_run, "lock_checkpoints", meanwhile.lock)
            try:
                first(copy)
            except LogwrightError as error:
                raised = error
        meanwhile.finish()
        if meanwhile.points < at:
            assert at > 3
            return
        yield copy, raised, meanwhile.error
        shutil.rmtree(copy)
    pytest.fail("it has no end")


def assert_whole_or_gone(log_dir: Path, before: dict[str, bytes], undone: bool) -> None:
    """The undo that succeeded left all of the log, the one that was refused nothing."""
    assert (before if undone else {}) == files(log_dir)
    assert entries(log_dir) == [{"t-0": 101} if undone else {}] * len(CHECKPOINTS)
    assert list(log_dir.glob("*-delete")) == []
    assert not (log_dir / DELETED_LOGS).exists()


def test_undo_during_a_purge(log_dir: Path) -> None:
    """It brings the whole log back with its entries, or is refused."""
    before = files(log_dir)
    delete_log(log_dir, T0, now_ms=NOW_MS)
    outcomes = set()
    for copy, purging, undoing in at_every_point(log_dir, purge, undo):
        assert purging is None
        assert isinstance(undoing, CannotUndo | None)
        assert_whole_or_gone(copy, before, undoing is None)
        outcomes.add(undoing is None)
    assert outcomes == {True, False}


def test_purge_during_an_undo(log_dir: Path) -> None:
    """It finds nothing to purge any more, or the undo is refused."""
    before = files(log_dir)
    delete_log(log_dir, T0, now_ms=NOW_MS)
    deletion = find_deleted(log_dir, T0)
    outcomes = set()
    for copy, undoing, purging in at_every_point(
        log_dir, lambda one: restore_log(one, deletion), purge
    ):
        assert purging is None
        assert isinstance(undoing, CannotUndo | None)
        assert_whole_or_gone(copy, before, undoing is None)
        outcomes.add(undoing is None)
    assert outcomes == {True, False}


def test_purge_says_what_it_did_not_purge(log_dir: Path) -> None:
    """A log that came back while it was looked at is not said to be gone."""
    delete_log(log_dir, T0, now_ms=NOW_MS)
    reported = []
    for _ in at_every_point(
        log_dir,
        lambda one: reported.append(purge_deleted(one, now_ms=LATER_MS, delay_ms=60_000)),
        undo,
    ):
        pass
    assert ("it no longer exists", False) == (reported[0][0].reason, reported[0][0].goes)
    assert reported[-1][0].goes


def test_two_purges(log_dir: Path) -> None:
    """The second one finds less to do, at every step of the first."""
    delete_log(log_dir, T0, now_ms=NOW_MS)
    for copy, *errors in at_every_point(log_dir, purge, purge):
        assert errors == [None, None]
        assert_whole_or_gone(copy, {}, undone=False)


def test_undo_during_a_deletion(log_dir: Path) -> None:
    """What is back has its entries: the deletion takes none away any more."""
    before = files(log_dir)
    for copy, *errors in at_every_point(
        log_dir, lambda one: delete_log(one, T0, now_ms=NOW_MS), undo
    ):
        assert errors[0] is None
        if errors[1] is not None:
            undo(copy)
        assert_whole_or_gone(copy, before, undone=True)


@pytest.mark.parametrize("first", [purge, lambda one: delete_log(one, T0, now_ms=NOW_MS)])
def test_append_to_a_new_log_of_the_name(log_dir: Path, first: Callable[[Path], object]) -> None:
    """Its entries stay, whatever happens to the deleted one."""
    if first is purge:
        delete_log(log_dir, T0, now_ms=NOW_MS)
    row: Row = (b"k", b"v", [], int(NOW_MS))
    new = 0
    for copy, ended, appending in at_every_point(
        log_dir, first, lambda one: append(one, [row], {}, now_ms=NOW_MS)
    ):
        assert ended is None
        assert isinstance(appending, StalePlan | None)
        if (copy / "t-0").exists():
            new += 1
            assert {"t-0": 1} == read_checkpoint(copy / "recovery-point-offset-checkpoint")
            assert {} == read_checkpoint(copy / "log-start-offset-checkpoint")
    assert new > 1


def test_directory_that_an_append_makes_during_an_undo(log_dir: Path) -> None:
    """Its name is free until the undo ends, or the undo is refused and leaves no entries."""
    before = files(log_dir)
    delete_log(log_dir, T0, now_ms=NOW_MS)
    deletion = find_deleted(log_dir, T0)
    plan = planned(log_dir, {}, now_ms=NOW_MS)
    assert isinstance(plan, AppendPlan)
    (log_dir / "t-0").rmdir()
    outcomes = set()

    def make(copy: Path) -> None:
        make_directory(replace(plan, log_dir=copy))

    for copy, undoing, making in at_every_point(
        log_dir, lambda one: restore_log(one, deletion), make
    ):
        assert making is None
        assert isinstance(undoing, CannotUndo | None)
        assert (before if undoing is None else {}) == files(copy)
        assert entries(copy) == [{"t-0": 101} if undoing is None else {}] * len(CHECKPOINTS)
        outcomes.add(undoing is None)
    assert outcomes == {True, False}
