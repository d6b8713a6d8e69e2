"""The codecs of `logwright.format.codec` inside the kernels.

1. Decompression handles only the common framings: those of Kafka's clients and librdkafka. For all
   others, and for malformed input, the result is `ELSEWHERE`, and `codec.decompress` decompresses
   or raises the error. So this module never accepts what `codec` refuses.
2. Sizes in a payload are not trusted: a library gets the capacity of the output buffer.
3. The lz4 output is identical to Kafka's; so is the zstd output if Kafka has the same libzstd, as
   Kafka 4.4 does (1.5.7). gzip and snappy output differs but decompresses to the same records.
4. Snappy's blocks are read and written here: no wheel on PyPI exports Snappy's functions. A block
   is a varint of its size, then elements. The lower two bits of an element's tag byte are its type.

::

    0  literal  size - 1 in the upper six bits, or in the 1 to 4 bytes that follow (60 to 63)
    1  copy     of 4 to 11 bytes; distance of 11 bits
    2  copy     of 1 to 64 bytes; distance in two bytes
    3  copy     of 1 to 64 bytes; distance in four bytes
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from logwright.format import native
from logwright.format.codec import GZIP, LZ4, SNAPPY, ZSTD, compress
from logwright.format.crc import copy_span, load_u64
from logwright.format.lz4frame import xxhash32
from logwright.format.native import address, call
from logwright.format.zstdframe import LARGEST_WINDOW_BYTES
from logwright.kernel import inline_kernel, intrinsic, kernel

NO_ROOM: Final = -1
"""The output buffer is too small; a larger one is allowed."""
ELSEWHERE: Final = -2
"""The caller must use `logwright.format.codec`."""

_SHORT = np.int64(-3)
"""The output buffer is too small, whether or not a larger one is allowed."""

_LZ4_MAGIC: Final = 0x184D2204
_LZ4_BLOCK_BYTES: Final = 65536
_LZ4_STORED: Final = 0x80000000
_ZSTD_MAGIC: Final = 0xFD2FB528
_ZSTD_SESSION: Final = 1
"""ZSTD_reset_session_only"""
_ZSTD_END: Final = 2
"""ZSTD_e_end"""
_ZSTD_TOO_SMALL: Final = 70
_ZSTD_ERRORS: Final = 120
_ZSTD_BLOCK_BYTES: Final = 128 * 1024
_GZIP_MAGIC: Final = 0x00088B1F
"""Deflate, no flags."""
_GZIP_NO_ROOM: Final = 3
_SNAPPY_MAGIC: Final = 0x00595050414E5382
_SNAPPY_BLOCK_BYTES: Final = 32768

MALFORMED: Final = -2
"""The snappy block is not one; `NO_ROOM` has another number."""

LARGEST_TABLE: Final = 1 << 14
_SMALLEST_TABLE_BITS: Final = 8
_MARGIN: Final = 15
"""The last bytes of a block are not searched, since words are read ahead."""

_store_u64 = intrinsic("store_u64")
load_u32 = intrinsic("load_u32")


@kernel
def unpack_block(data: Any, start: int, end: int, out: Any, at: int, room: int) -> Any:
    """Decompress the snappy block data[start:end] to out[at:], of capacity `room`; may overwrite
    `out` after it.

    Returns:
        the number of bytes, `NO_ROOM` or `MALFORMED`.
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
    """Compress data[start:end], at most 64 KiB, to a snappy block in out[at:]; return the position
    after it.

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


def _lz4_headers() -> NDArray[np.uint64]:
    """Return uint64[8]: FLG, BD and HC of frames of independent blocks, without and with a content
    checksum, for the four block sizes.
    """
    fields = [bytes((flags, code << 4)) for flags in (0x60, 0x64) for code in (4, 5, 6, 7)]
    whole = [field + bytes((xxhash32(field) >> 8 & 0xFF,)) for field in fields]
    return np.array([int.from_bytes(field, "little") for field in whole], dtype=np.uint64)


_LZ4_HEADERS = _lz4_headers()


@ctypes.CFUNCTYPE(
    ctypes.c_int64,
    ctypes.c_int64,
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.c_void_p,
    ctypes.c_int64,
)
def _compress_in_python(codec: int, source: int, size: int, target: int, room: int) -> int:
    packed = compress(codec, ctypes.string_at(source, size))
    if len(packed) > room:
        return 0
    ctypes.memmove(target, packed, len(packed))
    return len(packed)


def libraries() -> NDArray[np.int64]:
    """Return this thread's cells for the kernels, int64[native.CELLS]."""
    return native.libraries(_compress_in_python)


