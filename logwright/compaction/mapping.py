"""First pass, the kernels: batches are checked, decompressed and read, and their records put or
asked for in the offset map.

1. Reading, each record that matters becomes hash, ordinal, offset and kind, in arrays that stay in
   the CPU's cache, as does the one batch that is decompressed.
2. Inserting or probing, the table's cache lines are asked for some records ahead.
3. What a kernel cannot do (`SCRATCH_FULL`, `NOT_UNPACKED`, `MANY_RECORDS`), the caller does, and
   calls it again.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from logwright.compaction.offset_map import (
    DISTINCT,
    FULL,
    LATEST,
    NULL_KEYS,
    OFFERED,
    PREFETCH_DISTANCE,
    find_slot,
    has_bit,
    prefetch_slot,
    set_bit,
)
from logwright.compaction.siphash import siphash128
from logwright.compaction.unpacking import NO_ROOM, NOT_GIVEN, is_packed, unpack_batch
from logwright.format.batch import CONTROL, DELETE_HORIZON, HEADER_BYTES
from logwright.format.scan import has_right_crc
from logwright.format.walk import OFFSET_DELTA, OK, TRAILING, read_record
from logwright.kernel import kernel

INSERT: Final = 0
PROBE: Final = 1
FLAG: Final = 2


# What else `map_batches` may say, beside the statuses of `logwright.format.walk`.
WRONG_CRC: Final = 1
SCRATCH_FULL: Final = 2
"""The scratch memory is to be enlarged."""
NOT_UNPACKED: Final = 3
"""The caller is to decompress the batch."""
MANY_RECORDS: Final = 4
"""The room for records is too small for one batch."""

FOUND_RECORDS: Final = 8 * 1024
"""So many are read before they are mapped."""
_NO_LIMIT = np.int64(1) << np.int64(62)

_KEYED = np.uint8(0)
_NULL_KEY = np.uint8(1)
_EXPIRED = np.uint8(2)

Found = tuple[
    NDArray[np.uint64],
    NDArray[np.uint64],
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.uint8],
]


def room_for_records(count: int) -> Found:
    """Arrays for hash (two), ordinal, offset and kind of so many records."""
    return (
        np.empty(count, dtype=np.uint64),
        np.empty(count, dtype=np.uint64),
        np.empty(count, dtype=np.int64),
        np.empty(count, dtype=np.int64),
        np.empty(count, dtype=np.uint8),
    )


@kernel
def _find_records(data: Any, batch: Any, given: int, scratch: Any, cells: Any) -> Any:
    """(where the records of a batch begin, end, status), in `scratch` if it is compressed."""
    start, end = batch.position + HEADER_BYTES, batch.position + batch.size
    if not is_packed(batch):
        return start, end, np.int64(OK)
    if given >= 0:
        return np.int64(0), np.int64(given), np.int64(OK)
    found = unpack_batch(data, batch, scratch, np.int64(0), _NO_LIMIT, cells)
    if found < 0:
        return start, end, np.int64(SCRATCH_FULL if found == NO_ROOM else NOT_UNPACKED)
    return np.int64(0), found, np.int64(OK)


@kernel
def _read_batches(
    data: Any,
    batches: Any,
    rows: Any,
    given: int,
    bounds: Any,
    key: Any,
    found: Any,
    scratch: Any,
    cells: Any,
) -> Any:
    """Read the records of the batches [rows[0], rows[1]) into `found` until it is full; (row,
    records taken, status).
    """
    room = len(found[0])
    taken = np.int64(0)
    for row in range(rows[0], rows[1]):
        batch = batches[row]
        if taken + batch.count > room:
            return row, taken, np.int64(OK if taken > 0 else MANY_RECORDS)
        if not has_right_crc(data, batch):
            return row, taken, np.int64(WRONG_CRC)
        loaded = np.int64(given if row == rows[0] else NOT_GIVEN)
        start, end, status = _find_records(data, batch, loaded, scratch, cells)
        if status != OK:
            return row, taken, status
        source = scratch if is_packed(batch) else data
        taken, status = _read_records(source, start, end, batch, bounds, key, found, taken)
        if status != OK:
            return row, taken, status
    return np.int64(rows[1]), taken, np.int64(OK)


@kernel
def _read_records(
    source: Any, start: int, end: int, batch: Any, bounds: Any, key: Any, found: Any, taken: int
) -> Any:
    """Read the records of one batch, which lie in source[start:end]; (records taken, status).

    Control batches have no keys; while inserting, `unmapped` batches are passed over, else the
    discarded.
    """
    hash1, hash2, ordinals, offsets, kinds = found
    first_offset, end_offset, now_ms = bounds[0], bounds[1], bounds[2]
    primary = bounds[3] == 1
    shard_start, shard_end = np.uint64(bounds[4]), np.uint64(bounds[5])
    chosen = batch.unmapped if bounds[6] == INSERT else batch.discard
    passed_over = chosen or batch.attributes & CONTROL != 0
    expires = batch.attributes & DELETE_HORIZON != 0 and now_ms >= batch.base_timestamp
    base_offset, first_ordinal = batch.base_offset, batch.first_ordinal
    delta_limit = batch.last_offset - base_offset
    last_delta = np.int64(-1)
    has_tombstone = False
    position = np.int64(start)
    for index in range(np.int64(batch.count)):
        position, _, _, _, delta, at, length, value_length = read_record(source, position, end)
        if position < 0:
            return taken, position
        if delta <= last_delta or delta > delta_limit:
            return taken, np.int64(OFFSET_DELTA)
        last_delta = delta
        offset = base_offset + delta
        has_tombstone |= value_length < 0
        if passed_over or offset < first_offset or offset >= end_offset:
            continue
        ordinals[taken] = first_ordinal + index
        offsets[taken] = offset
        if length < 0:
            if primary:
                kinds[taken] = _NULL_KEY
                taken += 1
            continue
        one, two = siphash128(source, at, length, key[0], key[1])
        part = two >> np.uint64(32)
        elsewhere = part < shard_start or part >= shard_end
        if elsewhere and not (primary and expires and value_length < 0):
            continue
        hash1[taken], hash2[taken] = one, two
        kinds[taken] = _EXPIRED if expires and value_length < 0 else _KEYED
        taken += 1
    if has_tombstone:
        batch.has_tombstone = True
    return taken, np.int64(OK if position == end else TRAILING)


@kernel
def _insert(table: Any, found: Any, taken: int, limits: Any, bits: Any, counters: Any) -> Any:
    """Put the records of a window; the index of the one at which the map was full, else `taken`.

    limits: int64[4]: capacity, 1 if the map ends when it is full, first and end of the shard.
    """
    hash1, hash2, ordinals, offsets, kinds = found
    dead, expired = bits
    capacity, ends_when_full = limits[0], limits[1] == 1
    shard_start, shard_end = np.uint64(limits[2]), np.uint64(limits[3])
    for index in range(taken):
        ahead = index + PREFETCH_DISTANCE
        if ahead < taken:
            prefetch_slot(table, hash1[ahead])
        ordinal = ordinals[index]
        if kinds[index] == _NULL_KEY:
            if not has_bit(dead, ordinal):
                set_bit(dead, ordinal)
                counters[NULL_KEYS] += 1
            continue
        if ends_when_full and counters[DISTINCT] >= capacity:
            return index
        if kinds[index] == _EXPIRED:
            set_bit(expired, ordinal)
            part = hash2[index] >> np.uint64(32)
            if part < shard_start or part >= shard_end:
                continue
        at = find_slot(table, hash1[index], hash2[index])
        entry = np.int64(table[at + 2]) - 1
        if entry < 0:
            if counters[DISTINCT] >= capacity:
                return index
            table[at] = hash1[index]
            table[at + 1] = hash2[index]
            table[at + 2] = np.uint64(ordinal + 1)
            counters[DISTINCT] += 1
        elif entry < ordinal:
            set_bit(dead, entry)
            table[at + 2] = np.uint64(ordinal + 1)
        elif entry > ordinal:
            set_bit(dead, ordinal)
        counters[LATEST] = offsets[index]
    return taken


@kernel
def _probe(table: Any, found: Any, taken: int, shard: Any, bits: Any, counters: Any) -> None:
    """Mark the records of a window that the map supersedes."""
    hash1, hash2, ordinals, _, kinds = found
    dead, expired = bits
    shard_start, shard_end = np.uint64(shard[0]), np.uint64(shard[1])
    for index in range(taken):
        ahead = index + PREFETCH_DISTANCE
        if ahead < taken:
            prefetch_slot(table, hash1[ahead])
        ordinal = ordinals[index]
        if kinds[index] == _NULL_KEY:
            if not has_bit(dead, ordinal):
                set_bit(dead, ordinal)
                counters[NULL_KEYS] += 1
            continue
        if kinds[index] == _EXPIRED:
            set_bit(expired, ordinal)
            part = hash2[index] >> np.uint64(32)
            if part < shard_start or part >= shard_end:
                continue
        at = find_slot(table, hash1[index], hash2[index])
        if np.int64(table[at + 2]) - 1 > ordinal:
            set_bit(dead, ordinal)


@kernel
def _put(
    batches: Any,
    rows: Any,
    taken: int,
    bounds: Any,
    limits: Any,
    table: Any,
    found: Any,
    bits: Any,
    counters: Any,
) -> Any:
    """Map the records taken of the batches [rows[0], rows[1]); the row from which on the map was
    full, else rows[1].
    """
    mode = bounds[6]
    shard = bounds[4:6]
    if mode == PROBE:
        _probe(table, found, taken, shard, bits, counters)
    elif mode == INSERT:
        insert_limits = np.empty(4, dtype=np.int64)
        insert_limits[0:2] = limits
        insert_limits[2:4] = shard
        stopped = _insert(table, found, taken, insert_limits, bits, counters)
        if stopped < taken:
            counters[FULL] = 1
            if limits[1] == 0:
                return rows[0]
            counters[OFFERED] += stopped
            return _end_map(batches, rows[0], found, stopped, bits[0], counters)
        counters[OFFERED] += taken
        for row in range(rows[0], rows[1]):
            if batches[row].last_offset >= bounds[0]:
                counters[LATEST] = batches[row].last_offset
    return rows[1]


@kernel
def map_batches(
    data: Any,
    batches: Any,
    rows: Any,
    given: int,
    bounds: Any,
    limits: Any,
    table: Any,
    key: Any,
    bits: Any,
    counters: Any,
    found: Any,
    scratch: Any,
    cells: Any,
) -> Any:
    """Check, decompress, read and map the batches [rows[0], rows[1]); (row, status).

    The status is `OK` at the end, or where the map was full; else it says what is to be done about
    that row before the call is repeated from there, or what is wrong with it.

    Args:
        data: uint8 array: the segment.
        batches: BATCH[n], all of the segment; `has_tombstone` is set here.
        given: bytes of the first row's records that `scratch` holds already, else `NOT_GIVEN`.
        bounds: int64[7]: first offset, end offset, now in ms, primary shard (1) or not (0), first
            and end of the shard, mode. The end offset bounds what may be mapped at all.
        limits: int64[2]: capacity, 1 if the map ends when it is full.
        table, key, counters: of the MapState; counters[FULL] becomes 1 when a record had no room.
            counters[LATEST] is set to the end of each batch that was mapped whole.
        bits: the bitmaps (dead, expired), one bit per ordinal.
        found: of `room_for_records`. scratch, cells: of the Workspace.
    """
    counters[FULL] = 0
    row, end = np.int64(rows[0]), np.int64(rows[1])
    status = np.int64(OK)
    while row < end and status == OK:
        stop, taken, status = _read_batches(
            data, batches, (row, end), given, bounds, key, found, scratch, cells
        )
        given = NOT_GIVEN
        row = _put(batches, (row, stop), taken, bounds, limits, table, found, bits, counters)
        if row < stop or counters[FULL] == 1:
            return row, np.int64(OK)
    return row, status


@kernel
def _end_map(batches: Any, first: int, found: Any, stopped: int, dead: Any, counters: Any) -> Any:
    """The map ends before record `stopped`: find its row, and take back what lies beyond the latest
    offset.
    """
    _, _, ordinals, offsets, kinds = found
    row = first
    while batches[row].last_offset < offsets[stopped]:
        row += 1
    if row > first:
        counters[LATEST] = max(counters[LATEST], batches[row - 1].last_offset)
    index = stopped - 1
    while index >= 0 and kinds[index] == _NULL_KEY and offsets[index] > counters[LATEST]:
        dead[ordinals[index] >> 3] &= ~np.uint8(1 << (ordinals[index] & 7))
        counters[NULL_KEYS] -= 1
        index -= 1
    return row
