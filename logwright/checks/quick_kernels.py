"""The kernels of the quick checks: staged batches beside the source batches that they come from.

They share no code with the passes that made the output but the walk over a record, the hash and the
way in which a record is mixed into a sum.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from logwright.checks import thorough_kernels as kernels
from logwright.compaction.keys.siphash import siphash64
from logwright.compaction.receipt import keeps_most, mix, mix_batch
from logwright.format.batch import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
)
from logwright.format.crc import load_u64
from logwright.format.walk import (
    LENGTH,
    OK,
    TRAILING,
    read_record,
    read_varint,
    read_varlong,
)
from logwright.kernel import inline_kernel, kernel

# The cells of what was found in the output, uint64[FOUND_CELLS].
MOSTLY_SET: Final = 0
"""Sum of the batches whose keys the map pass has summed: all that keep most of their records."""
EXPECTED_MAPPED: Final = 1
"""How many keys the map must have been offered of them."""
DIGEST: Final = 2
MAPPED: Final = 3
"""Sum and number of the mapped keys that other batches have, less those that the former lost."""
PACKED_CONTENT: Final = 4
"""Sum of the records of compressed batches that were rebuilt (`witness`)."""
FOUND_CELLS: Final = 5

_FIXED_START: Final = 21
"""Up to here a batch's header is not covered by its CRC."""
_EPOCH: Final = 12
_LAST_OFFSET_DELTA: Final = 23
_PRODUCER: Final = 43
_PRODUCER_END: Final = 57
_FLAGS: Final = 0xFF & ~(CODEC_MASK | DELETE_HORIZON)
"""Kafka writes the lower byte of the attributes, and an empty batch without a codec."""


@kernel
def find_partners(staged: Any, batches: Any, number: int, source_of: Any, partners: Any) -> None:
    """Which staged batches have the base offset of one of source `number`: of those the source and
    its row are set.
    """
    for row in range(len(staged)):
        low, high = 0, len(batches)
        while low < high:
            middle = (low + high) // 2
            if batches[middle].base_offset < staged[row].base_offset:
                low = middle + 1
            else:
                high = middle
        if low < len(batches) and batches[low].base_offset == staged[row].base_offset:
            source_of[row], partners[row] = number, low


@kernel
def find_verbatim(
    staged_data: Any,
    staged: Any,
    data: Any,
    batches: Any,
    partners: Any,
    found: Any,
    facts: Any,
    verbatim: Any,
) -> None:
    """Which staged batches, whose CRCs are right, are their source's byte for byte.

    The CRC covers all but the first 21 bytes, which are compared: length and CRC are among them.

    Args:
        partners: int64[n], row of the source batch of each staged one.
        found: uint64[FOUND_CELLS], to which they are added.
        facts: int64[kernels.FACT_CELLS], to which records and largest timestamp are added.
        verbatim: bool[n], set for those.
    """
    for row in range(len(staged)):
        batch = staged[row]
        at = batches[partners[row]].position
        if not kernels.same_bytes(staged_data, batch.position, data, at, _FIXED_START):
            continue
        verbatim[row] = True
        if batch.count == 0:
            continue
        note_most(batch, found)
        facts[kernels.MAX_TIMESTAMP] = max(facts[kernels.MAX_TIMESTAMP], batch.max_timestamp)
        facts[kernels.RECORDS] += batch.count


@kernel
def check_rebuilt(
    staged_data: Any,
    staged_scratch: Any,
    staged: Any,
    staged_spans: Any,
    data: Any,
    scratch: Any,
    batches: Any,
    spans: Any,
    rule: Any,
    key: Any,
    verdict: Any,
    found: Any,
    facts: Any,
) -> Any:
    """Compare the records of rebuilt batches with those of their sources.

    Args:
        staged, batches: BATCH[n] each, pairs of equal base offsets; the sources numbered as in the
            map pass.
        rule: int64[2]: the map's last offset, the delete horizon that this cleaning sets.
        key: uint64[2], of the keys' hash.
        verdict: int64[2], of the survivors' check.
        found, facts: see `find_verbatim`.

    Returns:
        (row, status of the staged batch, status of the source batch) of the first that cannot be
        read; `OK` both if there is none.
    """
    for row in range(len(staged)):
        one, other = staged[row], batches[row]
        left = staged_scratch if one.attributes & CODEC_MASK != 0 else staged_data
        right = scratch if other.attributes & CODEC_MASK != 0 else data
        if not headers_agree(staged_data, one, data, other, rule[1]):
            kernels.blame(verdict, one.base_offset)
        sides = (left, one, staged_spans[row]), (right, other, spans[row])
        if keeps_most(one.count, other, rule[0]):
            status, source_status = _check_most(sides, key, verdict, found, facts)
        else:
            status, source_status = _check_few(sides, rule[0], key, verdict, found, facts)
        if status != OK or source_status != OK:
            return row, status, source_status
    return len(staged), np.int64(OK), np.int64(OK)


