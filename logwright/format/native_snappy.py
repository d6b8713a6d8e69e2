"""Raw Snappy blocks inside the kernels: no wheel on PyPI exports Snappy's functions.

A block is a varint of its size, then elements. The lower two bits of an element's tag byte are its
type.

::

    0  literal  size - 1 in the upper six bits, or in the 1 to 4 bytes that follow (60 to 63)
    1  copy     of 4 to 11 bytes; distance of 11 bits
    2  copy     of 1 to 64 bytes; distance in two bytes
    3  copy     of 1 to 64 bytes; distance in four bytes
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from logwright.format.crc import copy_span, load_u64
from logwright.kernel import inline_kernel, intrinsic, kernel

NO_ROOM: Final = -1
MALFORMED: Final = -2

LARGEST_TABLE: Final = 1 << 14
_SMALLEST_TABLE_BITS: Final = 8
_MARGIN: Final = 15
"""The last bytes of a block are not searched, since words are read ahead."""


_store_u64 = intrinsic("store_u64")
load_u32 = intrinsic("load_u32")


@kernel
def unpack_block(data: Any, start: int, end: int, out: Any, at: int, room: int) -> Any:
    """Decompress data[start:end] to out[at:], of capacity `room`; may overwrite `out` after it.

    Returns:
        the number of bytes, or an error code below 0.
    """
    claimed = np.int64(0)
    position = np.int64(start)
    shift = np.int64(0)
    while True:
        if position >= end or shift > 28:
            return np.int64(MALFORMED)
        byte = np.int64(data[position])
        position += 1
        claimed |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    if claimed > room:
        return np.int64(NO_ROOM)
    written = _elements(data, position, np.int64(end), out, np.int64(at), at + claimed)
    return claimed if written == at + claimed else np.int64(MALFORMED)


@kernel
def _elements(data: Any, position: int, end: int, out: Any, begin: int, stop: int) -> Any:
    """Decompress elements data[position:end] to out[begin:stop]; return the position after them, or
    -1.
    """
    wide = np.int64(len(out)) - 64
    at = begin
    while position < end:
        tag = np.int64(data[position])
        position += 1
        kind = tag & 3
        if kind == 0:
            length = (tag >> 2) + 1
            if length <= 16 and position + 16 <= end and at < wide and at + length <= stop:
                _store_u64(out, at, load_u64(data, position))
                _store_u64(out, at + 8, load_u64(data, position + 8))
                position += length
                at += length
                continue
            if length > 60:
                extra = length - 60
                if position + extra > end:
                    return np.int64(-1)
                length = np.int64(1)
                for index in range(extra):
                    length += np.int64(data[position + index]) << np.int64(8 * index)
                position += extra
            if length > end - position or length > stop - at:
                return np.int64(-1)
            copy_span(out, at, data, position, length)
            position += length
            at += length
            continue
        # Branch-free, because the CPU cannot predict the type of a copy.
        size = kind + np.int64(kind == 3)
        short = kind == 1
        length = ((tag >> 2) & 7) + 4 if short else (tag >> 2) + 1
        if position + 4 <= end:
            word = np.int64(load_u32(data, position))
        elif position + size <= end:
            word = _read_last(data, position, end)
        else:
            return np.int64(-1)
        distance = (word & ((np.int64(1) << (8 * size)) - 1)) | ((tag >> 5) << 8 if short else 0)
        position += size
        if distance == 0 or distance > at - begin or length > stop - at:
            return np.int64(-1)
        _repeat(out, at, distance, length, at < wide)
        at += length
    return at


@inline_kernel
def _read_last(data: Any, position: int, end: int) -> Any:
    """Return the last bytes of a block as a little-endian number."""
    word = np.int64(0)
    for index in range(end - position):
        word |= np.int64(data[position + index]) << np.int64(8 * index)
    return word


@inline_kernel
def _repeat(out: Any, at: int, distance: int, length: int, is_wide: Any) -> None:
    """Copy bytes from `distance` back; if `is_wide`, may write up to 64 bytes."""
    if distance >= 16 and is_wide:
        # Most are short, with lengths that the CPU cannot predict.
        _store_u64(out, at, load_u64(out, at - distance))
        _store_u64(out, at + 8, load_u64(out, at - distance + 8))
        for step in range(16, length, 8):
            _store_u64(out, at + step, load_u64(out, at + step - distance))
        return
    if distance >= 8 and is_wide:
        for step in range(0, length, 8):
            _store_u64(out, at + step, load_u64(out, at + step - distance))
        return
    for step in range(length):
        out[at + step] = out[at + step - distance]


@inline_kernel
def _slot(word: Any, shift: Any) -> Any:
    """Return the table slot of four bytes."""
    mixed = (word * np.uint64(0x1E35A7BD)) & np.uint64(0xFFFFFFFF)
    return np.int64(mixed >> np.uint64(shift))


@kernel
def pack_block(data: Any, start: int, end: int, out: Any, at: int, table: Any) -> Any:
    """Compress data[start:end], at most 64 KiB, to out[at:]; return the position after it.

    `out` needs a capacity of 32 + 7/6 of the bytes; `table` is uint16[LARGEST_TABLE].
    """
    size = np.int64(end) - start
    rest = size
    while rest >= 0x80:
        out[at] = np.uint8((rest & 0x7F) | 0x80)
        rest >>= 7
        at += 1
    out[at] = np.uint8(rest)
    at += 1
    emitted = np.int64(start)
    limit = end - _MARGIN
    if size > _MARGIN + 1:
        emitted, at = _search(data, start, end, limit, out, at, table)
    return _literal(data, emitted, end, out, at) if emitted < end else at


@kernel
def _search(
    data: Any, start: int, end: int, limit: int, out: Any, at: int, table: Any
) -> tuple[int, int]:
    """Write matches and the literals between them; return (first input byte not yet written,
    position in `out`).
    """
    bits = np.int64(_SMALLEST_TABLE_BITS)
    while (1 << bits) < LARGEST_TABLE and (1 << bits) < end - start:
        bits += 1
    table[: 1 << bits] = 0
    shift = np.int64(32 - bits)
    emitted = np.int64(start)
    position = emitted + 1
    slot = _slot(load_u32(data, position), shift)
    while True:
        skip = np.int64(32)
        following = position
        while True:
            position = following
            following = position + (skip >> 5)
            skip += skip >> 5
            if following > limit:
                return emitted, at
            candidate = start + np.int64(table[slot])
            table[slot] = np.uint16(position - start)
            slot = _slot(load_u32(data, following), shift)
            if load_u32(data, position) == load_u32(data, candidate):
                break
        at = _literal(data, emitted, position, out, at)
        while True:
            base = position
            position += 4
            earlier = candidate + 4
            while position + 8 <= end and load_u64(data, position) == load_u64(data, earlier):
                position += 8
                earlier += 8
            while position < end and data[position] == data[earlier]:
                position += 1
                earlier += 1
            at = _copy(base - candidate, position - base, out, at)
            emitted = position
            if position >= limit:
                return emitted, at
            before = _slot(load_u32(data, position - 1), shift)
            table[before] = np.uint16(position - 1 - start)
            slot = _slot(load_u32(data, position), shift)
            candidate = start + np.int64(table[slot])
            table[slot] = np.uint16(position - start)
            if load_u32(data, position) != load_u32(data, candidate):
                slot = _slot(load_u32(data, position + 1), shift)
                position += 1
                break


@inline_kernel
def _literal(data: Any, start: int, end: int, out: Any, at: int) -> Any:
    """Write a literal of at most 64 KiB and return the position after it."""
    last = np.int64(end) - start - 1
    if last < 60:
        out[at] = np.uint8(last << 2)
        at += 1
    elif last < 256:
        out[at] = np.uint8(60 << 2)
        out[at + 1] = np.uint8(last)
        at += 2
    else:
        out[at] = np.uint8(61 << 2)
        out[at + 1] = np.uint8(last & 0xFF)
        out[at + 2] = np.uint8(last >> 8)
        at += 3
    copy_span(out, at, data, start, last + 1)
    return at + last + 1


@inline_kernel
def _copy(distance: int, length: int, out: Any, at: int) -> Any:
    """Write copies from less than 64 KiB back and return the position after them."""
    while length >= 68:
        at = _long_copy(distance, 64, out, at)
        length -= 64
    if length > 64:
        at = _long_copy(distance, 60, out, at)
        length -= 60
    if length >= 12 or distance >= 2048:
        return _long_copy(distance, length, out, at)
    out[at] = np.uint8(((distance >> 8) << 5) | ((length - 4) << 2) | 1)
    out[at + 1] = np.uint8(distance & 0xFF)
    return at + 2


@inline_kernel
def _long_copy(distance: int, length: int, out: Any, at: int) -> Any:
    out[at] = np.uint8(((length - 1) << 2) | 2)
    out[at + 1] = np.uint8(distance & 0xFF)
    out[at + 2] = np.uint8(distance >> 8)
    return at + 3
