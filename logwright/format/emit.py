"""Kernels that write the integers of record batches."""

from __future__ import annotations

from typing import Any

import numpy as np

from logwright.kernel import inline_kernel


@inline_kernel
def put_int(out: Any, at: int, value: int, width: int) -> None:
    """Write a big-endian integer of `width` bytes."""
    for index in range(width):
        shift = np.int64(8 * (width - 1 - index))
        out[at + index] = np.uint8((value >> shift) & np.int64(0xFF))


@inline_kernel
def put_varint(out: Any, at: int, value: int) -> int:
    """Write a zigzag varint and return the position after it."""
    word = (np.uint64(value) << np.uint64(1)) ^ np.uint64(value >> np.int64(63))
    position = np.int64(at)
    while word >= np.uint64(0x80):
        out[position] = np.uint8(word & np.uint64(0x7F)) | np.uint8(0x80)
        word >>= np.uint64(7)
        position += 1
    out[position] = np.uint8(word)
    return position + 1


@inline_kernel
def varint_bytes(value: int) -> int:
    """Return the size of a zigzag varint in bytes."""
    word = (np.uint64(value) << np.uint64(1)) ^ np.uint64(value >> np.int64(63))
    size = np.int64(1)
    while word >= np.uint64(0x80):
        word >>= np.uint64(7)
        size += 1
    return size
