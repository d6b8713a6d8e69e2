"""What becomes of each leftover: the table of what a loader finds, row by row."""

from __future__ import annotations

import pytest

from logwright.format.names import segment_file_name
from logwright.log.kinds import file_kinds
from logwright.recovery.leftovers import find_leftovers


def files(base: int, *suffixes: str) -> list[str]:
    """Names of a segment's files."""
    return [segment_file_name(base, suffix) for suffix in suffixes]


LIVE = (".log", ".index", ".timeindex")
SWAPPED = (".log.swap", ".index.swap", ".timeindex.swap")
CLEANED = (".log.cleaned", ".index.cleaned", ".timeindex.cleaned")


def test_output_that_was_being_built_goes() -> None:
    """Only `.cleaned`: they go, the log stays."""
    leftovers = find_leftovers([*files(0, *LIVE), *files(0, *CLEANED)], {}, like_kafka=True)
    assert sorted(files(0, *CLEANED)) == list(leftovers.cleaned)
    assert sorted(files(0, *LIVE)) == sorted(leftovers.files)


@pytest.mark.parametrize("guard", [0, 5])
def test_a_swap_at_or_above_a_cleaned_is_rolled_back(guard: int) -> None:
    """It was not committed, or is half of a split."""
    names = [*files(0, *LIVE), *files(5, *SWAPPED), *files(guard, ".index.cleaned")]
    assert () == file_kinds(names).committed_swaps
    leftovers = find_leftovers(names, {}, like_kafka=False)
    assert sorted(files(5, *SWAPPED)) == list(leftovers.rolled_back)
    assert () == leftovers.swaps


def test_a_committed_swap_replaces_its_range() -> None:
    """Everything from its base to its end goes, snapshots too; it gets the final names."""
    names = [
        *files(0, *LIVE, ".txnindex"),
        *files(10, *LIVE, ".snapshot"),
        *files(20, *LIVE, ".snapshot"),
        *files(0, *SWAPPED),
    ]
    swap = segment_file_name(0, ".log.swap")
    leftovers = find_leftovers(names, {swap: 20}, like_kafka=False)
    assert sorted([*files(0, *LIVE, ".txnindex"), *files(10, *LIVE, ".snapshot")]) == list(
        leftovers.covered
    )
    assert swap == leftovers.files[segment_file_name(0, ".log")]
    assert segment_file_name(20, ".snapshot") in leftovers.files


def test_indexes_that_still_wait_are_renamed() -> None:
    """The log has its final name already: nothing is covered any more."""
    names = [*files(0, ".log", ".txnindex"), *files(0, ".index.swap"), *files(9, *LIVE)]
    leftovers = find_leftovers(names, {}, like_kafka=True)
    assert () == leftovers.covered
    assert segment_file_name(0, ".index.swap") == leftovers.files[segment_file_name(0, ".index")]


@pytest.mark.parametrize(("like_kafka", "covered"), [(True, 10), (False, None)])
def test_live_segments_between_two_swaps(like_kafka: bool, covered: int | None) -> None:
    """Kafka takes one range over both; without its ways each swap has its own."""
    names = [*files(10, ".log"), *files(0, ".log.swap"), *files(20, ".log.swap")]
    ends = {segment_file_name(0, ".log.swap"): 5, segment_file_name(20, ".log.swap"): 30}
    leftovers = find_leftovers(names, ends, like_kafka=like_kafka)
    assert leftovers.covered == (() if covered is None else tuple(files(covered, ".log")))


def test_metadata_snapshots_are_left_alone() -> None:
    """`.checkpoint.deleted` belongs to KRaft's own log."""
    names = ["00000000000000000005-0000000001.checkpoint.deleted", *files(0, ".log.deleted")]
    leftovers = find_leftovers(names, {}, like_kafka=True)
    assert tuple(files(0, ".log.deleted")) == leftovers.deleted


def test_names_that_no_broker_writes() -> None:
    """Too few digits, or none."""
    names = [*files(0, *LIVE, *SWAPPED), "5.log", "x.index", "5.log.swap", "notes.txt"]
    assert ("5.log", "5.log.swap", "x.index") == file_kinds(names).strange