@kernel
def headers_agree(staged_data: Any, one: Any, data: Any, other: Any, horizon_ms: int) -> Any:
    """Leader epoch, last offset, producer and flags are the source's; a delete horizon stays, or is
    the one that this cleaning sets.
    """
    at, source = one.position, other.position
    for start, end in (
        (_EPOCH, _EPOCH + 4),
        (_LAST_OFFSET_DELTA, _LAST_OFFSET_DELTA + 4),
        (_PRODUCER, _PRODUCER_END),
    ):
        if not kernels.same_bytes(staged_data, at + start, data, source + start, end - start):
            return False
    if (one.attributes ^ other.attributes) & _FLAGS != 0:
        return False
    if one.count == 0:
        return True
    if other.attributes & DELETE_HORIZON != 0:
        kept = one.attributes & DELETE_HORIZON != 0
        return kept and one.base_timestamp == other.base_timestamp
    return one.attributes & DELETE_HORIZON == 0 or one.base_timestamp == horizon_ms


@kernel
def sum_aborted(batches: Any, log_start_offset: int) -> Any:
    """Sum of the batches that are data of aborted transactions (`kernels.set_valueless`)."""
    total = np.uint64(0)
    for row in range(len(batches)):
        batch = batches[row]
        is_data = batch.attributes & CONTROL == 0 and batch.count > 0
        if batch.discard and is_data and batch.last_offset >= log_start_offset:
            total += mix_batch(batch)
    return total


@kernel
def _check_most(sides: Any, key: Any, verdict: Any, found: Any, facts: Any) -> Any:
    """A batch that keeps most of its records: they are found one after the other among its
    source's, and the keys of the others taken from what the map pass told. (status, status of the
    source).

    Each side is its bytes, row and span.
    """
    (left, one, span), (right, other, source_span) = sides
    position, end = span[0], span[1]
    at, source_end = source_span[0], source_span[1]
    found_records, is_read = np.int64(0), False
    stop, rest, timestamp = position, position, np.int64(0)
    note_most(other, found)
    for index in range(other.count):
        if not is_read and found_records < one.count:
            stop, time_delta, rest = _read_time(left, position, end)
            if stop < 0:
                return stop, np.int64(OK)
            timestamp, is_read = time_of(one, time_delta), True
        source_stop, source_delta, source_rest = _read_time(right, at, source_end)
        if source_stop < 0:
            return np.int64(OK), source_stop
        if is_read and same_record(left, rest, stop, right, source_rest, source_stop):
            if timestamp != time_of(other, source_delta):
                kernels.blame(verdict, one.base_offset)
            note_time(facts, timestamp)
            position, is_read = stop, False
            found_records += 1
        else:
            _note_missing(right, at, source_end, other, index, key, found, facts)
        at = source_stop
    if found_records < one.count:
        kernels.blame(verdict, one.base_offset)
        return np.int64(OK), np.int64(OK)
    return np.int64(OK) if position == end else np.int64(TRAILING), np.int64(OK)


@kernel
def _check_few(sides: Any, last_mapped: int, key: Any, verdict: Any, found: Any, facts: Any) -> Any:
    """A batch that keeps few of its records: each is compared with the source's at its offset, and
    its key added. (status, status of the source).
    """
    (left, one, span), (right, other, source_span) = sides
    position, end = span[0], span[1]
    at, source_end = source_span[0], source_span[1]
    is_dense = other.count == other.last_offset - other.base_offset + 1
    maps = one.attributes & CONTROL == 0
    next_index = np.int64(0)
    for _ in range(one.count):
        position, _, time_delta, rest, delta, key_at, length, value_length = read_record(
            left, position, end
        )
        if position < 0:
            return position, np.int64(OK)
        offset, timestamp = one.base_offset + delta, time_of(one, time_delta)
        note_time(facts, timestamp)
        note_kind(facts, offset, length, value_length)
        if is_dense:
            at, index = _skip_records(right, at, source_end, next_index, min(delta, other.count))
        else:
            at, index = _skip_to(right, at, source_end, next_index, other.count, delta)
        if at < 0:
            return np.int64(OK), at
        next_index = index + 1
        if index >= other.count:
            kernels.blame(verdict, offset)
            continue
        at, source_delta, source_rest = _read_time(right, at, source_end)
        if at < 0:
            return np.int64(OK), at
        if timestamp != time_of(other, source_delta) or not same_record(
            left, rest, position, right, source_rest, at
        ):
            kernels.blame(verdict, offset)
        if maps and length >= 0 and offset <= last_mapped:
            hash1 = siphash64(left, key_at, length, key[0], key[1])
            found[DIGEST] += mix(hash1, other.first_ordinal + index)
            found[MAPPED] += np.uint64(1)
    return np.int64(OK) if position == end or one.count == 0 else np.int64(TRAILING), np.int64(OK)


