"""The order in which segments take the place of others; `tests/crash` judges the states between."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.errors import InvariantError
from logwright.steps.replace_segments import Replacement, replace_segments
from logwright.steps.step import (
    FileStep,
    FsyncDir,
    FsyncFile,
    Link,
    Rename,
    Unlink,
    WriteFile,
)
from logwright.units import TimestampMs

NOW = TimestampMs(77)
LIVE = (".log", ".index", ".timeindex")


def names(base: int, *suffixes: str) -> tuple[str, ...]:
    return tuple(f"{base:020d}{suffix}" for suffix in suffixes or LIVE)


def phases(change: Replacement, present: tuple[str, ...] = ()) -> list[list[str]]:
    """What happens between two fsyncs of the directory, after the ledger's record."""
    phases_of: list[list[str]] = [[]]
    for step in replace_segments(change, present={*change.old, *present}, now_ms=NOW)[3:]:
        if step == FsyncDir("d"):
            phases_of.append([])
        else:
            phases_of[-1].append(shown(step))
    assert phases_of.pop() == []
    return phases_of


def shown(step: FileStep) -> str:
    if isinstance(step, (Rename, Link)):
        return f"{type(step).__name__} {short(step.source)} {short(step.target)}"
    assert isinstance(step, (Unlink, WriteFile, FsyncFile, FsyncDir))
    return f"{type(step).__name__} {short(step.path)}"


def short(path: object) -> str:
    return str(path).removeprefix("d/").replace("0" * 19, "")


ONE_BY_ONE = [
    ["Link 0.log 0.log.deleted", "Link 0.index 0.index.deleted"],
    ["Rename 5.log.cleaned 5.log.swap", "Rename 5.index.cleaned 5.index.swap"],
    ["Rename 0.log.cleaned 0.log.swap", "Rename 0.index.cleaned 0.index.swap"],
    ["Rename 0.log.swap 0.log"],
    ["Rename 0.index.swap 0.index"],
    ["Rename 5.log.swap 5.log"],
    ["Rename 5.index.swap 5.index"],
]


def test_one_segment_by_two() -> None:
    """The second one waits as `.swap` before the commit point, and gets its names last."""
    kinds = (".log", ".index")
    change = Replacement(
        directory="d", new=(names(0, *kinds), names(5, *kinds)), old=names(0, *kinds)
    )
    assert ONE_BY_ONE == phases(change)


@pytest.mark.parametrize("bring_in", [Rename, Link])
def test_staged_files_come_in_before_anything_is_replaced(bring_in: type[Rename | Link]) -> None:
    """In the first phase, and the directory that they leave is synced with this one."""
    change = Replacement(
        directory="d",
        new=(names(0, ".log"),),
        staged={name: f"s/{name}" for name in names(0, ".log")},
        bring_in=bring_in,
        old=names(0, ".log"),
    )
    first, second, *_ = phases(change)
    brought = f"{bring_in.__name__} s/0.log 0.log.cleaned"
    assert [brought, "Link 0.log 0.log.deleted"] == first
    assert "FsyncDir s" == second[0]


def test_temporary_files_and_snapshots_go_last() -> None:
    """The empty transaction index, an empty segment, snapshots of bases that vanish."""
    change = Replacement(
        directory="d",
        new=(names(0, ".log"), names(7, ".log")),
        old=names(0, ".log", ".txnindex"),
        snapshots=names(3, ".snapshot"),
        temporary=names(0, ".log"),
    )
    phases_seen = phases(change)
    empty = ["WriteFile 0.txnindex.cleaned", "FsyncFile 0.txnindex.cleaned"]
    assert empty == phases_seen[0][:2]
    assert ["Rename 0.txnindex.swap 0.txnindex"] == phases_seen[4]
    last = ["Unlink 0.txnindex", "Unlink 0.log", "Rename 3.snapshot 3.snapshot.deleted"]
    assert last == phases_seen[-1]


def test_a_name_that_is_retired_already_is_not_taken() -> None:
    """Its delay is not over: the new one gets a number."""
    change = Replacement(directory="d", new=(names(0, ".log"),), old=names(0, ".log"))
    first, *_ = phases(change, names(0, ".log.deleted"))
    assert ["Link 0.log 0.log.1.deleted"] == first


def test_many_by_many_is_our_fault() -> None:
    """No order was proved for it."""
    change = Replacement(
        directory=str(Path("d")),
        new=(names(0), names(5)),
        old=names(0),
        covered=names(3),
    )
    with pytest.raises(InvariantError):
        replace_segments(change, present=change.old, now_ms=NOW)


def test_nothing_is_unlinked_but_what_is_temporary() -> None:
    """A replacement takes no data away: old files keep a `.deleted` name."""
    change = Replacement(directory="d", new=(names(0),), old=names(0), covered=names(3))
    steps = replace_segments(change, present={*names(0), *names(3)}, now_ms=NOW)
    assert [] == [step for step in steps if isinstance(step, Unlink)]
