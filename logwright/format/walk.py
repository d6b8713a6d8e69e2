"""Kernels that iterate over the records of a batch and locate their keys and values; and those that
write what these read: the integers and bytes of record batches.

Every length is untrusted input and is checked against the batch before use. Values are skipped. A
status other than `OK` is an error, whose sentence is in `logwright.batches.status`.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from logwright.format.crc import copy_span, load_u64
from logwright.kernel import inline_kernel, intrinsic, kernel

OK: Final = 0
VARINT: Final = -1
LENGTH: Final = -2
OFFSET_DELTA: Final = -3
TRAILING: Final = -4
HEADERS: Final = -5

_store_u64 = intrinsic("store_u64")
_SHORT: Final = 32
"""Bytes that are copied without a loop."""


@inline_kernel
def _read_unsigned(data: Any, at: int, end: int, last_shift: int) -> Any:
    """Return (uint64, next position) of an unsigned varint; a position below 0 is a status. The
    byte at `last_shift` must be the last one. Bits beyond the 64th are dropped.
    """
    position = np.int64(at)
    if position + 1 < end:
        # Nearly all have one or two bytes.
        first, second = np.uint64(data[position]), np.uint64(data[position + 1])
        if first < np.uint64(0x80):
            return first, position + 1
        if second < np.uint64(0x80):
            return (first & np.uint64(0x7F)) | (second << np.uint64(7)), position + 2
    value = np.uint64(0)
    shift = np.uint64(0)
    while True:
        if position >= end or shift > np.uint64(last_shift):
            return np.uint64(0), np.int64(VARINT)
        byte = np.uint64(data[position])
        position += 1
        value |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            break
        shift += np.uint64(7)
    return value, position


@inline_kernel
def read_varint(data: Any, at: int, end: int) -> Any:
    """Return (int32, next position) of a zigzag varint of at most 5 bytes; a position below 0 is a
    status. Bits beyond the 32nd are dropped, as in ByteUtils (4.3.0).
    """
    raw, position = _read_unsigned(data, at, end, 28)
    value = raw & np.uint64(0xFFFFFFFF)
    return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), position


@inline_kernel
def read_varlong(data: Any, at: int, end: int) -> Any:
    """Return (int64, next position) of a zigzag varint of at most 10 bytes; a position below 0 is a
    status.
    """
    value, position = _read_unsigned(data, at, end, 63)
    return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), position


@kernel
def skip_headers(data: Any, at: int, end: int) -> Any:
    """Return the position after a record's headers, which must be `end`; below 0 it is a status."""
    count, position = read_varint(data, at, end)
    if position < 0:
        return position
    if count < 0 or count > end - position:
        return np.int64(HEADERS)
    for _ in range(count):
        length, position = read_varint(data, position, end)
        if position < 0:
            return position
        if length < 0 or length > end - position:
            return np.int64(HEADERS)
        position += length
        length, position = read_varint(data, position, end)
        if position < 0:
            return position
        if length < -1 or length > end - position:
            return np.int64(HEADERS)
        position += max(length, np.int64(0))
    return position if position == end else np.int64(HEADERS)


class RecordHead(NamedTuple):
    """The positions of a record up to its key, int64.

    Attributes:
        stop: the position after the record, or a status below 0; then all else has no meaning.
        time_delta: ms. rest: the position after it.
        delta: of the offset.
        tail: the position after that.
        key, key_length: the key's position and length, -1 for null.
    """

    stop: int
    time_delta: int
    rest: int
    delta: int
    tail: int
    key: int
    key_length: int


class RecordAt(NamedTuple):
    """The positions of a record, int64; see `RecordHead`.

    Attributes:
        value, value_length: the value's position and length, -1 for null.
        headers: the position of their count.
    """

    stop: int
    time_delta: int
    rest: int
    delta: int
    tail: int
    key: int
    key_length: int
    value: int
    value_length: int
    headers: int


@inline_kernel
def _no_head(status: int) -> Any:
    zero = np.int64(0)
    return np.int64(status), RecordHead(np.int64(status), zero, zero, zero, zero, zero, zero)


@inline_kernel
def _no_record(status: int) -> Any:
    zero = np.int64(0)
    return RecordAt(np.int64(status), zero, zero, zero, zero, zero, zero, zero, zero, zero)


@inline_kernel
def read_head(data: Any, at: int, end: int) -> Any:
    """Return (status, `RecordHead`) of a record of a batch whose records end at `end`."""
    length, body = read_varint(data, at, end)
    if body < 0:
        return _no_head(body)
    if length < 1 or length > end - body:
        return _no_head(LENGTH)
    stop = body + length
    time_delta, rest = read_varlong(data, body + 1, stop)
    if rest < 0:
        return _no_head(rest)
    delta, position = read_varint(data, rest, stop)
    if position < 0:
        return _no_head(position)
    key_length, key = read_varint(data, position, stop)
    if key < 0:
        return _no_head(key)
    if key_length < -1 or key_length > stop - key:
        return _no_head(LENGTH)
    # With a status of its own, which is constant here, a caller's test of it costs nothing.
    return np.int64(OK), RecordHead(stop, time_delta, rest, delta, position, key, key_length)


@inline_kernel
def read_record(data: Any, at: int, end: int) -> Any:
    """Return the `RecordAt` of a record of a batch whose records end at `end`; all of its lengths
    are checked. What a caller does not use of it costs nothing.
    """
    status, head = read_head(data, at, end)
    if status != OK:
        return _no_record(status)
    stop, zero = head.stop, np.int64(0)
    value_length, value = read_varint(data, head.key + max(head.key_length, zero), stop)
    if value < 0:
        return _no_record(value)
    if value_length < -1 or value_length > stop - value:
        return _no_record(LENGTH)
    headers = value + max(value_length, zero)
    if headers + 1 != stop or data[headers] != np.uint8(0):
        position = skip_headers(data, headers, stop)
        if position < 0:
            return _no_record(position)
    return RecordAt(
        stop,
        head.time_delta,
        head.rest,
        head.delta,
        head.tail,
        head.key,
        head.key_length,
        value,
        value_length,
        headers,
    )


@inline_kernel
def step_over(data: Any, at: int, end: int) -> Any:
    """Return the position after a dead record, of which only the length is read; `end` if that is
    wrong, where no record can begin.
    """
    length, body = read_varint(data, at, end)
    return body + length if body >= 0 and 0 < length <= end - body else np.int64(end)


@kernel
def check_records(source: Any, batch: Any, span: Any) -> Any:
    """Return the status of a batch's records, which are in this span of the source."""
    position, end = span
    last_delta = np.int64(-1)
    delta_limit = batch.last_offset - batch.base_offset
    for _ in range(np.int64(batch.count)):
        record = read_record(source, position, end)
        position = record.stop
        if position < 0:
            return np.int64(position)
        if record.delta <= last_delta or record.delta > delta_limit:
            return np.int64(OFFSET_DELTA)
        last_delta = record.delta
    return np.int64(OK if position == end else TRAILING)


@kernel
def size_above(data: Any, start: int, end: int, limit: int) -> Any:
    """Return the size of the first record body in data[start:end] that is larger than `limit`, in
    bytes; 0 if there is none. What is malformed is left to those who read the records.
    """
    position = np.int64(start)
    while position < end:
        size, body = read_varint(data, position, end)
        if body < 0 or size < 1 or size > end - body:
            break
        if size > limit:
            return size
        position = body + size
    return np.int64(0)


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