def python_only() -> NDArray[np.int64]:
    """Return the cells as if there were no libraries."""
    cells = np.zeros(native.CELLS, dtype=np.int64)
    cells[native.IN_PYTHON] = native.libraries(_compress_in_python)[native.IN_PYTHON]
    return cells


def pack_table() -> NDArray[np.uint16]:
    """Return the work table of `pack`, uint16[LARGEST_TABLE]."""
    return np.empty(LARGEST_TABLE, dtype=np.uint16)


@kernel
def unpack(
    data: Any, start: int, end: int, codec: int, out: Any, at: int, limit: int, cells: Any
) -> Any:
    """Decompress data[start:end] to out[at:], at most `limit` bytes.

    May overwrite `out` after the output.

    Returns:
        the number of bytes, `NO_ROOM` or `ELSEWHERE`.
    """
    room = min(np.int64(len(out)) - at, np.int64(limit))
    unpacked = np.int64(ELSEWHERE)
    if codec == LZ4 and cells[native.LZ4_DECOMPRESS] != 0:
        unpacked = _unpack_lz4(data, start, end, out, at, room, cells)
    elif codec == ZSTD and cells[native.ZSTD_DECOMPRESSOR] != 0:
        unpacked = _unpack_zstd(data, start, end, out, at, room, cells)
    elif codec == GZIP and cells[native.GZIP_DECOMPRESSOR] != 0:
        unpacked = _unpack_gzip(data, start, end, out, at, room, cells)
    elif codec == SNAPPY:
        unpacked = _unpack_snappy(data, start, end, out, at, room)
    if unpacked == _SHORT:
        return np.int64(NO_ROOM) if room < limit else np.int64(ELSEWHERE)
    return unpacked


@kernel
def _unpack_lz4(data: Any, start: int, end: int, out: Any, at: int, room: int, cells: Any) -> Any:
    if end - start < 11 or load_u32(data, start) != np.uint64(_LZ4_MAGIC):
        return np.int64(ELSEWHERE)
    header = load_u32(data, start + 4) & np.uint64(0xFFFFFF)
    kind = np.int64(0)
    while kind < len(_LZ4_HEADERS) and _LZ4_HEADERS[kind] != header:
        kind += 1
    if kind == len(_LZ4_HEADERS):
        return np.int64(ELSEWHERE)
    largest = np.int64(_LZ4_BLOCK_BYTES) << (2 * (kind & 3))
    position = np.int64(start) + 7
    written = np.int64(0)
    while True:
        if position + 4 > end:
            return np.int64(ELSEWHERE)
        word = np.int64(load_u32(data, position))
        position += 4
        if word == 0:
            break
        size = word & np.int64(_LZ4_STORED - 1)
        if size > largest or size > end - position:
            return np.int64(ELSEWHERE)
        left = room - written
        if word != size:
            if size > left:
                return _SHORT
            copy_span(out, at + written, data, position, size)
            written += size
        else:
            given = (
                address(data, position),
                address(out, at + written),
                size,
                min(largest, left),
            )
            unpacked = np.int64(np.int32(call(cells[native.LZ4_DECOMPRESS], given)))
            if unpacked < 0:
                return _SHORT if left < largest else np.int64(ELSEWHERE)
            written += unpacked
        position += size
    position += 4 * (kind >> 2)
    return written if position == end else np.int64(ELSEWHERE)


