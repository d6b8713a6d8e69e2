"""Copy what survives of a run of batches into the output buffer (Cleaner.cleanInto, Kafka 4.3.0).

1. The dead bitmap shows how many of a batch's records are dead: none, all, or some.
2. None, and no delete horizon to set: the batch's bytes are copied, compressed or not.
3. All: the batch is dropped. The last batch of the cleaned range, and of an active producer, stays
   as an empty one, so that the end offset and the sequence numbers are not lost.
4. Some: the batch is rebuilt. A compressed one is decompressed first and compressed afterwards,
   unless the rebuild cache holds it. If a kernel cannot do something, its caller does it and calls
   the kernel again.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from logwright.batches.status import BUFFER_FULL, NOT_PACKED, NOT_REBUILT, OK, PLAIN_FULL
from logwright.batches.unpack import NOT_GIVEN, is_packed, open_records
from logwright.cleaner_rules import DELETE, RETAIN, RETAIN_EMPTY, batch_fate
from logwright.format.batch import CODEC_MASK, CONTROL, HEADER_BYTES
from logwright.format.crc import prefetch_span
from logwright.format.legacy import NOT_LEGACY
from logwright.format.native_codec import pack, packed_bound
from logwright.kernel import kernel
from logwright.keys.offset_map import count_dead, set_bit
from logwright.rewrite.batch import (
    copy_bytes,
    finish_batch,
    rebase_records,
    summarise,
    summarise_empty,
    write_records,
)
from logwright.rewrite.batch_receipt import add_batch
from logwright.rewrite.output import note_batch

GROWTH_PER_RECORD: Final = 14
"""Bytes by which a rebuilt record can be longer: 9 for its timestamp delta, 5 for its length."""

_MOST_AHEAD: Final = 64 * 1024
"""Before an uncompressed batch is rebuilt, as many bytes after it as its size are prefetched, at
most this number. A rebuild steps from record to record, which the CPU cannot predict."""


class CopyRule(NamedTuple):
    """Attributes: interval_bytes: ``index.interval.bytes``. horizon_ms: delete horizon that
    tombstones and markers get which are kept for the first time.
    """

    interval_bytes: int
    horizon_ms: int


@kernel
def discard_batches(batches: Any, dead: Any) -> Any:
    """Mark the records of all discarded batches as dead. Return how many (of data, of control
    batches) were not dead before.
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
def copy_verbatim(data: Any, batch: Any, interval: int, output: Any) -> None:
    """Copy a batch as it is to the end of the buffer, which has room for it."""
    state = output.state
    copy_bytes(output.buffer, state.buffered, data, batch.position, batch.position + batch.size)
    state.records += batch.count
    state.verbatim += 1
    note_batch(output, interval, batch.last_offset, batch.size, batch.max_timestamp)


@kernel
def place_rebuilt(
    data: Any, batch: Any, end: int, interval: int, output: Any, summary: Any
) -> None:
    """Write the header before the rebuilt records, which end at buffer[end]; count the batch."""
    state = output.state
    at = state.buffered
    finish_batch(output.buffer, at, end, data, batch, summary)
    state.records += summary.kept
    state.rebuilt += 1
    state.horizons += summary.sets_horizon
    last_offset = batch.base_offset + summary.last_delta
    note_batch(output, interval, last_offset, end - at, summary.max_timestamp)


@kernel
def _take_rebuilt(
    batch: Any, row: int, dead: Any, interval: int, output: Any, receipt: Any, cache: Any
) -> int:
    """Copy a batch that the first pass has rebuilt. Return `OK` or what is in the way,
    `NOT_REBUILT` if the cache does not hold it with exactly these records.
    """
    if len(cache.batches) == 0:
        return NOT_REBUILT
    entry = cache.batches[row]
    alive = batch.count - count_dead(dead, batch.first_ordinal, batch.count)
    if entry.size == 0 or entry.kept != alive or batch.empty_marker:
        return NOT_REBUILT
    state = output.state
    state.needed = entry.size
    if state.buffered + entry.size > len(output.buffer):
        return BUFFER_FULL
    copy_bytes(output.buffer, state.buffered, cache.content, entry.at, entry.at + entry.size)
    state.records += entry.kept
    state.rebuilt += 1
    state.horizons += entry.sets_horizon
    sums = receipt.sums
    sums.content += entry.content
    sums.digest += entry.digest
    note_batch(output, interval, batch.last_offset, np.int64(entry.size), entry.max_timestamp)
    return OK


