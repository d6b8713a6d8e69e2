"""The receipt of rebuilt compressed batches: sums over the records that they keep. With it the
checks need not decompress the source once more.

When a batch is decompressed to be rebuilt, before anything is written, the records that stay are
summed twice: by key and ordinal, as in `receipt`, which must equal what the offset map holds; and
by their whole content. The checks sum the content again, of what they decompress of the output.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.batches.bitmap import has_bit
from logwright.format.batch import LOG_APPEND_TIME
from logwright.format.crc import load_u64
from logwright.format.siphash import load_tail, siphash64
from logwright.format.walk import read_record
from logwright.kernel import inline_kernel, kernel
from logwright.keys.receipt import mix

BATCH_SUMS: Final = np.dtype([("content", "<u8"), ("digest", "<u8"), ("mapped", "<u8")])
"""Sum of the records by their content: offset, time, key, value, headers; sum and number of the
mapped keys."""

_ODD = np.uint64(0x9FB21C651E98DF25)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class BatchReceipt(NamedTuple):
    """The sums of some rebuilt batches.

    Attributes:
        hash_key: uint64[2], of the hash of keys.
        last_mapped: the last offset of the offset map.
        sums: BATCH_SUMS.
    """

    hash_key: NDArray[np.uint64]
    last_mapped: int
    sums: np.void

    def emptied(self) -> BatchReceipt:
        """Return another one with sums of its own, without a batch."""
        return self._replace(sums=np.zeros(1, dtype=BATCH_SUMS)[0])

    def add(self, other: BatchReceipt) -> None:
        """Add the sums of other batches; they wrap around at 64 bits."""
        for name in BATCH_SUMS.names or ():
            total = int(self.sums[name]) + int(other.sums[name])
            self.sums[name] = total & 0xFFFF_FFFF_FFFF_FFFF


def new_receipt(hash_key: tuple[int, int], last_mapped_offset: int) -> BatchReceipt:
    """Return a receipt without a batch."""
    return BatchReceipt(
        hash_key=np.array(hash_key, dtype=np.uint64),
        last_mapped=int(last_mapped_offset),
        sums=np.zeros(1, dtype=BATCH_SUMS)[0],
    )


@inline_kernel
def content_of(data: Any, rest: int, stop: int, offset: int, timestamp: int) -> Any:
    """Return 64 bits for a record, whose bytes after its timestamp are data[rest:stop]."""
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
def add_batch(source: Any, span: Any, batch: Any, dead: Any, receipt: Any) -> None:
    """Add the records of a batch that stay to a receipt.

    Args:
        source: uint8[n] that holds the batch's decompressed records in the span (start, end).
        batch: its BATCH row, checked by the first pass. dead: bitmap by ordinal.
        receipt: `BatchReceipt`.
    """
    key, sums = receipt.hash_key, receipt.sums
    append_time = batch.attributes & LOG_APPEND_TIME != 0
    position, end = span
    for index in range(np.int64(batch.count)):
        record = read_record(source, position, end)
        position, length = record.stop, record.key_length
        if position < 0:
            break
        if has_bit(dead, batch.first_ordinal + index):
            continue
        offset = batch.base_offset + record.delta
        timestamp = batch.max_timestamp if append_time else batch.base_timestamp + record.time_delta
        sums.content += content_of(source, record.rest, position, offset, timestamp)
        if length >= 0 and offset <= receipt.last_mapped:
            hash1 = siphash64(source, record.key, length, key[0], key[1])
            sums.digest += mix(hash1, batch.first_ordinal + index)
            sums.mapped += np.uint64(1)