@kernel
def _zstd_frame_end(data: Any, start: int, end: int) -> Any:
    """Return the position after the frame at `start`, from its headers; `ELSEWHERE` if uncommon.

    `zstdframe` has the same walk in Python.
    """
    flags = np.int64(data[start + 4])
    position = np.int64(start) + 5
    window = np.int64(0)
    size_code = flags >> 6
    if flags & 0x0B != 0 or size_code == 3:
        return np.int64(ELSEWHERE)
    if flags & 0x20 == 0:
        descriptor = np.int64(data[position])
        base = np.int64(1) << (10 + (descriptor >> 3))
        window = base + (base >> 3) * (descriptor & 7)
        position += 1
    elif size_code == 0:
        window = np.int64(data[position])
        position += 1
    elif size_code == 1:
        window = np.int64(load_u32(data, position) & np.uint64(0xFFFF)) + 256
    else:
        window = np.int64(load_u32(data, position))
    if size_code > 0:
        position += 1 << size_code
    if window > LARGEST_WINDOW_BYTES:
        return np.int64(ELSEWHERE)
    largest = min(window, np.int64(_ZSTD_BLOCK_BYTES))
    last = False
    while not last:
        if position + 3 > end:
            return np.int64(ELSEWHERE)
        word = np.int64(data[position]) | np.int64(data[position + 1]) << 8
        word |= np.int64(data[position + 2]) << 16
        last = word & 1 != 0
        kind, size = word >> 1 & 3, word >> 3
        if kind > 2 or size > largest:
            return np.int64(ELSEWHERE)
        position += 3 + (1 if kind == 1 else size)
    return position + (flags & 0x04)


@kernel
def _unpack_zstd(data: Any, start: int, end: int, out: Any, at: int, room: int, cells: Any) -> Any:
    size = np.int64(end) - start
    if size < 9 or load_u32(data, start) != np.uint64(_ZSTD_MAGIC):
        return np.int64(ELSEWHERE)
    if _zstd_frame_end(data, start, end) != end:
        return np.int64(ELSEWHERE)
    decompressor = cells[native.ZSTD_DECOMPRESSOR]
    given = (decompressor, address(out, at), room, address(data, start), size)
    unpacked = call(cells[native.ZSTD_DECOMPRESS], given)
    if unpacked == -_ZSTD_TOO_SMALL:
        return _SHORT
    return unpacked if unpacked >= 0 else np.int64(ELSEWHERE)


@kernel
def _unpack_gzip(data: Any, start: int, end: int, out: Any, at: int, room: int, cells: Any) -> Any:
    size = np.int64(end) - start
    if size < 18 or load_u32(data, start) != np.uint64(_GZIP_MAGIC):
        return np.int64(ELSEWHERE)
    given = (
        cells[native.GZIP_DECOMPRESSOR],
        address(data, start),
        size,
        address(out, at),
        room,
        address(cells, native.TAKEN),
        address(cells, native.GIVEN),
    )
    answer = np.int32(call(cells[native.GZIP_DECOMPRESS], given))
    if answer == _GZIP_NO_ROOM:
        return _SHORT
    if answer != 0 or cells[native.TAKEN] != size:
        return np.int64(ELSEWHERE)
    return cells[native.GIVEN]


@kernel
def _unpack_snappy(data: Any, start: int, end: int, out: Any, at: int, room: int) -> Any:
    """Decompress a xerial stream with one header."""
    if end - start < 16 or load_u64(data, start) != np.uint64(_SNAPPY_MAGIC):
        return np.int64(ELSEWHERE)
    if _big_endian(data, start + 8) < 1:
        return np.int64(ELSEWHERE)
    position = np.int64(start) + 16
    written = np.int64(0)
    while position < end:
        if position + 4 > end:
            return np.int64(ELSEWHERE)
        size = _big_endian(data, position)
        position += 4
        if size < 1 or size > end - position:
            return np.int64(ELSEWHERE)
        unpacked = unpack_block(data, position, position + size, out, at + written, room - written)
        if unpacked < 0:
            return _SHORT if unpacked == NO_ROOM else np.int64(ELSEWHERE)
        written += unpacked
        position += size
    return written


@kernel
def _big_endian(data: Any, at: int) -> Any:
    """Return a big-endian int32 as int64."""
    value = np.int64(np.int8(data[at]))
    for index in range(1, 4):
        value = (value << 8) | np.int64(data[at + index])
    return value


@kernel
def packed_bound(size: int) -> Any:
    """Return the output capacity that `pack` needs for `size` bytes. It bounds the growth of every
    codec; snappy can grow most.
    """
    return size + size // 6 + (size // _SNAPPY_BLOCK_BYTES + 1) * 320 + 256


