"""Where the shown part of a running log ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.format.checkpoints import LeaderEpoch
from logwright.format.codec import GZIP
from logwright.place.files import open_bytes
from logwright.running.bounds import (
    End,
    end_of_log,
    holding,
    is_of,
    same_history,
    size_of_index,
    size_of_timeindex,
    size_of_txnindex,
)
from logwright.units import INT64_MAX, Offset
from tests.log_builder import LogBuilder
from tests.old_formats import Message, message, wrapper

PAIRS = [("a", "1" * 100)]
BATCHES = 20


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The `.log` of 20 batches of two records each, but for offsets 20 to 29, with an index entry
    for each batch after the first.
    """
    builder = LogBuilder(tmp_path)
    segment = builder.segment(0)
    for number in range(BATCHES):
        offset = 2 * number + (10 if number >= BATCHES // 2 else 0)
        segment.batch(offset, PAIRS * 2)
    builder.write(index_interval=1)
    return builder.directory / f"{0:020}.log"


def end(log: Path, bound: int = INT64_MAX, *, by_index: bool = True) -> End:
    with open_bytes(log) as file, open_bytes(log.with_suffix(".index")) as index:
        return end_of_log(file, index if by_index else None, base_offset=0, bound=bound)


def position(log: Path, number: int) -> int:
    """Where a batch begins: all have the same size."""
    return log.stat().st_size // BATCHES * number


def at(size: int, offset: int, *, following: int | None = None, reached: bool = True) -> End:
    return End(size, Offset(offset if following is None else following), Offset(offset), reached)


@pytest.mark.parametrize("by_index", [True, False])
def test_batches_below_the_bound_are_shown(log: Path, by_index: bool) -> None:
    """Up to the batch that reaches it; with and without an index."""
    assert at(position(log, 4), 8) == end(log, 8, by_index=by_index)
    assert at(log.stat().st_size, 50, reached=False) == end(log, 60, by_index=by_index)
    assert at(0, 0) == end(log, 0, by_index=by_index)


def test_a_batch_that_the_bound_divides_is_not_shown(log: Path) -> None:
    """All of it is left out: the bound of a follower can lie inside."""
    assert at(position(log, 4), 8) == end(log, 9)


@pytest.mark.parametrize("magic", [0, 1])
def test_an_old_batch_that_the_bound_divides_is_not_shown(tmp_path: Path, magic: int) -> None:
    """Its header has its last offset only; what is shown ends before its first one. One that may be
    torn begins where the batch before it ends.
    """
    path = tmp_path / f"{0:020}.log"
    messages = [Message(b"a", b"1", 1)] * 3
    first = message(magic, 4, messages[0])
    last = wrapper(magic, (7, 8, 10), messages, GZIP)
    for content, bound, expected in (
        (last, 9, 7),
        (last, 7, 7),
        (last, 6, 6),
        (last, 11, 11),
        (last[:-1] + b"x", 9, 5),
        (message(magic, 10, Message(None, b"no messages", 1), GZIP), 9, 5),
        (message(magic, 10, messages[0]), 9, 9),
    ):
        path.write_bytes(first + content)
        with open_bytes(path) as file:
            shown = end_of_log(file, None, base_offset=0, bound=bound)
        size = len(first + content) if bound == 11 else len(first)
        assert at(size, expected, following=11 if bound == 11 else 5) == shown


def test_a_log_that_ends_in_a_gap_ends_at_the_bound(log: Path) -> None:
    """Not at the last batch before it: the end would go back when a cleaner removes records."""
    assert at(position(log, 10), 25, following=20) == end(log, 25)


@pytest.mark.parametrize("cut", [1, 30, 61, 100])
def test_a_torn_batch_is_not_shown(log: Path, cut: int) -> None:
    """Whatever is left of it."""
    start = position(log, BATCHES - 1)
    log.write_bytes(log.read_bytes()[: start + cut])
    assert at(start, 48, reached=False) == end(log)


def test_preallocated_files_end_before_the_zeros(log: Path) -> None:
    """The log's with its last whole batch, the indexes' with their last entry."""
    whole = log.stat().st_size
    index, times = log.with_suffix(".index"), log.with_suffix(".timeindex")
    sizes = index.stat().st_size, times.stat().st_size
    for path in (log, index, times):
        path.write_bytes(path.read_bytes() + bytes(4096 * 12))
    last = end(log)
    assert at(whole, 50, reached=False) == last
    with open_bytes(index) as entries, open_bytes(times) as largest:
        assert sizes == (
            size_of_index(entries, base_offset=0, end=last),
            size_of_timeindex(largest, base_offset=0, end=last),
        )


def test_a_batch_of_which_only_the_length_is_there_is_torn(log: Path) -> None:
    """In a preallocated file its rest is zeros: the CRC says so."""
    content, start = log.read_bytes(), position(log, BATCHES - 1)
    log.write_bytes(content[: start + 80].ljust(len(content) + 100, b"\0"))
    assert at(start, 48, reached=False) == end(log)


def test_index_entries_beyond_the_end_are_not_shown(log: Path) -> None:
    """An entry names a batch: 19 batches have one, of the first four batches three."""
    with open_bytes(log.with_suffix(".index")) as index:
        assert 8 * (BATCHES - 1) == size_of_index(index, base_offset=0, end=end(log))
        assert 8 * 3 == size_of_index(index, base_offset=0, end=end(log, 8))


def test_a_time_index_of_later_records_is_not_shown(log: Path) -> None:
    """Its only entry is of the newest record."""
    with open_bytes(log.with_suffix(".timeindex")) as times:
        assert 12 == size_of_timeindex(times, base_offset=0, end=end(log))
        assert 0 == size_of_timeindex(times, base_offset=0, end=end(log, 8))


def test_transactions_whose_marker_is_not_shown_are_not_in_the_index(tmp_path: Path) -> None:
    """The marker decides, not the first record."""
    builder = LogBuilder(tmp_path)
    segment = builder.segment(0)
    segment.batch(0, PAIRS, producer_id=7, transactional=True).marker(1, 7, "abort")
    segment.batch(2, PAIRS, producer_id=7, transactional=True).marker(3, 7, "abort")
    builder.write(producers=True)
    path = builder.directory / f"{0:020}.txnindex"
    with open_bytes(path) as index:
        sizes = [size_of_txnindex(index, end=at(0, offset)) for offset in (1, 2, 3, 4)]
    assert [0, 34, 34, 68] == sizes


@pytest.mark.parametrize("entry", [bytes([0, 0, 0, 3, 0, 0, 0, 99]), bytes([255] * 8)])
def test_a_misleading_index_is_of_no_use(log: Path, entry: bytes) -> None:
    """The batches are read from the segment's start."""
    log.with_suffix(".index").write_bytes(entry)
    assert at(position(log, 4), 8) == end(log, 8)


@pytest.mark.parametrize(("bound", "segment"), [(0, 0), (5, 0), (9, 0), (10, 1), (11, 1), (99, 2)])
def test_the_segment_that_holds_the_bound(bound: int, segment: int) -> None:
    """The last one that begins at or below it; the first if the bound is below all."""
    assert segment == holding([5, 10, 20], bound)


def epochs(*entries: tuple[int, int]) -> tuple[LeaderEpoch, ...]:
    return tuple(LeaderEpoch(epoch=epoch, start_offset=Offset(at)) for epoch, at in entries)


def test_a_batch_is_of_the_epoch_of_its_offset() -> None:
    """An unknown epoch, and an offset before the first one, say nothing."""
    known = epochs((1, 0), (4, 100))
    assert [True, False, True, False] == [
        is_of(known, offset, epoch) for offset, epoch in ((99, 1), (99, 4), (100, 4), (100, 1))
    ]
    assert is_of(known, 100, -1)
    assert is_of((), 100, 7)
    assert is_of(epochs((4, 100)), 5, 9)


@pytest.mark.parametrize(
    ("after", "same"),
    [
        (((1, 0), (4, 100)), True),
        (((1, 50), (4, 100)), True),  # the log start moved
        (((4, 120),), True),
        (((1, 0), (4, 100), (5, 200)), True),  # a new leader, at the bound
        (((1, 0), (4, 100), (5, 150)), False),  # truncated below it
        (((1, 0), (5, 90)), False),
        (((1, 0),), False),
        ((), False),
        (((7, 300),), True),  # all that was shown is below the log start
        (((0, 300),), False),
    ],
)
def test_a_truncation_below_the_bound_is_noticed(
    after: tuple[tuple[int, int], ...], same: bool
) -> None:
    """By the leader epochs before and after the reading, bound 200."""
    assert same == same_history(epochs((1, 0), (4, 100)), epochs(*after), 200)


def test_a_log_without_epochs_may_get_some() -> None:
    """At its bound."""
    assert same_history((), epochs((0, 200)), 200)
    assert not same_history((), epochs((0, 10)), 200)
