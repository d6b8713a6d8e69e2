"""Bitmaps of dead records, uint8[(records + 7) / 8]: one bit for each ordinal."""

from __future__ import annotations

from typing import Any

import numpy as np

from logwright.kernel import inline_kernel, kernel


@inline_kernel
def set_bit(bits: Any, index: int) -> None:
    """Set one bit of a bitmap, uint8[n]."""
    bits[index >> 3] |= np.uint8(1 << (index & 7))


@inline_kernel
def has_bit(bits: Any, index: int) -> Any:
    """Return whether one bit of a bitmap, uint8[n], is set."""
    return (bits[index >> 3] >> np.uint8(index & 7)) & np.uint8(1) != np.uint8(0)


@kernel
def count_dead(dead: Any, first: int, count: int) -> int:
    """Return how many of the bits [first, first + count) are set."""
    total = np.int64(0)
    position = np.int64(first)
    end = position + np.int64(count)
    while position < end:
        if position & 7 == 0 and position + 8 <= end:
            byte = np.uint64(dead[position >> 3])
            while byte != np.uint64(0):
                byte &= byte - np.uint64(1)
                total += 1
            position += 8
        else:
            total += np.int64((dead[position >> 3] >> np.uint8(position & 7)) & np.uint8(1))
            position += 1
    return total
