"""First pass, reading: batches are checked and decompressed, and for each relevant record the hash
of its key, its ordinal, offset and kind are kept.

A window of records, and the one batch that is decompressed, stay in the CPU's cache.

The loop is fused: `batches.projection` before it would add at least 11 % (5 of 46 ms, 128 MB u100).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.batches.status import MANY_RECORDS, WRONG_CRC
from logwright.batches.unpack import NOT_GIVEN, is_packed, open_records
from logwright.cleaner_rules import (
    EXPIRED,
    KEYED,
    NULL_KEY,
    delete_horizon_reached,
    is_above_map,
    kind_of_record,
    skips_map,
)
from logwright.format.scan import has_right_crc
from logwright.format.siphash import hash_keys, lane_buffers
from logwright.format.walk import OFFSET_DELTA, OK, TRAILING, read_record
from logwright.kernel import inline_kernel, kernel
from logwright.keys.offset_map import SHARD_SPACE
from logwright.keys.receipt import KEY_SUMS, KeyReceipt, mix, note_batch, sample_key
from logwright.units import INT64_MAX

INSERT: Final = 0
PROBE: Final = 1
FLAG: Final = 2
"""Only note which batches have tombstones."""

FOUND_RECORDS: Final = 32 * 1024
"""Records read before they are mapped: a call of a kernel costs up to 30 µs."""
SPAN: Final = np.dtype([("start", np.int64), ("end", np.int64)])
"""The span of a batch's records in the scratch memory."""


class MapScope(NamedTuple):
    """Which records are mapped, and how.

    Attributes:
        first_offset, last_offset: of the records that are mapped, both included.
        now_ms: the clock of the cleaning. removable_end: tombstones at or above it stay.
        primary: this is the first shard's pass, which notes all facts about the batches.
        shard_start, shard_end: the hashes that are mapped, see `offset_map.SHARD_SPACE`.
        action: INSERT, PROBE or FLAG.
    """

    first_offset: int
    last_offset: int
    now_ms: int
    removable_end: int
    primary: bool
    shard_start: int
    shard_end: int
    action: int


class FoundRecords(NamedTuple):
    """Room for the records of a window.

    Attributes:
        hash1, hash2: uint64[n], the halves of the keys' hashes; until these are computed the keys'
            positions and lengths.
        ordinals, offsets: int64[n]. kinds: uint8[n], of `cleaner_rules.KEYED` and following.
        lanes: of `siphash.lane_buffers`.
    """

    hash1: NDArray[np.uint64]
    hash2: NDArray[np.uint64]
    ordinals: NDArray[np.int64]
    offsets: NDArray[np.int64]
    kinds: NDArray[np.uint8]
    lanes: NDArray[np.uint64]


class ReadBuffers(NamedTuple):
    """The buffers that one thread reads into.

    Attributes:
        hash_key: uint64[2].
        receipt: has room for the sample of all records that are read.
        scratch, cells: of the Workspace.
    """

    hash_key: NDArray[np.uint64]
    found: FoundRecords
    receipt: KeyReceipt
    scratch: NDArray[np.uint8]
    cells: NDArray[np.int64]


class WindowSums(NamedTuple):
    """The sums of each batch of a window.

    Attributes:
        starts: int64[rows + 1], index of its first record among the found ones.
        sums: KEY_SUMS[rows].
        spans: SPAN[rows], where a compressed batch is in the scratch memory, one after the
            other. Without rows each batch overwrites the one before.
    """

    starts: NDArray[np.int64]
    sums: NDArray[np.void]
    spans: NDArray[np.void]


def record_buffers(count: int) -> FoundRecords:
    """Return buffers for this number of records."""
    return FoundRecords(
        hash1=np.empty(count, dtype=np.uint64),
        hash2=np.empty(count, dtype=np.uint64),
        ordinals=np.empty(count, dtype=np.int64),
        offsets=np.empty(count, dtype=np.int64),
        kinds=np.empty(count, dtype=np.uint8),
        lanes=lane_buffers(),
    )


def sum_buffers(batches: int, *, together: bool = False) -> WindowSums:
    """Return buffers for the sums of this number of batches, and for their spans if they are
    decompressed together.
    """
    return WindowSums(
        starts=np.empty(batches + 1, dtype=np.int64),
        sums=np.empty(batches, dtype=KEY_SUMS),
        spans=np.zeros(batches if together else 0, dtype=SPAN),
    )


