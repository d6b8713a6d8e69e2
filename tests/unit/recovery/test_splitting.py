"""How a segment is split whose offsets do not fit its index (KAFKA-6264)."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.errors import CorruptBatch
from logwright.format.names import LOG, segment_file_name
from logwright.place.model import FileStamp
from logwright.recovery.segments import LoadedSegment, OffsetOverflow
from logwright.recovery.splitting import overflows, parts_of
from logwright.units import INT32_MAX, ByteCount
from tests.log_builder import LogBuilder

FAR = INT32_MAX + 1
"""The first offset that an index entry of a segment with base offset 0 cannot say."""


def a_segment(root: Path, *offsets: int, tail: bytes = b"") -> LoadedSegment:
    """A segment at base offset 0 with a batch of one record at each offset."""
    log = LogBuilder(root / "logs")
    segment = log.segment(0)
    for offset in offsets:
        segment.batch(offset, [("k", str(offset))])
    log.write()
    path = log.directory / segment_file_name(0, LOG)
    path.write_bytes(path.read_bytes() + tail)
    stat = path.stat()
    return LoadedSegment(
        base_offset=0,
        path=path,
        stamp=FileStamp(path.name, ByteCount(stat.st_size), stat.st_mtime_ns, stat.st_ino),
        log_bytes=stat.st_size,
        size=stat.st_size,
        has_index=True,
        has_timeindex=True,
        has_txnindex=False,
        end_offset=None,
    )


def split(
    segment: LoadedSegment, *present: str, following: int = 1 << 62, like_kafka: bool = False
) -> list[LoadedSegment]:
    return parts_of(segment, present=present, following=following, like_kafka=like_kafka)


@pytest.mark.parametrize(("last", "expected"), [(INT32_MAX, False), (FAR, True)])
def test_an_offset_overflows_beyond_int32(tmp_path: Path, last: int, *, expected: bool) -> None:
    """Index entries hold the distance to the base offset as an int32."""
    segment = a_segment(tmp_path, 0, last)
    assert expected == overflows(segment.path, 0, following=1 << 62)


def test_headers_are_not_read_when_the_next_segment_is_near(tmp_path: Path) -> None:
    """No offset below a base offset within int32 overflows; the file need not exist."""
    assert not overflows(tmp_path / "missing.log", 0, following=FAR)


def test_each_part_begins_at_its_first_batch(tmp_path: Path) -> None:
    """A part takes what fits; parts cover the segment's bytes without a gap."""
    segment = a_segment(tmp_path, 0, 5, FAR, FAR + 7, 3 * FAR)
    parts = split(segment)
    assert [0, FAR, 3 * FAR] == [part.base_offset for part in parts]
    assert [2, 2, 1] == [len(part.batches(check_crcs=True).batches) for part in parts]
    assert [0, *(part.begin + part.size for part in parts)] == [
        *(part.begin for part in parts),
        segment.size,
    ]
    assert {0} == {part.split_from for part in parts}


def test_the_part_before_ends_where_the_next_begins(tmp_path: Path) -> None:
    """Kafka does not check that."""
    ends = [part.end_offset for part in split(a_segment(tmp_path, 0, FAR))]
    assert [FAR, None] == ends
    kafkas = split(a_segment(tmp_path / "kafka", 0, FAR), like_kafka=True)
    assert [None, None] == [part.end_offset for part in kafkas]


def test_a_torn_tail_stays_in_the_last_part(tmp_path: Path) -> None:
    """A later step truncates it. Kafka refuses the segment."""
    segment = a_segment(tmp_path, 0, FAR, tail=b"torn")
    last = split(segment)[-1]
    assert segment.size == last.begin + last.size
    with pytest.raises(CorruptBatch, match="must be split") as refused:
        split(segment, like_kafka=True)
    assert segment.size - len(b"torn") == refused.value.position


def test_offsets_that_do_not_ascend_are_refused(tmp_path: Path) -> None:
    """No CRC covers a base offset: one that overflows counts only if those after it follow."""
    with pytest.raises(CorruptBatch, match="do not follow"):
        split(a_segment(tmp_path, 0, FAR, 7))


@pytest.mark.parametrize("following", [FAR, FAR + 1])
def test_a_part_does_not_reach_the_next_segment(tmp_path: Path, following: int) -> None:
    """Its base offset must be below the next segment's."""
    segment = a_segment(tmp_path, 0, FAR)
    if following > FAR:
        assert [0, FAR] == [part.base_offset for part in split(segment, following=following)]
        return
    with pytest.raises(CorruptBatch):
        split(segment, following=following)


def test_a_part_takes_no_other_segments_name(tmp_path: Path) -> None:
    """A file of that name holds other data."""
    with pytest.raises(CorruptBatch):
        split(a_segment(tmp_path, 0, FAR), segment_file_name(FAR, LOG))


def test_a_recovery_finds_the_overflow(tmp_path: Path) -> None:
    """With CRC checks a segment is refused at the first batch that does not fit."""
    segment = a_segment(tmp_path, 0, 3, FAR)
    with pytest.raises(OffsetOverflow) as overflow:
        segment.batches(check_crcs=True)
    assert 2 == len(overflow.value.found.batches)
    assert FAR + 1 == segment.next_offset()