@kernel
def note_most(batch: Any, found: Any) -> None:
    """A batch of which the map pass told the keys."""
    found[MOSTLY_SET] += mix_batch(batch)
    if batch.attributes & CONTROL == 0:
        found[EXPECTED_MAPPED] += np.uint64(batch.count)


@inline_kernel
def note_time(facts: Any, timestamp: Any) -> None:
    """Count a record."""
    facts[kernels.MIN_TIMESTAMP] = min(facts[kernels.MIN_TIMESTAMP], timestamp)
    facts[kernels.MAX_TIMESTAMP] = max(facts[kernels.MAX_TIMESTAMP], timestamp)
    facts[kernels.RECORDS] += 1


@inline_kernel
def note_kind(facts: Any, offset: int, length: int, value_length: int) -> None:
    """Count a record if it is a tombstone or has no key."""
    if value_length < 0:
        facts[kernels.TOMBSTONES] += 1
    if length < 0:
        if facts[kernels.NULL_KEYS] == 0:
            facts[kernels.FIRST_NULL_KEY] = offset
        facts[kernels.NULL_KEYS] += 1


@kernel
def _note_missing(
    data: Any, at: int, end: int, batch: Any, index: int, key: Any, found: Any, facts: Any
) -> None:
    """Take a missing record from what the map pass told of its batch."""
    _, _, _, _, _, key_at, length, value_length = read_record(data, at, end)
    if value_length < 0:
        facts[kernels.TOMBSTONES] -= 1
    if batch.attributes & CONTROL != 0:
        return
    if length < 0:
        found[EXPECTED_MAPPED] -= np.uint64(1)
        return
    hash1 = siphash64(data, key_at, length, key[0], key[1])
    found[DIGEST] -= mix(hash1, batch.first_ordinal + index)
    found[MAPPED] -= np.uint64(1)


@inline_kernel
def _skip_records(data: Any, at: Any, end: Any, index: Any, wanted: Any) -> Any:
    """Step over records by their lengths up to number `wanted`; (position or status, number)."""
    while index < wanted:
        length, body = read_varint(data, at, end)
        if body < 0:
            return body, index
        if length < 1 or length > end - body:
            return np.int64(LENGTH), index
        at = body + length
        index += 1
    return at, index


@inline_kernel
def _skip_to(data: Any, at: Any, end: Any, index: Any, count: Any, wanted: Any) -> Any:
    """Step over records to the one of this offset delta; (position or status, number), the number
    `count` if there is none.
    """
    while index < count:
        after, _, _, _, delta, _, _, _ = read_record(data, at, end)
        if after < 0:
            return after, index
        if delta == wanted:
            return at, index
        if delta > wanted:
            return at, np.int64(count)
        at = after
        index += 1
    return at, np.int64(count)


@inline_kernel
def _read_time(data: Any, at: int, end: int) -> Any:
    """(end of a record or a status, its timestamp delta, position after that)."""
    length, body = read_varint(data, at, end)
    delta, after = read_varlong(data, body + 1, min(body + length, end))
    stop = body + length
    if body < 0 or length < 1 or stop > end or after < 0:
        stop = np.int64(LENGTH)
    return stop, delta, after


@inline_kernel
def same_record(
    left: Any, rest: int, stop: int, right: Any, source_rest: int, source_stop: int
) -> Any:
    """Whether two records are the same behind their timestamps: offset delta, key, value, headers.
    Most that are not differ in the first bytes.
    """
    size = stop - rest
    same = size == source_stop - source_rest and size > 1
    same = same and left[rest] == right[source_rest] and left[rest + 1] == right[source_rest + 1]
    if same:
        same = same_span(left, rest, right, source_rest, size)
    return same


@inline_kernel
def time_of(batch: Any, delta: int) -> Any:
    """A record's timestamp in ms."""
    if batch.attributes & LOG_APPEND_TIME != 0:
        return np.int64(batch.max_timestamp)
    return np.int64(batch.base_timestamp + delta)


@inline_kernel
def same_span(left: Any, left_start: Any, right: Any, right_start: Any, length: Any) -> Any:
    """Whether two spans hold the same bytes; four words at a step, without a branch among them."""
    differs = np.uint64(0)
    index = np.int64(0)
    while index + 32 <= length:
        for word in range(4):
            at = index + 8 * word
            differs |= load_u64(left, left_start + at) ^ load_u64(right, right_start + at)
        index += 32
    while index + 8 <= length:
        differs |= load_u64(left, left_start + index) ^ load_u64(right, right_start + index)
        index += 8
    while index < length:
        differs |= np.uint64(left[left_start + index] ^ right[right_start + index])
        index += 1
    return differs == np.uint64(0)
