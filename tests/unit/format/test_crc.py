"""CRC-32C: three ways, one answer."""

from __future__ import annotations

import random

import numpy as np
import pytest

from logwright.format.crc import (
    crc32c,
    span_crc32c,
    span_crc32c_by_tables,
)

DATA = np.frombuffer(random.Random(1).randbytes(40_000), dtype=np.uint8)
SIZES = [*range(420), 767, 768, 769, 6143, 6144, 6145, 6144 + 384, 12_288, 16_700, 39_993]


def test_vector() -> None:
    """The check value of the polynomial's catalogue entry."""
    digits = np.frombuffer(b"123456789", dtype=np.uint8)
    assert span_crc32c(digits, 0, 9) == crc32c(b"123456789") == 0xE3069283


@pytest.mark.parametrize("start", [0, 5])
def test_kernels_give_what_the_library_gives(start: int) -> None:
    """With no whole lane, some short ones, some long ones, and every rest."""
    for size in SIZES:
        wanted = crc32c(DATA[start : start + size].tobytes())
        assert wanted == span_crc32c(DATA, start, start + size)
        assert wanted == span_crc32c_by_tables(DATA, start, start + size)
