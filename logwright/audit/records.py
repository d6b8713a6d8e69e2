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
from logwright.batches.source import Source, each_source, open_window, row_ranges, side_of
from logwright.batches.unpack import is_packed
from logwright.checks.kernels import time_of
from logwright.format.batch import CONTROL, TRANSACTIONAL
from logwright.format.scan import COMMIT, check_crcs
from logwright.format.siphash import HashKey, siphash128
from logwright.format.walk import OFFSET_DELTA, OK, TRAILING, raise_for_status, read_record
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
    opened = open_window(source, slice(first, last))
    hidden = _hidden(replica, opened.batches)
    rows = np.zeros(int(opened.batches["count"].sum(dtype=np.int64)), dtype=ROW)
    count, row, status = _read(side_of(source, opened), hidden, scope, rows)
    if status != OK:
        batch = opened.batches[int(row)]
        raise_for_status(
            int(status),
            path=source.path,
            position=int(batch["position"]),
            base_offset=int(batch["base_offset"]),
        )
    return rows[: int(count)]


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
def _read(side: Any, hidden: Any, scope: Any, rows: Any) -> Any:
    """Fill the rows; return (number of rows, row of the batch, status).

    Args:
        side: `Side`. hidden: bool[n]. scope: `_Scope`. rows: ROW[m], room for all records.
    """
    low, high = scope.hash_key[0], scope.hash_key[1]
    count = np.int64(0)
    for number in range(len(side.batches)):
        batch = side.batches[number]
        source = side.scratch if is_packed(batch) else side.data
        position, end = side.spans[number, 0], side.spans[number, 1]
        shared = common_sum(side.data, batch)
        control = batch.attributes & CONTROL != 0
        common = np.uint8(0)
        if not control and batch.attributes & TRANSACTIONAL != 0:
            common |= TRANSACTED
        if hidden[number]:
            common |= HIDDEN
        last = np.int64(-1)
        for _ in range(batch.count):
            record = read_record(source, position, end)
            position, delta, length = record.stop, record.delta, record.key_length
            if position < 0:
                return count, number, position
            if delta <= last or delta > batch.last_offset - batch.base_offset:
                return count, number, np.int64(OFFSET_DELTA)
            last = delta
            offset = batch.base_offset + delta
            if offset < scope.start or offset >= scope.end:
                continue
            content, _ = siphash128(source, record.rest, position - record.rest, low, high)
            one = rows[count]
            one.offset = offset
            time = np.uint64(time_of(batch, record.time_delta))
            one.sum = mix_word(mix_word(shared, time), content)
            flags = common
            if length >= 0 and not control:
                flags |= KEYED
                one.hash1, one.hash2 = siphash128(source, record.key, length, low, high)
            if record.value_length < 0:
                flags |= TOMBSTONE
            one.flags = flags
            count += 1
        if batch.count > 0 and position != end:
            return count, number, np.int64(TRAILING)
    return count, np.int64(len(side.batches)), np.int64(OK)
