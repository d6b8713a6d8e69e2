"""What the names of a partition directory's files say, row by row."""

from __future__ import annotations

import pytest

from logwright.log.kinds import file_kinds, offset_in

LIVE = (".log", ".index", ".timeindex")


def files(base: int, *suffixes: str) -> list[str]:
    return [f"{base:020d}{suffix}" for suffix in suffixes]


def test_each_file_is_of_one_kind() -> None:
    """Snapshots and files of others are of none."""
    names = [
        *files(0, *LIVE, ".txnindex", ".snapshot", ".log.deleted", ".log.1.deleted"),
        *files(5, ".log.cleaned", ".index.swap", ".snapshot.tmp"),
        "5.log",
        "notes.txt",
        "00000000000000000005-0000000001.checkpoint.deleted",
    ]
    kinds = file_kinds(reversed(names))
    assert (f"{0:020d}",) == kinds.stems
    assert tuple(sorted(files(0, ".index", ".timeindex", ".txnindex"))) == kinds.indexes
    assert tuple(files(0, ".log.1.deleted", ".log.deleted")) == kinds.retired
    assert tuple(files(5, ".log.cleaned")) == kinds.cleaned
    assert tuple(files(5, ".index.swap")) == kinds.swaps
    assert ("5.log",) == kinds.foreign
    assert tuple(files(5, ".snapshot.tmp")) == kinds.temporary


@pytest.mark.parametrize("stem", ["5", f"{2**63:020d}", f"{0:021d}", f"{0:019d}٣", "x"])
def test_a_stem_that_is_no_offset_is_foreign(stem: str) -> None:
    """Kafka has 20 digits, of an int64; its loading fails on the others or mistakes them."""
    kinds = file_kinds([f"{stem}.log", f"{stem}.index.swap"])
    assert (f"{stem}.log",) == kinds.foreign
    assert {f"{stem}.log", f"{stem}.index.swap"} == set(kinds.strange)
    assert () == kinds.stems


def test_segments_and_indexes_belong_together() -> None:
    """An index without a log, a log without one of the two indexes that each has."""
    kinds = file_kinds([*files(0, *LIVE), *files(5, ".txnindex"), *files(7, ".log", ".index")])
    assert tuple(files(5, ".txnindex")) == kinds.orphans
    assert tuple(files(7, ".timeindex")) == kinds.missing


@pytest.mark.parametrize(
    ("names", "committed", "needed"),
    [
        ([*files(0, ".log", ".log.swap")], True, True),
        ([*files(0, ".log", ".index.cleaned", ".log.swap")], False, False),
        ([*files(0, ".log", ".log.cleaned"), *files(5, ".log.swap")], False, False),
        ([*files(0, ".log", ".log.cleaned"), *files(5, ".log", ".log.swap")], False, True),
        ([*files(0, ".index.cleaned", ".log.swap")], False, True),
        ([*files(0, ".log", ".log.swap"), *files(5, ".log.cleaned")], True, True),
    ],
    ids=["bare", "guarded", "later part", "old log of its own", "no old log", "higher guard"],
)
def test_swap_files(names: list[str], committed: bool, needed: bool) -> None:
    """A loader goes by the lowest `.cleaned`; a purge wants to see the old log too."""
    kinds = file_kinds(names)
    assert (bool(kinds.committed_swaps), bool(kinds.needed_swaps)) == (committed, needed)


@pytest.mark.parametrize(("name", "offset"), [("7.log", 7), ("x.log", -1), ("7", -1)])
def test_offset_in_a_name(name: str, offset: int) -> None:
    """The digits before the first dot."""
    assert offset == offset_in(name)
