"""Producer snapshots both ways."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logwright.errors import CorruptProducerSnapshot, UnsupportedFormatError
from logwright.format.crc import crc32c
from logwright.format.snapshot import ProducerEntry, parse_snapshot, serialize_snapshot
from logwright.units import TimestampMs
from tests.fixtures import CASES, case_dir
from tests.unit.format.builders import from_hex

PATH = Path("00000000000000000102.snapshot")
EMPTY = from_hex("0001 48674bc7 00000000")
ONE = from_hex(
    "0001 6a18070d 00000001 0000000000000007 0001 00000033 0000000000000065 00000001"
    "00000000000003e8 ffffffff ffffffffffffffff"
)
ENTRY = ProducerEntry(
    producer_id=7,
    producer_epoch=1,
    last_sequence=51,
    last_offset=101,
    offset_delta=1,
    timestamp_ms=TimestampMs(1000),
    coordinator_epoch=-1,
    current_txn_first_offset=None,
)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
ENTRIES = st.builds(
    ProducerEntry,
    producer_id=INT64,
    producer_epoch=st.integers(-(2**15), 2**15 - 1),
    last_sequence=INT32,
    last_offset=INT64,
    offset_delta=INT32,
    timestamp_ms=INT64,
    coordinator_epoch=INT32,
    current_txn_first_offset=st.none() | st.integers(0, 2**63 - 1),
)


def sealed(body: bytes) -> bytes:
    """A snapshot of any body, with its right CRC."""
    return struct.pack(">hI", 1, crc32c(body)) + body


@pytest.mark.parametrize(("content", "entries"), [(EMPTY, ()), (ONE, (ENTRY,))])
def test_kafkas_snapshots(content: bytes, entries: tuple[ProducerEntry, ...]) -> None:
    """An empty one and one of a single producer, both ways."""
    assert entries == parse_snapshot(content, PATH)
    assert content == serialize_snapshot(entries)


@given(st.lists(ENTRIES, max_size=4))
def test_snapshots_round_trip(entries: list[ProducerEntry]) -> None:
    """In the order they are given."""
    assert tuple(entries) == parse_snapshot(serialize_snapshot(entries), PATH)


@pytest.mark.parametrize("name", CASES)
def test_kafkas_snapshots_come_back_byte_for_byte(name: str) -> None:
    """Every snapshot of every case."""
    for path in case_dir(name).glob("*/*/*.snapshot"):
        content = path.read_bytes()
        assert content == serialize_snapshot(parse_snapshot(content, path))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        ONE[:9],
        ONE[:-1],
        ONE + b"\x00",
        ONE[:20] + b"\xff" + ONE[21:],
        sealed(b"\x00\x00\x00\x01"),
        sealed(b"\xff\xff\xff\xff"),
        sealed(b"\x7f\xff\xff\xff" + bytes(46)),
        sealed(bytes(50)),
    ],
)
def test_malformed_snapshots_are_refused(content: bytes) -> None:
    """Length, CRC and count; a count of 2 GiB allocates nothing."""
    with pytest.raises(CorruptProducerSnapshot) as refused:
        parse_snapshot(content, PATH)
    assert (refused.value.path, refused.value.position is None) == (PATH, False)


def test_another_version_is_unsupported() -> None:
    """Only version 1 is known."""
    with pytest.raises(UnsupportedFormatError, match="version is 2"):
        parse_snapshot(b"\x00\x02" + ONE[2:], PATH)
