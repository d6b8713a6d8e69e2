"""The kernels of the quick checks: staged batches and the source batches that they come from."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, cast

import numpy as np

from logwright.checks.kernels import blame, note_kind, note_time, same_bytes, time_of
from logwright.format.batch import CODEC_MASK, CONTROL, DELETE_HORIZON
from logwright.format.crc import load_u64
from logwright.format.siphash import siphash64
from logwright.format.walk import (
    LENGTH,
    OFFSET_DELTA,
    OK,
    TRAILING,
    read_record,
    read_varint,
    read_varlong,
)
from logwright.kernel import inline_kernel, kernel
from logwright.keys.receipt import keeps_most, mix, mix_batch
from logwright.rewrite.batch_receipt import content_of

_FOUND: Final = np.dtype(
    (
        np.record,
        [
            ("summed_set", np.uint64),
            ("summed_keys", np.uint64),
            ("digest", np.uint64),
            ("mapped", np.uint64),
            ("packed_content", np.uint64),
        ],
    )
)

_FIXED_START: Final = 21
"""Up to here a batch's header is not covered by its CRC."""
_EPOCH: Final = 12
_LAST_OFFSET_DELTA: Final = 23
_PRODUCER: Final = 43
_PRODUCER_END: Final = 57
_FLAGS: Final = 0xFF & ~(CODEC_MASK | DELETE_HORIZON)
"""Kafka writes the lower byte of the attributes, and an empty batch without a codec."""


def new_found() -> np.record:
    """Return what is found of the keys in the output, all 0 and modulo 2**64.

    `summed_set` is the sum of the batches whose keys the map pass summed as a whole, `summed_keys`
    how many of their records the map was offered. `digest` and `mapped` are sum and number of the
    keys found one by one: those of other rebuilt batches, less those that the former lost.
    `packed_content` is the sum of the records of compressed batches that were rebuilt.
    """
    return cast("np.record", np.zeros(1, dtype=_FOUND)[0])


class Limits(NamedTuple):
    """The limits that rebuilt batches are checked against.

    Attributes:
        last_mapped: latest offset of the offset map.
        horizon_ms: the delete horizon that this cleaning sets.
    """

    last_mapped: int
    horizon_ms: int