@kernel
def _place_packed(
    data: Any, batch: Any, dead: Any, rule: Any, output: Any, space: Any, receipt: Any
) -> Any:
    """Decompress a batch that loses records, rebuild and compress it at the end of the buffer.
    Return `OK` or what is in the way.
    """
    state, plain, summary = output.state, space.plain, space.summary
    start, end, status = open_records(
        data, batch, state.given, space.scratch, np.int64(0), space.cells
    )
    state.given = NOT_GIVEN
    if status != OK:
        return status
    source = space.scratch if is_packed(batch) else data
    summarise(source, (start, end), batch, dead, rule.horizon_ms, summary, space.kept)
    if summary.kept == batch.count and summary.sets_horizon == 0:
        copy_verbatim(data, batch, rule.interval_bytes, output)
        return OK
    state.needed = end - start + np.int64(batch.count) * GROWTH_PER_RECORD
    if state.needed > len(plain):
        return PLAIN_FULL
    written = write_records(plain, np.int64(0), source, summary, space.kept)
    if batch.legacy != NOT_LEGACY:
        written = rebase_records(plain, written, summary)
    state.needed = HEADER_BYTES + packed_bound(written)
    if state.buffered + state.needed > len(output.buffer):
        return BUFFER_FULL
    at = state.buffered + HEADER_BYTES
    codec = np.int64(batch.attributes) & CODEC_MASK
    packed = pack(plain, written, codec, output.buffer, at, space.table, space.cells)
    if packed <= 0:
        return NOT_PACKED
    add_batch(source, (start, end), batch, dead, summary.kept, receipt)
    place_rebuilt(data, batch, at + packed, rule.interval_bytes, output, summary)
    return OK


@kernel
def _place_plain(
    data: Any, batch: Any, dead: Any, rule: Any, output: Any, space: Any, receipt: Any
) -> None:
    """Rebuild an uncompressed batch that loses records at the end of the buffer, which has room."""
    summary, kept = space.summary, space.kept
    start, end = batch.position + HEADER_BYTES, batch.position + batch.size
    prefetch_span(data, end, end + min(batch.size, np.int64(_MOST_AHEAD)))
    summarise(data, (start, end), batch, dead, rule.horizon_ms, summary, kept)
    if summary.kept == batch.count and summary.sets_horizon == 0:
        copy_verbatim(data, batch, rule.interval_bytes, output)
        return
    at = output.state.buffered + HEADER_BYTES
    written = write_records(output.buffer, at, data, summary, kept)
    add_batch(data, (start, end), batch, dead, summary.kept, receipt)
    place_rebuilt(data, batch, written, rule.interval_bytes, output, summary)


@kernel
def copy_batches(
    data: Any,
    batches: Any,
    first: int,
    dead: Any,
    rule: Any,
    output: Any,
    space: Any,
    receipt: Any,
    cache: Any,
) -> Any:
    """Copy batches from row `first` on. Return (next row, `OK` or what is in the way of it).

    The caller then makes the buffer larger by state.needed (`BUFFER_FULL`), makes the scratch or
    plain memory larger (`SCRATCH_FULL`, `PLAIN_FULL`), or decompresses the batch into the scratch
    memory and sets state.given (`NOT_UNPACKED`), and calls again.

    Args:
        data: uint8[n], the source segment. batches: its BATCH rows.
        dead: bitmap by ordinal. rule: `CopyRule`. output: `Output`.
        space: `RewriteSpace`, its list has room for the records of each batch.
        receipt: `batch_receipt.BatchReceipt`.
        cache: `cache.CachedBatches` for these rows.
    """
    state = output.state
    for row in range(first, len(batches)):
        batch = batches[row]
        alive = batch.count - count_dead(dead, batch.first_ordinal, batch.count)
        fate = batch_fate(batch, alive)
        if fate == DELETE:
            state.dropped += 1
            continue
        state.needed = batch.size + np.int64(batch.count) * GROWTH_PER_RECORD
        if state.buffered + state.needed > len(output.buffer):
            return row, BUFFER_FULL
        if fate == RETAIN:
            copy_verbatim(data, batch, rule.interval_bytes, output)
        elif fate == RETAIN_EMPTY:
            summarise_empty(batch, space.summary)
            end = state.buffered + HEADER_BYTES
            place_rebuilt(data, batch, end, rule.interval_bytes, output, space.summary)
        elif batch.attributes & CODEC_MASK == 0:
            _place_plain(data, batch, dead, rule, output, space, receipt)
        else:
            why = _take_rebuilt(batch, row, dead, rule.interval_bytes, output, receipt, cache)
            if why == NOT_REBUILT:
                why = _place_packed(data, batch, dead, rule, output, space, receipt)
            if why != OK:
                return row, why
    return len(batches), OK
