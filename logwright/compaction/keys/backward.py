"""First pass over a compressed log, from the newest batch to the oldest: what survives of a batch
is rebuilt as soon as it is mapped, while it is decompressed.

See `rewrite.cache` for why. What a kernel cannot do of it, the caller does, and calls
it again; what is not rebuilt here, the second pass rebuilds.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from logwright.compaction.batch_receipt import CONTENT, DIGEST, MAPPED, bear_witness
from logwright.compaction.keys.fill import put_window
from logwright.compaction.keys.offset_map import FULL
from logwright.compaction.keys.read import read_batches
from logwright.compaction.rewrite.batch import finish_batch, summarise, write_records
from logwright.compaction.rewrite.copy import GROWTH_PER_RECORD, count_dead
from logwright.compaction.rules import REBUILD, batch_fate
from logwright.compaction.unpack import NOT_GIVEN, is_packed
from logwright.format.batch import CODEC_MASK, CONTROL, HEADER_BYTES
from logwright.format.native_codec import pack, packed_bound
from logwright.format.record import SMALLEST_RECORD_BYTES
from logwright.format.walk import OK
from logwright.kernel import inline_kernel, kernel
from logwright.units import INT64_MAX

STORE_FULL: Final = 5
"""The buffer for rebuilt batches is to be emptied; beside the statuses of `reading`."""

WINDOW_RECORDS: Final = 2048
"""So many are read before they are mapped: decompressed, they stay in the CPU's cache."""
_USUAL_GROWTH: Final = 4.0
_MARGIN: Final = 1.1


def plain_bytes(scratch_bytes: int) -> int:
    """Bytes of plain memory that one batch may need which fits into the scratch memory."""
    return scratch_bytes + scratch_bytes // SMALLEST_RECORD_BYTES * GROWTH_PER_RECORD


def room_needed(scratch_bytes: int) -> int:
    """Bytes of the store's buffer that one window may need."""
    each = HEADER_BYTES + int(packed_bound(0))
    return int(packed_bound(plain_bytes(scratch_bytes))) + WINDOW_RECORDS * each


@inline_kernel
def _window_start(batches: Any, first: int, end: int, most_bytes: Any) -> Any:
    """Where a window begins that ends at `end`: it has one batch, or `WINDOW_RECORDS` at most."""
    row, records = end - 1, np.int64(batches[end - 1].count)
    packed = np.int64(batches[end - 1].size)
    while row > first and end - row < WINDOW_RECORDS:
        records += batches[row - 1].count
        packed += batches[row - 1].size
        if records > WINDOW_RECORDS or packed > most_bytes:
            break
        row -= 1
    return row


@inline_kernel
def _growth(batches: Any, first: int, spans: Any) -> Any:
    """By how much the batches of a window grew, and some more, so that the next one fits."""
    packed, plain = np.int64(1), np.int64(0)
    for row in range(len(spans)):
        packed += batches[first + row].size
        plain = max(plain, spans[row, 1])
    return _MARGIN * np.float64(plain) / np.float64(packed)


@kernel
def _rebuild(
    data: Any, batches: Any, rows: Any, spans: Any, dead: Any, space: Any, store: Any
) -> None:
    """Rebuild those compressed batches of [rows[0], rows[1]) that lose some of their records, as
    far as is known.
    """
    scratch, plain, summary = space.scratch, space.plain, space.summary
    entries, out, state, horizon_ms, told = store
    for row in range(rows[0], rows[1]):
        batch = batches[row]
        if not is_packed(batch) or batch.discard or batch.attributes & CONTROL != 0:
            continue
        dead_records = count_dead(dead, batch.first_ordinal, batch.count)
        if batch_fate(batch, batch.count - dead_records) != REBUILD:
            continue
        span = (spans[row - rows[0], 0], spans[row - rows[0], 1])
        summarise(scratch, span, batch, dead, horizon_ms, summary, space.kept)
        if summary.kept == batch.count and summary.sets_horizon == 0:
            continue
        written = write_records(plain, np.int64(0), scratch, summary, space.kept)
        at = state.used
        codec = np.int64(batch.attributes) & CODEC_MASK
        packed = pack(plain, written, codec, out, at + HEADER_BYTES, space.table, space.cells)
        if packed <= 0:
            continue
        end = at + HEADER_BYTES + packed
        finish_batch(out, at, end, data, batch, summary)
        told[2][:] = np.uint64(0)
        bear_witness(scratch, span, batch, dead, told)
        entry = entries[row]
        entry.at, entry.size = state.before + at, end - at
        entry.kept, entry.max_timestamp = summary.kept, summary.max_timestamp
        entry.sets_horizon = summary.sets_horizon
        entry.content, entry.digest, entry.mapped = (
            told[2][CONTENT],
            told[2][DIGEST],
            told[2][MAPPED],
        )
        state.used = end


@kernel
def map_backwards(
    data: Any,
    batches: Any,
    rows: Any,
    given: int,
    bounds: Any,
    map_: Any,
    reader: Any,
    space: Any,
    store: Any,
) -> Any:
    """Map the batches [rows[0], rows[1]) from the last to the first, and rebuild them; (end,
    status): what lies before `end` is still to be mapped.

    The status is `OK` at the end, or where the map was full; else it says what is to be done about
    the row before `end` before the call is repeated with it, or what is wrong with it.

    Args:
        given: bytes of the last row's records that the scratch memory holds, else `NOT_GIVEN`.
        bounds, map_, reader: as of `mapping.map_batches`: map_ is (limits, table, key, bits,
            counters), reader (found, notes, totals, room of `reading.room_for_sums`).
        space: of the Workspace; its plain memory has the room of `plain_bytes`, its list `found`'s.
        store: (CACHED_BATCH[n] of all batches, buffer with the room of `room_needed`,
            CACHE_STATE, delete horizon that batches get now, what is told of `witness`).
    """
    limits, table, key, bits, counters = map_
    found, notes, totals, (starts, sums, spans) = reader
    counters[FULL] = 0
    first, end = np.int64(rows[0]), np.int64(rows[1])
    state, sampled = store[2], notes[2]
    growth, one_by_one = _USUAL_GROWTH, INT64_MAX
    while first < end:
        if state.used + state.needed > len(store[1]):
            return end, np.int64(STORE_FULL)
        start = end - 1
        if given == NOT_GIVEN and end <= one_by_one:
            start = _window_start(batches, first, end, np.float64(len(space.scratch)) / growth)
        length, before = end - start, sampled[0]
        sums[:length] = np.uint64(0)
        told = (starts[: length + 1], sums[:length], notes, spans[:length])
        stop, taken, status = read_batches(
            data, batches, (start, end), given, bounds, key, found, space.scratch, space.cells, told
        )
        if stop < end:
            sampled[0] = before
            if length == 1:
                return end, status
            one_by_one = start
            continue
        put_window(
            batches, (start, end), taken, bounds, limits, table, found, bits, counters, told, totals
        )
        if counters[FULL] == 1:
            sampled[0] = before
            return end, np.int64(OK)
        given = np.int64(NOT_GIVEN)
        _rebuild(data, batches, (start, end), spans, bits[0], space, store)
        growth = max(growth, _growth(batches, start, spans[:length]))
        end = start
    return end, np.int64(OK)
