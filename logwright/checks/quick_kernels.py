"""The kernels of the quick checks: staged batches and the source batches that they come from."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, cast

import numpy as np

from logwright.checks.kernels import blame, note_kind, note_time, same_bytes, time_of
from logwright.format.batch import CODEC_MASK, CONTROL, DELETE_HORIZON, HEADER_BYTES
from logwright.format.legacy import NOT_LEGACY
from logwright.format.scan import has_right_crc
from logwright.format.walk import (
    OFFSET_DELTA,
    OK,
    TRAILING,
    read_record,
)
from logwright.kernel import inline_kernel, kernel
from logwright.keys.receipt import mix_batch
from logwright.rewrite.batch_receipt import content_of

_SUMS: Final = np.dtype(
    (
        np.record,
        [
            ("summed_set", np.uint64),
            ("summed_keys", np.uint64),
            ("mapped", np.uint64),
            ("content", np.uint64),
        ],
    )
)

VERBATIM: Final = 1
REBUILT: Final = 2
PACKED: Final = 3
UNREADABLE: Final = 4
"""What a staged batch is: its source byte for byte; rebuilt; compressed and rebuilt, which is left
to `check_packed`; with a wrong CRC, or records that cannot be read."""

_FIXED_START: Final = 21
"""Up to here a batch's header is not covered by its CRC."""
_EPOCH: Final = 12
_LAST_OFFSET_DELTA: Final = 23
_PRODUCER: Final = 43
_PRODUCER_END: Final = 57
_FLAGS: Final = 0xFF & ~(CODEC_MASK | DELETE_HORIZON)
"""Kafka writes the lower byte of the attributes, and an empty batch without a codec."""


def new_sums() -> np.record:
    """Return what is found of the keys in the output, all 0 and modulo 2**64.

    `summed_set` is the sum of the batches that are their source's byte for byte, `summed_keys` how
    many of their records the map was offered. `content` is the sum of the records of all others,
    `mapped` how many of their keys the map holds.
    """
    return cast("np.record", np.zeros(1, dtype=_SUMS)[0])


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
    """Set number and row of the source batch of each staged one: that of its base offset.

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
            continue
        # One of an old format begins at the first record that it keeps.
        before = low - 1
        if before < 0 or batches[before].legacy == NOT_LEGACY:
            continue
        if staged[row].base_offset <= batches[before].last_offset:
            source_of[row], partners[row] = number, before


@kernel
def check_batches(
    data: Any,
    batches: Any,
    source_data: Any,
    sources: Any,
    limits: Any,
    verdict: Any,
    sums: Any,
    facts: Any,
    kinds: Any,
) -> None:
    """Judge staged batches one by one, while their bytes are in the CPU's cache: the CRC first.

    1. A batch is its source's byte for byte if the first 21 bytes are: length and CRC are among
       them, and the CRC covers all that follows.
    2. Any other was rebuilt: its header is compared with its source's, and its records are summed.

    Args:
        data, source_data: uint8[], the two files.
        batches, sources: BATCH[n] of both, of equal base offsets.
        limits: see `Limits`.
        verdict: on identical survivors.
        sums: see `new_sums`. facts: see `new_facts`. Both are added to.
        kinds: uint8[n], is set: `VERBATIM`, `REBUILT`, `PACKED` or `UNREADABLE`.
    """
    for row in range(len(batches)):
        batch, source = batches[row], sources[row]
        if not has_right_crc(data, batch):
            kinds[row] = UNREADABLE
        elif same_bytes(data, batch.position, source_data, source.position, _FIXED_START):
            kinds[row] = VERBATIM
            _note_verbatim(batch, sums, facts)
        elif batch.attributes & CODEC_MASK != 0:
            kinds[row] = PACKED
        else:
            start, end = batch.position + HEADER_BYTES, batch.position + batch.size
            sides = (data, batch, source_data, source)
            status = _check_rebuilt(sides, (data, start, end), limits, verdict, sums, facts)
            kinds[row] = REBUILT if status == OK else UNREADABLE


@inline_kernel
def _note_verbatim(batch: Any, sums: Any, facts: Any) -> None:
    """Count a batch that is its source's byte for byte."""
    if batch.count > 0:
        sums.summed_set += mix_batch(batch)
        if batch.attributes & CONTROL == 0:
            sums.summed_keys += np.uint64(batch.count)
        facts.max_timestamp = max(facts.max_timestamp, batch.max_timestamp)
        facts.records += batch.count


@kernel
def check_packed(
    staged: Any, source_data: Any, sources: Any, limits: Any, verdict: Any, sums: Any, facts: Any
) -> Any:
    """Judge `PACKED` batches, now that they are decompressed; see `check_batches`.

    Args:
        staged: a `Side`.

    Returns:
        (row, status) of the first that cannot be read; status `OK` if there is none.
    """
    for row in range(len(staged.batches)):
        sides = (staged.data, staged.batches[row], source_data, sources[row])
        records = (staged.scratch, staged.spans[row, 0], staged.spans[row, 1])
        status = _check_rebuilt(sides, records, limits, verdict, sums, facts)
        if status != OK:
            return row, status
    return len(staged.batches), np.int64(OK)


@kernel
def _check_rebuilt(
    sides: Any, records: Any, limits: Any, verdict: Any, sums: Any, facts: Any
) -> Any:
    """Compare the header of a rebuilt batch with its source's, and sum its records; a status.

    Args:
        sides: file and row of the staged batch, and of its source.
        records: bytes, start and end of the staged one's records, uncompressed.
    """
    data, batch, source_data, source = sides
    same_codec = batch.count == 0 or (batch.attributes ^ source.attributes) & CODEC_MASK == 0
    if not same_codec or not _headers_agree(data, batch, source_data, source, limits.horizon_ms):
        blame(verdict, batch.base_offset)
    return _sum_records(records, batch, limits.last_mapped, sums, facts)


@kernel
def _sum_records(records: Any, batch: Any, last_mapped: int, sums: Any, facts: Any) -> Any:
    data, position, end = records
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
        sums.content += content_of(data, record.tail, position, offset, timestamp)
        if length >= 0 and offset <= last_mapped and batch.attributes & CONTROL == 0:
            sums.mapped += np.uint64(1)
    return np.int64(OK) if position == end or batch.count == 0 else np.int64(TRAILING)


@kernel
def _headers_agree(data: Any, batch: Any, source_data: Any, source: Any, horizon_ms: int) -> Any:
    """Return whether leader epoch, last offset, producer and flags are the source's, and the delete
    horizon is the source's or the one that this cleaning sets. One of an old format may end before.
    """
    at, start_at = batch.position, source.position
    for start, end in (
        (_EPOCH, _EPOCH + 4),
        (_LAST_OFFSET_DELTA, _LAST_OFFSET_DELTA + 4),
        (_PRODUCER, _PRODUCER_END),
    ):
        is_same = same_bytes(data, at + start, source_data, start_at + start, end - start)
        if not is_same and (start != _LAST_OFFSET_DELTA or source.legacy == NOT_LEGACY):
            return False
    if batch.last_offset > source.last_offset:
        return False
    if (batch.attributes ^ source.attributes) & _FLAGS != 0:
        return False
    if batch.count == 0:
        return True
    if source.attributes & DELETE_HORIZON != 0:
        kept = batch.attributes & DELETE_HORIZON != 0
        return kept and batch.base_timestamp == source.base_timestamp
    return batch.attributes & DELETE_HORIZON == 0 or batch.base_timestamp == horizon_ms


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
