"""Second pass, a run of batches: what survives is copied into the output buffer, and the indexes
grow beside it.

1. The dead bitmap says how many of a batch's records are dead: none, all, or some.
2. None, and no delete horizon to set: the batch's bytes are copied, compressed or not.
3. All: nothing is written, except that the last batch of the cleaned range, and of an active
   producer, stays as an empty one, so that the end offset and the sequence numbers are not lost.
4. Some: the batch is rebuilt, decompressed before and compressed after if need be. What a kernel
   cannot do of that, the caller does, and calls it again.
5. Each batch written may get an offset index and a time index entry, by ``index.interval.bytes``.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from logwright.compaction.batch_receipt import CONTENT, DIGEST, MAPPED, bear_witness
from logwright.compaction.keys.offset_map import set_bit
from logwright.compaction.rewrite.batch import (
    KEPT,
    MAX_TIMESTAMP,
    SETS_HORIZON,
    copy_bytes,
    finish_batch,
    summarise,
    write_records,
)
from logwright.compaction.unpack import NO_ROOM, NOT_GIVEN, unpack_batch
from logwright.format.batch import CODEC_MASK, CONTROL, DELETE_HORIZON, HEADER_BYTES
from logwright.format.crc import prefetch_span
from logwright.format.native_codec import pack, packed_bound
from logwright.kernel import kernel

# The cells of a recopy's state, int64[STATE_CELLS].
POSITION: Final = 0
"""Bytes of the output segment so far."""
BUFFERED: Final = 1
"""Bytes of them that are still in the buffer."""
SINCE_ENTRY: Final = 2
"""Bytes since the last offset index entry."""
LARGEST_TIMESTAMP: Final = 3
LARGEST_OFFSET: Final = 4
"""Last offset of the first batch that holds the largest timestamp."""
LAST_INDEXED_TIMESTAMP: Final = 5
INDEX_ENTRIES: Final = 6
TIMEINDEX_ENTRIES: Final = 7
NEXT_OFFSET: Final = 8
RECORDS: Final = 9
VERBATIM: Final = 10
REBUILT: Final = 11
DROPPED: Final = 12
HORIZONS: Final = 13
GIVEN: Final = 14
"""Bytes of the first batch's records that the scratch memory holds already, or `NOT_GIVEN`."""
NEEDED: Final = 15
"""Bytes of room that the next batch needs."""
STATE_CELLS: Final = 16

DONE: Final = 0
BUFFER_FULL: Final = 1
SCRATCH_FULL: Final = 2
PLAIN_FULL: Final = 3
NOT_UNPACKED: Final = 4
NOT_PACKED: Final = 5
NOT_REBUILT: Final = 6

_DROP: Final = 0
_VERBATIM: Final = 1
_EMPTY: Final = 2
_REBUILD: Final = 3

GROWTH_PER_RECORD: Final = 14
"""Bytes by which a rebuilt record can be longer: 9 of a timestamp delta, 5 of a length."""

_MOST_AHEAD: Final = 64 * 1024
"""Bytes behind an uncompressed batch that are asked for before it is rebuilt: as many as it has,
and no more than these. A rebuild steps from record to record, which the CPU cannot foresee."""

_NO_LIMIT = np.int64(1) << np.int64(62)


@kernel
def count_dead(dead: Any, first: int, count: int) -> int:
    """How many of the bits [first, first + count) are set."""
    total = np.int64(0)
    position = np.int64(first)
    end = position + np.int64(count)
    while position < end:
        if position & 7 == 0 and position + 8 <= end:
            byte = np.uint64(dead[position >> 3])
            while byte != np.uint64(0):
                byte &= byte - np.uint64(1)
                total += 1
            position += 8
        else:
            total += np.int64((dead[position >> 3] >> np.uint8(position & 7)) & np.uint8(1))
            position += 1
    return total


@kernel
def _fate(batch: Any, dead: Any) -> int:
    """What becomes of a batch, by its dead records and the horizon that is to be set."""
    alive = batch.count - count_dead(dead, batch.first_ordinal, batch.count)
    if alive == 0:
        return _EMPTY if batch.keep_empty else _DROP
    may_set_horizon = (
        batch.has_tombstone or batch.empty_marker
    ) and batch.attributes & DELETE_HORIZON == 0
    return _VERBATIM if alive == batch.count and not may_set_horizon else _REBUILD


@kernel
def discard_batches(batches: Any, dead: Any) -> Any:
    """Mark the records of all batches that are discarded; (records of data, of control batches)
    that were not dead.
    """
    data, control = np.int64(0), np.int64(0)
    for row in range(len(batches)):
        batch = batches[row]
        if not batch.discard:
            continue
        alive = batch.count - count_dead(dead, batch.first_ordinal, batch.count)
        for index in range(batch.count):
            set_bit(dead, batch.first_ordinal + index)
        if batch.attributes & CONTROL != 0:
            control += alive
        else:
            data += alive
    return data, control