@kernel
def find_partners(staged: Any, batches: Any, number: int, source_of: Any, partners: Any) -> None:
    """Set number and row of the source batch of each staged one that has its base offset.

    Args:
        staged, batches: BATCH[n] and BATCH[m], ascending.
        number: of the source that has `batches`.
        source_of, partners: int64[n]; changed where there is such a batch.
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
    """Find the staged batches, their CRCs being right, that are their source's byte for byte.

    The CRC covers all but the first 21 bytes, which are compared: length and CRC are among them.

    Args:
        staged_data, data: uint8[], the two files. staged, batches: BATCH[n] and BATCH[m].
        partners: int64[n], row of the source batch of each staged one.
        found: see `new_found`; added to.
        facts: see `new_facts`; records and largest timestamp are added to.
        verbatim: bool[n], set for those.
    """
    for row in range(len(staged)):
        batch = staged[row]
        at = batches[partners[row]].position
        if not same_bytes(staged_data, batch.position, data, at, _FIXED_START):
            continue
        verbatim[row] = True
        if batch.count == 0:
            continue
        _note_summed(batch, found)
        facts.max_timestamp = max(facts.max_timestamp, batch.max_timestamp)
        facts.records += batch.count


@kernel
def check_packed(
    staged: Any, source_data: Any, sources: Any, limits: Any, verdict: Any, found: Any, facts: Any
) -> Any:
    """Sum the records of rebuilt batches whose sources are compressed; those are not read.

    Args:
        staged: a `Side`.
        source_data: uint8[]. sources: BATCH[n], of the base offsets of the staged ones.
        limits, verdict, found, facts: see `check_rebuilt`.

    Returns:
        (row, status) of the first staged batch that cannot be read; status `OK` if there is none.
    """
    for row in range(len(staged.batches)):
        one, other = staged.batches[row], sources[row]
        codec = one.attributes & CODEC_MASK
        same_codec = one.count == 0 or codec == other.attributes & CODEC_MASK
        if not same_codec or not _headers_agree(
            staged.data, one, source_data, other, limits.horizon_ms
        ):
            blame(verdict, one.base_offset)
        data = staged.scratch if codec != 0 else staged.data
        status = _sum_records(data, one, staged.spans[row], limits.last_mapped, found, facts)
        if status != OK:
            return row, status
    return len(staged.batches), np.int64(OK)


@kernel
def _sum_records(data: Any, batch: Any, span: Any, last_mapped: int, found: Any, facts: Any) -> Any:
    position, end = span[0], span[1]
    last_delta = np.int64(-1)
    for _ in range(batch.count):
        record = read_record(data, position, end)
        position, delta, length = record.stop, record.delta, record.key_length
        if position < 0:
            return position
        if delta <= last_delta:
            return np.int64(OFFSET_DELTA)
        last_delta = delta
        offset, timestamp = batch.base_offset + delta, time_of(batch, record.time_delta)
        note_time(facts, timestamp)
        note_kind(facts, offset, length, record.value_length)
        found.packed_content += content_of(data, record.rest, position, offset, timestamp)
        if length >= 0 and offset <= last_mapped:
            found.mapped += np.uint64(1)
    return np.int64(OK) if position == end or batch.count == 0 else np.int64(TRAILING)


@kernel
def check_rebuilt(
    staged: Any, original: Any, limits: Any, key: Any, verdict: Any, found: Any, facts: Any
) -> Any:
    """Compare the records of rebuilt batches with those of their sources.

    Args:
        staged, original: a `Side` each, batches of equal base offsets; the original ones are
            numbered as in the map pass.
        limits: see `Limits`.
        key: uint64[2], of the keys' hash.
        verdict: on identical survivors.
        found: see `new_found`. facts: see `new_facts`. Both are added to.

    Returns:
        (row, status of the staged batch, status of the source batch) of the first that cannot be
        read; `OK` both if there is none.
    """
    for row in range(len(staged.batches)):
        one, other = staged.batches[row], original.batches[row]
        left = staged.scratch if one.attributes & CODEC_MASK != 0 else staged.data
        right = original.scratch if other.attributes & CODEC_MASK != 0 else original.data
        if not _headers_agree(staged.data, one, original.data, other, limits.horizon_ms):
            blame(verdict, one.base_offset)
        sides = (left, one, staged.spans[row]), (right, other, original.spans[row])
        status, source_status = _check_records(
            sides, limits.last_mapped, key, verdict, found, facts
        )
        if status != OK or source_status != OK:
            return row, status, source_status
    return len(staged.batches), np.int64(OK), np.int64(OK)


@kernel
def _headers_agree(staged_data: Any, one: Any, data: Any, other: Any, horizon_ms: int) -> Any:
    """Return whether leader epoch, last offset, producer and flags are the source's, and the delete
    horizon is the source's or the one that this cleaning sets.
    """
    at, source = one.position, other.position
    for start, end in (
        (_EPOCH, _EPOCH + 4),
        (_LAST_OFFSET_DELTA, _LAST_OFFSET_DELTA + 4),
        (_PRODUCER, _PRODUCER_END),
    ):
        if not same_bytes(staged_data, at + start, data, source + start, end - start):
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
    """Return the sum of the batches that are data of aborted transactions (`discard_valueless`)."""
    total = np.uint64(0)
    for row in range(len(batches)):
        batch = batches[row]
        is_data = batch.attributes & CONTROL == 0 and batch.count > 0
        if batch.discard and is_data and batch.last_offset >= log_start_offset:
            total += mix_batch(batch)
    return total


@kernel
def _check_records(
    sides: Any, last_mapped: int, key: Any, verdict: Any, found: Any, facts: Any
) -> Any:
    """Find the records of a rebuilt batch one after the other among its source's.

    Where the map pass summed the source's keys as a whole, those of missing records are subtracted;
    else those of the records found are added.

    Args:
        sides: bytes, row and span of the staged batch; the same of its source.

    Returns:
        (status, status of the source).
    """
    (left, one, span), (right, other, source_span) = sides
    position, end = span[0], span[1]
    at, source_end = source_span[0], source_span[1]
    is_summed = keeps_most(one.count, other, last_mapped)
    if is_summed:
        _note_summed(other, found)
    records, is_read = np.int64(0), False
    stop, rest, timestamp = position, position, np.int64(0)
    for index in range(other.count):
        if not is_read and records < one.count:
            stop, time_delta, rest = _read_time(left, position, end)
            if stop < 0:
                return stop, np.int64(OK)
            timestamp, is_read = time_of(one, time_delta), True
        if not is_read and not is_summed:
            break
        source_stop, source_delta, source_rest = _read_time(right, at, source_end)
        if source_stop < 0:
            return np.int64(OK), source_stop
        if is_read and _same_record(left, rest, stop, right, source_rest, source_stop):
            if timestamp != time_of(other, source_delta):
                blame(verdict, one.base_offset)
            note_time(facts, timestamp)
            if not is_summed:
                ordinal = other.first_ordinal + index
                _add_found(left, position, stop, one, ordinal, last_mapped, key, found, facts)
            position, is_read = stop, False
            records += 1
        elif is_summed:
            _subtract_missing(right, at, source_end, other, index, key, found, facts)
        at = source_stop
    if records < one.count:
        blame(verdict, one.base_offset)
        return np.int64(OK), np.int64(OK)
    whole = position == end or one.count == 0
    return np.int64(OK) if whole else np.int64(TRAILING), np.int64(OK)


@kernel
def _note_summed(batch: Any, found: Any) -> None:
    """Add a batch whose keys the map pass summed as a whole."""
    found.summed_set += mix_batch(batch)
    if batch.attributes & CONTROL == 0:
        found.summed_keys += np.uint64(batch.count)


@kernel
def _add_found(
    data: Any,
    at: int,
    end: int,
    batch: Any,
    ordinal: int,
    last_mapped: int,
    key: Any,
    found: Any,
    facts: Any,
) -> None:
    """Add a staged record that is one of its source's."""
    record = read_record(data, at, end)
    offset, length = batch.base_offset + record.delta, record.key_length
    note_kind(facts, offset, length, record.value_length)
    if batch.attributes & CONTROL == 0 and length >= 0 and offset <= last_mapped:
        found.digest += mix(siphash64(data, record.key, length, key[0], key[1]), ordinal)
        found.mapped += np.uint64(1)


