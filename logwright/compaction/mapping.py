"""First pass, the kernels: the records of a window of batches are read, and put or asked for in the
offset map.

1. Reading, each record that matters becomes hash, ordinal, offset and kind, in arrays.
2. Inserting or probing, the table's cache lines are asked for some records ahead.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from logwright.compaction.digest import (
    EXPIRED,
    KEYED,
    NULL_KEY,
    TOMBSTONE,
    keep_sums,
    note_batch,
    note_sharded,
    start_notes,
    sum_found,
    sum_probed,
)
from logwright.compaction.offset_map import (
    DISTINCT,
    FULL,
    LATEST,
    NULL_KEYS,
    OFFERED,
    PREFETCH_DISTANCE,
    SHARD_SPACE,
    find_slot,
    has_bit,
    prefetch_slot,
    set_bit,
)
from logwright.compaction.siphash import siphash128
from logwright.format.batch import CODEC_MASK, CONTROL, DELETE_HORIZON
from logwright.format.walk import OFFSET_DELTA, OK, TRAILING, read_record
from logwright.kernel import inline_kernel, kernel
from logwright.units import INT64_MAX

INSERT: Final = 0
PROBE: Final = 1
FLAG: Final = 2


@kernel
def _read_window(
    data: Any, scratch: Any, batches: Any, spans: Any, bounds: Any, key: Any, found: Any, notes: Any
) -> Any:
    """Read the records of `batches` into `found`; (records taken, row, status).

    bounds: int64[7]: first offset, end offset, now in ms, primary shard (1) or not (0), first and
    end of the shard, mode. Control batches have no keys; while inserting, `unmapped` batches are
    passed over, else the discarded. notes: see `map_window`; of a shard the sums are kept here,
    since `found` lacks what belongs to others.
    """
    starts = found[5]
    taken = np.int64(0)
    for row in range(len(batches)):
        batch = batches[row]
        source = scratch if batch.attributes & CODEC_MASK != 0 else data
        starts[row] = taken
        taken, status = _read_batch(
            source, spans[row, 0], spans[row, 1], batch, row, taken, bounds, key, found, notes
        )
        if status != OK:
            return taken, row, status
    starts[len(batches)] = taken
    return taken, len(batches), np.int64(OK)


@kernel
def _read_batch(
    source: Any,
    position: int,
    end: int,
    batch: Any,
    row: int,
    taken: int,
    bounds: Any,
    key: Any,
    found: Any,
    notes: Any,
) -> Any:
    """Read one batch, see `_read_window`; (records taken so far, status)."""
    hash1, hash2, ordinals, offsets, kinds, _ = found
    first_offset, end_offset, primary = bounds[0], bounds[1], bounds[3] == 1
    shard_start, shard_end = np.uint64(bounds[4]), np.uint64(bounds[5])
    is_sharded = bounds[4] > 0 or bounds[5] < SHARD_SPACE
    passed_over, expires = _rule(batch, bounds[6], bounds[2])
    delta_limit = batch.last_offset - batch.base_offset
    last_delta = np.int64(-1)
    tombstones, first_delta = np.int64(0), np.int64(INT64_MAX)
    for index in range(batch.count):
        position, _, time_delta, _, delta, at, length, value_length = read_record(
            source, position, end
        )
        if position < 0:
            return taken, position
        if delta <= last_delta or delta > delta_limit:
            return taken, np.int64(OFFSET_DELTA)
        last_delta = delta
        offset = batch.base_offset + delta
        first_delta = min(first_delta, time_delta)
        if value_length < 0:
            tombstones += 1
        if passed_over or offset < first_offset or offset >= end_offset:
            continue
        ordinals[taken], offsets[taken] = batch.first_ordinal + index, offset
        if length < 0:
            if primary:
                kinds[taken] = NULL_KEY
                taken += 1
            continue
        one, two = siphash128(source, at, length, key[0], key[1])
        if is_sharded:
            note_sharded(notes, row, (one, two, ordinals[taken]), value_length < 0)
        part = two >> np.uint64(32)
        elsewhere = part < shard_start or part >= shard_end
        if elsewhere and not (primary and expires and value_length < 0):
            continue
        hash1[taken], hash2[taken], kinds[taken] = one, two, KEYED
        if value_length < 0:
            kinds[taken] = EXPIRED if expires else TOMBSTONE
        taken += 1
    note_batch(batch, tombstones, first_delta)
    return taken, np.int64(OK) if position == end else np.int64(TRAILING)


@inline_kernel
def _rule(batch: Any, mode: int, now_ms: int) -> Any:
    """(whether a batch is passed over, whether its tombstones may go)."""
    chosen = batch.unmapped if mode == INSERT else batch.discard
    passed_over = chosen or batch.attributes & CONTROL != 0
    expires = batch.attributes & DELETE_HORIZON != 0 and now_ms >= batch.base_timestamp
    return passed_over, expires


@kernel
def _insert(table: Any, found: Any, taken: int, limits: Any, bits: Any, counters: Any) -> Any:
    """Put the records of a window; the index of the one at which the map was full, else `taken`.

    limits: int64[4]: capacity, 1 if the map ends when it is full, first and end of the shard.
    """
    hash1, hash2, ordinals, offsets, kinds, _ = found
    dead, expired = bits
    capacity, ends_when_full = limits[0], limits[1] == 1
    shard_start, shard_end = np.uint64(limits[2]), np.uint64(limits[3])
    for index in range(taken):
        ahead = index + PREFETCH_DISTANCE
        if ahead < taken:
            prefetch_slot(table, hash1[ahead])
        ordinal = ordinals[index]
        if kinds[index] == NULL_KEY:
            if not has_bit(dead, ordinal):
                set_bit(dead, ordinal)
                counters[NULL_KEYS] += 1
            continue
        if ends_when_full and counters[DISTINCT] >= capacity:
            return index
        if kinds[index] == EXPIRED:
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
    hash1, hash2, ordinals, _, kinds, _ = found
    dead, expired = bits
    shard_start, shard_end = np.uint64(shard[0]), np.uint64(shard[1])
    for index in range(taken):
        ahead = index + PREFETCH_DISTANCE
        if ahead < taken:
            prefetch_slot(table, hash1[ahead])
        ordinal = ordinals[index]
        if kinds[index] == NULL_KEY:
            if not has_bit(dead, ordinal):
                set_bit(dead, ordinal)
                counters[NULL_KEYS] += 1
            continue
        if kinds[index] == EXPIRED:
            set_bit(expired, ordinal)
            part = hash2[index] >> np.uint64(32)
            if part < shard_start or part >= shard_end:
                continue
        at = find_slot(table, hash1[index], hash2[index])
        if np.int64(table[at + 2]) - 1 > ordinal:
            set_bit(dead, ordinal)


@kernel
def _room(batches: Any) -> Any:
    """Arrays for what is read of a window: hashes, ordinals, offsets, kinds, and where each batch's
    records begin among them, and the last one's end.
    """
    total = np.int64(0)
    for row in range(len(batches)):
        total += batches[row].count
    return (
        np.empty(total, dtype=np.uint64),
        np.empty(total, dtype=np.uint64),
        np.empty(total, dtype=np.int64),
        np.empty(total, dtype=np.int64),
        np.empty(total, dtype=np.uint8),
        np.empty(len(batches) + 1, dtype=np.int64),
    )


@kernel
def map_window(
    data: Any,
    scratch: Any,
    batches: Any,
    spans: Any,
    bounds: Any,
    limits: Any,
    table: Any,
    key: Any,
    bits: Any,
    counters: Any,
    notes: Any,
    totals: Any,
) -> Any:
    """Read and map one window of batches; (row, status), status `OK` or what `raise_for_status`
    takes.

    Args:
        data, scratch: uint8 arrays: the segment, and the window's decompressed records.
        batches: BATCH[rows]; what they tell of their records is set here.
        spans: int64[rows, 2]: where each batch's records lie, in `scratch` if it is compressed.
        bounds: int64[7], see `_read_window`. The end offset bounds what may be mapped at all.
        limits: int64[2]: capacity, 1 if the map ends when it is full.
        table, key, counters: of the MapState; counters[FULL] becomes 1 when a record had no room.
            counters[LATEST] is set to the end of each batch that was mapped whole.
        bits: the bitmaps (dead, expired), one bit per ordinal.
        notes: (mask, sample, sampled, sums) of `digest.Notes`; all but the mask is started anew.
        totals: of `digest.Notes`, to which a probed window is added.
    """
    counters[FULL] = 0
    found = _room(batches)
    start_notes(notes, len(batches))
    taken, row, status = _read_window(data, scratch, batches, spans, bounds, key, found, notes)
    if status != OK:
        return row, status
    if bounds[4] == 0 and bounds[5] == SHARD_SPACE:
        sum_found(found, taken, notes)
    mode, shard = bounds[6], bounds[4:6]
    if mode == PROBE:
        _probe(table, found, taken, shard, bits, counters)
        sum_probed(table, batches, found, taken, bounds, notes[0], totals)
    elif mode == INSERT:
        insert_limits = np.empty(4, dtype=np.int64)
        insert_limits[0:2] = limits
        insert_limits[2:4] = shard
        stopped = _insert(table, found, taken, insert_limits, bits, counters)
        if stopped < taken:
            counters[FULL] = 1
            if limits[1] == 0:
                return 0, np.int64(OK)
            counters[OFFERED] += stopped
            return _end_map(batches, found, stopped, bits[0], counters, notes), np.int64(OK)
        counters[OFFERED] += taken
        for row in range(len(batches)):
            if batches[row].last_offset >= bounds[0]:
                counters[LATEST] = batches[row].last_offset
    if bounds[3] == 1:
        keep_sums(batches, notes)
    return len(batches), np.int64(OK)


@kernel
def _end_map(batches: Any, found: Any, stopped: int, dead: Any, counters: Any, notes: Any) -> Any:
    """The map ends before record `stopped`: find its row, and take back what lies beyond the latest
    offset.
    """
    start_notes(notes, len(batches))
    sum_found(found, stopped, notes)
    keep_sums(batches, notes)
    _, _, ordinals, offsets, kinds, _ = found
    row = 0
    while batches[row].last_offset < offsets[stopped]:
        row += 1
    if row > 0:
        counters[LATEST] = max(counters[LATEST], batches[row - 1].last_offset)
    index = stopped - 1
    while index >= 0 and kinds[index] == NULL_KEY and offsets[index] > counters[LATEST]:
        dead[ordinals[index] >> 3] &= ~np.uint8(1 << (ordinals[index] & 7))
        counters[NULL_KEYS] -= 1
        index -= 1
    return row
