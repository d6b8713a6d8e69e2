"""Batches become rows: every column, codec and kind of record, in buffers of any size."""

from __future__ import annotations

import os
import tracemalloc
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from logwright.batches import segment_file
from logwright.batches.source import open_source
from logwright.errors import CorruptBatch, LogDirLocked, StalePlan, UnreadableFile, Unsettled
from logwright.format.record import RecordHeader
from logwright.locks import try_lock
from logwright.place.mapped import MappedFiles
from logwright.records.model import ReadCounts, ReadRequest, Selection
from logwright.records.read import read_range, read_sources
from logwright.records.schema import COLUMNS, RECORDS, records_schema
from tests.log_builder import START_MS, LogBuilder
from tests.plain_consumer import arrow_rows, consume
from tests.unit.records.reading import (
    EVERY_CODEC,
    observed,
    observed_again,
    offsets,
    ranges,
    read,
    rows,
)

HEADERS = (
    RecordHeader(key=b"trace", value=b"\x00\x01"),
    RecordHeader(key=b"", value=None),
    RecordHeader(key="größe".encode(), value=b""),
)


def mixed_log(tmp_path: Path, codec: int = 0) -> LogBuilder:
    """Two segments with nulls, empty fields, headers, gaps, LogAppendTime and a delete horizon."""
    builder = LogBuilder(tmp_path / "logs")
    first = builder.segment(0)
    first.batch(0, [("a", "1"), (None, "x"), ("b", None), ("", "")], codec=codec)
    first.batch(4, [("c", "y" * 40_000), ("d", "z")], codec=codec, headers=HEADERS)
    first.batch(6, [(None, None)], timestamps=[-1], codec=codec)
    second = builder.segment(10)
    second.batch(10, [("e", "2"), ("f", "3")], append_time_ms=START_MS + 77, codec=codec)
    second.batch(
        12, [("g", None)], offsets=[14], last_offset=15, horizon_ms=START_MS + 9_000, codec=codec
    )
    second.batch(16, [], last_offset=17)
    second.batch(18, [("h", "w" * 33)], codec=codec)
    builder.segment(19)
    return builder


@pytest.mark.parametrize("codec", EVERY_CODEC)
@pytest.mark.parametrize("batch_rows", [1, 2, 3, 8, 100])
@pytest.mark.parametrize("batch_bytes", [1, 50, 1 << 20])
def test_every_size_of_buffers_gives_the_same_rows(
    tmp_path: Path, codec: int, batch_rows: int, batch_bytes: int
) -> None:
    """A batch is resumed in the middle, and a record that is too large gets its room."""
    log = observed(mixed_log(tmp_path, codec))
    batches = read(log, batch_rows=batch_rows, batch_bytes=batch_bytes)
    assert consume(log, "read_committed") == arrow_rows(batches)
    assert [0, 1, 2, 3, 4, 5, 6, 10, 11, 14, 18] == [row[2] for row in arrow_rows(batches)]
    assert all(len(batch) <= batch_rows for batch in batches)
    assert all(
        len(batch) == 1 or sum(batch.column(name).nbytes for name in ("key", "value")) < 1 << 21
        for batch in batches
    )


def test_rows_say_what_the_records_do(tmp_path: Path) -> None:
    """Null and empty differ; LogAppendTime has the batch's time; a delete horizon is not a time."""
    by_offset = {row[2]: row for row in rows(observed(mixed_log(tmp_path)))}
    assert (b"a", b"1", 0, START_MS, 0, None) == by_offset[0]
    assert (None, b"x", 1, START_MS + 1, 0, None) == by_offset[1]
    assert (b"b", None, 2, START_MS + 2, 0, None) == by_offset[2]
    assert (b"", b"", 3, START_MS + 3, 0, None) == by_offset[3]
    pairs = (("trace", b"\x00\x01"), ("", None), ("größe", b""))
    assert (b"d", b"z", 5, START_MS + 5, 0, pairs) == by_offset[5]
    assert (None, None, 6, -1, 0, None) == by_offset[6]
    assert (b"f", b"3", 11, START_MS + 77, 1, None) == by_offset[11]
    assert (b"g", None, 14, START_MS + 14, 0, None) == by_offset[14]


