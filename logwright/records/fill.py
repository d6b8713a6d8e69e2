"""Kernel that reads batches and writes their records as rows into buffers in Arrow's layout.

1. A batch is checked, decompressed into scratch memory if necessary, and its records are walked.
   Keys, values and headers are copied once, from the segment or the scratch memory to the buffers.
2. Columns that nobody asked for are neither computed nor copied.
3. When a buffer is full, the state holds where the batch continues.

The loop is fused: `batches.projection` before it would add at least 8 % (5 of 62 ms, 128 MB u100).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.batches.bitmap import count_dead, has_bit
from logwright.batches.status import NEEDS_ROOM, ROWS_FULL, WRONG_CRC
from logwright.batches.unpack import NOT_GIVEN, is_packed, open_records
from logwright.format.batch import CONTROL, HEADER_BYTES, LOG_APPEND_TIME
from logwright.format.emit import copy_bytes
from logwright.format.scan import has_right_crc
from logwright.format.walk import (
    OFFSET_DELTA,
    OK,
    TRAILING,
    check_records,
    read_record,
    step_over,
)
from logwright.kernel import inline_kernel, kernel

STATE: Final = np.dtype(
    [
        (name, "<i8")
        for name in (
            "row",
            "is_open",
            "index",
            "position",
            "end",
            "last_delta",
            "given",
            "rows",
            "key_bytes",
            "value_bytes",
            "headers_bytes",
            "null_keys",
            "null_values",
            "needed",
            "batches",
            "bytes",
        )
    ]
)
"""Where reading is. `row`: of the batches; `is_open`: 1 while its records are read, of which
`index` are done, from `position` of `end` on, after the offset delta `last_delta`. `given`: bytes
of its records that the caller has put into the scratch memory. `rows` and the bytes of each column
that the buffers hold, and their nulls. `needed`: bytes of the record that has no room. `batches`
that were read, and their `bytes`."""

_LARGEST_MS = np.int64(9_223_372_036_854_775)
"""The largest that is an int64 in microseconds; it stands for those beyond."""


class RowScope(NamedTuple):
    """Which records become rows, and which of their columns.

    Attributes:
        first_offset, end_offset: of the records, the end excluded.
        min_timestamp_ms, max_timestamp_ms: of the records, both included.
        by_time: timestamps matter.
        checks_first: all records of a batch are checked before the first becomes a row.
        dead: uint8[n], bitmap of records that are left out, by ordinal; empty if there are none.
            Whoever set it has checked the records.
        skip_tombstones, skip_null_keys: see `Selection`.
        key, value, headers, offset, timestamp, timestamp_type: the column is wanted.
        most_bytes: of keys, values and headers together.
    """

    first_offset: int
    end_offset: int
    min_timestamp_ms: int
    max_timestamp_ms: int
    by_time: bool
    checks_first: bool
    dead: NDArray[np.uint8]
    skip_tombstones: bool
    skip_null_keys: bool
    key: bool
    value: bool
    headers: bool
    offset: bool
    timestamp: bool
    timestamp_type: bool
    most_bytes: int


class RowBuffers(NamedTuple):
    """Buffers for rows; those of columns that are not wanted are empty.

    Attributes:
        rows: how many rows they have room for, a multiple of 8.
        key, value, headers: uint8[n], the bytes; of headers as they are in the record, with their
            count.
        key_ends, value_ends, headers_ends: int32[rows + 1], where each begins and ends.
        key_valid, value_valid: uint8[rows / 8], bitmap of those that are not null; zeros.
        offsets, timestamps: int64[rows], the latter in µs. types: int32[rows].
    """

    rows: int
    key: NDArray[np.uint8]
    key_ends: NDArray[np.int32]
    key_valid: NDArray[np.uint8]
    value: NDArray[np.uint8]
    value_ends: NDArray[np.int32]
    value_valid: NDArray[np.uint8]
    headers: NDArray[np.uint8]
    headers_ends: NDArray[np.int32]
    offsets: NDArray[np.int64]
    timestamps: NDArray[np.int64]
    types: NDArray[np.int32]


@kernel
def _has_no_row(batch: Any, scope: Any) -> Any:
    """Decide by its header, and by the bitmap, that no record of a batch is wanted."""
    return (
        batch.last_offset < scope.first_offset
        or batch.base_offset >= scope.end_offset
        or (scope.by_time and batch.max_timestamp < scope.min_timestamp_ms)
        or (
            len(scope.dead) > 0
            and count_dead(scope.dead, batch.first_ordinal, batch.count) == batch.count
        )
    )


@kernel
def fill_rows(
    data: Any, batches: Any, last: int, scope: Any, space: Any, state: Any, out: Any
) -> Any:
    """Read the batches [state.row, last) into the buffers, from where the state is.

    Args:
        data: uint8[n], the segment. batches: BATCH[m]; those to `discard` and control batches are
            checked, but have no rows.
        scope: `RowScope`. space: (scratch, cells) of the Workspace; the scratch memory must stay
            as it is while `state.is_open`. state: STATE. out: `RowBuffers`.

    Returns:
        `OK`; or what must be done before the call is repeated; or what is wrong with the batch
        `state.row`.
    """
    scratch, cells = space
    while state.row < last:
        batch = batches[state.row]
        if state.is_open == 0:
            if _has_no_row(batch, scope):
                state.row += 1
                continue
            if state.given < 0 and not has_right_crc(data, batch):
                return np.int64(WRONG_CRC)
            # One without records is opened like any other: it must not have anything else either.
            is_marker = batch.attributes & CONTROL != 0 and batch.count > 0
            if is_marker:
                span = (batch.position + HEADER_BYTES, batch.position + batch.size)
                status = check_records(data, batch, span)
                if status != OK:
                    return status
            if is_marker or batch.discard or (batch.count == 0 and batch.size == HEADER_BYTES):
                state.row += 1
                continue
            status = _open_batch(data, batch, scope, (scratch, cells), state)
            if status != OK:
                return status
        source = scratch if is_packed(batch) else data
        status = _fill_from(source, batch, scope, state, out)
        if status != OK:
            return status
        state.is_open = 0
        state.row += 1
        state.batches += 1
        state.bytes += batch.size
    return np.int64(OK)


@kernel
def _open_batch(data: Any, batch: Any, scope: Any, space: Any, state: Any) -> Any:
    """Set the state to the first record of a batch, decompressed; return a status."""
    scratch, cells = space
    position, end, status = open_records(data, batch, state.given, scratch, np.int64(0), cells)
    if status != OK:
        return status
    state.given = NOT_GIVEN
    if scope.checks_first:
        source = scratch if is_packed(batch) else data
        status = check_records(source, batch, (position, end))
        if status != OK:
            return status
    state.position, state.end, state.index, state.last_delta = position, end, 0, -1
    state.is_open = 1
    return np.int64(OK)


@inline_kernel
def _is_wanted(record: Any, scope: Any) -> Any:
    """Decide whether a record becomes a row; `record`: (offset, timestamp, key length, value
    length).
    """
    offset, timestamp, key_length, value_length = record
    wanted = (
        (offset >= scope.first_offset)
        & (offset < scope.end_offset)
        & ((value_length >= 0) | (not scope.skip_tombstones))
        & ((key_length >= 0) | (not scope.skip_null_keys))
    )
    if scope.by_time:
        wanted &= (timestamp >= scope.min_timestamp_ms) & (timestamp <= scope.max_timestamp_ms)
    return wanted


@inline_kernel
def _put(source: Any, at: int, length: int, row: int, used: Any, out: Any) -> Any:
    """Write the key or value of a row, of this length or -1; return the (bytes, nulls) then used.

    Args:
        used: (bytes, nulls) before. out: (bytes, ends, valid) of the column.
    """
    column, ends, valid = out
    taken, nulls = used
    if length < 0:
        ends[row + 1] = taken
        return taken, nulls + 1
    copy_bytes(column, taken, source, at, length)
    ends[row + 1] = taken + length
    valid[row >> 3] |= np.uint8(1) << np.uint8(row & 7)
    return taken + length, nulls


@inline_kernel
def _status_of_room(state: Any, out: Any, most_bytes: int, rows: int, sizes: Any) -> Any:
    """Return `OK` if a row has room.

    Args:
        sizes: the bytes that are used and that are needed, of key, value and headers each.
    """
    key, key_size, value, value_size, headers, headers_size = sizes
    total = key + key_size + value + value_size + headers + headers_size
    if (
        rows < out.rows
        and (total <= most_bytes or rows == 0)
        and key + key_size <= len(out.key)
        and value + value_size <= len(out.value)
        and headers + headers_size <= len(out.headers)
    ):
        return np.int64(OK)
    state.needed = max(key_size, value_size, headers_size)
    return np.int64(ROWS_FULL if rows > 0 else NEEDS_ROOM)


@kernel
def _fill_from(source: Any, batch: Any, scope: Any, state: Any, out: Any) -> Any:
    """Write the records of the open batch, from where the state is; return a status."""
    position, end, last_delta, index = state.position, state.end, state.last_delta, state.index
    zero, status, append_time = np.int64(0), np.int64(OK), batch.attributes & LOG_APPEND_TIME != 0
    rows, in_headers = state.rows, state.headers_bytes
    keys, values = (state.key_bytes, state.null_keys), (state.value_bytes, state.null_values)
    has_dead = len(scope.dead) > 0
    while index < np.int64(batch.count):
        if has_dead and has_bit(scope.dead, batch.first_ordinal + index):
            # Whoever set the bit has checked the record; what is malformed now ends the batch.
            position, index = step_over(source, position, end), index + 1
            continue
        record = read_record(source, position, end)
        stop, delta, headers = record.stop, record.delta, record.headers
        key_length, value_length = record.key_length, record.value_length
        if stop < 0:
            return stop
        if delta <= last_delta or delta > batch.last_offset - batch.base_offset:
            return np.int64(OFFSET_DELTA)
        offset = batch.base_offset + delta
        timestamp = batch.max_timestamp if append_time else batch.base_timestamp + record.time_delta
        if _is_wanted((offset, timestamp, key_length, value_length), scope):
            key_size = max(key_length, zero) if scope.key else zero
            value_size = max(value_length, zero) if scope.value else zero
            headers_size = stop - headers if scope.headers else zero
            sizes = (keys[0], key_size, values[0], value_size, in_headers, headers_size)
            status = _status_of_room(state, out, scope.most_bytes, rows, sizes)
            if status != OK:
                break
            if scope.key:
                column = (out.key, out.key_ends, out.key_valid)
                keys = _put(source, record.key, key_length, rows, keys, column)
            if scope.value:
                column = (out.value, out.value_ends, out.value_valid)
                values = _put(source, record.value, value_length, rows, values, column)
            if scope.headers:
                copy_bytes(out.headers, in_headers, source, headers, headers_size)
                in_headers += headers_size
                out.headers_ends[rows + 1] = in_headers
            if scope.offset:
                out.offsets[rows] = offset
            if scope.timestamp:
                out.timestamps[rows] = min(max(timestamp, -_LARGEST_MS), _LARGEST_MS) * 1000
            if scope.timestamp_type:
                out.types[rows] = append_time
            rows += 1
        last_delta, position, index = delta, stop, index + 1
    state.position, state.index, state.last_delta = position, index, last_delta
    state.rows, state.headers_bytes = rows, in_headers
    state.key_bytes, state.null_keys = keys
    state.value_bytes, state.null_values = values
    return np.int64(TRAILING) if status == OK and position != end else status