@kernel
def _pack_zstd(source: int, size: int, target: int, room: int, cells: Any) -> Any:
    """Compress as Kafka's stream does, flushed before its end (`zstdframe`); return the number of
    bytes, 0 if it failed.
    """
    compressor = cells[native.ZSTD_COMPRESSOR]
    call(cells[native.ZSTD_RESET], (compressor, np.int64(_ZSTD_SESSION)))
    out, into = native.ZSTD_OUT, native.ZSTD_IN
    cells[out], cells[out + 1], cells[out + 2] = target, room, 0
    cells[into], cells[into + 1], cells[into + 2] = source, size, 0
    for operation in range(_ZSTD_END + 1):  # continue, flush, end
        places = address(cells, np.int64(out)), address(cells, np.int64(into))
        given = (compressor, places[0], places[1], np.int64(operation))
        left = call(cells[native.ZSTD_COMPRESS], given)
        if left < 0 or cells[into + 2] < size or (operation > 0 and left > 0):
            return np.int64(0)
    return cells[out + 2]


@kernel
def pack(data: Any, end: int, codec: int, out: Any, at: int, table: Any, cells: Any) -> Any:
    """Compress data[:end] to out[at:], which has a capacity of `packed_bound`; returns the number
    of bytes, 0 if it failed.
    """
    if codec == SNAPPY:
        return _pack_snappy(data, end, out, at, table)
    room = packed_bound(end)
    source, target = address(data, np.int64(0)), address(out, at)
    size = np.int64(end)
    if codec == LZ4 and cells[native.LZ4_COMPRESS] != 0:
        return _pack_lz4(data, end, out, at, cells)
    if codec == ZSTD and cells[native.ZSTD_COMPRESSOR] != 0:
        return _pack_zstd(source, size, target, room, cells)
    if codec == GZIP and cells[native.GZIP_COMPRESSOR] != 0:
        compressor = cells[native.GZIP_COMPRESSOR]
        return call(cells[native.GZIP_COMPRESS], (compressor, source, size, target, room))
    return call(cells[native.IN_PYTHON], (np.int64(codec), source, size, target, room))


@kernel
def _put(out: Any, at: int, value: Any, width: int) -> Any:
    """Write a little-endian number and return the position after it."""
    for index in range(width):
        out[at + index] = np.uint8((value >> np.uint64(8 * index)) & np.uint64(0xFF))
    return at + width


@kernel
def _pack_lz4(data: Any, end: int, out: Any, at: int, cells: Any) -> Any:
    """Write an LZ4 frame, see `lz4frame`; a block that would not shrink is stored."""
    position = _put(out, np.int64(at), np.uint64(_LZ4_MAGIC), 4)
    position = _put(out, position, _LZ4_HEADERS[0], 3)
    for start in range(0, end, _LZ4_BLOCK_BYTES):
        size = min(np.int64(_LZ4_BLOCK_BYTES), np.int64(end) - start)
        room = size + size // 255 + 16
        given = (address(data, start), address(out, position + 4), size, room)
        packed = np.int64(np.int32(call(cells[native.LZ4_COMPRESS], given)))
        if 0 < packed < size:
            _put(out, position, np.uint64(packed), 4)
            position += 4 + packed
        else:
            position = _put(out, position, np.uint64(size | _LZ4_STORED), 4)
            copy_span(out, position, data, start, size)
            position += size
    return _put(out, position, np.uint64(0), 4) - at


@kernel
def _pack_snappy(data: Any, end: int, out: Any, at: int, table: Any) -> Any:
    """Write a xerial stream: its header, then chunks of 32 KiB."""
    position = _put(out, np.int64(at), np.uint64(_SNAPPY_MAGIC), 8)
    position = _put(out, position, np.uint64(0x0100000001000000), 8)
    for start in range(0, end, _SNAPPY_BLOCK_BYTES):
        stop = min(np.int64(end), np.int64(start) + _SNAPPY_BLOCK_BYTES)
        behind = pack_block(data, np.int64(start), stop, out, position + 4, table)
        size = behind - position - 4
        for index in range(4):
            out[position + index] = np.uint8((size >> (24 - 8 * index)) & 0xFF)
        position = behind
    return position - at
