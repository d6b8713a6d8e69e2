"""Kernels that write the integers and bytes of record batches."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from logwright.format.crc import copy_span, load_u64
from logwright.kernel import inline_kernel, intrinsic

_store_u64 = intrinsic("store_u64")
_SHORT: Final = 32


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


@inline_kernel
def copy_bytes(out: Any, at: int, source: Any, start: int, length: int) -> None:
    """Copy source[start : start + length] to out[at:], which has room. What is short is copied
    without a loop or a call, with what follows it.
    """
    if length <= _SHORT and at + _SHORT <= len(out) and start + _SHORT <= len(source):
        first, second = load_u64(source, start), load_u64(source, start + 8)
        third, fourth = load_u64(source, start + 16), load_u64(source, start + 24)
        _store_u64(out, at, first)
        _store_u64(out, at + 8, second)
        _store_u64(out, at + 16, third)
        _store_u64(out, at + 24, fourth)
    else:
        copy_span(out, at, source, start, length)
