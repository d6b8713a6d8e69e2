"""Which ranges are read: bounds by offset and time, divisions by the index, and what that costs."""

from __future__ import annotations

import pickle
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from logwright.errors import CorruptBatch
from logwright.format.batch import parse_batch
from logwright.log.model import PartitionLog
from logwright.records.model import ReadCounts, ReadRequest
from logwright.records.observe import first_offset_at
from logwright.records.plan import plan_records
from tests.log_builder import START_MS, LogBuilder
from tests.plain_consumer import arrow_rows, consume, plain_batches
from tests.unit.records.reading import observed, observed_again, offsets, ranges, read

SEGMENTS, BATCHES, RECORDS_EACH = 3, 40, 5


def long_log(tmp_path: Path, *, index_interval: int | None = 100) -> LogBuilder:
    """Three segments of 40 batches of 5 records, indexed; and an empty active one."""
    builder = LogBuilder(tmp_path / "logs")
    size = BATCHES * RECORDS_EACH
    for base in range(0, SEGMENTS * size, size):
        segment = builder.segment(base)
        for at in range(base, base + size, RECORDS_EACH):
            pairs = [(f"k{at + number}", "v" * (at % 50)) for number in range(RECORDS_EACH)]
            segment.batch(at, pairs)
    builder.segment(SEGMENTS * size)
    return builder.write(index_interval=index_interval)


@pytest.mark.parametrize("range_bytes", [1, 700, 5_000, 20_000, 1 << 30])
@pytest.mark.parametrize("index_interval", [None, 100])
def test_ranges_cover_everything_once(
    tmp_path: Path, range_bytes: int, index_interval: int | None
) -> None:
    """In order, without gap or overlap, and not much larger than asked for."""
    log = observed_again(long_log(tmp_path, index_interval=index_interval))
    planned = ranges(log, ReadRequest(range_bytes=range_bytes))
    bounds = [one.start_offset for one in planned] + [planned[-1].end_offset]
    assert (0, 600) == (bounds[0], bounds[-1])
    assert all(low < high for low, high in pairwise(bounds))
    assert all(one.end_offset == after for one, after in zip(planned, bounds[1:], strict=True))
    if index_interval:
        assert all(one.bytes <= range_bytes + 1_000 for one in planned)
    assert list(range(600)) == offsets(log, ReadRequest(range_bytes=range_bytes))
    assert planned == pickle.loads(pickle.dumps(planned))  # noqa: S301, TID251 -- as Spark does


@pytest.mark.parametrize(("start", "end"), [(0, 3), (3, 199), (199, 201), (333, 334), (598, 700)])
def test_a_part_costs_a_part(tmp_path: Path, start: int, end: int) -> None:
    """Only the batches around the wanted offsets are read, and only their segments are planned."""
    log = observed_again(long_log(tmp_path))
    request = ReadRequest(start_offset=start, end_offset=end)
    counts = ReadCounts()
    batches = read(log, request, counts=counts)
    assert list(range(start, min(end, 600))) == [row[2] for row in arrow_rows(batches)]
    assert (end - 1) // RECORDS_EACH - start // RECORDS_EACH + 1 >= counts.batches
    wanted = sum(
        batch.header.size_bytes
        for batch in plain_batches(log.directory)
        if batch.header.base_offset < end and batch.header.next_offset > start
    )
    assert sum(one.bytes for one in ranges(log, request)) <= wanted + 1_500


