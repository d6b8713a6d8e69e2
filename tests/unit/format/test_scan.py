"""One step from batch to batch, which the strict and the forgiving readers share."""

from __future__ import annotations

import numpy as np
import pytest

from logwright.errors import CorruptBatch, UnsupportedFormatError
from logwright.format.scan import (
    LENGTH,
    OTHER_MAGIC,
    SMALL,
    TORN,
    WHOLE,
    next_batch,
    scan_segment,
    scan_whatever,
)
from logwright.format.valid import End, valid_batches
from tests.unit.format.builders import TWO_RECORDS as BATCH


def changed(*, length: int | None = None, magic: int = 2, of: int = len(BATCH)) -> bytes:
    """The first bytes of a batch with another length field or magic."""
    content = bytearray(BATCH)
    if length is not None:
        content[8:12] = length.to_bytes(4, "big", signed=True)
    content[16] = magic
    return bytes(content[:of])


@pytest.mark.parametrize(
    ("content", "size", "status", "strictly", "end"),
    [
        (BATCH, 88, WHOLE, "", "whole"),
        (changed(of=17), 0, TORN, "truncated", "torn"),
        (changed(of=18), 88, TORN, "truncated", "torn"),
        (changed(of=87), 88, TORN, "truncated", "torn"),
        (changed(length=77), 89, TORN, "truncated", "torn"),
        (changed(length=77, magic=1), 89, TORN, "magic", "torn"),
        (changed(length=13), 25, LENGTH, "length", "length"),
        (changed(length=13, magic=1), 25, LENGTH, "magic", "length"),
        (changed(length=0, magic=0), 12, LENGTH, "length", "length"),
        (changed(length=-1, magic=0), 11, LENGTH, "length", "length"),
        (changed(magic=1), 88, OTHER_MAGIC, "magic", "crc"),
        (changed(length=48), 60, SMALL, "length", "crc"),
        (changed(length=14, magic=0), 26, OTHER_MAGIC, "magic", "crc"),
    ],
)
def test_one_status_has_two_readings(
    content: bytes, size: int, status: int, strictly: str, end: End
) -> None:
    """The strict reader names a magic first, and the forgiving one where the data ends."""
    data = np.frombuffer(content, dtype=np.uint8)
    assert (size, status) == next_batch(data, 0, len(data))
    assert end == valid_batches(data, base_offset=100).end
    if not strictly:
        assert 1 == len(scan_whatever(data, "0.log"))
        return
    with pytest.raises((CorruptBatch, UnsupportedFormatError), match=strictly):
        scan_whatever(data, "0.log")


def test_a_batch_ends_before_the_next_segment() -> None:
    """One with offsets 100 and 101: the next segment begins at 102, or it is refused."""
    data = np.frombuffer(BATCH, dtype=np.uint8)
    assert 1 == len(scan_segment(data, "100.log", base_offset=100, end_offset=102))
    for end_offset in (100, 101):
        with pytest.raises(CorruptBatch, match="offset"):
            scan_segment(data, "100.log", base_offset=100, end_offset=end_offset)
