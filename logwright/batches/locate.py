"""Kernels that locate the parts of one record, and copy them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from logwright.format.crc import copy_span, load_u64
from logwright.format.walk import (
    LENGTH,
    OFFSET_DELTA,
    OK,
    TRAILING,
    read_varint,
    read_varlong,
    skip_headers,
)
from logwright.kernel import inline_kernel, intrinsic, kernel

_store_u64 = intrinsic("store_u64")
_SHORT: Final = 32


@inline_kernel
def locate_record(source: Any, at: int, end: int) -> Any:
    """Return (next position or a status below 0, timestamp delta in ms, offset delta, key position,
    key length or -1, value position, value length or -1, headers position) of one record; the
    records end at `end`. All lengths are checked, as by `walk.read_record`.
    """
    zero = np.int64(0)
    length, body = read_varint(source, at, end)
    if body < 0:
        return body, zero, zero, zero, zero, zero, zero, zero
    if length < 1 or length > end - body:
        return np.int64(LENGTH), zero, zero, zero, zero, zero, zero, zero
    stop = body + length
    time_delta, position = read_varlong(source, body + 1, stop)
    if position < 0:
        return position, zero, zero, zero, zero, zero, zero, zero
    delta, position = read_varint(source, position, stop)
    if position < 0:
        return position, zero, zero, zero, zero, zero, zero, zero
    key_length, key = read_varint(source, position, stop)
    if key < 0:
        return key, zero, zero, zero, zero, zero, zero, zero
    if key_length < -1 or key_length > stop - key:
        return np.int64(LENGTH), zero, zero, zero, zero, zero, zero, zero
    value_length, value = read_varint(source, key + max(key_length, zero), stop)
    if value < 0:
        return value, zero, zero, zero, zero, zero, zero, zero
    if value_length < -1 or value_length > stop - value:
        return np.int64(LENGTH), zero, zero, zero, zero, zero, zero, zero
    headers = value + max(value_length, zero)
    if headers + 1 != stop or source[headers] != np.uint8(0):
        position = skip_headers(source, headers, stop)
        if position < 0:
            return position, zero, zero, zero, zero, zero, zero, zero
    return stop, time_delta, delta, key, key_length, value, value_length, headers


@inline_kernel
def step_over(source: Any, at: int, end: int) -> Any:
    """Return the position after a record of which only the length is read; `end` if that is wrong,
    where no record can begin.
    """
    length, body = read_varint(source, at, end)
    return body + length if body >= 0 and 0 < length <= end - body else np.int64(end)


@kernel
def check_records(source: Any, batch: Any, span: Any) -> Any:
    """Return the status of a batch's records, which are in this span of the source."""
    position, end = span
    last_delta = np.int64(-1)
    delta_limit = batch.last_offset - batch.base_offset
    for _ in range(np.int64(batch.count)):
        position, _, delta, _, _, _, _, _ = locate_record(source, position, end)
        if position < 0:
            return np.int64(position)
        if delta <= last_delta or delta > delta_limit:
            return np.int64(OFFSET_DELTA)
        last_delta = delta
    return np.int64(OK if position == end else TRAILING)


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
