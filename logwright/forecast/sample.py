"""Read the records of a log for a forecast, and keep those whose key is drawn by its hash.

Records that go whatever their key is, tombstones past their horizon and records without a key, are
all counted. CRCs are not checked: the cleaning does that.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.batches.unpack import is_packed
from logwright.cleaner_rules import (
    EXPIRED,
    NULL_KEY,
    delete_horizon_reached,
    kind_of_record,
)
from logwright.format.batch import CONTROL
from logwright.format.siphash import hash_keys, room_for_lanes
from logwright.format.walk import OK, read_record
from logwright.kernel import kernel
from logwright.keys.receipt import note_batch

SAMPLED: Final = np.dtype(
    [
        ("hash", np.uint64),
        ("ordinal", np.int64),
        ("row", np.int64),
        ("size", np.int64),
        ("kind", np.uint8),
        ("inserted", np.bool_),
    ],
    align=True,
)
"""A record of the sample: the first half of its key's hash, its ordinal, its batch's number among
all of the cleaning, its bytes, its kind (`rules.KEYED` and following), and whether the offset map
would take it."""

COUNTED: Final = np.dtype(
    [(name, np.int64) for name in ("plain", "null_keys", "null_bytes", "expired", "expired_bytes")]
)
"""What is counted of a batch: bytes of its records, uncompressed; records without a key, tombstones
past their horizon, and the bytes of either."""

_CLEAN, _DIRTY = np.uint8(0), np.uint8(128)
"""Added to a record's kind while it is read: whether it is in the dirty section."""


class SampleBuffers(NamedTuple):
    """Room for the records of one window.

    Attributes:
        hash1, hash2: uint64[n], the halves of the keys' hashes; before that positions and lengths.
        sizes, kinds: int64[n], uint8[n], of the records.
        lanes: of `siphash.room_for_lanes`.
        out: SAMPLED[n].
    """

    hash1: NDArray[np.uint64]
    hash2: NDArray[np.uint64]
    sizes: NDArray[np.int64]
    kinds: NDArray[np.uint8]
    lanes: NDArray[np.uint64]
    out: NDArray[np.void]


class SampleScope(NamedTuple):
    """How a log is sampled.

    Attributes:
        now_ms: the clock of the cleaning. removable_end: tombstones at or above it stay.
        first_dirty: first dirty offset.
        mask: a key is in the sample if these bits of its hash are 0.
        hash_key: uint64[2].
    """

    now_ms: int
    removable_end: int
    first_dirty: int
    mask: np.uint64
    hash_key: NDArray[np.uint64]


def room_for_sample(records: int) -> SampleBuffers:
    """Return buffers for a window of this number of records."""
    return SampleBuffers(
        hash1=np.empty(records, dtype=np.uint64),
        hash2=np.empty(records, dtype=np.uint64),
        sizes=np.empty(records, dtype=np.int64),
        kinds=np.empty(records, dtype=np.uint8),
        lanes=room_for_lanes(),
        out=np.empty(records, dtype=SAMPLED),
    )


@kernel
def sample_batches(
    data: Any, scratch: Any, batches: Any, spans: Any, scope: Any, buffers: Any, counted: Any
) -> Any:
    """Read the batches of a window; return (batches done, records sampled, status of the next
    batch). The numbers of the batches count from 0.

    Args:
        data: uint8[n], the segment. scratch: uint8[m], decompressed records.
        batches: BATCH[k]; their tombstones are set. spans: int64[k, 2], where their records are.
        scope: `SampleScope`. buffers: `SampleBuffers`. counted: COUNTED[k], set.
    """
    sampled: Any = np.int64(0)
    for row in range(len(batches)):
        batch = batches[row]
        if batch.attributes & CONTROL != 0 or batch.discard:
            continue
        source = scratch if is_packed(batch) else data
        span = (spans[row, 0], spans[row, 1])
        status = _read_all(source, span, batch, scope, buffers, counted[row])
        if status != OK:
            return row, sampled, status
        count: Any = np.int64(batch.count)
        keys = (buffers.hash1, buffers.hash2)
        hash_keys(source, keys, 0, count, scope.hash_key, buffers.lanes)
        sampled = _keep_sampled(batch, row, scope, buffers, sampled)
    return len(batches), sampled, np.int64(OK)


@kernel
def _read_all(source: Any, span: Any, batch: Any, scope: Any, buffers: Any, counts: Any) -> Any:
    """Read the records of a batch into the buffers, and count them; return the status."""
    expires = delete_horizon_reached(batch, scope.now_ms, scope.removable_end)
    hash1, hash2, sizes, kinds = buffers.hash1, buffers.hash2, buffers.sizes, buffers.kinds
    start, end = span
    position: Any = np.int64(start)
    tombstones: Any = np.int64(0)
    for index in range(np.int64(batch.count)):
        begin: Any = position
        record = read_record(source, begin, end)
        position, length, value_length = record.stop, record.key_length, record.value_length
        if position < 0:
            return position
        kind = kind_of_record(length, value_length, expires)
        size = position - begin
        hash1[index], hash2[index] = np.uint64(record.key), np.uint64(max(length, np.int64(0)))
        dirty = batch.base_offset + record.delta >= scope.first_dirty
        sizes[index], kinds[index] = size, kind | (_DIRTY if dirty else _CLEAN)
        tombstones += value_length < 0
        if kind == NULL_KEY:
            counts.null_keys += 1
            counts.null_bytes += size
        elif kind == EXPIRED:
            counts.expired += 1
            counts.expired_bytes += size
    counts.plain = position - start
    note_batch(batch, tombstones, 0)
    return np.int64(OK)


@kernel
def _keep_sampled(batch: Any, row: int, scope: Any, buffers: Any, sampled: int) -> Any:
    """Append the sampled records of a batch to the output; return their new number."""
    hash1, out = buffers.hash1, buffers.out
    for index in range(np.int64(batch.count)):
        kind = buffers.kinds[index] & ~_DIRTY
        if hash1[index] & scope.mask != np.uint64(0) or kind == NULL_KEY:
            continue
        found = out[sampled]
        found.hash, found.ordinal = hash1[index], batch.first_ordinal + index
        found.row, found.size = row, buffers.sizes[index]
        found.kind = kind
        found.inserted = buffers.kinds[index] >= _DIRTY and not batch.unmapped
        sampled += 1
    return sampled
