"""First pass, the offset map: what `read` found of a window is inserted or looked up.

The table's cache lines are requested some records ahead.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.batches.bitmap import has_bit, set_bit
from logwright.cleaner_rules import EXPIRED, NULL_KEY, is_above_map, is_superseded
from logwright.kernel import inline_kernel, kernel
from logwright.keys.offset_map import (
    PREFETCH_DISTANCE,
    Table,
    find_slot,
    ordinal_at,
    prefetch_slot,
    put_entry,
)
from logwright.keys.read import INSERT, PROBE, is_sharded
from logwright.keys.receipt import keep_sums, sum_found, sum_probed


class OffsetMap(NamedTuple):
    """The offset map and the bitmaps, as the kernels change them.

    Attributes:
        dead, expired: uint8[(records + 7) / 8], one bit for each ordinal.
        counters: COUNTERS[1].
        capacity: keys that the table takes.
        ends_when_full: the map ends where it is full, as Kafka's.
    """

    table: Table
    dead: NDArray[np.uint8]
    expired: NDArray[np.uint8]
    counters: NDArray[np.void]
    capacity: int
    ends_when_full: bool


@inline_kernel
def _drop_null_key(dead: Any, ordinal: int, counters: Any) -> None:
    """Mark a record without a key as dead, and count it once."""
    if not has_bit(dead, ordinal):
        set_bit(dead, ordinal)
        counters.null_keys += 1


@kernel
def _insert(records: Any, taken: int, scope: Any, map_: Any) -> Any:
    """Insert the records of a window; return the index of the one that found the map full, else
    `taken`.
    """
    hash1, hash2, ordinals = records.hash1, records.hash2, records.ordinals
    offsets, kinds = records.offsets, records.kinds
    table, dead, expired, counters = map_.table, map_.dead, map_.expired, map_.counters[0]
    capacity, ends_when_full = map_.capacity, map_.ends_when_full
    shard_start, shard_end = np.uint64(scope.shard_start), np.uint64(scope.shard_end)
    for index in range(taken):
        ahead = index + PREFETCH_DISTANCE
        if ahead < taken:
            prefetch_slot(table, hash2[ahead])
        ordinal = ordinals[index]
        if kinds[index] == NULL_KEY:
            _drop_null_key(dead, ordinal, counters)
            continue
        if ends_when_full and counters.distinct >= capacity:
            return index
        if kinds[index] == EXPIRED:
            set_bit(expired, ordinal)
            part = hash1[index] >> np.uint64(32)
            if part < shard_start or part >= shard_end:
                continue
        at = find_slot(table, hash1[index], hash2[index])
        latest = ordinal_at(table, at)
        if latest < 0:
            if counters.distinct >= capacity:
                return index
            put_entry(table, at, hash1[index], hash2[index], ordinal)
            counters.distinct += 1
        elif is_superseded(ordinal, latest):
            set_bit(dead, ordinal)
        elif is_superseded(latest, ordinal):
            set_bit(dead, latest)
            put_entry(table, at, hash1[index], hash2[index], ordinal)
        counters.latest = offsets[index]
    return taken


@kernel
def _probe(records: Any, taken: int, scope: Any, map_: Any) -> None:
    """Mark the records of a window that the map supersedes."""
    hash1, hash2, ordinals, kinds = records.hash1, records.hash2, records.ordinals, records.kinds
    table, dead, expired = map_.table, map_.dead, map_.expired
    shard_start, shard_end = np.uint64(scope.shard_start), np.uint64(scope.shard_end)
    for index in range(taken):
        ahead = index + PREFETCH_DISTANCE
        if ahead < taken:
            prefetch_slot(table, hash2[ahead])
        ordinal = ordinals[index]
        if kinds[index] == NULL_KEY:
            _drop_null_key(dead, ordinal, map_.counters[0])
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
    batches: Any, rows: Any, taken: int, scope: Any, map_: Any, reader: Any, window: Any
) -> Any:
    """Insert or look up what `read_batches` found in the batches [rows[0], rows[1]).

    Args:
        batches: BATCH[n], all of the segment; the sums of those that are mapped are added.
        taken: records that were found. scope: `MapScope`. map_: `OffsetMap`.
        reader: `ReadBuffers`, which hold the records. window: `WindowSums`.

    Returns:
        rows[1]; or, with `counters.full` set, the row from which on nothing is mapped. That is
        rows[0], and nothing counts as mapped, unless the map ends when it is full.
    """
    records, receipt = reader.found, reader.receipt
    counters, first = map_.counters[0], rows[0]
    counters.full = False
    chunk, sums = batches[first : rows[1]], window.sums[: rows[1] - first]
    if scope.action == PROBE:
        _probe(records, taken, scope, map_)
        sum_probed(map_.table, chunk, records, taken, scope, receipt)
    elif scope.action == INSERT:
        stopped = _insert(records, taken, scope, map_)
        if stopped < taken:
            counters.full = True
            if not map_.ends_when_full:
                return first
            counters.offered += stopped
            sum_found(records, window.starts, stopped, sums, receipt)
            keep_sums(chunk, sums)
            return _end_map(batches, first, records, stopped, map_)
        counters.offered += taken
        for row in range(first, rows[1]):
            if batches[row].last_offset >= scope.first_offset:
                counters.latest = batches[row].last_offset
    if scope.primary:
        if not is_sharded(scope):
            sum_found(records, window.starts, taken, sums, receipt)
        keep_sums(chunk, sums)
    return rows[1]


@kernel
def _end_map(batches: Any, first: int, records: Any, stopped: int, map_: Any) -> Any:
    """End the map before record `stopped`: return its row, and revive the records without a key
    above the latest offset.
    """
    ordinals, counters = records.ordinals, map_.counters[0]
    row = first
    while batches[row].last_offset < records.offsets[stopped]:
        row += 1
    if row > first:
        counters.latest = max(counters.latest, batches[row - 1].last_offset)
    index = stopped - 1
    while index >= 0 and records.kinds[index] == NULL_KEY:
        if not is_above_map(records.offsets[index], counters.latest):
            break
        map_.dead[ordinals[index] >> 3] &= ~np.uint8(1 << (ordinals[index] & 7))
        counters.null_keys -= 1
        index -= 1
    return row