@kernel
def _subtract_missing(
    data: Any, at: int, end: int, batch: Any, index: int, key: Any, found: Any, facts: Any
) -> None:
    """Take a missing record from what the map pass summed of its batch."""
    record = read_record(data, at, end)
    length = record.key_length
    if record.value_length < 0:
        facts.tombstones -= 1
    if batch.attributes & CONTROL != 0:
        return
    if length < 0:
        found.summed_keys -= np.uint64(1)
        return
    found.digest -= mix(
        siphash64(data, record.key, length, key[0], key[1]), batch.first_ordinal + index
    )
    found.mapped -= np.uint64(1)


@inline_kernel
def _read_time(data: Any, at: int, end: int) -> Any:
    """Return (end of a record or a status, its timestamp delta, position after that)."""
    length, body = read_varint(data, at, end)
    delta, after = read_varlong(data, body + 1, min(body + length, end))
    stop = body + length
    if body < 0 or length < 1 or stop > end or after < 0:
        stop = np.int64(LENGTH)
    return stop, delta, after


@inline_kernel
def _same_record(
    left: Any, rest: int, stop: int, right: Any, source_rest: int, source_stop: int
) -> Any:
    """Return whether two records are the same after their timestamps: offset delta, key, value,
    headers. Most that differ do so in the first bytes.
    """
    size = stop - rest
    same = size == source_stop - source_rest and size > 1
    same = same and left[rest] == right[source_rest] and left[rest + 1] == right[source_rest + 1]
    if same:
        same = _same_span(left, rest, right, source_rest, size)
    return same


@inline_kernel
def _same_span(left: Any, left_start: Any, right: Any, right_start: Any, length: Any) -> Any:
    """Return whether two spans hold the same bytes; four words at a step, without a branch."""
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