@pytest.mark.parametrize("count", range(len(RECORDS.names) + 1))
def test_only_the_columns_asked_for(tmp_path: Path, count: int) -> None:
    """Each set of columns has its schema, and the content that all together have."""
    log = observed(mixed_log(tmp_path))
    every = pa.Table.from_batches(read(log, batch_rows=4))
    for columns in combinations(reversed(RECORDS.names), count):
        batches = read(log, columns=columns, batch_rows=4)
        assert [4, 4, 3] == [len(batch) for batch in batches]
        assert all(records_schema(columns) == batch.schema for batch in batches)
        if columns:
            assert every.select(list(columns)) == pa.Table.from_batches(batches)


def test_columns_are_those_of_sparks_source() -> None:
    """Names, order and types of Spark's Kafka source; another column is refused."""
    assert COLUMNS == tuple(RECORDS.names[:-1])
    assert [
        "binary",
        "binary",
        "string",
        "int32",
        "int64",
        "timestamp[us, tz=UTC]",
        "int32",
        "list<element: struct<key: string not null, value: binary> not null>",
    ] == [str(kind) for kind in RECORDS.types]
    for wrong in (["key", "key"], ["Key"]):
        with pytest.raises(ValueError, match="each once"):
            records_schema(wrong)


def test_header_keys_that_are_not_utf8(tmp_path: Path) -> None:
    """They are decoded with replacement characters, as by Kafka's clients."""
    builder = LogBuilder(tmp_path / "logs")
    builder.segment(0).batch(
        0, [("a", "1")], headers=(RecordHeader(key=b"\xff\xfeok", value=b"\xff"),)
    ).batch(1, [("b", "2")])
    records = rows(observed(builder))
    assert [(("\ufffd\ufffdok", b"\xff"),), None] == [row[5] for row in records]


def test_a_time_that_has_no_microseconds(tmp_path: Path) -> None:
    """Kafka stores any number of milliseconds; the largest that fits stands for those beyond."""
    largest = (2**63 - 1) // 1000
    builder = LogBuilder(tmp_path / "logs")
    builder.segment(0).batch(0, [("a", "1"), ("b", "2")], timestamps=[0, 2**63 - 1])
    builder.segment(2)
    assert [0, largest] == [row[3] for row in rows(observed(builder))]


@pytest.mark.parametrize("start", range(8))
@pytest.mark.parametrize("end", range(8))
def test_offsets_inside_batches(tmp_path: Path, start: int, end: int) -> None:
    """Start and end may be anywhere in a batch."""
    log = observed(mixed_log(tmp_path))
    expected = [offset for offset in range(7) if start <= offset < end]
    assert expected == offsets(log, ReadRequest(start_offset=start, end_offset=end))


def test_log_start_offset_inside_a_batch(tmp_path: Path) -> None:
    """What is below was deleted by DeleteRecords, although it is still in the file."""
    log = observed(mixed_log(tmp_path), log_start=2)
    assert [2, 3, 4, 5, 6] == offsets(log, ReadRequest(end_offset=7))


def test_times_of_rows(tmp_path: Path) -> None:
    """Rows outside the bounds are left out; both bounds are included."""
    log = observed(mixed_log(tmp_path))
    low, high = START_MS + 3, START_MS + 77
    assert [3, 4, 5, 10, 11, 14, 18] == offsets(
        log, ReadRequest(min_timestamp_ms=low, max_timestamp_ms=high)
    )
    assert [6] == offsets(log, ReadRequest(max_timestamp_ms=-1))
    assert [] == offsets(log, ReadRequest(min_timestamp_ms=START_MS + 78))


def test_a_selection_leaves_records_out(tmp_path: Path) -> None:
    """Dead records by ordinal, tombstones and null keys."""
    log = observed(mixed_log(tmp_path))
    files, ordinal, sources = MappedFiles(), 0, []
    for segment, end in zip(log.segments[:2], (10, 19), strict=True):
        source = open_source(
            log.directory_text, segment, files, end_offset=end, first_ordinal=ordinal
        )
        ordinal += source.records
        sources.append(source)
    dead = np.packbits([0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0], bitorder="little")

    def selected(selection: Selection) -> list[int]:
        batches = read_sources(
            sources,
            partition=log.partition,
            offsets=(1, 18),
            columns=RECORDS.names,
            batch_rows=2,
            selection=selection,
        )
        return [row[2] for row in arrow_rows(batches)]

    assert [1, 2, 3, 4, 5, 6, 10, 11, 14] == selected(Selection())
    assert [1, 2, 3, 5, 6, 10, 14] == selected(Selection(dead=dead))
    assert [1, 3, 4, 5, 10, 11] == selected(Selection(skip_tombstones=True))
    assert [2, 3, 4, 5, 10, 11, 14] == selected(Selection(skip_null_keys=True))


