"""First pass, the kernels, window by window.

1. `read_batches`: batches are checked and decompressed, and for each relevant record the hash of
   its key, its ordinal, offset and kind are kept.
2. `put_window`: these are inserted into the offset map or looked up there. The table's cache lines
   are requested some records ahead.

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
    is_superseded,
    kind_of_record,
    skips_map,
)
from logwright.format.scan import has_right_crc
from logwright.format.siphash import hash_keys, lane_buffers
from logwright.format.walk import OFFSET_DELTA, OK, TRAILING, read_record
from logwright.kernel import inline_kernel, kernel
from logwright.keys.offset_map import (
    PREFETCH_DISTANCE,
    SHARD_SPACE,
    Table,
    find_slot,
    has_bit,
    ordinal_at,
    prefetch_slot,
    put_entry,
    set_bit,
)
from logwright.keys.receipt import (
    KEY_SUMS,
    KeyReceipt,
    keep_sums,
    mix,
    note_batch,
    sample_key,
    sum_found,
    sum_probed,
)
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
