"""CRC-32C (Castagnoli): from a library for one buffer, with the CPU's instruction inside kernels.

The instruction is compiled in only if the CPU has it: LLVM aborts the process on a target without
SSE4.2. Other CPUs use eight tables and process eight bytes per step.
"""

from __future__ import annotations

from typing import Any

import google_crc32c
import llvmlite.binding
import numpy as np
from numpy.typing import NDArray

from logwright.kernel import inline_kernel, intrinsic, kernel

_POLYNOMIAL = 0x82F63B78
_MASK = np.uint64(0xFFFFFFFF)


def crc32c(data: bytes | memoryview) -> int:
    """Return the CRC-32C of a whole buffer, uint32."""
    return int(google_crc32c.value(bytes(data)))


def _tables() -> NDArray[np.uint64]:
    """Return uint64[8, 256]: table k is for a byte followed by k zero bytes."""
    tables = np.zeros((8, 256), dtype=np.uint64)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (_POLYNOMIAL if crc & 1 else 0)
        tables[0, byte] = crc
    for step in range(1, 8):
        for byte in range(256):
            before = int(tables[step - 1, byte])
            tables[step, byte] = (before >> 8) ^ int(tables[0, before & 0xFF])
    return tables


_TABLES = _tables()
_LONG_LANE = 2048
_SHORT_LANE = 128
_LINE = 64
"""Size of a CPU cache line, in bytes; a lane is a multiple of it."""


def _shift_table(zeros: int) -> NDArray[np.uint64]:
    """Return uint64[4, 256]: each byte of a CRC after `zeros` zero bytes, a power of 2."""
    step = _TABLES[0].tolist()
    bits = [step[1 << bit] if bit < 8 else 1 << (bit - 8) for bit in range(32)]
    for _ in range(zeros.bit_length() - 1):
        bits = [_combine(bits, crc) for crc in bits]
    table = [[_combine(bits, byte << (8 * at)) for byte in range(256)] for at in range(4)]
    return np.array(table, dtype=np.uint64)


def _combine(bits: list[int], crc: int) -> int:
    """Apply a linear map, given by its value for each bit, to a CRC."""
    result = 0
    for bit in range(32):
        if crc >> bit & 1:
            result ^= bits[bit]
    return result


_LONG_SHIFT = _shift_table(_LONG_LANE)
_SHORT_SHIFT = _shift_table(_SHORT_LANE)
HAS_CRC_INSTRUCTION: bool = bool(llvmlite.binding.get_host_cpu_features().get("sse4.2", False))


load_u64 = intrinsic("load_u64")
copy_span = intrinsic("copy_span")
prefetch = intrinsic("prefetch")


@inline_kernel
def prefetch_span(data: Any, start: int, end: int) -> None:
    """Prefetch the cache lines of data[start:end], uint8, which may exceed the array."""
    for at in range(start, end, _LINE):
        prefetch(data, at)


_crc_u64 = intrinsic("crc_u64")


@kernel
def _crc_bytes(data: Any, start: int, end: int, crc: Any) -> Any:
    for index in range(start, end):
        crc = _TABLES[0, (crc ^ np.uint64(data[index])) & np.uint64(0xFF)] ^ (crc >> np.uint64(8))
    return crc


@inline_kernel
def _shift(table: Any, crc: Any) -> Any:
    low = np.uint64(0xFF)
    return (
        table[0, crc & low]
        ^ table[1, (crc >> np.uint64(8)) & low]
        ^ table[2, (crc >> np.uint64(16)) & low]
        ^ table[3, crc >> np.uint64(24)]
    )


@inline_kernel
def _three_lanes(data: Any, index: int, end: int, crc: Any, lane: int, table: Any) -> Any:
    """Return (CRC, position) after all whole groups of three lanes. The instruction accepts a word
    per cycle but has a latency of three cycles, so three lanes run in parallel. The CPU does not
    detect three read streams, so the next three lanes are prefetched.
    """
    while index + 3 * lane <= end:
        second, third = np.uint64(0), np.uint64(0)
        for line in range(index, index + lane, _LINE):
            for place in range(3):
                prefetch(data, line + (3 + place) * lane)
            for at in range(line, line + _LINE, 8):
                crc = _crc_u64(crc, load_u64(data, at))
                second = _crc_u64(second, load_u64(data, at + lane))
                third = _crc_u64(third, load_u64(data, at + 2 * lane))
        crc = _shift(table, _shift(table, crc) ^ second) ^ third
        index += 3 * lane
    return crc, index


@kernel
def span_crc32c_by_instruction(data: Any, start: int, end: int) -> Any:
    """Return the CRC-32C of data[start:end] with SSE4.2, uint64 below 2**32."""
    crc = _MASK
    index = np.int64(start)
    crc, index = _three_lanes(data, index, end, crc, np.int64(_LONG_LANE), _LONG_SHIFT)
    crc, index = _three_lanes(data, index, end, crc, np.int64(_SHORT_LANE), _SHORT_SHIFT)
    while index + 8 <= end:
        crc = _crc_u64(crc, load_u64(data, index))
        index += 8
    return _crc_bytes(data, index, end, crc) ^ _MASK


@kernel
def span_crc32c_by_tables(data: Any, start: int, end: int) -> Any:
    """Return the CRC-32C of data[start:end] with tables, uint64 below 2**32."""
    crc = _MASK
    low = np.uint64(0xFF)
    index = np.int64(start)
    while index + 8 <= end:
        word = crc ^ load_u64(data, index)
        crc = np.uint64(0)
        for step in range(8):
            crc ^= _TABLES[7 - step, (word >> np.uint64(8 * step)) & low]
        index += 8
    return _crc_bytes(data, index, end, crc) ^ _MASK


span_crc32c = span_crc32c_by_instruction if HAS_CRC_INSTRUCTION else span_crc32c_by_tables
