"""Plans side by side are executed as each by itself, and wait for the disk together."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Barrier

import pytest

from logwright.errors import StepFailed
from logwright.steps.filesystem import RealFileSystem
from logwright.steps.step import Append, FileStep, FsyncDir, FsyncFile, Rename, WriteFile
from logwright.steps.together import execute_together
from tests.crash.filesystems import Crash, CrashingFileSystem, FailingFileSystem


def steps_of(directory: Path, turns: int) -> tuple[FileStep, ...]:
    """Four for each turn."""
    steps: list[FileStep] = [WriteFile(directory / "0", b"")]
    for turn in range(turns):
        old, new = directory / f"{turn}", directory / f"{turn + 1}"
        steps += [Append(old, b"x"), FsyncFile(old), Rename(old, new), FsyncDir(directory)]
    return tuple(steps)


@pytest.fixture
def files(tmp_path: Path) -> Iterator[list[RealFileSystem]]:
    """One for each plan."""
    with ExitStack() as stack:
        yield [stack.enter_context(RealFileSystem(tmp_path)) for _ in range(5)]


def made(root: Path, number: int) -> list[Path]:
    directories = [root / str(one) for one in range(number)]
    for directory in directories:
        directory.mkdir()
    return directories


class Meeting(RealFileSystem):
    """Its fsyncs of a directory end when as many others are asked for."""

    barrier: Barrier

    def fsync_dir(self, path: Path) -> None:
        """As its base, later."""
        self.barrier.wait(timeout=30)
        super().fsync_dir(path)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_each_plan_is_done_in_its_order(
    tmp_path: Path, files: list[RealFileSystem], threads: int
) -> None:
    """However long each of them is."""
    directories = made(tmp_path, 5)
    with ThreadPoolExecutor(threads) as pool:
        plans = [(steps_of(one, turns), files[turns]) for turns, one in enumerate(directories)]
        assert [None] * 5 == execute_together(plans, pool if threads > 1 else None, threads)
    for turns, directory in enumerate(directories):
        (path,) = directory.iterdir()
        assert (str(turns), b"x" * turns) == (path.name, path.read_bytes())


def test_they_wait_for_the_disk_together(tmp_path: Path) -> None:
    """No fsync of a directory ends before all of them have begun theirs."""
    directories = made(tmp_path, 3)
    with ExitStack() as stack, ThreadPoolExecutor(3) as pool:
        barrier = Barrier(3)
        plans = []
        for directory in directories:
            fs = stack.enter_context(Meeting(tmp_path))
            fs.barrier = barrier
            plans.append((steps_of(directory, 2), fs))
        assert [None] * 3 == execute_together(plans, pool, 3)


@pytest.mark.parametrize("fail_at", range(1, 10))
def test_an_error_ends_its_plan_only(
    tmp_path: Path, files: list[RealFileSystem], fail_at: int
) -> None:
    """At its step, be it an fsync or not, which is not tried again; the others continue."""
    directories = made(tmp_path, 3)
    failing = FailingFileSystem(files[1], fail_at=fail_at, code=errno.EIO)
    triples = zip(directories, (files[0], failing, files[2]), strict=True)
    with ThreadPoolExecutor(2) as pool:
        plans = [(steps_of(directory, 2), each) for directory, each in triples]
        first, error, last = execute_together(plans, pool, 2)
    assert first is None is last
    assert isinstance(error, StepFailed)
    assert (fail_at, "EIO") == (error.step_number, error.errno_name)
    assert failing.calls == fail_at
    assert ["2"] == [path.name for path in directories[2].iterdir()]


@pytest.mark.parametrize("crash_at", range(1, 10))
def test_what_ends_the_process_ends_all(
    tmp_path: Path, files: list[RealFileSystem], crash_at: int
) -> None:
    """No further call is made."""
    (directory,) = made(tmp_path, 1)
    dying = CrashingFileSystem(files[0], crash_at=crash_at)
    with pytest.raises(Crash):
        execute_together([(steps_of(directory, 2), dying)], None, 1)
    assert dying.calls == crash_at
