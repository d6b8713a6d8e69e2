"""Read the records of a log for a forecast, and keep those whose key is drawn by its hash.

Records that go whatever their key is, tombstones past their horizon and records without a key, are
all counted. CRCs are not checked: the cleaning does that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.cleaner_rules import (
    EXPIRED,
    NULL_KEY,
    delete_horizon_reached,
    kind_of_record,
)
from logwright.format.siphash import hash_keys, lane_buffers
from logwright.kernel import kernel
from logwright.keys.receipt import note_batch

if TYPE_CHECKING:
    from logwright.batches.projection import Records

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
all of the cleaning, its bytes, its kind (`cleaner_rules.KEYED` and following), and whether the
offset map would take it."""

COUNTED: Final = np.dtype(
    [(name, np.int64) for name in ("plain", "null_keys", "null_bytes", "expired", "expired_bytes")]
)
"""What is counted of a batch: bytes of its records, uncompressed; records without a key, tombstones
past their horizon, and the bytes of either."""


class SampleBuffers(NamedTuple):
    """Buffers for the records of one window.

    Attributes:
        hash1, hash2: uint64[n], the halves of the keys' hashes; before that positions and lengths.
        lanes: of `siphash.lane_buffers`.
        out: SAMPLED[n].
    """

    hash1: NDArray[np.uint64]
    hash2: NDArray[np.uint64]
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


def sample_buffers(records: Records) -> SampleBuffers:
    """Return buffers for these records."""
    lengths = np.maximum(records.rows["key_length"], 0)
    return SampleBuffers(
        hash1=records.rows["key_at"].astype(np.uint64),
        hash2=lengths.astype(np.uint64),
        lanes=lane_buffers(),
        out=np.empty(len(records.rows), dtype=SAMPLED),
    )


@kernel
def sample_records(records: Any, scope: Any, buffers: Any, counted: Any) -> Any:
    """Count the records of a window, and sample them; return how many are sampled. The numbers of
    the batches count from 0.

    Args:
        records: `Records`, of no control batch; their batches' tombstones are set.
        scope: `SampleScope`. buffers: `SampleBuffers`. counted: COUNTED[k], set.
    """
    rows, batches = records.rows, records.batches
    hash1, keys = buffers.hash1, (buffers.hash1, buffers.hash2)
    hash_keys(records.buffer, keys, 0, len(rows), scope.hash_key, buffers.lanes)
    sampled, index = np.int64(0), np.int64(0)
    for number in range(len(batches)):
        batch, counts = batches[number], counted[number]
        expires = delete_horizon_reached(batch, scope.now_ms, scope.removable_end)
        tombstones: Any = np.int64(0)
        while index < len(rows) and rows[index].row == number:
            record = rows[index]
            kind = kind_of_record(record.key_length, record.value_length, expires)
            size = record.stop - record.start
            counts.plain += size
            tombstones += record.value_length < 0
            if kind == NULL_KEY:
                counts.null_keys += 1
                counts.null_bytes += size
            elif kind == EXPIRED:
                counts.expired += 1
                counts.expired_bytes += size
            if hash1[index] & scope.mask == np.uint64(0) and kind != NULL_KEY:
                entry = buffers.out[sampled]
                entry.hash, entry.ordinal = hash1[index], record.ordinal
                entry.row, entry.size, entry.kind = number, size, kind
                entry.inserted = record.offset >= scope.first_dirty and not batch.unmapped
                sampled += 1
            index += 1
        note_batch(batch, tombstones, 0)
    return sampled
