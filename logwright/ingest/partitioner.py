"""Kernels that choose the partition of a record (BuiltInPartitioner.partitionForKey, Utils.murmur2,
4.3.0).

1. The row's partition, if it has one.
2. murmur2 of the key, sign bit cleared, modulo the number of partitions.
3. Without a key, murmur2 of the value. Kafka's producers use sticky partitions; this choice is the
   same in every run, which makes an ingest repeatable.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from logwright.kernel import kernel

UNKNOWN: Final = -1
"""Result for a partition that does not exist."""

_M: Final = np.uint32(0x5BD1E995)
_SEED: Final = np.uint32(0x9747B28C)


@kernel
def _word(data: Any, at: int) -> Any:
    return (
        np.uint32(data[at])
        | np.uint32(data[at + 1]) << np.uint32(8)
        | np.uint32(data[at + 2]) << np.uint32(16)
        | np.uint32(data[at + 3]) << np.uint32(24)
    )


@kernel
def murmur2(data: Any, start: int, end: int) -> Any:
    """Return Kafka's murmur2 of data[start:end], uint32."""
    length = np.int64(end) - np.int64(start)
    digest = np.uint32(_SEED ^ np.uint32(length))
    at = np.int64(start)
    while at + 4 <= end:
        word = np.uint32(_word(data, at) * _M)
        word = np.uint32((word ^ (word >> np.uint32(24))) * _M)
        digest = np.uint32(np.uint32(digest * _M) ^ word)
        at += 4
    left = end - at
    if left == 3:
        digest ^= np.uint32(data[at + 2]) << np.uint32(16)
    if left >= 2:
        digest ^= np.uint32(data[at + 1]) << np.uint32(8)
    if left >= 1:
        digest ^= np.uint32(data[at])
        digest = np.uint32(digest * _M)
    digest = np.uint32((digest ^ (digest >> np.uint32(13))) * _M)
    return np.uint32(digest ^ (digest >> np.uint32(15)))


@kernel
def _assign(given: Any, keys: Any, values: Any, counts: Any, chosen: Any) -> None:
    key_data, keys_at, key_nulls = keys
    value_data, values_at, value_nulls = values
    for row in range(len(given)):
        count = counts[row]
        if given[row] >= 0:
            chosen[row] = given[row] if given[row] < count else UNKNOWN
            continue
        if given[row] < -1 or count == 0:
            chosen[row] = UNKNOWN
            continue
        digest = np.uint32(0)
        if not key_nulls[row]:
            digest = murmur2(key_data, keys_at[row], keys_at[row + 1])
        elif not value_nulls[row]:
            digest = murmur2(value_data, values_at[row], values_at[row + 1])
        chosen[row] = np.int64(digest & np.uint32(0x7FFFFFFF)) % count


_ByteColumn = tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.bool_]]


def assign_partitions(
    given: NDArray[np.int64], keys: _ByteColumn, values: _ByteColumn, counts: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the partition of each row, int64[n]; UNKNOWN for one that does not exist.

    Args:
        given: int64[n], the row's partition, -1 if it has none.
        keys, values: columns of bytes, see `columns.byte_column`.
        counts: int64[n], partition count of the row's topic; 0 if the topic does not exist.
    """
    chosen = np.empty(len(given), dtype=np.int64)
    _assign(given, keys, values, counts, chosen)
    return chosen
