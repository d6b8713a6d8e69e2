"""Which batches at the beginning of a segment are kept, and the indexes that they give."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from logwright.format.crc import crc32c
from logwright.format.index import parse_offset_index, parse_time_index
from logwright.format.reindex import build_indexes
from logwright.format.valid import End, valid_batches
from logwright.units import INT64_MAX
from tests.fixtures import case_dir

LOG = case_dir("basic-none") / "before" / "t-0" / f"{77:020d}.log"
CONTENT = LOG.read_bytes()


def array(content: bytes | bytearray) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.frombuffer(bytes(content), dtype=np.uint8)


def starts() -> list[int]:
    walk = valid_batches(array(CONTENT), base_offset=77, end_offset=INT64_MAX)
    assert walk.end == "whole"
    return [int(position) for position in walk.batches["position"]]


def changed(at: int, content: bytes, *, mend: bool = False) -> bytes:
    """The segment with other bytes in its fourth batch, with a right CRC if asked for."""
    start, end = starts()[3], starts()[4]
    new = bytearray(CONTENT)
    new[start + at : start + at + len(content)] = content
    if mend:
        struct.pack_into(">I", new, start + 17, crc32c(bytes(new[start + 21 : end])))
    return bytes(new)


@pytest.mark.parametrize(
    ("content", "end"),
    [
        (CONTENT[: starts()[4] - 1], "torn"),
        (CONTENT[: starts()[3] + 17], "torn"),
        (CONTENT[: starts()[3]] + bytes(300), "length"),
        (changed(60, b"\xff"), "crc"),
        (changed(16, b"\x00"), "crc"),
        (changed(16, b"\x03"), "magic"),
        (changed(0, struct.pack(">q", 76)), "order"),
        (changed(0, struct.pack(">q", INT64_MAX - 5)), "order"),
        (changed(8, struct.pack(">i", 20)), "crc"),
    ],
)
def test_the_walk_ends_before_the_first_bad_batch(content: bytes, end: End) -> None:
    """Three batches are kept, whatever is wrong with the fourth."""
    walk = valid_batches(array(content), base_offset=77, end_offset=10_000)
    assert (starts()[3], 3, end) == (walk.valid_bytes, len(walk.batches), walk.end)


def test_kafka_does_not_look_at_the_order() -> None:
    """Without a bound only offsets that do not fit the segment end the walk."""
    swapped = changed(0, struct.pack(">q", 77))
    assert valid_batches(array(swapped), base_offset=77).end == "whole"
    far = changed(0, struct.pack(">q", 77 + 2**31))
    assert valid_batches(array(far), base_offset=77).end == "range"


def test_indexes_are_those_that_kafka_wrote() -> None:
    """A segment written in one go and its rebuild have the same indexes."""
    walk = valid_batches(array(CONTENT), base_offset=77, end_offset=INT64_MAX)
    built = build_indexes(walk.batches, base_offset=77, interval_bytes=1024)
    assert LOG.with_suffix(".index").read_bytes() == built.index
    assert LOG.with_suffix(".timeindex").read_bytes() == built.timeindex
    assert built.refused_at is None


def test_every_batch_but_the_first_gets_an_entry_without_an_interval() -> None:
    """`index.interval.bytes` of 0; timestamps that do not rise get no entry."""
    walk = valid_batches(array(CONTENT), base_offset=77, end_offset=INT64_MAX)
    built = build_indexes(walk.batches, base_offset=77, interval_bytes=0)
    entries = parse_offset_index(built.index, 77)
    assert walk.batches["position"][1:].tolist() == entries[:, 1].tolist()
    assert walk.batches["last_offset"][1:].tolist() == entries[:, 0].tolist()
    times = parse_time_index(built.timeindex, 77)
    assert (np.diff(times[:, 0]) > 0).all()
    assert times[-1, 0] == walk.batches["max_timestamp"].max()


def test_an_index_refuses_an_offset_that_does_not_ascend() -> None:
    """At the row of the offender."""
    walk = valid_batches(array(CONTENT), base_offset=77, end_offset=INT64_MAX)
    rows = walk.batches.copy()
    rows["last_offset"][4] = 78
    assert build_indexes(rows, base_offset=77, interval_bytes=0).refused_at == 4
    assert build_indexes(rows[:0], base_offset=77, interval_bytes=0).index == b""
