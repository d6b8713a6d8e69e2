"""Second pass, one batch: keep, drop or rebuild it (Cleaner.cleanInto and MemoryRecords.filterTo,
Kafka 4.3.0).

A batch all of whose records survive keeps its bytes. One that loses some is rebuilt: base and last
offset, producer fields and codec stay; the base timestamp becomes the first kept record's, or the
delete horizon where a tombstone is kept (KIP-534); the records' timestamp deltas follow it.
Everything else of a record is copied as it is.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from logwright.compaction.keys.offset_map import has_bit
from logwright.format.batch import (
    CODEC_MASK,
    DELETE_HORIZON,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD_BYTES,
)
from logwright.format.crc import copy_span, span_crc32c
from logwright.format.emit import put_int, put_varint, varint_bytes
from logwright.format.walk import read_varint, read_varlong
from logwright.kernel import inline_kernel, kernel

KEPT: Final = 0
HAS_TOMBSTONE: Final = 1
BASE_TIMESTAMP: Final = 2
MAX_TIMESTAMP: Final = 3
SETS_HORIZON: Final = 4
SUMMARY_FIELDS: Final = 5

# The columns of the list of a batch's records that stay, int64[room, KEPT_FIELDS].
TIMESTAMP: Final = 0
"""In ms since the epoch."""
REST: Final = 1
"""Where what follows its timestamp delta begins."""
STOP: Final = 2
"""Where the record ends."""
KEPT_FIELDS: Final = 3


@inline_kernel
def copy_bytes(out: Any, at: int, source: Any, start: int, end: int) -> int:
    """Copy source[start:end] to out[at:]; the position after it."""
    length = np.int64(end) - np.int64(start)
    if length > 0:
        copy_span(out, at, source, start, length)
    return at + length


@inline_kernel
def _step_over(source: Any, at: int, end: int) -> int:
    """Position behind a dead record: of it nothing but the length is read."""
    length, body = read_varint(source, at, end)
    return body + length if body >= 0 and 0 <= length <= end - body else np.int64(end)


@inline_kernel
def _read_kept(source: Any, at: int, end: int) -> Any:
    """(position behind a record, timestamp delta, position after it, value length).

    The first pass has checked the record; what is malformed now all the same ends the batch.
    """
    length, body = read_varint(source, at, end)
    if body < 0 or length < 1 or length > end - body:
        return np.int64(end), np.int64(0), np.int64(end), np.int64(0)
    stop = body + length
    delta, rest = read_varlong(source, body + 1, stop)
    _, position = read_varint(source, rest, stop)
    key_length, position = read_varint(source, position, stop)
    value_length, position = read_varint(source, position + max(key_length, np.int64(0)), stop)
    return stop, delta, rest if min(rest, position) >= 0 else stop, value_length


@kernel
def summarise(
    source: Any, span: Any, batch: Any, dead: Any, horizon_ms: int, summary: Any, kept: Any
) -> None:
    """What rebuilding this batch would make of it.

    Args:
        source: uint8[n] that holds the records, uncompressed, in the span (start, end).
        batch: its BATCH row. dead: bitmap by ordinal.
        horizon_ms: delete horizon that a kept tombstone's or empty transaction's batch gets if it
            has none.
        summary: int64[SUMMARY_FIELDS], set: records kept, 1 if one is a tombstone, new base
            timestamp, new max timestamp, 1 if a horizon is set.
        kept: int64[room, KEPT_FIELDS], set: the list of these records, with room for all of the
            batch.
    """
    summary[:] = 0
    append_time = batch.attributes & LOG_APPEND_TIME != 0
    has_horizon = batch.attributes & DELETE_HORIZON != 0
    largest, shortest = np.int64(-1), np.int64(0)
    count = np.int64(0)
    position, end = span
    for index in range(np.int64(batch.count)):
        if has_bit(dead, batch.first_ordinal + index):
            position = _step_over(source, position, end)
            continue
        position, delta, rest, value_length = _read_kept(source, position, end)
        timestamp = batch.max_timestamp if append_time else batch.base_timestamp + delta
        kept[count, TIMESTAMP], kept[count, REST], kept[count, STOP] = timestamp, rest, position
        largest, shortest = max(largest, timestamp), min(shortest, value_length)
        count += 1
    summary[KEPT] = count
    summary[HAS_TOMBSTONE] = shortest < 0
    summary[MAX_TIMESTAMP] = batch.max_timestamp if append_time else largest
    summary[BASE_TIMESTAMP] = kept[0, TIMESTAMP] if count > 0 else -1
    if has_horizon:
        summary[BASE_TIMESTAMP] = batch.base_timestamp
    elif summary[HAS_TOMBSTONE] == 1 or batch.empty_marker:
        summary[BASE_TIMESTAMP] = horizon_ms
        summary[SETS_HORIZON] = 1


@kernel
def write_records(out: Any, at: int, source: Any, summary: Any, kept: Any) -> int:
    """Write the kept records, uncompressed, to out[at:]; the position after them.

    `out` must have room for 9 bytes a record more than the source has (a longer delta, a longer
    length).
    """
    for row in range(summary[KEPT]):
        rest, stop = kept[row, REST], kept[row, STOP]
        delta = kept[row, TIMESTAMP] - summary[BASE_TIMESTAMP]
        at = put_varint(out, at, 1 + varint_bytes(delta) + stop - rest)
        out[at] = np.uint8(0)
        at = put_varint(out, at + 1, delta)
        at = copy_bytes(out, at, source, rest, stop)
    return at


@kernel
def finish_batch(out: Any, at: int, end: int, data: Any, batch: Any, summary: Any) -> None:
    """Write the header of a rebuilt batch at out[at:], whose records end at `end`, and its CRC."""
    copy_bytes(out, at, data, batch.position, batch.position + HEADER_BYTES)
    attributes = np.int64(batch.attributes)
    if summary[SETS_HORIZON] == 1:
        attributes |= DELETE_HORIZON
    base_timestamp = summary[BASE_TIMESTAMP]
    max_timestamp = summary[MAX_TIMESTAMP]
    if summary[KEPT] == 0:
        attributes &= ~np.int64(CODEC_MASK | DELETE_HORIZON)
        base_timestamp = np.int64(-1)
        max_timestamp = np.int64(batch.max_timestamp)
    put_int(out, at + 8, end - at - LOG_OVERHEAD_BYTES, 4)
    put_int(out, at + 21, attributes & np.int64(0xFF), 2)
    put_int(out, at + 27, base_timestamp, 8)
    put_int(out, at + 35, max_timestamp, 8)
    put_int(out, at + 57, summary[KEPT], 4)
    put_int(out, at + 17, np.int64(span_crc32c(out, at + 21, end)), 4)
