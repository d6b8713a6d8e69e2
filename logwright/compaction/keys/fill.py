"""First pass, mapping: the records that `reading` found are put or asked for in the offset map.

1. Inserting or probing, the table's cache lines are asked for some records ahead.
2. What a kernel cannot do (`SCRATCH_FULL`, `NOT_UNPACKED`, `MANY_RECORDS`), the caller does, and
   calls it again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from logwright.compaction.keys.offset_map import (
    DISTINCT,
    FULL,
    LATEST,
    NULL_KEYS,
    OFFERED,
    PREFETCH_DISTANCE,
    find_slot,
    has_bit,
    ordinal_at,
    prefetch_slot,
    put_entry,
    set_bit,
)
from logwright.compaction.keys.read import INSERT, PROBE, is_sharded, read_batches
from logwright.compaction.receipt import keep_sums, sum_found, sum_probed
from logwright.compaction.rules import EXPIRED, NULL_KEY, is_above_map, is_superseded
from logwright.compaction.unpack import NOT_GIVEN
from logwright.format.walk import OK
from logwright.kernel import inline_kernel, kernel


@inline_kernel
def _drop_null_key(dead: Any, ordinal: int, counters: Any) -> None:
    """A record without a key is dead, and counted once."""
    if not has_bit(dead, ordinal):
        set_bit(dead, ordinal)
        counters[NULL_KEYS] += 1


@kernel
def _insert(
    table: Any, found: Any, taken: int, limits: Any, shard: Any, bits: Any, counters: Any
) -> Any:
    """Put the records of a window; the index of the one at which the map was full, else `taken`.

    limits: int64[2]: capacity, 1 if the map ends when it is full. shard: int64[2]: first and end.
    """
    hash1, hash2, ordinals, offsets, kinds, _ = found
    dead, expired = bits
    capacity, ends_when_full = limits[0], limits[1] == 1
    shard_start, shard_end = np.uint64(shard[0]), np.uint64(shard[1])
    for index in range(taken):
        ahead = index + PREFETCH_DISTANCE
        if ahead < taken:
            prefetch_slot(table, hash2[ahead])
        ordinal = ordinals[index]
        if kinds[index] == NULL_KEY:
            _drop_null_key(dead, ordinal, counters)
            continue
        if ends_when_full and counters[DISTINCT] >= capacity:
            return index
        if kinds[index] == EXPIRED:
            set_bit(expired, ordinal)
            part = hash1[index] >> np.uint64(32)
            if part < shard_start or part >= shard_end:
                continue
        at = find_slot(table, hash1[index], hash2[index])
        latest = ordinal_at(table, at)
        if latest < 0:
            if counters[DISTINCT] >= capacity:
                return index
            put_entry(table, at, hash1[index], hash2[index], ordinal)
            counters[DISTINCT] += 1
        elif is_superseded(ordinal, latest):
            set_bit(dead, ordinal)
        elif is_superseded(latest, ordinal):
            set_bit(dead, latest)
            put_entry(table, at, hash1[index], hash2[index], ordinal)
        counters[LATEST] = offsets[index]
    return taken


@kernel
def _probe(table: Any, found: Any, taken: int, shard: Any, bits: Any, counters: Any) -> None:
    """Mark the records of a window that the map supersedes."""
    hash1, hash2, ordinals, _, kinds, _ = found
    dead, expired = bits
    shard_start, shard_end = np.uint64(shard[0]), np.uint64(shard[1])
    for index in range(taken):
        ahead = index + PREFETCH_DISTANCE
        if ahead < taken:
            prefetch_slot(table, hash2[ahead])
        ordinal = ordinals[index]
        if kinds[index] == NULL_KEY:
            _drop_null_key(dead, ordinal, counters)
            continue
        if kinds[index] == EXPIRED:
            set_bit(expired, ordinal)
            part = hash1[index] >> np.uint64(32)
            if part < shard_start or part >= shard_end:
                continue
        at = find_slot(table, hash1[index], hash2[index])
        if is_superseded(ordinal, ordinal_at(table, at)):
            set_bit(dead, ordinal)


@kernel
def put_window(
    batches: Any,
    rows: Any,
    taken: int,
    bounds: Any,
    limits: Any,
    table: Any,
    found: Any,
    bits: Any,
    counters: Any,
    told: Any,
    totals: Any,
) -> Any:
    """Map the records taken of the batches [rows[0], rows[1]); the row from which on the map was
    full, else rows[1]. What they tell is kept of those that were mapped.
    """
    starts, sums, notes, _ = told
    first, mode, shard = rows[0], bounds[6], bounds[4:6]
    chunk, sums = batches[first : rows[1]], sums[: rows[1] - first]
    if mode == PROBE:
        _probe(table, found, taken, shard, bits, counters)
        sum_probed(table, chunk, found, taken, bounds, notes[0], totals)
    elif mode == INSERT:
        stopped = _insert(table, found, taken, limits, shard, bits, counters)
        if stopped < taken:
            counters[FULL] = 1
            if limits[1] == 0:
                return first
            counters[OFFERED] += stopped
            sum_found(found, starts, stopped, sums, notes)
            keep_sums(chunk, sums)
            return _end_map(batches, first, found, stopped, bits[0], counters)
        counters[OFFERED] += taken
        for row in range(first, rows[1]):
            if batches[row].last_offset >= bounds[0]:
                counters[LATEST] = batches[row].last_offset
    if bounds[3] == 1:
        if not is_sharded(bounds):
            sum_found(found, starts, taken, sums, notes)
        keep_sums(chunk, sums)
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
    notes: Any,
    totals: Any,
    sums_room: Any,
) -> Any:
    """Check, decompress, read and map the batches [rows[0], rows[1]); (row, status).

    The status is `OK` at the end, or where the map was full; else it says what is to be done about
    that row before the call is repeated from there, or what is wrong with it.

    Args:
        data: uint8 array: the segment.
        batches: BATCH[n], all of the segment; what they tell of their records is set here.
        given: bytes of the first row's records that `scratch` holds already, else `NOT_GIVEN`.
        bounds: int64[7]: first offset, end offset, now in ms, primary shard (1) or not (0), first
            and end of the shard, mode. The end offset bounds what may be mapped at all.
        limits: int64[2]: capacity, 1 if the map ends when it is full.
        table, key, counters: of the MapState; counters[FULL] becomes 1 when a record had no room.
            counters[LATEST] is set to the end of each batch that was mapped whole.
        bits: the bitmaps (dead, expired), one bit per ordinal.
        found: of `room_for_records`. scratch, cells: of the Workspace.
        notes: (mask, sample, sampled) of `digest.Notes`, whose sample has room for all records of
            the batches. totals: of `digest.Notes`, to which what is probed is added.
        sums_room: of `room_for_sums`.
    """
    counters[FULL] = 0
    row, end = np.int64(rows[0]), np.int64(rows[1])
    status = np.int64(OK)
    starts, sums, spans = sums_room
    told = (starts, sums, notes, spans)
    while row < end and status == OK:
        sums[:] = np.uint64(0)
        sampled = notes[2][0]
        stop, taken, status = read_batches(
            data, batches, (row, end), given, bounds, key, found, scratch, cells, told
        )
        starts[stop - row] = taken
        given = NOT_GIVEN
        row = put_window(
            batches, (row, stop), taken, bounds, limits, table, found, bits, counters, told, totals
        )
        if counters[FULL] == 1:
            if limits[1] == 0:
                notes[2][0] = sampled
            return row, np.int64(OK)
    return row, status


@kernel
def _end_map(batches: Any, first: int, found: Any, stopped: int, dead: Any, counters: Any) -> Any:
    """The map ends before record `stopped`: find its row, and take back what lies beyond the latest
    offset.
    """
    _, _, ordinals, offsets, kinds, _ = found
    row = first
    while batches[row].last_offset < offsets[stopped]:
        row += 1
    if row > first:
        counters[LATEST] = max(counters[LATEST], batches[row - 1].last_offset)
    index = stopped - 1
    while (
        index >= 0 and kinds[index] == NULL_KEY and is_above_map(offsets[index], counters[LATEST])
    ):
        dead[ordinals[index] >> 3] &= ~np.uint8(1 << (ordinals[index] & 7))
        counters[NULL_KEYS] -= 1
        index -= 1
    return row
