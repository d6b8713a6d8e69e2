"""Which partition a record goes to (BuiltInPartitioner.partitionForKey and Utils.murmur2 of Kafka
4.3.0), compiled.

1. The row's own partition, where it has one.
2. murmur2 of the key, its sign bit cleared, modulo the number of partitions.
3. Without a key Kafka's producers take any partition for a while. Here murmur2 of the value
   decides: rows are spread, and a row goes the same way in every run, which running again rests on.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from logwright.kernel import kernel

UNKNOWN: Final = -1
"""In place of a partition that there is not."""

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
    """Kafka's murmur2 of data[start:end], uint32."""
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
    """The partition of each row, int64[n]; UNKNOWN if it asks for one that there is not.

    Args:
        given: int64[n], the row's own partition, -1 if it has none.
        keys, values: columns of bytes, see `columns.byte_column`.
        counts: int64[n], partitions of the row's topic; 0 if there is no such topic.
    """
    chosen = np.empty(len(given), dtype=np.int64)
    _assign(given, keys, values, counts, chosen)
    return chosen
