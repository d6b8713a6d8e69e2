"""First pass, reading: batches are checked and decompressed, and of each record that matters hash,
ordinal, offset and kind are kept, in arrays that stay in the CPU's cache, as does the one batch
that is decompressed.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from logwright.compaction.keys.hashing import hash_keys, room_for_lanes
from logwright.compaction.keys.offset_map import SHARD_SPACE
from logwright.compaction.receipt import mix, note_batch, note_key
from logwright.compaction.rules import (
    EXPIRED,
    KEYED,
    NULL_KEY,
    delete_horizon_reached,
    is_above_map,
    kind_of_record,
    skips_map,
)
from logwright.compaction.unpack import NO_ROOM, NOT_GIVEN, is_packed, unpack_batch
from logwright.format.batch import HEADER_BYTES
from logwright.format.scan import has_right_crc
from logwright.format.walk import OFFSET_DELTA, OK, TRAILING, read_record
from logwright.kernel import inline_kernel, kernel
from logwright.units import INT64_MAX

INSERT: Final = 0
PROBE: Final = 1
FLAG: Final = 2

# What else `read_batches` may say, beside the statuses of `logwright.format.walk`.
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

Found = tuple[
    NDArray[np.uint64],
    NDArray[np.uint64],
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.uint8],
    NDArray[np.uint64],
]


def room_for_records(count: int) -> Found:
    """Arrays for hash (two), ordinal, offset and kind of so many records, and for `hash_keys`."""
    return (
        np.empty(count, dtype=np.uint64),
        np.empty(count, dtype=np.uint64),
        np.empty(count, dtype=np.int64),
        np.empty(count, dtype=np.int64),
        np.empty(count, dtype=np.uint8),
        room_for_lanes(),
    )


def room_for_sums(
    batches: int, *, together: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.uint64], NDArray[np.int64]]:
    """Arrays for where each batch's records begin, int64[batches + 1], for its sums,
    uint64[batches, 2], and, if they are to be decompressed together, its spans, int64[batches, 2].
    """
    return (
        np.empty(batches + 1, dtype=np.int64),
        np.zeros((batches, 2), dtype=np.uint64),
        np.empty((batches if together else 0, 2), dtype=np.int64),
    )


@kernel
def _find_records(data: Any, batch: Any, given: int, scratch: Any, at: int, cells: Any) -> Any:
    """(where the records of a batch begin, end, status), in scratch[at:] if it is compressed."""
    start, end = batch.position + HEADER_BYTES, batch.position + batch.size
    if not is_packed(batch):
        return start, end, np.int64(OK)
    if given >= 0:
        return np.int64(0), np.int64(given), np.int64(OK)
    found = unpack_batch(data, batch, scratch, at, _NO_LIMIT, cells)
    if found < 0:
        return start, end, np.int64(SCRATCH_FULL if found == NO_ROOM else NOT_UNPACKED)
    return np.int64(at), at + found, np.int64(OK)


@kernel
def read_batches(
    data: Any,
    batches: Any,
    rows: Any,
    given: int,
    bounds: Any,
    key: Any,
    found: Any,
    scratch: Any,
    cells: Any,
    told: Any,
) -> Any:
    """Read the records of the batches [rows[0], rows[1]) into `found` until it is full; (row,
    records taken, status). What the first shard's pass has checked by CRC is not so checked again.

    told: (starts, sums, notes, spans). starts: int64[rows + 1], set to where each batch's records
        begin in `found`. sums: uint64[rows, 2], notes: of `digest`; of a shard they are kept here,
        since `found` lacks what belongs to others. spans: int64[rows, 2], set to where the
        compressed batches lie decompressed, side by side; without any rows one takes the other's
        place.
    """
    starts, sums, notes, spans = told
    scratch_used = np.int64(0)
    room = len(found[0])
    taken = np.int64(0)
    for row in range(rows[0], rows[1]):
        batch = batches[row]
        starts[row - rows[0]] = taken
        if taken + batch.count > room:
            return row, taken, np.int64(OK if taken > 0 else MANY_RECORDS)
        if bounds[3] == 1 and not has_right_crc(data, batch):
            return row, taken, np.int64(WRONG_CRC)
        loaded = np.int64(given if row == rows[0] else NOT_GIVEN)
        start, end, status = _find_records(data, batch, loaded, scratch, scratch_used, cells)
        if status != OK:
            return row, taken, status
        if len(spans) > 0:
            scratch_used = end if is_packed(batch) else scratch_used
            spans[row - rows[0], 0] = start if is_packed(batch) else 0
            spans[row - rows[0], 1] = end if is_packed(batch) else 0
        source = scratch if is_packed(batch) else data
        first = taken
        taken, status = _read_records(source, (start, end), batch, bounds, found, first)
        if status != OK:
            return row, first, status
        hash_keys(source, (found[0], found[1]), first, taken, key, found[5])
        if is_sharded(bounds):
            taken = _keep_shard(bounds, found, (first, taken), sums[row - rows[0]], notes)
    starts[rows[1] - rows[0]] = taken
    return np.int64(rows[1]), taken, np.int64(OK)


@inline_kernel
def is_sharded(bounds: Any) -> Any:
    """Whether only a part of the hashes is mapped: see `map_batches`."""
    return bounds[4] > 0 or bounds[5] < SHARD_SPACE


@kernel
def _read_records(source: Any, span: Any, batch: Any, bounds: Any, found: Any, taken: int) -> Any:
    """Read the records of one batch, which lie in this span of the source; (records taken, status).
    In place of the hash's halves are the key's position and length.
    """
    position, end = span
    positions, lengths, ordinals, offsets, kinds, _ = found
    first_offset, last_offset, primary = bounds[0], bounds[1] - 1, bounds[3] == 1
    is_skipped = skips_map(batch, bounds[6] == INSERT)
    expires = delete_horizon_reached(batch, bounds[2])
    base_offset, first_ordinal = batch.base_offset, batch.first_ordinal
    delta_limit = batch.last_offset - base_offset
    last_delta = np.int64(-1)
    tombstones, first_delta = np.int64(0), np.int64(INT64_MAX)
    for index in range(np.int64(batch.count)):
        position, _, time_delta, _, delta, at, length, value_length = read_record(
            source, position, end
        )
        if position < 0:
            return taken, position
        if delta <= last_delta or delta > delta_limit:
            return taken, np.int64(OFFSET_DELTA)
        last_delta = delta
        offset = base_offset + delta
        first_delta = min(first_delta, time_delta)
        tombstones += value_length < 0
        if is_skipped or offset < first_offset or is_above_map(offset, last_offset):
            continue
        kind = kind_of_record(length, value_length, expires)
        if kind == NULL_KEY and not primary:
            continue
        ordinals[taken], offsets[taken] = first_ordinal + index, offset
        positions[taken], lengths[taken] = np.uint64(at), np.uint64(max(length, 0))
        kinds[taken] = kind
        taken += 1
    if position != end:
        return taken, np.int64(TRAILING)
    note_batch(batch, tombstones, first_delta)
    return taken, np.int64(OK)


@kernel
def _keep_shard(bounds: Any, found: Any, window: Any, sum_: Any, notes: Any) -> Any:
    """Of the records [window[0], window[1]) keep those of the shard; the end of those that are
    kept.

    sum_: uint64[2] of digest and records, to which the others are added too, as are the notes, in
        the first shard's pass. There all that are past their horizon are kept.
    """
    hash1, hash2, ordinals, offsets, kinds, _ = found
    first, end = window
    shard_start, shard_end = np.uint64(bounds[4]), np.uint64(bounds[5])
    primary, kept = bounds[3] == 1, first
    for index in range(first, end):
        kind, part = kinds[index], hash1[index] >> np.uint64(32)
        if primary and kind != NULL_KEY:
            sum_[0] += mix(hash1[index], ordinals[index])
            sum_[1] += np.uint64(1)
            note_key(notes, hash1[index], ordinals[index], kind != KEYED)
        hash1[kept], hash2[kept], ordinals[kept] = hash1[index], hash2[index], ordinals[index]
        offsets[kept], kinds[kept] = offsets[index], kind
        # No branch: the CPU could not foresee it.
        kept += (
            ((part >= shard_start) & (part < shard_end))
            | (kind == NULL_KEY)
            | (primary & (kind == EXPIRED))
        )
    return kept