@kernel
def note_batch(state: Any, indexes: Any, interval: int, batch: Any, written: Any) -> None:
    """Account for a batch of written[0] bytes and max timestamp written[1] at the end of the
    output.

    The rule of LogSegment.append (4.3.0): the largest timestamp first, then the entry if more than
    ``index.interval.bytes`` lie behind the last one, then the bytes.
    """
    offset_index, time_index = indexes
    size, max_timestamp = written
    if max_timestamp > state[LARGEST_TIMESTAMP]:
        state[LARGEST_TIMESTAMP] = max_timestamp
        state[LARGEST_OFFSET] = batch.last_offset
    if state[SINCE_ENTRY] > interval:
        entry = state[INDEX_ENTRIES]
        offset_index[entry, 0] = batch.last_offset
        offset_index[entry, 1] = state[POSITION]
        state[INDEX_ENTRIES] += 1
        index_time(state, time_index)
        state[SINCE_ENTRY] = 0
    state[SINCE_ENTRY] += size
    state[POSITION] += size
    state[BUFFERED] += size
    state[NEXT_OFFSET] = batch.last_offset + 1


@kernel
def index_time(state: Any, time_index: Any) -> None:
    """Append (largest timestamp, its offset) to the time index if it is larger than the last
    entry's.
    """
    if state[LARGEST_TIMESTAMP] > state[LAST_INDEXED_TIMESTAMP]:
        entry = state[TIMEINDEX_ENTRIES]
        time_index[entry, 0] = state[LARGEST_TIMESTAMP]
        time_index[entry, 1] = state[LARGEST_OFFSET]
        state[LAST_INDEXED_TIMESTAMP] = state[LARGEST_TIMESTAMP]
        state[TIMEINDEX_ENTRIES] += 1


@kernel
def copy_verbatim(data: Any, batch: Any, interval: int, out: Any, indexes: Any, state: Any) -> None:
    """Copy a batch as it is to the end of the buffer, which has room for it."""
    copy_bytes(out, state[BUFFERED], data, batch.position, batch.position + batch.size)
    state[RECORDS] += batch.count
    state[VERBATIM] += 1
    note_batch(state, indexes, interval, batch, (batch.size, batch.max_timestamp))


@kernel
def place_rebuilt(
    data: Any, batch: Any, end: int, interval: int, out: Any, indexes: Any, state: Any, summary: Any
) -> None:
    """Put the header before the rebuilt records that end at `end` of the buffer, and account for
    the batch.
    """
    at = state[BUFFERED]
    finish_batch(out, at, end, data, batch, summary)
    state[RECORDS] += summary[KEPT]
    state[REBUILT] += 1
    state[HORIZONS] += summary[SETS_HORIZON]
    note_batch(state, indexes, interval, batch, (end - at, summary[MAX_TIMESTAMP]))


@kernel
def _take_rebuilt(
    batch: Any,
    dead: Any,
    interval: int,
    out: Any,
    indexes: Any,
    state: Any,
    told: Any,
    waiting: Any,
) -> int:
    """Copy a batch that the first pass rebuilt; DONE, or what is in the way, `NOT_REBUILT` if none
    waits with just these records.
    """
    (entries, content), row = waiting
    if len(entries) == 0:
        return NOT_REBUILT
    entry = entries[row]
    alive = batch.count - count_dead(dead, batch.first_ordinal, batch.count)
    if entry.size == 0 or entry.kept != alive or batch.empty_marker:
        return NOT_REBUILT
    state[NEEDED] = entry.size
    if state[BUFFERED] + entry.size > len(out):
        return BUFFER_FULL
    copy_bytes(out, state[BUFFERED], content, entry.at, entry.at + entry.size)
    state[RECORDS] += entry.kept
    state[REBUILT] += 1
    state[HORIZONS] += entry.sets_horizon
    sums = told[2]
    sums[CONTENT] += entry.content
    sums[DIGEST] += entry.digest
    sums[MAPPED] += np.uint64(entry.mapped)
    note_batch(state, indexes, interval, batch, (np.int64(entry.size), entry.max_timestamp))
    return DONE


