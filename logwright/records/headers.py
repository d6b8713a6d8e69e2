"""Headers of records, from their bytes to Arrow's list of key and value.

A record without headers has null, as in Spark's Kafka source. A key that is not UTF-8 is decoded
with replacement characters, as Kafka's clients do (Utils.utf8).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from logwright.format.walk import copy_bytes, read_varint
from logwright.kernel import kernel
from logwright.records.schema import HEADERS_TYPE


class _Headers(NamedTuple):
    """Buffers of the headers of `rows` records.

    Attributes:
        ends: int32[rows + 1], headers up to each record. valid: uint8[ceil(rows / 8)], bitmap.
        key, value: uint8[n]. key_ends, value_ends: int32[headers + 1].
        value_valid: uint8[ceil(headers / 8)], bitmap.
    """

    ends: NDArray[np.int32]
    valid: NDArray[np.uint8]
    key: NDArray[np.uint8]
    key_ends: NDArray[np.int32]
    value: NDArray[np.uint8]
    value_ends: NDArray[np.int32]
    value_valid: NDArray[np.uint8]


@kernel
def _count_headers(data: Any, ends: Any) -> Any:
    """Return (records that have headers, headers, bytes of keys, bytes of values)."""
    having, total = np.int64(0), np.int64(0)
    key_bytes, value_bytes = np.int64(0), np.int64(0)
    for row in range(len(ends) - 1):
        end = np.int64(ends[row + 1])
        count, position = read_varint(data, ends[row], end)
        having += count > 0
        total += count
        for _ in range(count):
            length, position = read_varint(data, position, end)
            key_bytes += length
            length, position = read_varint(data, position + length, end)
            length = max(length, np.int64(0))
            value_bytes += length
            position += length
    return having, total, key_bytes, value_bytes


@kernel
def _split_headers(data: Any, ends: Any, out: Any) -> Any:
    """Write the headers, whose lengths the walk has checked; return whether all keys are ASCII, and
    the null values.
    """
    at, key_bytes, value_bytes, nulls = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    seen = np.uint8(0)
    for row in range(len(ends) - 1):
        end = np.int64(ends[row + 1])
        count, position = read_varint(data, ends[row], end)
        if count > 0:
            out.valid[row >> 3] |= np.uint8(1) << np.uint8(row & 7)
        for _ in range(count):
            length, position = read_varint(data, position, end)
            copy_bytes(out.key, key_bytes, data, position, length)
            for index in range(position, position + length):
                seen |= data[index]
            key_bytes += length
            length, position = read_varint(data, position + length, end)
            if length >= 0:
                copy_bytes(out.value, value_bytes, data, position, length)
                value_bytes += length
                position += length
                out.value_valid[at >> 3] |= np.uint8(1) << np.uint8(at & 7)
            else:
                nulls += 1
            at += 1
            out.key_ends[at] = key_bytes
            out.value_ends[at] = value_bytes
        out.ends[row + 1] = at
    return seen < np.uint8(0x80), nulls


def headers_array(data: NDArray[np.uint8], ends: NDArray[np.int32]) -> pa.Array:
    """Return the headers of records as an array of `HEADERS_TYPE`.

    Args:
        data: uint8[n], their bytes from the count on, checked by the walk over the records.
        ends: int32[records + 1], where each begins and ends.
    """
    rows = len(ends) - 1
    having, total, key_bytes, value_bytes = _count_headers(data, ends)
    if not having:
        return pa.nulls(rows, HEADERS_TYPE)
    out = _Headers(
        ends=np.zeros(rows + 1, dtype=np.int32),
        valid=np.zeros((rows + 7) // 8, dtype=np.uint8),
        key=np.empty(key_bytes, dtype=np.uint8),
        key_ends=np.zeros(total + 1, dtype=np.int32),
        value=np.empty(value_bytes, dtype=np.uint8),
        value_ends=np.zeros(total + 1, dtype=np.int32),
        value_valid=np.zeros((total + 7) // 8, dtype=np.uint8),
    )
    is_ascii, nulls = _split_headers(data, ends, out)
    keys = _texts(out.key_ends, out.key, is_ascii=bool(is_ascii))
    valid = pa.py_buffer(out.value_valid) if nulls else None
    buffers = [valid, pa.py_buffer(out.value_ends), pa.py_buffer(out.value)]
    values = pa.Array.from_buffers(pa.binary(), total, buffers, null_count=nulls)
    pairs = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS_TYPE.value_type))
    return pa.Array.from_buffers(
        HEADERS_TYPE,
        rows,
        [pa.py_buffer(out.valid) if having < rows else None, pa.py_buffer(out.ends)],
        null_count=rows - having,
        children=[pairs],
    )


def _texts(ends: NDArray[np.int32], data: NDArray[np.uint8], *, is_ascii: bool) -> pa.Array:
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(data)]
    keys = pa.Array.from_buffers(pa.binary(), len(ends) - 1, buffers, null_count=0)
    if is_ascii:
        return keys.view(pa.string())
    try:
        return keys.cast(pa.string())  # checks that they are UTF-8
    except pa.ArrowInvalid:
        return pa.array([key.decode(errors="replace") for key in keys.to_pylist()], pa.string())
