"""The projection of a window has what plain code reads: every record, in the log's order."""

from __future__ import annotations

from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np
import pytest

from logwright.batches import source as sources
from logwright.batches.projection import Records, read_window
from logwright.batches.source import Source, open_window
from logwright.errors import BatchAboveLimit, CorruptBatch, CorruptLogError, UnsupportedFormatError
from logwright.format.batch import parse_batch, walk_batches
from logwright.format.record import Record, RecordHeader, read_records
from logwright.format.scan import scan_segment, scan_whatever
from logwright.place.mapped import MappedFiles
from tests.fixtures import CASES, case_dir
from tests.log_builder import SegmentBuilder, with_count

HEADERS = (RecordHeader(key=b"h", value=None), RecordHeader(key=b"", value=b"v"))


def opened(path: Path) -> Source:
    log = MappedFiles().open(path)
    batches = scan_whatever(log.data, path)
    batches["first_ordinal"] = np.cumsum(batches["count"]) - batches["count"]
    return Source(base_offset=0, log=log, batches=batches)


def written(tmp_path: Path, segment: SegmentBuilder) -> Source:
    path = tmp_path / "x.log"
    path.write_bytes(segment.content)
    return opened(path)


def everything(source: Source) -> Records:
    return read_window(source, slice(0, len(source.batches)))


def plain(source: Source) -> list[tuple[Record, int]]:
    """Each record, and the number of its batch."""
    content = source.data.tobytes()
    return [
        (record, number)
        for number, span in enumerate(walk_batches(content))
        for whole in [content[span.position : span.position + span.bytes]]
        for record in read_records(parse_batch(whole), whole)
    ]


def compare(source: Source, records: Records) -> None:
    """Compare a projection of all batches with what plain code reads."""
    expected = plain(source)
    assert [number for _, number in expected] == records.rows["row"].tolist()
    assert list(range(len(expected))) == records.rows["ordinal"].tolist()
    for index, (record, _) in enumerate(expected):
        row = records.rows[index]
        assert (record.offset, record.timestamp_ms) == (row["offset"], row["timestamp"])
        assert (record.key, record.value) == tuple(
            records.bytes_of(index, name) for name in ("key", "value")
        )
        assert row["headers_at"] == row["value_at"] + max(row["value_length"], 0)
        assert row["start"] < row["rest"] < row["key_at"] <= row["value_at"] <= row["stop"]
        assert records.buffer[row["headers_at"]] == 2 * len(record.headers)


@pytest.mark.parametrize("name", CASES)
def test_all_that_kafka_wrote(name: str) -> None:
    """Of every segment that plain code can read."""
    for path in sorted((case_dir(name) / "before").glob("*/*.log")):
        try:
            source = opened(path)
            plain(source)
        except (CorruptLogError, UnsupportedFormatError):
            continue
        compare(source, everything(source))


@pytest.mark.parametrize("codecs", list(combinations_with_replacement(range(5), 3)))
def test_all_rows_are_over_one_buffer(codecs: tuple[int, ...], tmp_path: Path) -> None:
    """Also where compressed batches and others take turns, with empty ones between them."""
    segment = SegmentBuilder(0)
    for number, codec in enumerate((*codecs, *codecs[::-1])):
        pairs = [(f"k{number}-{n}", None if n == 1 else "v" * n) for n in range(4)]
        segment.batch(10 * number, [*pairs, (None, "x")], codec=codec, headers=HEADERS)
        segment.batch(10 * number + 5, [], codec=codec)
    source = written(tmp_path, segment)
    compare(source, everything(source))


def test_markers_are_rows(tmp_path: Path) -> None:
    """Their keys are not those that a producer gave: who looks for keys leaves them out."""
    segment = SegmentBuilder(0)
    segment.batch(0, [("a", "x"), (None, "y")], producer_id=1, transactional=True)
    segment.marker(2, 1, "abort")
    segment.batch(3, [("", "z")])
    source = written(tmp_path, segment)
    records = everything(source)
    compare(source, records)
    assert [1, -1, 4, 0] == records.rows["key_length"].tolist()
    for chosen in ([], [1, 3]):
        some = records.only(np.array(chosen, dtype=np.int64))
        assert records.rows[chosen].tolist() == some.rows.tolist()


@pytest.mark.parametrize("codec", [0, 4])
@pytest.mark.parametrize("count", [3, (1 << 31) - 1, 1])
def test_a_wrong_count_takes_no_memory(codec: int, count: int, tmp_path: Path) -> None:
    """As many rows as there are bytes for, then the batch is refused."""
    segment = SegmentBuilder(0).batch(0, [("a", "x"), ("b", "y")], codec=codec)
    path = tmp_path / "x.log"
    path.write_bytes(with_count(segment.content, count))
    with pytest.raises(CorruptBatch, match="at offset 0"):
        everything(opened(path))


def test_batches_whose_offsets_do_not_ascend_are_named(tmp_path: Path) -> None:
    """Equal ones, and those outside their batch; the others are not."""
    segment = SegmentBuilder(0)
    for base in (0, 10, 20):
        segment.batch(base, [("a", "x"), ("b", "y")])
    source = written(tmp_path, segment)
    records = everything(source)
    assert [] == records.unordered.tolist()
    records.rows["offset"][3] = 10
    records.batches["last_offset"][2] = 20
    assert [1, 2] == records.unordered.tolist()


def test_a_window_needs_no_more_than_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory grows while it is filled, and what it holds is kept; beyond the limit the batch is
    refused, unless it is the first.
    """
    segment = SegmentBuilder(0)
    for number in range(4):
        segment.batch(number, [(f"k{number}", "v" * 50_000)], codec=4)
    path = tmp_path / "x.log"
    path.write_bytes(segment.content)
    log = MappedFiles().open(path)
    batches = scan_segment(log.data, path, base_offset=0, end_offset=4)
    source = Source(base_offset=0, log=log, batches=batches)
    compare(source, everything(source))
    monkeypatch.setattr(sources, "SCRATCH_BYTES", 40_000)
    open_window(source, slice(0, 1))
    with pytest.raises(BatchAboveLimit, match="offset 1 unpacks, with those before it, to more"):
        open_window(source, slice(0, 2))
