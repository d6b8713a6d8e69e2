"""No crash in a swap leaves a log that Kafka's loader reads as anything but the old or new one."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest

from logwright.errors import DiskFull, StepFailed
from logwright.format.names import SEGMENT_SUFFIXES, segment_file_name
from logwright.steps.filesystem import RealFileSystem
from logwright.steps.interpreter import execute
from logwright.steps.step import FileStep, FsyncDir, Rename
from tests.crash.filesystems import (
    Crash,
    CrashingFileSystem,
    FailingFileSystem,
    PowerLossModel,
    RecordingFileSystem,
    every_file,
    plain_files,
)
from tests.crash.layouts import (
    EMPTIED_WITH_TRANSACTIONS,
    LAYOUTS,
    MERGED_PAIR,
    ONE_SEGMENT,
    TAILS,
    TAILS_WITH_TRANSACTIONS,
    TXNINDEX_STAYS,
    Files,
    Layout,
)
from tests.crash.loader import bad, judge
from tests.differential.random_logs import scratch_directory

pytestmark = [pytest.mark.crash, pytest.mark.oracle]

POWER_LOSS = (ONE_SEGMENT, TXNINDEX_STAYS, EMPTIED_WITH_TRANSACTIONS, MERGED_PAIR, TAILS)

CODES = (errno.EIO, errno.ENOSPC, errno.EROFS, errno.EACCES)

ENOUGH_STATES = 150
"""Among this many of the smallest subsets a bad one is found, if there is any."""


@pytest.mark.rotates(len(LAYOUTS))
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_process_that_dies_between_two_steps_leaves_old_or_new(
    tmp_path: Path, layout: Layout
) -> None:
    """Whichever steps were done, the loader finds the old records or the new ones, nothing else."""
    log_dir = tmp_path / "logs"
    steps = layout.build(log_dir)
    directory = log_dir / layout.partition.directory_name
    with RealFileSystem(log_dir) as real:
        recorder = RecordingFileSystem(real, directory)
        execute(steps, recorder)
    states = [(f"before step {n}", files) for n, files in enumerate(recorder.states, start=1)]
    states.append(("at the end", plain_files(directory)))
    verdicts = judge(tmp_path / "judge", layout, states)
    assert bad(verdicts) == []
    assert verdicts[0].old
    assert verdicts[-1].new
    assert live(plain_files(directory)) == layout.end
    # Once the new content is seen, it stays: the commit point is one point.
    clean = [one.new for one in verdicts if one.mode == "CLEAN" and not (one.new and one.old)]
    without_tails = all(base < layout.next_offset for base in layout.group[1:])
    if without_tails:
        assert clean == sorted(clean)
        assert all(one.old or one.new for one in verdicts)


def test_dying_is_what_the_recorder_says(tmp_path: Path) -> None:
    """The recorded states are those of processes that really stop there."""
    steps = ONE_SEGMENT.build(tmp_path / "whole")
    with RealFileSystem(tmp_path / "whole") as real:
        recorder = RecordingFileSystem(real, tmp_path / "whole" / "t-0")
        execute(steps, recorder)
    assert recorder.calls == len(steps)
    for number in range(1, len(steps) + 1):
        log_dir = tmp_path / str(number)
        stopped = ONE_SEGMENT.build(log_dir)
        with RealFileSystem(log_dir) as real, pytest.raises(Crash):
            execute(stopped, CrashingFileSystem(real, crash_at=number))
        assert plain_files(log_dir / "t-0") == recorder.states[number - 1]


@pytest.mark.rotates(len(POWER_LOSS))
@pytest.mark.parametrize("layout", POWER_LOSS, ids=str)
def test_power_loss_with_any_order_of_writing_leaves_old_or_new(
    tmp_path: Path, layout: Layout
) -> None:
    """Any subset of what is not synced may be on disk; the loader reads all of them well."""
    states = list(after_power_loss(tmp_path / "logs", layout))
    verdicts = judge(tmp_path / "judge", layout, states)
    assert bad(verdicts) == []
    assert {True} == {one.new for one in verdicts[-3:]}


@pytest.mark.rotates(4)
@pytest.mark.parametrize(
    ("layout", "fsync"),
    [(ONE_SEGMENT, 1), (ONE_SEGMENT, 2), (ONE_SEGMENT, 3), (TAILS_WITH_TRANSACTIONS, 3)],
    ids=["R0", "R1", "R3", "between tails"],
)
def test_the_model_sees_the_loss_when_an_fsync_is_missing(
    tmp_path: Path, layout: Layout, fsync: int
) -> None:
    """Two phases that share one fsync leave bad states: the model is able to see one."""
    states = islice(after_power_loss(tmp_path / "logs", layout, without=fsync), ENOUGH_STATES)
    assert bad(judge(tmp_path / "judge", layout, states)) != []


@pytest.mark.rotates(2)
@pytest.mark.parametrize(
    ("layout", "seen"),
    [(ONE_SEGMENT, {"KEY-LOST"}), (MERGED_PAIR, {"KEY-LOST", "RESURRECT"})],
    ids=["one segment", "merged pair"],
)
def test_the_model_sees_what_kafkas_own_order_loses(
    tmp_path: Path, layout: Layout, seen: set[str]
) -> None:
    """Renames that are synced once, at the end, may be on disk in any order: keys are lost then,
    or come back.
    """
    log_dir = tmp_path / "logs"
    written, renames = kafkas_swap(layout, log_dir)
    model = PowerLossModel(log_dir / layout.partition.directory_name, contents(log_dir))
    execute(written, model)
    execute(renames, model)
    subsets = islice(model.after_power_loss(), ENOUGH_STATES)
    states = [(f"subset {number}", files) for number, files in enumerate(subsets)]
    problems = {what for one in judge(tmp_path / "judge", layout, states) for what in one.problems}
    assert seen <= problems


def kafkas_swap(layout: Layout, log_dir: Path) -> tuple[list[FileStep], list[FileStep]]:
    """What Kafka's cleaner does (UnifiedLog.replaceSegments, 4.3.0): its durable output, the
    renames. Effects: builds the layout.
    """
    layout.build(log_dir)
    directory = log_dir / layout.partition.directory_name
    fresh = [name for name in segment_files([layout.base]) if name in layout.fresh]
    old = [name for name in segment_files(layout.group) if name in layout.start]
    written = [
        Rename(layout.staging(log_dir) / name, directory / f"{name}.cleaned") for name in fresh
    ]
    renames = [
        *(Rename(directory / f"{name}.cleaned", directory / f"{name}.swap") for name in fresh),
        *(Rename(directory / name, directory / f"{name}.deleted") for name in old),
        *(Rename(directory / f"{name}.swap", directory / name) for name in fresh),
    ]
    return [*written, FsyncDir(directory)], [*renames]


def segment_files(bases: list[int]) -> list[str]:
    return [segment_file_name(base, suffix) for base in bases for suffix in SEGMENT_SUFFIXES]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_two_swaps_are_never_open_at_once(tmp_path: Path, layout: Layout) -> None:
    """At no durable instant are there two `.log.swap`, or a `.cleaned` next to a committed swap."""
    log_dir = tmp_path / "logs"
    steps = layout.build(log_dir)
    model = PowerLossModel(log_dir / "t-0", contents(log_dir))
    for step in steps:
        execute([step], model)
        durable = model.durable
        swaps = [name for name in durable if name.endswith(".log.swap")]
        assert len(swaps) <= 1
        if any(name.endswith(".swap") for name in durable):
            assert not [name for name in durable if name.endswith(".cleaned")]
    assert not model.pending


@pytest.mark.rotates(4)
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS])
def test_call_that_fails_names_its_step_and_leaves_old_or_new(tmp_path: Path, code: int) -> None:
    """Every call of a swap fails once: the error says which, and the log is old or new."""
    layout = TXNINDEX_STAYS
    count = len(layout.build(tmp_path / "plan"))
    states: list[tuple[str, Files]] = []
    for number in range(1, count + 1):
        log_dir = tmp_path / f"logs-{number}"
        steps = layout.build(log_dir)
        with RealFileSystem(log_dir) as real:
            fs = FailingFileSystem(real, fail_at=number, code=code)
            with pytest.raises(DiskFull if code == errno.ENOSPC else StepFailed) as caught:
                execute(steps, fs)
        assert f"step {number} (" in str(caught.value)
        assert errno.errorcode[code] in str(caught.value)
        assert fs.calls == number
        states.append((f"step {number} failed", plain_files(log_dir / "t-0")))
    verdicts = judge(tmp_path / "judge", layout, states)
    assert bad(verdicts) == []
    assert all(one.old or one.new for one in verdicts)


@pytest.mark.rotates(3)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_call_that_fails_leaves_what_a_death_leaves(layout: Layout) -> None:
    """Every call, the errors in turn: one of the states that are judged above."""
    with scratch_directory() as scratch:
        fail_calls(scratch, layout, lambda number: CODES[number % len(CODES)])


@pytest.mark.nightly
@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_every_call_that_fails_leaves_what_a_death_leaves(layout: Layout, code: int) -> None:
    """The same by night for every call and error."""
    with scratch_directory() as scratch:
        fail_calls(scratch, layout, lambda _: code)


def fail_calls(scratch: Path, layout: Layout, code_of: Callable[[int], int]) -> None:
    for number in range(1, len(layout.build(scratch / "plan")) + 1):
        code, log_dir = code_of(number), scratch / str(number)
        steps = layout.build(log_dir)
        with RealFileSystem(log_dir) as real:
            fs = FailingFileSystem(real, fail_at=number, code=code, root=log_dir)
            with pytest.raises(DiskFull if code == errno.ENOSPC else StepFailed):
                execute(steps, fs)
        assert fs.found == every_file(log_dir)
        shutil.rmtree(log_dir)


def live(files: Files) -> Files:
    return {name: data for name, data in files.items() if not name.endswith(".deleted")}


def contents(log_dir: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in log_dir.rglob("*") if path.is_file()}


def after_power_loss(
    log_dir: Path, layout: Layout, *, without: int | None = None
) -> Iterator[tuple[str, Files]]:
    """Every state that a power loss may leave anywhere in a swap.

    With `without`, the directory's fsync of that number (from 1) is left out, and the states are
    those of the two phases around it.
    """
    steps = layout.build(log_dir)
    directory = log_dir / layout.partition.directory_name
    model = PowerLossModel(directory, contents(log_dir))
    fsyncs = 0
    for number, step in enumerate(steps, start=1):
        if step == FsyncDir(directory):
            fsyncs += 1
            if fsyncs == without:
                continue
            if without is None or fsyncs == without + 1:
                for subset, files in enumerate(model.after_power_loss()):
                    yield f"step {number}, subset {subset}", files
        execute([step], model)
    yield "at the end", model.durable
