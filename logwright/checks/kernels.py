"""Kernels of both examinations: counters, and the rules that need one side only.

All kernels of this package are independent on purpose: they share no code with the two passes of a
cleaning but the walk over a record, the hash and the way in which a record is mixed into a sum.
"""

from __future__ import annotations

from typing import Any, Final, cast

import numpy as np

from logwright.format.batch import CODEC_MASK, CONTROL, LOG_APPEND_TIME, TRANSACTIONAL
from logwright.format.crc import load_u64
from logwright.format.walk import OK, TRAILING, read_record
from logwright.kernel import inline_kernel, kernel
from logwright.units import INT64_MAX

_VERDICT: Final = np.dtype((np.record, [("violations", np.int64), ("first_offset", np.int64)]))
_FACTS: Final = np.dtype(
    (
        np.record,
        [
            ("records", np.int64),
            ("tombstones", np.int64),
            ("null_keys", np.int64),
            ("first_null_key", np.int64),
            ("min_timestamp", np.int64),
            ("max_timestamp", np.int64),
        ],
    )
)


def new_verdict() -> np.record:
    """Return the result of a check without a violation yet: `violations`, and the offset of the
    first of them, -1 if there is none.
    """
    return cast("np.record", np.array([(0, -1)], dtype=_VERDICT)[0])


def new_facts() -> np.record:
    """Return the facts of no records. `first_null_key` is an offset, -1 if there is none.
    `min_timestamp` and `max_timestamp`, ms, have no meaning without records.
    """
    return cast("np.record", np.array([(0, 0, 0, -1, INT64_MAX, -INT64_MAX)], dtype=_FACTS)[0])


@inline_kernel
def blame(verdict: Any, offset: int) -> None:
    """Count a violation at this offset."""
    if verdict.violations == 0 or offset < verdict.first_offset:
        verdict.first_offset = offset
    verdict.violations += 1


@inline_kernel
def time_of(batch: Any, delta: int) -> Any:
    """Return a record's timestamp in ms."""
    if batch.attributes & LOG_APPEND_TIME != 0:
        return np.int64(batch.max_timestamp)
    return np.int64(batch.base_timestamp + delta)


@inline_kernel
def note_time(facts: Any, timestamp: Any) -> None:
    """Count a record with this timestamp."""
    facts.min_timestamp = min(facts.min_timestamp, timestamp)
    facts.max_timestamp = max(facts.max_timestamp, timestamp)
    facts.records += 1


@inline_kernel
def note_kind(facts: Any, offset: int, key_length: int, value_length: int) -> None:
    """Count a record if it is a tombstone or has no key; lengths are -1 for null."""
    if value_length < 0:
        facts.tombstones += 1
    if key_length < 0:
        if facts.null_keys == 0:
            facts.first_null_key = offset
        facts.null_keys += 1


@kernel
def check_batch_order(batches: Any, start_offset: int, end_offset: int, verdict: Any) -> None:
    """Blame the batches that do not ascend, that overlap, or that are outside [start, end)."""
    next_offset = np.int64(start_offset)
    for row in range(len(batches)):
        batch = batches[row]
        if batch.base_offset < next_offset or batch.last_offset < batch.base_offset:
            blame(verdict, batch.base_offset)
        elif batch.last_offset >= end_offset:
            blame(verdict, batch.last_offset)
        next_offset = max(next_offset, batch.last_offset + 1)


@kernel
def survey(side: Any, facts: Any, order: Any) -> Any:
    """Count the records of a window, and blame the offsets that do not ascend.

    Args:
        side: a `Side`.
        facts: see `new_facts`; added to.
        order: the verdict on ascending offsets.

    Returns:
        (row, status) of the first batch whose records cannot be read; status `OK` if there is none.
    """
    for row in range(len(side.batches)):
        batch = side.batches[row]
        source = side.scratch if batch.attributes & CODEC_MASK != 0 else side.data
        position, end = side.spans[row, 0], side.spans[row, 1]
        last_delta = np.int64(-1)
        for _ in range(batch.count):
            record = read_record(source, position, end)
            position, delta = record.stop, record.delta
            if position < 0:
                return row, position
            offset = batch.base_offset + delta
            if delta <= last_delta or offset > batch.last_offset:
                blame(order, offset)
            last_delta = delta
            note_time(facts, time_of(batch, record.time_delta))
            note_kind(facts, offset, record.key_length, record.value_length)
        if position != end:
            return row, np.int64(TRAILING)
    return len(side.batches), np.int64(OK)


@kernel
def discard_valueless(batches: Any, aborted: Any, log_start_offset: int, below: bool) -> None:
    """Set `discard` of control batches and of the data of aborted transactions, clear the others'.

    Args:
        batches: BATCH[n]; changed.
        aborted: int64[n, 3] of producer id, first offset and marker's offset, ascending by the
            first two.
        log_start_offset: of the log.
        below: what is set for the data of all transactions below the log start offset.
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
def same_bytes(left: Any, left_start: int, right: Any, right_start: int, length: int) -> bool:
    """Return whether two spans hold the same bytes."""
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