def test_nothing_else_is_looked_at(tmp_path: Path) -> None:
    """Rubbish in other segments, and before and after the wanted part of one, is not noticed."""
    builder = long_log(tmp_path)
    for base in (0, 200, 400):
        path = builder.directory / f"{base:020}.log"
        content = bytearray(path.read_bytes())
        keep = (len(content) // 3, len(content) * 2 // 3) if base == 200 else (61, 61)
        content[61 : keep[0]] = b"\xff" * (keep[0] - 61)
        content[max(keep[1], 61) :] = b"\xff" * (len(content) - max(keep[1], 61))
        path.write_bytes(content)
    request = ReadRequest(start_offset=290, end_offset=310)
    assert list(range(290, 310)) == offsets(observed_again(builder), request)


def test_nothing_is_planned_without_records(tmp_path: Path) -> None:
    """Beyond the end, below the log start offset, or the wrong way round."""
    log = observed_again(long_log(tmp_path))
    for start, end in ((600, None), (700, 800), (30, 30), (30, 20)):
        assert () == ranges(log, ReadRequest(start_offset=start, end_offset=end))


def reindexed(builder: LogBuilder, entries: NDArray[np.int64]) -> PartitionLog:
    """The log with other entries in the second segment's offset index."""
    path = builder.directory / f"{200:020}.index"
    path.write_bytes(entries.astype(">i4").tobytes())
    return observed_again(builder)


def entries_of(builder: LogBuilder) -> NDArray[np.int64]:
    """The entries of that index: relative offset and position."""
    path = builder.directory / f"{200:020}.index"
    return np.frombuffer(path.read_bytes(), dtype=">i4").reshape(-1, 2).astype(np.int64)


def require_all_read(log: PartitionLog) -> None:
    """Any offsets of that segment are read, whatever its index says."""
    for start in range(200, 400, 9):
        request = ReadRequest(start_offset=start, end_offset=start + 20, range_bytes=300)
        assert list(range(start, start + 20)) == offsets(log, request)


@pytest.mark.parametrize("entry", range(8))
@pytest.mark.parametrize(
    "shift", [(1, 0), (-30, 0), (30, 0), (0, 1), (0, -61), (0, 1 << 20), (7, 200)]
)
def test_a_wrong_entry_changes_nothing(tmp_path: Path, entry: int, shift: tuple[int, int]) -> None:
    """Whatever an entry says, the same records are read."""
    builder = long_log(tmp_path, index_interval=2_000)
    entries = entries_of(builder)
    entries[entry % len(entries)] += shift
    require_all_read(reindexed(builder, entries))


def test_entries_out_of_order_change_nothing(tmp_path: Path) -> None:
    """Each entry is right, but not where it should be."""
    builder = long_log(tmp_path)
    entries = entries_of(builder)
    for number in range(5):
        order = np.random.default_rng(number).permutation(len(entries))
        require_all_read(reindexed(builder, entries[order]))
    require_all_read(reindexed(builder, entries[::-1]))


def timed_log(tmp_path: Path, *, log_start: int | None = None) -> PartitionLog:
    """Times that go up and down, LogAppendTime, an aborted transaction and its marker."""
    builder = LogBuilder(tmp_path / "logs")
    times = [START_MS + delta for delta in (50, 10, 90, 20)]
    first = builder.segment(0)
    first.batch(0, [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")], timestamps=times)
    first.batch(4, [("e", "5")], append_time_ms=START_MS + 95)
    second = builder.segment(5)
    second.batch(
        5, [("f", "6")], timestamps=[START_MS + 200], producer_id=7, transactional=True, sequence=0
    )
    second.marker(6, 7, "abort")
    second.batch(7, [("g", "7")], timestamps=[START_MS + 150])
    builder.segment(8)
    return observed(builder, log_start=log_start)


def plain_offset_at(log: PartitionLog, timestamp_ms: int) -> int | None:
    """The first record at or above a time, markers included."""
    return next(
        (
            record.offset
            for batch in plain_batches(log.directory)
            for record in batch.records
            if record.timestamp_ms >= timestamp_ms and record.offset >= log.log_start_offset
        ),
        None,
    )


@pytest.mark.parametrize("log_start", [None, 1, 3, 6])
def test_offsets_for_times(tmp_path: Path, log_start: int | None) -> None:
    """The first record at or above a time, from the log start offset on."""
    log = timed_log(tmp_path, log_start=log_start)
    for timestamp in [-1, 0, 2**62, *(START_MS + delta for delta in range(-1, 210))]:
        assert plain_offset_at(log, timestamp) == first_offset_at(log, timestamp, "fail")


def test_from_a_time_to_a_time(tmp_path: Path) -> None:
    """As offsets: later records with an earlier time are read too."""
    log = timed_log(tmp_path)
    for start in range(0, 210, 5):
        for end in range(0, 210, 15):
            request = ReadRequest(
                start_timestamp_ms=START_MS + start,
                end_timestamp_ms=START_MS + end,
                isolation="read_uncommitted",
            )
            first = plain_offset_at(log, START_MS + start)
            last = plain_offset_at(log, START_MS + end)
            expected = [] if first is None else consume(log, "read_uncommitted", first, last)
            assert [row[2] for row in expected] == offsets(log, request)


def test_early_segments_are_not_planned(tmp_path: Path) -> None:
    """Those whose time index ends before the rows that are wanted."""
    log = timed_log(tmp_path)
    (records_range,) = plan_records(log, ReadRequest(min_timestamp_ms=START_MS + 96))
    assert [5] == [part.base_offset for part in records_range.parts]
    assert [7] == offsets(log, ReadRequest(min_timestamp_ms=START_MS + 96))


def test_a_corrupt_batch_where_a_time_is_looked_for(tmp_path: Path) -> None:
    """It may have the first such record: refused, or left out where that is asked for."""
    log = timed_log(tmp_path)
    path = log.directory / f"{0:020}.log"
    content = bytearray(path.read_bytes())
    content[parse_batch(bytes(content)).size_bytes - 1] ^= 1
    path.write_bytes(content)
    builder = LogBuilder(log.log_dir)
    log = observed_again(builder)
    with pytest.raises(CorruptBatch):
        plan_records(log, ReadRequest(start_timestamp_ms=START_MS))
    (records_range,) = plan_records(
        log, ReadRequest(start_timestamp_ms=START_MS, on_corrupt="skip")
    )
    assert 4 == records_range.start_offset
