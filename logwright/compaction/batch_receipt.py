"""What a rebuild tells of the records that it keeps of compressed batches, so that the checks need
not decompress their source once more.

Where a batch is decompressed to be rebuilt, before anything is written, the records that are to
stay are summed twice: by key and ordinal, as in `digest`, which must come to what the offset map
holds; and by all that a record is. The checks sum the latter of what they decompress of the output.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from logwright.compaction.keys.offset_map import has_bit
from logwright.compaction.keys.siphash import load_tail, siphash64
from logwright.compaction.receipt import mix
from logwright.format.batch import LOG_APPEND_TIME
from logwright.format.crc import load_u64
from logwright.format.walk import read_record
from logwright.kernel import inline_kernel, kernel

# The cells of what is told, uint64[TOLD_CELLS].
CONTENT: Final = 0
"""Sum of the records by all that they are: offset, time, key, value, headers."""
DIGEST: Final = 1
MAPPED: Final = 2
"""Sum and number of the mapped keys."""
TOLD_CELLS: Final = 3

_ODD = np.uint64(0x9FB21C651E98DF25)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


Told = tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.uint64]]
"""uint64[2] of the keys' hash, int64[1] of the map's last offset, uint64[TOLD_CELLS]."""


def new_told(hash_key: tuple[int, int], last_mapped_offset: int) -> Told:
    """Nothing is told yet."""
    return (
        np.array(hash_key, dtype=np.uint64),
        np.array([last_mapped_offset], dtype=np.int64),
        np.zeros(TOLD_CELLS, dtype=np.uint64),
    )


def like_told(told: Told) -> Told:
    """The same with sums of its own."""
    return told[0], told[1], np.zeros(TOLD_CELLS, dtype=np.uint64)


@inline_kernel
def content_of(data: Any, rest: int, stop: int, offset: int, timestamp: int) -> Any:
    """64 bits that stand for a record, whose bytes behind its timestamp are data[rest:stop]."""
    word = (np.uint64(offset) * _GOLDEN) ^ np.uint64(timestamp)
    word = (word ^ np.uint64(stop - rest)) * _ODD
    at = np.int64(rest)
    while at + 8 <= stop:
        word = (word ^ (word >> np.uint64(32)) ^ load_u64(data, at)) * _ODD
        at += 8
    if at < stop:
        word = (word ^ (word >> np.uint64(32)) ^ load_tail(data, at, stop - at)) * _ODD
    return word ^ (word >> np.uint64(29))


@kernel
def bear_witness(source: Any, span: Any, batch: Any, dead: Any, told: Any) -> None:
    """Sum the records of a batch that are to stay.

    Args:
        source: uint8[n] that holds the batch's decompressed records in the span (start, end).
        batch: its BATCH row, checked by the first pass. dead: bitmap by ordinal.
        told: `Told`.
    """
    key, last_mapped, sums = told
    append_time = batch.attributes & LOG_APPEND_TIME != 0
    position, end = span
    for index in range(np.int64(batch.count)):
        position, _, time_delta, rest, delta, key_at, length, _ = read_record(source, position, end)
        if position < 0:
            break
        if has_bit(dead, batch.first_ordinal + index):
            continue
        offset = batch.base_offset + delta
        timestamp = batch.max_timestamp if append_time else batch.base_timestamp + time_delta
        sums[CONTENT] += content_of(source, rest, position, offset, timestamp)
        if length >= 0 and offset <= last_mapped[0]:
            hash1 = siphash64(source, key_at, length, key[0], key[1])
            sums[DIGEST] += mix(hash1, batch.first_ordinal + index)
            sums[MAPPED] += np.uint64(1)
