"""Kernels that encode columns of records into record batches like a producer (MemoryRecordsBuilder,
DefaultRecord, 4.3.0).

A batch ends before the record that would exceed the size limit. Its base timestamp is that of its
first record, its offsets are final, its producer id is -1: no idempotent producer.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from logwright.format.batch import HEADER_BYTES, LOG_OVERHEAD_BYTES, MAGIC
from logwright.format.crc import copy_span, span_crc32c
from logwright.format.walk import put_int, put_varint, varint_bytes
from logwright.kernel import inline_kernel, kernel
from logwright.units import INT32_MAX

# The fields of a row of the table of batches, int64[BATCH_CELLS].
FIRST_ROW: Final = 0
COUNT: Final = 1
POSITION: Final = 2
SIZE: Final = 3
BASE_OFFSET: Final = 4
LAST_OFFSET: Final = 5
BASE_TIMESTAMP: Final = 6
MAX_TIMESTAMP: Final = 7
BATCH_CELLS: Final = 8

RECORD_OVERHEAD: Final = 31
"""Maximum bytes of a record besides key, value and headers: length, attributes, two deltas, two
lengths and the number of headers.
"""

HEADER_OVERHEAD: Final = 10
"""Maximum bytes of a header besides its key and value."""


@inline_kernel
def _field_bytes(bounds: Any, row: int, null: bool) -> int:
    if null:
        return np.int64(1)
    length: int = bounds[row + 1] - bounds[row]
    return varint_bytes(length) + length


@inline_kernel
def _put_field(out: Any, at: int, data: Any, bounds: Any, row: int, null: bool) -> int:
    if null:
        return put_varint(out, at, np.int64(-1))
    length: int = bounds[row + 1] - bounds[row]
    at = put_varint(out, at, length)
    if length > 0:
        copy_span(out, at, data, bounds[row], length)
    return at + length


@kernel
def _body_bytes(columns: Any, row: int, time_delta: int, offset_delta: int) -> int:
    """Return the size of a record without its length field, in bytes."""
    size = np.int64(1) + varint_bytes(time_delta) + varint_bytes(offset_delta)
    size += _field_bytes(columns.keys_at, row, columns.key_nulls[row])
    size += _field_bytes(columns.values_at, row, columns.value_nulls[row])
    first, last = columns.headers_at[row], columns.headers_at[row + 1]
    size += varint_bytes(last - first)
    for number in range(first, last):
        size += _field_bytes(columns.header_keys_at, number, False)  # noqa: FBT003
        null = columns.header_value_nulls[number]
        size += _field_bytes(columns.header_values_at, number, null)
    return size


@kernel
def _put_record(
    out: Any, at: int, columns: Any, row: int, time_delta: int, offset_delta: int, body: int
) -> int:
    """Write one record and return the position after it."""
    at = put_varint(out, at, body)
    out[at] = np.uint8(0)
    at = put_varint(out, at + 1, time_delta)
    at = put_varint(out, at, offset_delta)
    at = _put_field(out, at, columns.keys, columns.keys_at, row, columns.key_nulls[row])
    at = _put_field(out, at, columns.values, columns.values_at, row, columns.value_nulls[row])
    first, last = columns.headers_at[row], columns.headers_at[row + 1]
    at = put_varint(out, at, last - first)
    for number in range(first, last):
        at = _put_field(out, at, columns.header_keys, columns.header_keys_at, number, False)  # noqa: FBT003
        null = columns.header_value_nulls[number]
        at = _put_field(out, at, columns.header_values, columns.header_values_at, number, null)
    return at


@kernel
def put_header(out: Any, at: int, end: int, batch: Any, rule: Any) -> None:
    """Write the header of the batch that ends at `end` to out[at:].

    Args:
        batch: its row of the table.
        rule: see `encode_batches`.
    """
    put_int(out, at, batch[BASE_OFFSET], 8)
    put_int(out, at + 8, end - at - LOG_OVERHEAD_BYTES, 4)
    put_int(out, at + 12, rule[1], 4)
    put_int(out, at + 16, np.int64(MAGIC), 1)
    put_int(out, at + 21, rule[2], 2)
    put_int(out, at + 23, batch[LAST_OFFSET] - batch[BASE_OFFSET], 4)
    put_int(out, at + 27, batch[BASE_TIMESTAMP], 8)
    put_int(out, at + 35, batch[MAX_TIMESTAMP], 8)
    put_int(out, at + 43, np.int64(-1), 8)
    put_int(out, at + 51, np.int64(-1), 2)
    put_int(out, at + 53, np.int64(-1), 4)
    put_int(out, at + 57, batch[COUNT], 4)
    put_int(out, at + 17, np.int64(span_crc32c(out, at + 21, end)), 4)


@kernel
def _close(out: Any, start: int, at: int, batch: Any, rule: Any) -> None:
    """Complete the batch at [start, at)."""
    batch[POSITION] = start
    batch[SIZE] = at - start
    if rule[3] >= 0:
        batch[MAX_TIMESTAMP] = rule[3]
    put_header(out, start, at, batch, rule)


@kernel
def encode_batches(columns: Any, rule: Any, last: int, out: Any, table: Any) -> Any:
    """Write all records as batches; return (rows used, batches).

    Args:
        columns: a `Columns`.
        rule: int64[4]: size limit of a batch with several records; leader epoch; attributes; the
            LogAppendTime, or -1.
        last: 1 if no more records follow; else the last batch is left to the next call.
        out: uint8[m], large enough for all: see RECORD_OVERHEAD and HEADER_OVERHEAD, plus a batch
            header for each record.
        table: int64[n, BATCH_CELLS], output: the batches.
    """
    rows = len(columns.timestamps)
    if rows == 0:
        return np.int64(0), np.int64(0)
    batches, start = np.int64(0), np.int64(0)
    at = np.int64(HEADER_BYTES)
    batch = table[0]
    batch[COUNT] = 0
    for row in range(rows):
        timestamp, offset = columns.timestamps[row], columns.offsets[row]
        if batch[COUNT] > 0:
            time_delta = timestamp - batch[BASE_TIMESTAMP]
            offset_delta = offset - batch[BASE_OFFSET]
            body = _body_bytes(columns, row, time_delta, offset_delta)
            size = at - start + varint_bytes(body) + body
            if size > rule[0] or offset_delta > INT32_MAX:
                _close(out, start, at, batch, rule)
                batches += 1
                start = at
                at = start + HEADER_BYTES
                batch = table[batches]
                batch[COUNT] = 0
        if batch[COUNT] == 0:
            batch[FIRST_ROW] = row
            batch[BASE_OFFSET] = offset
            batch[BASE_TIMESTAMP] = timestamp
            batch[MAX_TIMESTAMP] = timestamp
            time_delta, offset_delta = np.int64(0), np.int64(0)
            body = _body_bytes(columns, row, time_delta, offset_delta)
        at = _put_record(out, at, columns, row, time_delta, offset_delta, body)
        batch[COUNT] += 1
        batch[LAST_OFFSET] = offset
        batch[MAX_TIMESTAMP] = max(batch[MAX_TIMESTAMP], timestamp)
    if batch[COUNT] > 0 and last == 1:
        _close(out, start, at, batch, rule)
        batches += 1
        return np.int64(rows), batches
    return (batch[FIRST_ROW] if batch[COUNT] > 0 else np.int64(rows)), batches