def test_counts(tmp_path: Path) -> None:
    """Rows, batches and bytes that were read."""
    log = observed(mixed_log(tmp_path))
    counts = ReadCounts()
    (records_range,) = ranges(log)
    assert 11 == sum(
        len(each) for each in read_range(records_range, columns=["key"], counts=counts)
    )
    # The empty batch has nothing to read.
    assert (11, 6, log.log_bytes - 61) == (counts.rows, counts.batches, counts.bytes)
    assert log.log_bytes == records_range.bytes


def test_a_wrong_crc_is_refused(tmp_path: Path) -> None:
    """By file and position, after the rows before it."""
    builder = mixed_log(tmp_path).write(producers=True)
    path = builder.directory / f"{0:020}.log"
    content = bytearray(path.read_bytes())
    position = len(builder.segments[0].batches[0])
    content[position + 70] ^= 1
    path.write_bytes(content)
    (records_range,) = ranges(observed_again(builder))
    batches = read_range(records_range, columns=RECORDS.names)
    assert [0, 1, 2, 3] == [row[2] for row in arrow_rows([next(batches)])]
    with pytest.raises(CorruptBatch) as caught:
        next(batches)
    assert (path, position) == (caught.value.path, caught.value.position)


def test_a_log_that_changed_since_is_stale(tmp_path: Path) -> None:
    """Size, time or file: whatever is different, it must be planned again."""
    builder = mixed_log(tmp_path)
    (records_range,) = ranges(observed(builder))
    path = builder.directory / f"{10:020}.log"
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)
    with pytest.raises(StalePlan):
        list(read_range(records_range, columns=["key"]))


def test_a_log_that_becomes_shorter_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused: a map of it would kill the process."""
    monkeypatch.setattr(segment_file, "PIECE_BYTES", 300)
    builder = LogBuilder(tmp_path / "logs")
    segment = builder.segment(0)
    for at in range(100):
        segment.batch(at, [("k", "v")])
    builder.segment(100)
    (records_range,) = ranges(observed(builder))
    batches = read_range(records_range, columns=["key"], batch_rows=1)
    next(batches)
    os.truncate(builder.directory / f"{0:020}.log", 400)
    with pytest.raises(StalePlan):
        list(batches)


def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the piece, the record batch and one decompressed batch; not by the range."""
    monkeypatch.setattr(segment_file, "PIECE_BYTES", 64 * 1024)
    builder = LogBuilder(tmp_path / "logs")
    segment = builder.segment(0)
    for at in range(0, 8_000, 4):
        segment.batch(at, [(f"key-{at + number}", "v" * 1_000) for number in range(4)])
    builder.segment(8_000)
    log = observed(builder)
    assert log.log_bytes > 8_000_000
    (records_range,) = ranges(log)
    next(read_range(records_range, columns=RECORDS.names)).validate()  # loads the kernels
    tracemalloc.start()
    try:
        batches = read_range(
            records_range, columns=RECORDS.names, batch_rows=100, batch_bytes=64 * 1024
        )
        assert 8_000 == sum(len(batch) for batch in batches)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 2_000_000


def test_links_are_not_followed(tmp_path: Path) -> None:
    """A segment that became a link to itself elsewhere is not opened."""
    builder = mixed_log(tmp_path)
    (records_range,) = ranges(observed(builder))
    path = builder.directory / f"{10:020}.log"
    path.symlink_to(path.rename(tmp_path / "elsewhere"))
    with pytest.raises(UnreadableFile):
        list(read_range(records_range, columns=["key"]))


def test_a_broker_may_start_meanwhile(tmp_path: Path) -> None:
    """It gets the lock while rows are read, and the reading ends with that; one that runs already
    is respected.
    """
    builder = mixed_log(tmp_path)
    (records_range,) = ranges(observed(builder))
    lock = builder.log_dir / ".lock"
    lock.touch()
    batches = read_range(records_range, columns=["key"], batch_rows=1)
    next(batches)
    with lock.open("r+b") as file:
        assert try_lock(file.fileno(), "exclusive")
        with pytest.raises(Unsettled, match="a broker"):
            list(batches)
        with pytest.raises(LogDirLocked):
            next(read_range(records_range, columns=["key"]))
