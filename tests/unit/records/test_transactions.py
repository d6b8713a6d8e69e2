"""Aborted data is left out by its marker, wherever that is; open transactions end what is read."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice, product
from pathlib import Path

import pytest

from logwright.batches import segment_file
from logwright.errors import CorruptBatch
from logwright.format.batch import parse_batch, walk_batches
from logwright.log.model import PartitionLog
from logwright.records import pieces
from logwright.records.model import Isolation, ReadCounts, ReadRequest
from logwright.records.read import read_sources
from tests.log_builder import LogBuilder, SegmentBuilder
from tests.plain_consumer import consume
from tests.unit.records.reading import observed, observed_again, offsets, ranges, rows

COMMITTED = ReadRequest()
UNCOMMITTED = ReadRequest(isolation="read_uncommitted")


def data(segment: SegmentBuilder, offset: int, producer: int, sequence: int = 0) -> None:
    """One transactional record."""
    segment.batch(
        offset, [(f"k{offset}", "v")], producer_id=producer, transactional=True, sequence=sequence
    )


def woven_log(tmp_path: Path) -> LogBuilder:
    """Transactions of three producers, woven into each other and through three segments; one that
    is open at the end.
    """
    builder = LogBuilder(tmp_path / "logs")
    first = builder.segment(0)
    data(first, 0, 7)
    data(first, 1, 8)
    first.batch(2, [("plain", "v")])
    first.marker(3, 7, "abort")
    data(first, 4, 7, 1)
    second = builder.segment(5)
    second.batch(5, [("idempotent", "v")], producer_id=9, sequence=0)
    data(second, 6, 8, 1)
    third = builder.segment(7)
    third.marker(7, 7, "commit").marker(8, 8, "abort")
    data(third, 9, 8, 2)
    data(third, 10, 7, 2)
    third.marker(11, 7, "abort").marker(12, 8, "commit")
    data(third, 13, 9, 1)
    third.batch(14, [("later", "v")])
    builder.segment(15)
    return builder


@pytest.fixture(params=[1, 1 << 20])
def small_pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces and steps ahead of one batch each, or of everything."""
    monkeypatch.setattr(segment_file, "PIECE_BYTES", request.param)
    monkeypatch.setattr(pieces, "AHEAD_BYTES", request.param)


@pytest.mark.usefixtures("small_pieces")
def test_the_next_marker_decides(tmp_path: Path) -> None:
    """In the same piece, segment or range or not; nothing above the last stable offset is read."""
    log = observed(woven_log(tmp_path))
    assert 13 == log.last_stable_offset
    assert [2, 4, 5, 9] == offsets(log, COMMITTED)
    assert [0, 1, 2, 4, 5, 6, 9, 10, 13, 14] == offsets(log, UNCOMMITTED)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_any_part_of_it(tmp_path: Path, isolation: Isolation) -> None:
    """A range knows of markers after its end."""
    log = observed(woven_log(tmp_path))
    for start, end in product(range(16), repeat=2):
        request = ReadRequest(start_offset=start, end_offset=end, isolation=isolation)
        assert consume(log, isolation, start, end) == rows(log, request)


@pytest.mark.usefixtures("small_pieces")
def test_sources_have_aborted_data_marked(tmp_path: Path) -> None:
    """Mapped pieces are the same, and all of them stay valid."""
    (records_range,) = ranges(observed(woven_log(tmp_path)), UNCOMMITTED)
    sources = list(pieces.Pieces(replace(records_range, isolation="read_committed"), ReadCounts()))
    batches = [batch for source in sources for batch in source.batches]
    assert [0, 1, 6, 10] == [batch["base_offset"] for batch in batches if batch["discard"]]
    record_batches = read_sources(
        sources, partition=records_range.partition, offsets=(0, 13), columns=["offset"]
    )
    assert [2, 4, 5, 9] == [row for batch in record_batches for row in batch.column(0).to_pylist()]


@pytest.mark.parametrize("reads", [iter, pieces.Pieces.in_memory])
@pytest.mark.parametrize("most", [1, None], ids=["the first piece", "all"])
def test_nothing_stays_open_after_reading(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    reads: Callable[[pieces.Pieces], Iterator[object]],
    most: int | None,
) -> None:
    """Python looks for circles of references seldom; a process that reads on would run out of
    descriptors first. The markers ahead are not read to their end here.
    """
    for owner, name in ((segment_file, "PIECE_BYTES"), (pieces, "AHEAD_BYTES")):
        monkeypatch.setattr(owner, name, 1)
    log = observed(woven_log(tmp_path))
    (records_range,) = ranges(log, ReadRequest(start_offset=0, end_offset=2))
    gc.disable()
    try:
        read = pieces.Pieces(records_range, ReadCounts())
        still = weakref.ref(read)
        assert list(islice(reads(read), most))
        del read
        assert still() is None
    finally:
        gc.enable()


def test_transactions_below_the_log_start_offset(tmp_path: Path) -> None:
    """Their data is not visible; a marker at or above it decides what is."""
    log = observed(woven_log(tmp_path), log_start=4)
    assert [4, 5, 9] == offsets(log, COMMITTED)


def test_a_marker_that_a_cleaning_emptied_decides_nothing(tmp_path: Path) -> None:
    """Its transaction has no data any more: the data before it belongs to the next marker."""
    builder = LogBuilder(tmp_path / "logs")
    segment = builder.segment(0)
    data(segment, 0, 7)
    segment.marker(1, 7, "abort", empty=True)
    segment.marker(2, 7, "commit")
    builder.segment(3)
    assert [0] == offsets(observed(builder), COMMITTED)


def damaged(builder: LogBuilder, offset: int) -> PartitionLog:
    """The log with another producer id in the batch at an offset."""
    builder.write(producers=True)
    for path in builder.directory.glob("*.log"):
        content = bytearray(path.read_bytes())
        for span in walk_batches(bytes(content)):
            if parse_batch(bytes(content), span.position).base_offset == offset:
                content[span.position + 50] ^= 1
        path.write_bytes(content)
    return observed_again(builder)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("offset", [3, 8])
def test_a_marker_with_a_wrong_crc_decides_nothing(tmp_path: Path, offset: int) -> None:
    """It is refused even where only the data before it is read; or ignored, and counted, on
    request.
    """
    builder = LogBuilder(tmp_path / "logs")
    first = builder.segment(0)
    data(first, 0, 7)
    data(first, 1, 8)
    first.batch(2, [("plain", "v")]).marker(3, 7, "abort")
    second = builder.segment(4)
    second.batch(4, [("plain", "v")] * 4).marker(8, 8, "abort")
    builder.segment(9)
    log = damaged(builder, offset)
    with pytest.raises(CorruptBatch) as caught:
        offsets(log, ReadRequest(end_offset=2))
    assert caught.value.position is not None
    undecided = {3: 0, 8: 1}[offset]
    assert [undecided] == offsets(log, ReadRequest(end_offset=2, on_corrupt="skip"))
