"""Which bucket of its partition a key is in.

A table is changed by rewriting whole files, so its files must be small enough to be rewritten and
few enough to be listed: about 64 MB each. The number of buckets is chosen when the table is made,
and stays, because a key must stay in its bucket.

The bucket is made of murmur2, Kafka's own hash of keys, and a finalizer (fmix32 of MurmurHash3):
the keys of one partition have the same murmur2 modulo the number of partitions, so that without it
they would be in few of the buckets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from logwright.ingest.columns import byte_column
from logwright.ingest.partitioner import assign_partitions

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

FILE_BYTES: Final = 64 << 20
"""Wanted size of a file."""
MOST_BUCKETS: Final = 4096

_HASHES: Final = 1 << 31


def bucket_count(partition_bytes: Iterable[int]) -> int:
    """Return the number of buckets of a new table.

    Args:
        partition_bytes: ``.log`` bytes of each partition; the largest counts.
    """
    largest = max(partition_bytes, default=0)
    return max(1, min(-(-largest // FILE_BYTES), MOST_BUCKETS))


def buckets_of(keys: pa.Array, count: int) -> NDArray[np.int64]:
    """Return the bucket of each key, int64[n], from 0.

    Args:
        keys: binary, without nulls.
        count: number of buckets.
    """
    if count == 1:
        return np.zeros(len(keys), dtype=np.int64)
    column = byte_column(keys)
    chosen = np.full(len(keys), -1, dtype=np.int64)
    murmur = assign_partitions(chosen, column, column, np.full(len(keys), _HASHES, dtype=np.int64))
    mixed = murmur.astype(np.uint32)
    mixed ^= mixed >> np.uint32(16)
    mixed *= np.uint32(0x85EBCA6B)
    mixed ^= mixed >> np.uint32(13)
    mixed *= np.uint32(0xC2B2AE35)
    mixed ^= mixed >> np.uint32(16)
    return mixed.astype(np.int64) % count