@kernel
def _place_packed(
    data: Any,
    batch: Any,
    dead: Any,
    rule: Any,
    out: Any,
    indexes: Any,
    state: Any,
    space: Any,
    told: Any,
    waiting: Any,
) -> int:
    """Put a compressed batch that loses records at the end of the buffer: take it if it is rebuilt
    already, else decompress, rebuild and compress it; DONE, or what is in the way.
    """
    why = _take_rebuilt(batch, dead, rule[0], out, indexes, state, told, waiting)
    if why != NOT_REBUILT:
        return why
    scratch, plain, table, cells, summary, kept = space
    interval, horizon_ms = rule[0], rule[1]
    size = state[GIVEN]
    state[GIVEN] = NOT_GIVEN
    if size == NOT_GIVEN:
        size = unpack_batch(data, batch, scratch, np.int64(0), _NO_LIMIT, cells)
        if size < 0:
            return SCRATCH_FULL if size == NO_ROOM else NOT_UNPACKED
    summarise(scratch, (np.int64(0), size), batch, dead, horizon_ms, summary, kept)
    if summary[KEPT] == batch.count and summary[SETS_HORIZON] == 0:
        copy_verbatim(data, batch, interval, out, indexes, state)
        return DONE
    state[NEEDED] = size + np.int64(batch.count) * GROWTH_PER_RECORD
    if state[NEEDED] > len(plain):
        return PLAIN_FULL
    written = write_records(plain, np.int64(0), scratch, summary, kept)
    state[NEEDED] = HEADER_BYTES + packed_bound(written)
    if state[BUFFERED] + state[NEEDED] > len(out):
        return BUFFER_FULL
    at = state[BUFFERED] + HEADER_BYTES
    codec = np.int64(batch.attributes) & CODEC_MASK
    packed = pack(plain, written, codec, out, at, table, cells)
    if packed <= 0:
        return NOT_PACKED
    bear_witness(scratch, (np.int64(0), size), batch, dead, told)
    place_rebuilt(data, batch, at + packed, interval, out, indexes, state, summary)
    return DONE


@kernel
def _place_plain(
    data: Any, batch: Any, dead: Any, rule: Any, out: Any, indexes: Any, state: Any, space: Any
) -> None:
    """Put an uncompressed batch that loses records at the end of the buffer, which has room."""
    _, _, _, _, summary, kept = space
    start, end = batch.position + HEADER_BYTES, batch.position + batch.size
    prefetch_span(data, end, end + min(batch.size, np.int64(_MOST_AHEAD)))
    summarise(data, (start, end), batch, dead, rule[1], summary, kept)
    if summary[KEPT] == batch.count and summary[SETS_HORIZON] == 0:
        copy_verbatim(data, batch, rule[0], out, indexes, state)
        return
    at = state[BUFFERED] + HEADER_BYTES
    written = write_records(out, at, data, summary, kept)
    place_rebuilt(data, batch, written, rule[0], out, indexes, state, summary)


@kernel
def recopy(
    data: Any,
    batches: Any,
    first: int,
    dead: Any,
    rule: Any,
    out: Any,
    indexes: Any,
    state: Any,
    space: Any,
    told: Any,
    waiting: Any,
) -> Any:
    """Copy batches from row `first` on; (next row, DONE or what is in the way of it).

    Args:
        data: uint8[n], the source segment. batches: its BATCH rows. dead: bitmap by ordinal.
        rule: int64[2]: index.interval.bytes, delete horizon for tombstones and markers kept now.
        out: uint8[m], the output buffer; state[BUFFERED] bytes of it are used.
        indexes: (int64[k, 2] of offset and position, int64[k + 1, 2] of timestamp and offset).
        state: int64[STATE_CELLS].
        space: of the Workspace; its list has room for the records of each batch.
        told: of `witness`. waiting: REBUILT_BATCH[n] or none, uint8[k].

    Then the caller empties the buffer, and enlarges it if state[NEEDED] is more than it has
    (BUFFER_FULL), enlarges scratch or plain memory (SCRATCH_FULL, PLAIN_FULL), or decompresses the
    batch into the scratch memory and sets state[GIVEN] (NOT_UNPACKED), and calls again.
    """
    interval, summary = rule[0], space[4]
    for row in range(first, len(batches)):
        batch = batches[row]
        fate = _fate(batch, dead)
        if fate == _DROP:
            state[DROPPED] += 1
            continue
        at = state[BUFFERED]
        state[NEEDED] = batch.size + np.int64(batch.count) * GROWTH_PER_RECORD
        if at + state[NEEDED] > len(out):
            return row, BUFFER_FULL
        if fate == _VERBATIM:
            copy_verbatim(data, batch, interval, out, indexes, state)
            continue
        if fate == _EMPTY:
            summary[:] = 0
            summary[MAX_TIMESTAMP] = batch.max_timestamp
            place_rebuilt(data, batch, at + HEADER_BYTES, interval, out, indexes, state, summary)
            continue
        if batch.attributes & CODEC_MASK != 0:
            one = (waiting, row)
            why = _place_packed(data, batch, dead, rule, out, indexes, state, space, told, one)
            if why != DONE:
                return row, why
            continue
        _place_plain(data, batch, dead, rule, out, indexes, state, space)
    return len(batches), DONE
