"""The two decoders of a record, the plain one and the kernels', take and refuse the same bytes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logwright.format.batch import RecordBatch, serialize_batch
from logwright.units import Offset, TimestampMs
from tests.log_builder import START_MS
from tests.property.test_damaged_segments import Healthy, judge

OFFSETS = 40


@pytest.fixture(scope="module")
def memory() -> Iterator[Path]:
    """A directory in memory where there is such a place: syncs would take most of the time."""
    place = Path("/dev/shm")  # noqa: S108 -- a private directory below it
    with tempfile.TemporaryDirectory(dir=place if place.is_dir() else None) as directory:
        yield Path(directory)


def varint(value: int, padding: int, high_bits: int) -> bytes:
    """A zigzag varint with needless bytes after it, and with bits that no number of 32 has."""
    rest = (value << 1) ^ (value >> 63) if value >= 0 else (-value << 1) - 1
    groups = []
    while rest >= 0x80:
        groups.append(rest & 0x7F)
        rest >>= 7
    groups += [rest, *[0] * padding]
    if len(groups) == 5:
        groups[-1] |= high_bits << 4
    return bytes(group | 0x80 for group in groups[:-1]) + bytes(groups[-1:])


_padding = st.sampled_from([0, 0, 0, 0, 0, 0, 1, 3, 4, 5, 8, 9, 10])
_high_bits = st.sampled_from([0, 0, 1, 7])


@st.composite
def _number(draw: st.DrawFn, right: int) -> bytes:
    """A number as it should be, or another one, in one of its encodings."""
    absurd = (-1, -2, 0, 1, right + 1, 2**31 - 1, -(2**31), 2**40, -(2**63))
    value = draw(st.sampled_from((right,) * 20 + absurd))
    return varint(value, draw(_padding), draw(_high_bits))


@st.composite
def _record(draw: st.DrawFn, delta: int) -> bytes:
    key = draw(st.sampled_from([None, b"", b"k", b"key"]))
    value = draw(st.sampled_from([None, b"", b"v"]))
    headers = draw(st.integers(0, 2))
    body = b"\x00" + draw(_number(0)) + draw(_number(delta))
    for field in (key, value):
        body += draw(_number(-1 if field is None else len(field))) + (field or b"")
    body += draw(_number(headers))
    for _ in range(headers):
        body += draw(_number(1)) + b"h" + draw(_number(-1))
    body += draw(st.sampled_from([b"", b"", b"", b"", b"", b"\x00"]))
    return draw(_number(len(body))) + body


@st.composite
def _batches(draw: st.DrawFn) -> bytes:
    deltas = draw(st.lists(st.integers(0, 3), max_size=3).map(sorted))
    section = b"".join(draw(_record(delta)) for delta in deltas)
    # A codec where there is nothing to decompress, and where it is not true.
    codec = draw(st.sampled_from([0] * 6 + [1, 2, 3, 4]))
    header = RecordBatch(
        base_offset=Offset(draw(st.sampled_from([0, 0, 5, 2**63 - 1]))),
        batch_length=49,
        partition_leader_epoch=0,
        crc=0,
        attributes=draw(st.sampled_from([0, 0, 0, 0x08, 0x30])) | codec,
        last_offset_delta=draw(st.sampled_from([3, 3, 3, OFFSETS - 1, 2**31 - 1])),
        base_timestamp=TimestampMs(START_MS),
        max_timestamp=TimestampMs(START_MS),
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        records_count=draw(st.sampled_from([len(deltas)] * 8 + [0, 1, 2**31 - 1])),
    )
    return serialize_batch(header, section)


@settings(max_examples=600, deadline=None)
@given(_batches())
def test_the_decoders_agree(memory: Path, content: bytes) -> None:
    """Varints of 5 bytes for numbers of 32 bits and of 10 for 64, what they may say, and where the
    record ends.
    """
    segment = Healthy(
        base_offset=0, end_offset=OFFSETS, content=content, txnindex=None, now_ms=START_MS
    )
    judge(segment, content, memory / "logs")