@kernel
def read_batches(
    data: Any, batches: Any, rows: Any, given: int, scope: Any, reader: Any, window: Any
) -> Any:
    """Check, decompress and read the batches [rows[0], rows[1]) until the room for records is full.

    Batches whose CRC the first shard's pass has checked are not checked again.

    Args:
        data: uint8[n], the segment. batches: BATCH[m], all of it; `note_batch` sets their fields.
        given: bytes of the first row's records that `reader.scratch` holds, else `NOT_GIVEN`.
        scope: `MapScope`. reader: `ReadBuffers`, filled. window: `WindowSums`, filled; the sums
            only of a shard, since the others' records are not kept.

    Returns:
        (row, records found, status): the status shows what must be done about that row before the
        call is repeated from there, or what is wrong with it.
    """
    records, scratch, spans = reader.found, reader.scratch, window.spans
    scratch_used = np.int64(0)
    room = len(records.ordinals)
    taken = np.int64(0)
    for row in range(rows[0], rows[1]):
        batch, number = batches[row], row - rows[0]
        window.starts[number] = taken
        window.sums[number].digest, window.sums[number].records = np.uint64(0), np.uint64(0)
        if taken + batch.count > room:
            return row, taken, np.int64(OK if taken > 0 else MANY_RECORDS)
        if scope.primary and not has_right_crc(data, batch):
            return row, taken, np.int64(WRONG_CRC)
        loaded = np.int64(given if row == rows[0] else NOT_GIVEN)
        start, end, status = open_records(data, batch, loaded, scratch, scratch_used, reader.cells)
        if status != OK:
            return row, taken, status
        if len(spans) > 0:
            scratch_used = end if is_packed(batch) else scratch_used
            spans[number].start = start if is_packed(batch) else 0
            spans[number].end = end if is_packed(batch) else 0
        source = scratch if is_packed(batch) else data
        first = taken
        taken, status = _read_records(source, (start, end), batch, scope, records, first)
        if status != OK:
            return row, first, status
        keys = (records.hash1, records.hash2)
        hash_keys(source, keys, first, taken, reader.hash_key, records.lanes)
        if is_sharded(scope):
            sums = window.sums[number]
            taken = _keep_shard(scope, records, (first, taken), sums, reader.receipt)
    window.starts[rows[1] - rows[0]] = taken
    return np.int64(rows[1]), taken, np.int64(OK)


@inline_kernel
def is_sharded(scope: Any) -> Any:
    """Decide whether only a part of the hashes is mapped."""
    return scope.shard_start > 0 or scope.shard_end < SHARD_SPACE


@kernel
def _read_records(source: Any, span: Any, batch: Any, scope: Any, records: Any, taken: int) -> Any:
    """Read the records of one batch, which are in this span of the source; return (records taken,
    status). The columns of the hash's halves hold the key's position and length.
    """
    position, end = span
    is_skipped = skips_map(batch, scope.action == INSERT)
    expires = delete_horizon_reached(batch, scope.now_ms, scope.removable_end)
    first_offset, last_offset, primary = scope.first_offset, scope.last_offset, scope.primary
    ordinals, offsets, kinds = records.ordinals, records.offsets, records.kinds
    positions, lengths = records.hash1, records.hash2
    base_offset, first_ordinal = batch.base_offset, batch.first_ordinal
    delta_limit = batch.last_offset - base_offset
    last_delta = np.int64(-1)
    tombstones, first_delta = np.int64(0), np.int64(INT64_MAX)
    for index in range(np.int64(batch.count)):
        record = read_record(source, position, end)
        position, delta = record.stop, record.delta
        length, value_length = record.key_length, record.value_length
        if position < 0:
            return taken, position
        if delta <= last_delta or delta > delta_limit:
            return taken, np.int64(OFFSET_DELTA)
        last_delta = delta
        offset = base_offset + delta
        first_delta = min(first_delta, record.time_delta)
        tombstones += value_length < 0
        if is_skipped or offset < first_offset or is_above_map(offset, last_offset):
            continue
        kind = kind_of_record(length, value_length, expires)
        if kind == NULL_KEY and not primary:
            continue
        ordinals[taken], offsets[taken] = first_ordinal + index, offset
        positions[taken], lengths[taken] = np.uint64(record.key), np.uint64(max(length, 0))
        kinds[taken] = kind
        taken += 1
    if position != end:
        return taken, np.int64(TRAILING)
    note_batch(batch, tombstones, first_delta)
    return taken, np.int64(OK)


@kernel
def _keep_shard(scope: Any, records: Any, taken: Any, sums: Any, receipt: Any) -> Any:
    """Keep the shard's records among those of [taken[0], taken[1]); return the end of those kept.

    sums: one of KEY_SUMS. In the first shard's pass all records are added to it, and to the sample,
        and all that are past their horizon are kept.
    """
    hash1, hash2, ordinals = records.hash1, records.hash2, records.ordinals
    offsets, kinds = records.offsets, records.kinds
    first, end = taken
    shard_start, shard_end = np.uint64(scope.shard_start), np.uint64(scope.shard_end)
    primary, kept = scope.primary, first
    for index in range(first, end):
        kind, part = kinds[index], hash1[index] >> np.uint64(32)
        if primary and kind != NULL_KEY:
            sums.digest += mix(hash1[index], ordinals[index])
            sums.records += np.uint64(1)
            sample_key(receipt, hash1[index], ordinals[index], kind != KEYED)
        hash1[kept], hash2[kept], ordinals[kept] = hash1[index], hash2[index], ordinals[index]
        offsets[kept], kinds[kept] = offsets[index], kind
        # No branch: the CPU could not foresee it.
        kept += (
            ((part >= shard_start) & (part < shard_end))
            | (kind == NULL_KEY)
            | (primary & (kind == EXPIRED))
        )
    return kept
