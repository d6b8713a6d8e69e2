"""The size of each batch after a cleaning, from the dead bitmap and the sizes of its records.

The size of an uncompressed batch is exact. That of a compressed one is estimated by `packed`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from logwright.batches.unpack import is_packed
from logwright.cleaner_rules import (
    DELETE,
    REBUILD,
    RETAIN,
    batch_fate,
    has_delete_horizon,
    sets_delete_horizon,
)
from logwright.format.batch import HEADER_BYTES, LOG_APPEND_TIME
from logwright.format.walk import OK, read_record, varint_bytes
from logwright.kernel import inline_kernel, kernel
from logwright.keys.offset_map import count_dead, has_bit

CAUSES: Final = ("superseded", "tombstones", "null_keys", "aborted")
MEASURED: Final = np.dtype(
    [("alive", np.int64), ("new_size", np.int64), *((cause, np.int64) for cause in CAUSES)]
)
"""A batch after the cleaning: records that stay, its size in bytes, and what each cause removes: in
bytes of records if it is uncompressed, in records if it is compressed."""


def measure(
    data: NDArray[np.uint8],
    batches: NDArray[np.void],
    bitmaps: tuple[NDArray[np.uint8], NDArray[np.uint8]],
    *,
    horizon_ms: int,
    last_mapped_offset: int,
) -> tuple[NDArray[np.void], int, int]:
    """Return MEASURED[n] of the batches, BATCH[n]; the number of those that are done; and the
    status of the next one, see `logwright.format.walk`.

    A compressed batch that is rebuilt keeps its size here.

    Args:
        data: uint8[m], the segment.
        bitmaps: by ordinal: the dead records, and those dead only as tombstones.
        horizon_ms: delete horizon that batches get now.
        last_mapped_offset: of the offset map.
    """
    measured = np.zeros(len(batches), dtype=MEASURED)
    done, status = measure_batches(
        data, batches, bitmaps, (horizon_ms, last_mapped_offset), measured
    )
    return measured, int(done), int(status)


@kernel
def measure_batches(data: Any, batches: Any, bitmaps: Any, limits: Any, measured: Any) -> Any:
    """Measure the batches, see `measure`; limits: (horizon_ms, last_mapped_offset)."""
    dead, tombstones = bitmaps
    horizon_ms, last_mapped = limits
    for row in range(len(batches)):
        batch, sizes = batches[row], measured[row]
        gone = count_dead(dead, batch.first_ordinal, batch.count)
        sizes.alive = batch.count - gone
        sizes.new_size = batch.size
        fate = batch_fate(batch, sizes.alive)
        if fate == RETAIN:
            continue
        if fate != REBUILD:
            sizes.new_size = 0 if fate == DELETE else HEADER_BYTES
        if batch.discard:
            sizes.aborted = max(batch.size - HEADER_BYTES, np.int64(1))
        elif is_packed(batch):
            sizes.tombstones = count_dead(tombstones, batch.first_ordinal, batch.count)
            if batch.last_offset <= last_mapped and not batch.unmapped:
                unkeyed = max(np.int64(batch.count) - np.int64(batch.mapped), np.int64(0))
                sizes.null_keys = min(unkeyed, gone - sizes.tombstones)
            sizes.superseded = gone - sizes.tombstones - sizes.null_keys
        else:
            new_size, status = _measure_plain(data, batch, dead, tombstones, horizon_ms, sizes)
            if status != OK:
                return row, status
            if fate == REBUILD:
                sizes.new_size = new_size
    return len(batches), np.int64(OK)


@inline_kernel
def _record_bytes(delta: Any, rest: Any) -> Any:
    """Return the size of a record with this timestamp delta and bytes after it."""
    body = 1 + varint_bytes(delta) + rest
    return varint_bytes(body) + body


@kernel
def _measure_plain(
    data: Any, batch: Any, dead: Any, tombstones: Any, horizon_ms: int, sizes: Any
) -> Any:
    """Add up what each cause removes from an uncompressed batch; return (its size if it is
    rebuilt, status).
    """
    position, end = batch.position + HEADER_BYTES, batch.position + batch.size
    append_time = batch.attributes & LOG_APPEND_TIME != 0
    first, by_first, by_horizon = np.int64(0), np.int64(0), np.int64(0)
    kept, tombstone_kept = np.int64(0), False
    for index in range(np.int64(batch.count)):
        start, ordinal = position, batch.first_ordinal + index
        record = read_record(data, start, end)
        position = record.stop
        if position < 0:
            return np.int64(0), position
        if has_bit(dead, ordinal):
            if has_bit(tombstones, ordinal):
                sizes.tombstones += position - start
            elif record.key_length < 0:
                sizes.null_keys += position - start
            else:
                sizes.superseded += position - start
            continue
        timestamp = batch.max_timestamp if append_time else batch.base_timestamp + record.time_delta
        if kept == 0:
            first = batch.base_timestamp if has_delete_horizon(batch) else timestamp
        kept += 1
        tombstone_kept |= record.value_length < 0
        by_first += _record_bytes(timestamp - first, position - record.rest)
        by_horizon += _record_bytes(timestamp - horizon_ms, position - record.rest)
    sets_horizon = sets_delete_horizon(batch, tombstone_kept)
    if kept == batch.count and not sets_horizon:
        return np.int64(batch.size), np.int64(OK)
    return HEADER_BYTES + (by_horizon if sets_horizon else by_first), np.int64(OK)
