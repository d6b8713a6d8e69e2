"""The kernels that judge a compacted output against the log it was made from.

They share no code with the passes that made it but the walk over a record and the hash, and the
hash has another key.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from logwright.compaction.keys.offset_map import (
    PREFETCH_DISTANCE,
    find_slot,
    ordinal_at,
    prefetch_slot,
    put_entry,
)
from logwright.compaction.keys.siphash import siphash128
from logwright.format.batch import CODEC_MASK, CONTROL, LOG_APPEND_TIME, TRANSACTIONAL
from logwright.format.crc import load_u64
from logwright.format.walk import OK, TRAILING, read_record
from logwright.kernel import inline_kernel, kernel

# The cells of what is found out about one staged segment, int64[FACT_CELLS].
RECORDS: Final = 0
TOMBSTONES: Final = 1
NULL_KEYS: Final = 2
FIRST_NULL_KEY: Final = 3
MIN_TIMESTAMP: Final = 4
MAX_TIMESTAMP: Final = 5
FACT_CELLS: Final = 6

# The cells of a check's verdict, int64[2].
VIOLATIONS: Final = 0
FIRST_OFFENDER: Final = 1


@inline_kernel
def blame(verdict: Any, offset: int) -> None:
    """Count a violation at this offset."""
    if verdict[VIOLATIONS] == 0 or offset < verdict[FIRST_OFFENDER]:
        verdict[FIRST_OFFENDER] = offset
    verdict[VIOLATIONS] += 1


@kernel
def check_batch_order(batches: Any, start_offset: int, end_offset: int, verdict: Any) -> None:
    """Batches ascend, do not overlap and lie in [start, end)."""
    next_offset = np.int64(start_offset)
    for row in range(len(batches)):
        batch = batches[row]
        if batch.base_offset < next_offset or batch.last_offset < batch.base_offset:
            blame(verdict, batch.base_offset)
        elif batch.last_offset >= end_offset:
            blame(verdict, batch.last_offset)
        next_offset = max(next_offset, batch.last_offset + 1)


@kernel
def survey(data: Any, scratch: Any, batches: Any, spans: Any, facts: Any, order: Any) -> Any:
    """Walk the records of a staged window: facts about them, and whether their offsets ascend.

    Returns:
        (row, status) of the first batch whose records cannot be read; status `OK` if there is none.
    """
    for row in range(len(batches)):
        batch = batches[row]
        source = scratch if batch.attributes & CODEC_MASK != 0 else data
        position, end = spans[row, 0], spans[row, 1]
        append_time = batch.attributes & LOG_APPEND_TIME != 0
        last_delta = np.int64(-1)
        for _ in range(batch.count):
            position, _, time_delta, _, delta, _, key_length, value_length = read_record(
                source, position, end
            )
            if position < 0:
                return row, position
            offset = batch.base_offset + delta
            if delta <= last_delta or offset > batch.last_offset:
                blame(order, offset)
            last_delta = delta
            timestamp = batch.max_timestamp if append_time else batch.base_timestamp + time_delta
            if facts[RECORDS] == 0 or timestamp < facts[MIN_TIMESTAMP]:
                facts[MIN_TIMESTAMP] = timestamp
            if facts[RECORDS] == 0 or timestamp > facts[MAX_TIMESTAMP]:
                facts[MAX_TIMESTAMP] = timestamp
            facts[RECORDS] += 1
            if value_length < 0:
                facts[TOMBSTONES] += 1
            if key_length < 0:
                if facts[NULL_KEYS] == 0:
                    facts[FIRST_NULL_KEY] = offset
                facts[NULL_KEYS] += 1
        if position != end:
            return row, np.int64(TRAILING)
    return len(batches), np.int64(OK)


@kernel
def set_valueless(batches: Any, aborted: Any, log_start_offset: int, below: bool) -> None:
    """Mark control batches, and the data of aborted transactions, as `discard`.

    aborted: int64[n, 3] of producer id, first offset and marker's offset, ascending by the first
        two. below: what is set for the data of all transactions below the log start offset.
    """
    for row in range(len(batches)):
        batch = batches[row]
        batch.discard = batch.attributes & CONTROL != 0
        if batch.attributes & TRANSACTIONAL == 0 or batch.discard:
            continue
        if batch.last_offset < log_start_offset:
            batch.discard = below
            continue
        low, high = 0, len(aborted)
        while low < high:
            middle = (low + high) // 2
            producer, first = aborted[middle, 0], aborted[middle, 1]
            if producer < batch.producer_id or (
                producer == batch.producer_id and first <= batch.base_offset
            ):
                low = middle + 1
            else:
                high = middle
        if low > 0 and aborted[low - 1, 0] == batch.producer_id:
            batch.discard = batch.base_offset <= aborted[low - 1, 2]


@kernel
def _hash_keys(
    data: Any, scratch: Any, batches: Any, spans: Any, key: Any, limits: Any, found: Any
) -> Any:
    """Hashes and offsets of the keyed records of a window, into `found`; (taken, row, status).

    Batches that are marked `discard` have no values: see `set_valueless`.

    limits: int64[4]: last mapped offset, first and end of the shard, 1 for tombstones only.
    """
    hash1, hash2, offsets = found
    last_mapped, tombstones_only = limits[0], limits[3] == 1
    shard_start, shard_end = np.uint64(limits[1]), np.uint64(limits[2])
    taken = 0
    for row in range(len(batches)):
        batch = batches[row]
        if batch.discard:
            continue
        source = scratch if batch.attributes & CODEC_MASK != 0 else data
        position, end = spans[row, 0], spans[row, 1]
        for _ in range(batch.count):
            position, _, _, _, delta, at, length, value_length = read_record(source, position, end)
            if position < 0:
                return taken, row, position
            offset = batch.base_offset + delta
            if length < 0 or offset > last_mapped or (tombstones_only and value_length >= 0):
                continue
            one, two = siphash128(source, at, length, key[0], key[1])
            part = one >> np.uint64(32)
            if part >= shard_start and part < shard_end:
                hash1[taken], hash2[taken], offsets[taken] = one, two, offset
                taken += 1
    return taken, len(batches), np.int64(OK)


@kernel
def weigh_keys(
    data: Any,
    scratch: Any,
    batches: Any,
    spans: Any,
    table: Any,
    key: Any,
    limits: Any,
    room: Any,
    verdict: Any,
    found: Any,
    judge: bool,
) -> Any:
    """Note the latest offset of each key of a window in the table; judging, blame what is not there
    yet.

    Each record must have its key at its own offset or a later one. Windows are judged from the last
    to the first,
    and what is blamed is noted: so a lost key counts once, at the offset of its latest record.

    Args:
        limits: see `_hash_keys`.
        room: int64[1], how many more keys the table can take.
        verdict: int64[2], of the check on latest values.
        found: (uint64[n], uint64[n], int64[n]), room for all records of the window.
        judge: false to note, true to judge.

    Returns:
        (row, status) of the first batch that cannot be read; status `OK` if there is none.
    """
    taken, row, status = _hash_keys(data, scratch, batches, spans, key, limits, found)
    hash1, hash2, offsets = found
    for step in range(taken):
        index = taken - 1 - step
        if index >= PREFETCH_DISTANCE:
            prefetch_slot(table, hash2[index - PREFETCH_DISTANCE])
        at = find_slot(table, hash1[index], hash2[index])
        noted = ordinal_at(table, at)
        if noted >= offsets[index]:
            continue
        if judge:
            blame(verdict, offsets[index])
        if noted < 0:
            if room[0] == 0:
                continue
            room[0] -= 1
        put_entry(table, at, hash1[index], hash2[index], offsets[index])
    return row, status


@kernel
def same_bytes(left: Any, left_start: int, right: Any, right_start: int, length: int) -> bool:
    """Whether two spans hold the same bytes."""
    words_end = np.int64(length) - 7
    index = np.int64(0)
    while index < words_end:
        if load_u64(left, left_start + index) != load_u64(right, right_start + index):
            return False
        index += 8
    while index < length:
        if left[left_start + index] != right[right_start + index]:
            return False
        index += 1
    return True


@kernel
def match_batches(
    staged_data: Any, staged: Any, data: Any, batches: Any, rows: Any, identical: Any
) -> None:
    """Which staged batches are byte for byte those of the source rows, set in bool[len(staged)]. A
    row below 0 has none.
    """
    for index in range(len(staged)):
        if rows[index] >= 0:
            one, other = staged[index], batches[rows[index]]
            identical[index] = one.size == other.size and same_bytes(
                staged_data, one.position, data, other.position, one.size
            )


@kernel
def check_survivors(
    staged_data: Any,
    staged_scratch: Any,
    staged: Any,
    staged_spans: Any,
    data: Any,
    scratch: Any,
    batches: Any,
    spans: Any,
    last_mapped: int,
    verdicts: Any,
) -> Any:
    """Each staged record is its source record; none above the map's end is missing, unless its
    batch is marked `discard` (`set_valueless`). (row, status).

    `staged` and `batches` are pairs of one batch each, of equal base offsets. verdicts:
    int64[2, 2], of the survivors' check and of the latest values' check.
    """
    for row in range(len(staged)):
        left = staged_scratch if staged[row].attributes & CODEC_MASK != 0 else staged_data
        right = scratch if batches[row].attributes & CODEC_MASK != 0 else data
        status = _check_pair(
            left,
            staged[row],
            staged_spans[row],
            right,
            batches[row],
            spans[row],
            last_mapped,
            verdicts,
        )
        if status != OK:
            return row, status
    return len(staged), np.int64(OK)


@kernel
def _check_pair(
    left: Any,
    one: Any,
    span: Any,
    right: Any,
    other: Any,
    source_span: Any,
    last_mapped: int,
    verdicts: Any,
) -> Any:
    """Merge the records of a staged batch with those of its source; a status."""
    position, end = span[0], span[1]
    source_position, source_end = source_span[0], source_span[1]
    remaining = np.int64(one.count)
    offset, rest, timestamp = np.int64(-1), np.int64(0), np.int64(0)
    pending = False
    for _ in range(other.count):
        if not pending and remaining > 0:
            position, _, time_delta, rest, delta, _, _, _ = read_record(left, position, end)
            if position < 0:
                return position
            offset = one.base_offset + delta
            timestamp = _time_of(one, time_delta)
            remaining -= 1
            pending = True
        source_position, _, time_delta, at, delta, _, _, _ = read_record(
            right, source_position, source_end
        )
        if source_position < 0:
            return source_position
        source_offset = other.base_offset + delta
        if not pending or source_offset < offset:
            if source_offset > last_mapped and not other.discard:
                blame(verdicts[1], source_offset)
            continue
        length = position - rest
        if (
            source_offset > offset
            or timestamp != _time_of(other, time_delta)
            or length != source_position - at
            or not same_bytes(left, rest, right, at, length)
        ):
            blame(verdicts[0], offset)
        pending = False
    if pending or remaining > 0:
        blame(verdicts[0], max(offset, one.base_offset))
    return np.int64(OK)


@inline_kernel
def _time_of(batch: Any, delta: int) -> int:
    """A record's timestamp in ms."""
    if batch.attributes & LOG_APPEND_TIME != 0:
        return np.int64(batch.max_timestamp)
    return np.int64(batch.base_timestamp + delta)


def new_cells() -> NDArray[np.int64]:
    """The facts of no records."""
    cells = np.full(FACT_CELLS, -1, dtype=np.int64)
    cells[[RECORDS, TOMBSTONES, NULL_KEYS]] = 0
    return cells
