"""The three indexes both ways, and their checks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logwright.errors import CorruptIndex, InvariantError, UnsupportedFormatError
from logwright.format.index import (
    AbortedTransaction,
    check_offset_index,
    check_time_index,
    check_txn_index,
    parse_offset_index,
    parse_time_index,
    parse_txn_index,
    serialize_offset_index,
    serialize_time_index,
    serialize_txn_index,
)
from tests.fixtures import CASES, case_dir

PATH = Path("00000000000000000100.index")
BASES = st.integers(0, 2**62)
RELATIVE = st.integers(0, 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)


def int32(*values: int) -> bytes:
    return b"".join(value.to_bytes(4, "big", signed=True) for value in values)


def int64(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)


def entry(**changes: int) -> AbortedTransaction:
    fields = {
        "version": 0,
        "producer_id": 7,
        "first_offset": 100,
        "last_offset": 110,
        "last_stable_offset": 111,
    }
    return AbortedTransaction(**fields | changes)  # type: ignore[arg-type]


def test_offsets_are_made_absolute_and_positions_are_not() -> None:
    """Eight bytes an entry: relative offset, position."""
    assert parse_offset_index(int32(7, 4096), 100).tolist() == [[107, 4096]]


def test_timestamps_come_before_offsets() -> None:
    """Twelve bytes an entry: timestamp, relative offset."""
    assert parse_time_index(int64(1234) + int32(7), 100).tolist() == [[1234, 107]]


def test_a_txn_entry_has_34_bytes() -> None:
    """Version, producer id, first and last offset, last stable offset."""
    content = b"\x00\x00" + int64(7) + int64(100) + int64(110) + int64(111)
    assert (entry(),) == parse_txn_index(content)
    assert content == serialize_txn_index([entry()])


def test_bytes_behind_the_last_whole_entry_are_not_entries() -> None:
    """Kafka takes floor(length / entry size) entries."""
    assert len(parse_offset_index(bytes(15), 0)) == 1
    assert len(parse_time_index(bytes(23), 0)) == 1
    assert len(parse_txn_index(bytes(67))) == 1


@given(BASES, st.lists(st.tuples(RELATIVE, RELATIVE), max_size=9))
def test_offset_indexes_round_trip(base: int, pairs: list[tuple[int, int]]) -> None:
    """For every base offset."""
    entries = np.array([(base + a, b) for a, b in pairs], dtype=np.int64).reshape(-1, 2)
    content = serialize_offset_index(entries, base)
    assert len(content) == 8 * len(pairs)
    assert entries.tolist() == parse_offset_index(content, base).tolist()


@given(BASES, st.lists(st.tuples(INT64, RELATIVE), max_size=9))
def test_time_indexes_round_trip(base: int, pairs: list[tuple[int, int]]) -> None:
    """For every base offset and timestamp."""
    entries = np.array([(a, base + b) for a, b in pairs], dtype=np.int64).reshape(-1, 2)
    content = serialize_time_index(entries, base)
    assert len(content) == 12 * len(pairs)
    assert entries.tolist() == parse_time_index(content, base).tolist()


@pytest.mark.parametrize("name", CASES)
def test_kafkas_indexes_come_back_byte_for_byte(name: str) -> None:
    """Every whole index that Kafka wrote in the cases."""
    for path in case_dir(name).glob("*/*/*index"):
        content, base = path.read_bytes(), int(path.name.partition(".")[0])
        if path.suffix == ".index" and len(content) % 8 == 0:
            entries = parse_offset_index(content, base)
            if (entries >= [base, 0]).all():
                assert content == serialize_offset_index(entries, base)
        elif path.suffix == ".timeindex" and len(content) % 12 == 0:
            assert content == serialize_time_index(parse_time_index(content, base), base)
        elif path.suffix == ".txnindex":
            assert content == serialize_txn_index(parse_txn_index(content))


@pytest.mark.parametrize("offset", [99, 100 + 2**31])
def test_an_offset_that_does_not_fit_is_our_fault(offset: int) -> None:
    """A relative offset has 31 bits; nothing is wrapped silently."""
    with pytest.raises(InvariantError):
        serialize_offset_index(np.array([[offset, 1]]), 100)


def test_a_right_offset_index_passes() -> None:
    """Ascending, above position 0, inside the log."""
    content = int32(3, 50, 9, 90)
    checked = check_offset_index(content, base_offset=100, log_bytes=91, path=PATH)
    assert checked.tolist() == [[103, 50], [109, 90]]
    assert len(check_offset_index(b"", base_offset=100, log_bytes=0, path=PATH)) == 0


@pytest.mark.parametrize(
    ("content", "position"),
    [
        (int32(3, 50) + b"\x00", 8),
        (int32(3, 50, 3, 60), 8),
        (int32(3, 50, 9, 50), 8),
        (int32(3, 50, 9, 91), 8),
        (int32(3, 0), 0),
        (int32(-1, 50), 0),
        (int32(3, -50), 0),
        (int32(3, 50, 0, 0, 0, 0), 8),
    ],
)
def test_a_wrong_offset_index_is_refused_with_its_place(content: bytes, position: int) -> None:
    """Odd length, no order, outside the log, zeros that were never trimmed."""
    with pytest.raises(CorruptIndex) as refused:
        check_offset_index(content, base_offset=100, log_bytes=91, path=PATH)
    assert (PATH, position) == (refused.value.path, refused.value.position)
    assert refused.value.remedy


def test_a_right_time_index_passes() -> None:
    """Timestamps ascend, offsets may repeat."""
    content = int64(5) + int32(3) + int64(6) + int32(3)
    assert check_time_index(content, base_offset=100, path=PATH).tolist() == [[5, 103], [6, 103]]


@pytest.mark.parametrize(
    ("content", "position"),
    [
        (bytes(13), 12),
        (int64(5) + int32(3) + int64(5) + int32(4), 12),
        (int64(5) + int32(3) + int64(6) + int32(2), 12),
        (int64(-1) + int32(3), 0),
        (int64(5) + int32(-3), 0),
    ],
)
def test_a_wrong_time_index_is_refused_with_its_place(content: bytes, position: int) -> None:
    """Odd length, no order, outside the segment."""
    with pytest.raises(CorruptIndex) as refused:
        check_time_index(content, base_offset=100, path=PATH)
    assert position == refused.value.position


def test_a_txn_index_may_reach_back_but_its_markers_lie_in_the_segment() -> None:
    """The first offset of a transaction may be in an earlier segment."""
    entries = (entry(first_offset=3), entry(last_offset=120))
    content = serialize_txn_index(entries)
    assert entries == check_txn_index(content, base_offset=100, path=PATH)
    with pytest.raises(CorruptIndex):
        check_txn_index(content, base_offset=111, path=PATH)


def test_a_later_txn_index_version_is_unsupported() -> None:
    """Versions above 0 are refused, not guessed at."""
    content = serialize_txn_index([entry(version=1)])
    with pytest.raises(UnsupportedFormatError):
        check_txn_index(content, base_offset=100, path=PATH)
