"""The records of a replica as sums, read in order: what a key or a value is stays in the kernel.

Memory is bounded by a window of a segment, decompressed, and the rows of its records.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.audit.model import HIDDEN, KEYED, ROW, TOMBSTONE, TRANSACTED, Replica
from logwright.audit.rules import next_markers
from logwright.batches.invariant_sum import common_sum, mix_word
from logwright.batches.projection import read_window
from logwright.batches.source import (
    Source,
    each_source,
    require_batch,
    row_ranges,
)
from logwright.format.batch import CONTROL, TRANSACTIONAL
from logwright.format.scan import COMMIT, check_crcs
from logwright.format.siphash import HashKey, siphash128
from logwright.format.walk import OFFSET_DELTA
from logwright.kernel import kernel


class _Scope(NamedTuple):
    """Which records are read.

    Attributes:
        start, end: offsets, the end excluded.
        hash_key: uint64[2].
    """

    start: int
    end: int
    hash_key: NDArray[np.uint64]


def read_rows(replica: Replica, hash_key: HashKey) -> Iterator[NDArray[np.void]]:
    """Yield the records that a replica serves, markers included, ROW[n], ascending by offset.
    Effects: reads its segments.

    Args:
        hash_key: the same for all replicas that are compared.

    Raises:
        CorruptBatch, UnsupportedFormatError, UnreadableFile, StalePlan: it cannot be read.
    """
    key = np.array([hash_key.low, hash_key.high], dtype=np.uint64)
    scope = _Scope(*replica.span, key)
    for source in each_source(replica.log):
        first = source.first_row("last_offset", scope.start)
        last = source.first_row("base_offset", scope.end)
        for begin, stop in row_ranges(source, first=first, last=last):
            rows = _read_window(replica, source, (begin, stop), scope)
            if len(rows):
                yield rows


def _read_window(
    replica: Replica, source: Source, window: tuple[int, int], scope: _Scope
) -> NDArray[np.void]:
    first, last = window
    check_crcs(source.data, source.batches, source.path, first=first, last=last)
    records = read_window(source, slice(first, last))
    unordered = records.unordered
    if len(unordered):
        require_batch(source, records.batches, int(unordered[0]), OFFSET_DELTA)
    hidden = _hidden(replica, records.batches)
    rows = np.zeros(len(records.rows), dtype=ROW)
    return rows[: _sum_records(source.data, records, hidden, scope, rows)]


def _hidden(replica: Replica, batches: NDArray[np.void]) -> NDArray[np.bool_]:
    """Return which batches are data of transactions that are not committed, bool[n]."""
    hidden = np.zeros(len(batches), dtype=np.bool_)
    data = (batches["attributes"] & (CONTROL | TRANSACTIONAL)) == TRANSACTIONAL
    rows = np.flatnonzero(data & (batches["producer_id"] >= 0))
    if len(rows):
        chosen = batches[rows]
        pairs = np.stack([chosen["producer_id"], chosen["base_offset"]], axis=1)
        hidden[rows] = next_markers(pairs, replica.transactions.markers).kind != COMMIT
    return hidden


@kernel
def _sum_records(data: Any, records: Any, hidden: Any, scope: Any, out: Any) -> Any:
    """Fill the rows of the records in scope; return their number.

    Args:
        data: uint8[n], the segment. records: `Records`. hidden: bool[k], by batch.
        scope: `_Scope`. out: ROW[m].
    """
    low, high = scope.hash_key[0], scope.hash_key[1]
    buffer, count = records.buffer, np.int64(0)
    last, shared, common, is_control = np.int64(-1), np.uint64(0), np.uint8(0), False
    for index in range(len(records.rows)):
        record = records.rows[index]
        if record.row != last:
            last, batch = record.row, records.batches[record.row]
            shared, is_control = common_sum(data, batch), batch.attributes & CONTROL != 0
            common = HIDDEN if hidden[last] else np.uint8(0)
            if not is_control and batch.attributes & TRANSACTIONAL != 0:
                common |= TRANSACTED
        if record.offset < scope.start or record.offset >= scope.end:
            continue
        row, length = out[count], record.stop - record.rest
        content, _ = siphash128(buffer, record.rest, length, low, high)
        row.offset = record.offset
        row.sum = mix_word(mix_word(shared, np.uint64(record.timestamp)), content)
        row.flags = common
        if record.key_length >= 0 and not is_control:
            row.flags |= KEYED
            row.hash1, row.hash2 = siphash128(buffer, record.key_at, record.key_length, low, high)
        if record.value_length < 0:
            row.flags |= TOMBSTONE
        count += 1
    return count
