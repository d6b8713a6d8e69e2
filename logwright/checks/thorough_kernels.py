"""The kernels of the thorough checks: which keys the output still has, and whether its records are
the source's. Keys are hashed with a key of the examination, not with the cleaning's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from logwright.checks.kernels import blame, same_bytes, time_of
from logwright.format.batch import CODEC_MASK
from logwright.format.siphash import siphash128
from logwright.format.walk import OK, read_record
from logwright.kernel import kernel
from logwright.keys.offset_map import (
    PREFETCH_DISTANCE,
    find_slot,
    ordinal_at,
    prefetch_slot,
    put_entry,
)


class KeyRange(NamedTuple):
    """Which records are taken.

    Attributes:
        last_mapped: latest offset of the map; none above it.
        shard_start, shard_end: the upper 32 bits of the hashes that are taken, end exclusive.
        only_tombstones: leave records with a value out.
    """

    last_mapped: int
    shard_start: int
    shard_end: int
    only_tombstones: bool


@kernel
def _hash_keys(side: Any, key: Any, taken: Any, hashes: Any) -> Any:
    """Put hashes and offsets of the keyed records of a window into `hashes`.

    Batches that are marked `discard` have no values: see `discard_valueless`.

    Args:
        side: a `Side`. key: uint64[2]. taken: a `KeyRange`.
        hashes: (uint64[n], uint64[n], int64[n]) of the two halves of the hash, and offsets.

    Returns:
        (number of records, row, status); see `weigh_keys`.
    """
    hash1, hash2, offsets = hashes
    shard_start, shard_end = np.uint64(taken.shard_start), np.uint64(taken.shard_end)
    count = 0
    for row in range(len(side.batches)):
        batch = side.batches[row]
        if batch.discard:
            continue
        source = side.scratch if batch.attributes & CODEC_MASK != 0 else side.data
        position, end = side.spans[row, 0], side.spans[row, 1]
        for _ in range(batch.count):
            record = read_record(source, position, end)
            position, length = record.stop, record.key_length
            if position < 0:
                return count, row, position
            offset = batch.base_offset + record.delta
            is_other = taken.only_tombstones and record.value_length >= 0
            if length < 0 or offset > taken.last_mapped or is_other:
                continue
            hash_low, hash_high = siphash128(source, record.key, length, key[0], key[1])
            part = hash_low >> np.uint64(32)
            if part >= shard_start and part < shard_end:
                hash1[count], hash2[count], offsets[count] = hash_low, hash_high, offset
                count += 1
    return count, len(side.batches), np.int64(OK)


@kernel
def weigh_keys(
    side: Any,
    table: Any,
    key: Any,
    taken: Any,
    room: Any,
    verdict: Any,
    hashes: Any,
    judge: bool,
) -> Any:
    """Note the latest offset of each key of a window in the table; judging, blame what is not there
    yet.

    Each record must have its key at its own offset or a later one. Windows are judged from the last
    to the first, and what is blamed is noted: so a lost key counts once, at the offset of its
    latest record.

    Args:
        side: a `Side`.
        table, key: of the offset map.
        taken: a `KeyRange`.
        room: int64[1], how many more keys the table can take.
        verdict: on the latest values.
        hashes: (uint64[n], uint64[n], int64[n]), room for all records of the window.
        judge: false to note, true to judge.

    Returns:
        (row, status) of the first batch that cannot be read; status `OK` if there is none.
    """
    count, row, status = _hash_keys(side, key, taken, hashes)
    hash1, hash2, offsets = hashes
    for step in range(count):
        index = count - 1 - step
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
def match_batches(
    staged_data: Any, staged: Any, data: Any, batches: Any, rows: Any, identical: Any
) -> None:
    """Set in bool[len(staged)] which staged batches are byte for byte those of the source rows. A
    row below 0 has none.
    """
    for index in range(len(staged)):
        if rows[index] >= 0:
            batch, source = staged[index], batches[rows[index]]
            identical[index] = batch.size == source.size and same_bytes(
                staged_data, batch.position, data, source.position, batch.size
            )


@kernel
def check_survivors(
    staged: Any, original: Any, last_mapped: int, survivors: Any, latest: Any
) -> Any:
    """Blame staged records that are not their source record, and missing ones above the map's end,
    unless their batch is marked `discard` (`discard_valueless`).

    Args:
        staged, original: a `Side` each, pairs of one batch each, of equal base offsets.
        last_mapped: latest offset of the map.
        survivors, latest: the verdicts on identical survivors and on the latest values.

    Returns:
        (row, status) of the first batch that cannot be read; status `OK` if there is none.
    """
    for row in range(len(staged.batches)):
        batch, source = staged.batches[row], original.batches[row]
        left = staged.scratch if batch.attributes & CODEC_MASK != 0 else staged.data
        right = original.scratch if source.attributes & CODEC_MASK != 0 else original.data
        sides = (left, batch, staged.spans[row]), (right, source, original.spans[row])
        status = _merge_records(sides, last_mapped, survivors, latest)
        if status != OK:
            return row, status
    return len(staged.batches), np.int64(OK)


@kernel
def _merge_records(sides: Any, last_mapped: int, survivors: Any, latest: Any) -> Any:
    """Compare the records of a staged batch with those of its source, in the order of their
    offsets; a status. Each side is its bytes, row and span.
    """
    (left, batch, span), (right, source, source_span) = sides
    position, end = span[0], span[1]
    source_position, source_end = source_span[0], source_span[1]
    remaining = np.int64(batch.count)
    offset, rest, timestamp = np.int64(-1), np.int64(0), np.int64(0)
    pending = False
    for _ in range(source.count):
        if not pending and remaining > 0:
            record = read_record(left, position, end)
            position, rest = record.stop, record.tail
            if position < 0:
                return position
            offset = batch.base_offset + record.delta
            timestamp = time_of(batch, record.time_delta)
            remaining -= 1
            pending = True
        original = read_record(right, source_position, source_end)
        source_position, at = original.stop, original.tail
        if source_position < 0:
            return source_position
        source_offset = source.base_offset + original.delta
        if not pending or source_offset < offset:
            if source_offset > last_mapped and not source.discard:
                blame(latest, source_offset)
            continue
        length = position - rest
        if (
            source_offset > offset
            or timestamp != time_of(source, original.time_delta)
            or length != source_position - at
            or not same_bytes(left, rest, right, at, length)
        ):
            blame(survivors, offset)
        pending = False
    if pending or remaining > 0:
        blame(survivors, max(offset, batch.base_offset))
    return np.int64(OK)
