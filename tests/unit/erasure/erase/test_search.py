"""A search of a window finds the records that plain code finds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from logwright.batches.source import Source, open_window
from logwright.erasure.erase.model import Matcher
from logwright.erasure.erase.search import search_batches
from logwright.erasure.keys import KeySet
from logwright.errors import CorruptBatch, CorruptLogError, UnsupportedFormatError
from logwright.format.batch import parse_batch, serialize_batch, walk_batches
from logwright.format.record import RecordHeader, read_records
from logwright.format.scan import bad_crcs, scan_whatever
from logwright.place.mapped import MappedFiles
from tests.erasing import PlainKeys
from tests.fixtures import CASES, case_dir
from tests.found import SECRET
from tests.log_builder import SegmentBuilder, with_count

Match = tuple[int, int, int]
"""Number of a record, of its batch, and of the request."""


def opened(path: Path) -> Source:
    log = MappedFiles().open(path)
    return Source(base_offset=0, log=log, batches=scan_whatever(log.data, path))


def keys_of(content: bytes) -> list[tuple[int, bytes | None]]:
    """Of every record the number of its batch and its key, None for that of a marker."""
    keys: list[tuple[int, bytes | None]] = []
    for row, span in enumerate(walk_batches(content)):
        raw = content[span.position : span.position + span.bytes]
        header = parse_batch(raw)
        keys += [
            (row, None if header.is_control else record.key) for record in read_records(header, raw)
        ]
    return keys


def searched(source: Source, keys: Matcher) -> list[Match]:
    _, matching = search_batches(source, slice(0, len(source.batches)), keys)
    columns = (matching.numbers, matching.rows, matching.requests)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def compare(path: Path) -> int:
    """Compare a search for every third key with plain code; return how many records match."""
    rows = keys_of(path.read_bytes())
    wanted = list(dict.fromkeys(key for _, key in rows if key is not None))[::3]
    expected = [
        (number, row, wanted.index(key))
        for number, (row, key) in enumerate(rows)
        if key is not None and key in wanted
    ]
    for keys in (PlainKeys(wanted), KeySet.of(SECRET, clear=wanted)):
        assert expected == searched(opened(path), keys)
    return len(expected)


def test_all_that_kafka_wrote() -> None:
    """Of every segment that plain code can read."""
    matches = 0
    for name in CASES:
        for path in sorted((case_dir(name) / "before").glob("*/*.log")):
            try:
                source = opened(path)
                keys_of(path.read_bytes())
            except (CorruptLogError, UnsupportedFormatError):
                continue
            if bad_crcs(source.data, source.batches):
                continue
            matches += compare(path)
    assert matches > 100


@pytest.mark.parametrize("codecs", [(0, 0), (0, 4), (4, 0), (1, 3)])
def test_batches_in_any_codec_and_markers_have_their_numbers(
    codecs: tuple[int, int], tmp_path: Path
) -> None:
    """Those without a key and those of markers count; a marker's key is not one of a producer's."""
    headers = (RecordHeader(key=b"h", value=None),)
    segment = SegmentBuilder(0).batch(0, [("a", "1"), (None, "2"), ("", "3")], codec=codecs[0])
    segment.batch(3, [("b", "4")], producer_id=7, transactional=True).marker(4, 7, "commit")
    segment.batch(5, [("c", None), ("a", "5")], codec=codecs[1], headers=headers)
    path = tmp_path / "x.log"
    path.write_bytes(segment.content)
    marker = open_window(opened(path), slice(2, 3))
    start, end = marker.spans[0].tolist()
    assert b"\0\0\0\1" in segment.content[start:end]
    keys = [b"a", b"", b"\0\0\0\1", b"c"]
    for matcher in (PlainKeys(keys), KeySet.of(SECRET, clear=keys)):
        assert [(0, 0, 0), (2, 0, 1), (5, 3, 3), (6, 3, 0)] == searched(opened(path), matcher)
    assert compare(path)


@pytest.mark.parametrize("codec", [0, 4])
@pytest.mark.parametrize("count", [3, (1 << 31) - 1, 1])
def test_a_wrong_count_takes_no_memory(codec: int, count: int, tmp_path: Path) -> None:
    """There is room for as many records as there are bytes for, then the batch is refused."""
    segment = SegmentBuilder(0).batch(0, [("a", "x"), ("b", "y")], codec=codec)
    path = tmp_path / "x.log"
    path.write_bytes(with_count(segment.content, count))
    with pytest.raises(CorruptBatch, match="at offset 0"):
        searched(opened(path), PlainKeys([b"a"]))


def test_a_record_is_read_to_its_end(tmp_path: Path) -> None:
    """Headers that do not fill a record are refused, though its key is not one of the keys."""
    segment = SegmentBuilder(0).batch(0, [("a", "x")])
    raw = segment.content
    path = tmp_path / "x.log"
    path.write_bytes(serialize_batch(parse_batch(raw), raw[61:-1] + b"\x02"))
    with pytest.raises(CorruptBatch, match="headers"):
        searched(opened(path), KeySet.of(SECRET, clear=[b"b"]))


@pytest.mark.parametrize("codec", [0, 4])
def test_a_wrong_crc_is_refused(codec: int, tmp_path: Path) -> None:
    """Of a batch with none of the keys, after one with a match; also among chosen batches."""
    segment = SegmentBuilder(0)
    for base in (0, 1, 2):
        segment.batch(base, [("a" if base == 0 else "b", "x")], codec=codec)
    path = tmp_path / "x.log"
    path.write_bytes(segment.content[:-1] + bytes([segment.content[-1] ^ 1]))
    keys = KeySet.of(SECRET, clear=[b"a"])
    for rows in (slice(0, 3), np.array([0, 2])):
        with pytest.raises(CorruptBatch, match=r"CRC.* offset 2 |offset 2, .*CRC"):
            search_batches(opened(path), rows, keys)
    for right in (slice(0, 2), np.array([0, 1])):
        assert [0] == search_batches(opened(path), right, keys)[1].numbers.tolist()


def test_no_batch_has_no_match(tmp_path: Path) -> None:
    """There may be nothing to search."""
    path = tmp_path / "x.log"
    path.write_bytes(SegmentBuilder(0).batch(0, [("a", "x")]).content)
    keys, nothing = KeySet.of(SECRET, clear=[b"a"]), np.zeros(0, dtype=np.int64)
    assert 0 == len(search_batches(opened(path), nothing, keys)[1].numbers)
