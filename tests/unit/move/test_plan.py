"""What a move copies, and in which order; `tests/crash/test_move.py` interrupts it."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.format.names import TopicPartition
from logwright.move.plan import Places, files_to_copy
from logwright.move.steps import (
    RANGE_BYTES,
    abandon_steps,
    copy_steps,
    directory_steps,
    hide_steps,
    place_steps,
    retire_steps,
    settle_steps,
)
from logwright.place.model import FileStamp
from logwright.steps.step import (
    CopyRange,
    FileStep,
    FsyncDir,
    FsyncFile,
    MakeDir,
    RemoveDir,
    RenameDir,
    SetMtime,
    Unlink,
    WriteFile,
)
from logwright.units import ByteCount

ID = "0" * 31 + "1"
PLACES = Places(
    source=Path("/a"), destination=Path("/b"), partition=TopicPartition("t", 0), move_id=ID
)
LIVE, MOVED, DELETED = Path("/a/t-0"), Path(f"/a/t-0.{ID}-moved"), Path(f"/a/t-0.{ID}-delete")
FUTURE = Path(f"/b/t-0.{ID}-future")
WORK, COPY, PLACED = FUTURE / ".logwright", FUTURE / ".logwright/copy", Path("/b/t-0")


def stamp(name: str, size: int = 10, modified_ns: int = 5, inode: int = 1) -> FileStamp:
    return FileStamp(name, ByteCount(size), modified_ns, inode)


def named(*stamps: FileStamp) -> dict[str, FileStamp]:
    return {one.name: one for one in stamps}


@pytest.mark.parametrize(
    ("there", "again", "copied"),
    [
        ([], [], True),
        ([stamp("x")], [], False),
        ([stamp("x", inode=2)], [], False),
        ([stamp("x", size=9)], [], True),
        ([stamp("x", modified_ns=6)], [], True),
        ([stamp("x")], ["x"], True),
        ([stamp("y")], [], True),
    ],
    ids=["missing", "alike", "other inode", "truncated", "other time", "other bytes", "other name"],
)
def test_a_file_is_copied_unless_it_is_there(
    there: list[FileStamp], again: list[str], copied: bool
) -> None:
    """By size and time, which a copy gets last; and by its bytes where they were compared."""
    files = files_to_copy(named(stamp("x")), named(*there), frozenset(again))
    assert ((stamp("x"),) if copied else ()) == files


def test_directories_of_a_move() -> None:
    """Under names that no broker takes for a partition, until they are one."""
    assert (LIVE, MOVED, DELETED) == (PLACES.live, PLACES.moved, PLACES.deleted)
    assert (FUTURE, WORK, COPY, PLACED) == (
        PLACES.future,
        PLACES.work,
        PLACES.copy,
        PLACES.placed,
    )


def test_directories_are_made_from_the_outside_in() -> None:
    """Each is durable before the one inside it; our own ones are ours alone."""
    steps = dict(directory_steps(PLACES))
    assert [FUTURE, WORK, COPY, COPY / ".logwright"] == list(steps)
    assert (MakeDir(FUTURE, like=LIVE), FsyncDir(Path("/b"))) == steps[FUTURE]
    assert (MakeDir(WORK, like=None), FsyncDir(FUTURE)) == steps[WORK]


@pytest.mark.parametrize("size", [0, 1, RANGE_BYTES, RANGE_BYTES + 1, 3 * RANGE_BYTES])
def test_a_copied_file_gets_its_time_last(size: int) -> None:
    """One that was interrupted has another time, and is copied again."""
    file = stamp("x", size)
    steps = list(copy_steps(PLACES, named(file), {}, (file,)))
    assert WriteFile(COPY / "x", b"", like=LIVE / "x") == steps[0]
    assert [SetMtime(COPY / "x", 5), FsyncFile(COPY / "x")] == steps[-2:]
    ranges = [step for step in steps if isinstance(step, CopyRange)]
    assert steps[1:-2] == ranges
    ends = [(step.position, step.position + step.bytes) for step in ranges]
    assert [0, *(end for _, end in ends)] == [*(start for start, _ in ends), size]
    assert all(step.bytes <= RANGE_BYTES for step in ranges)


def test_what_the_source_has_no_more_goes_first() -> None:
    """A retention or a cleaning came in between."""
    file = stamp("x")
    steps = list(copy_steps(PLACES, named(file), named(stamp("gone")), (file,)))
    assert Unlink(COPY / "gone") == steps[0]


def test_all_of_the_copy_is_made_durable() -> None:
    """Also what an earlier run made: files, then directories from the inside out."""
    steps = settle_steps(PLACES, named(stamp("x"), stamp("y")))
    inner = [COPY / ".logwright", COPY, WORK, FUTURE, Path("/b")]
    assert (
        FsyncFile(COPY / "x"),
        FsyncFile(COPY / "y"),
        *(FsyncDir(path) for path in inner),
    ) == steps


def test_switch() -> None:
    """C to F: the source loses its name, durably, before the copy gets it; then it is given up."""
    steps: tuple[FileStep, ...] = (
        *hide_steps(PLACES),
        *place_steps(PLACES),
        *retire_steps(PLACES),
    )
    assert steps == (
        RenameDir(LIVE, MOVED),
        FsyncDir(Path("/a")),
        RenameDir(COPY, PLACED),
        FsyncDir(Path("/b")),
        RemoveDir(WORK, missing_ok=True),
        RemoveDir(FUTURE, missing_ok=True),
        FsyncDir(Path("/b")),
        RenameDir(MOVED, DELETED),
    )


@pytest.mark.parametrize("hidden", [False, True])
def test_way_back(hidden: bool) -> None:
    """The source has its name again, durably, before anything of the copy goes."""
    steps = abandon_steps(PLACES, hidden=hidden, copied=named(stamp("x")))
    back = (RenameDir(MOVED, LIVE), FsyncDir(Path("/a"))) if hidden else ()
    assert (*back, Unlink(COPY / "x")) == steps[: len(back) + 1]
    removed = [step.path for step in steps if isinstance(step, RemoveDir)]
    assert [COPY / ".logwright", COPY, WORK, FUTURE] == removed
    assert FsyncDir(Path("/b")) == steps[-1]
