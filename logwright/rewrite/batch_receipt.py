"""The receipt of rebuilt batches: sums over the records that they keep. With it the checks need not
read the records of the source once more.

When a batch is rebuilt, the records that stay are summed twice, from the bytes of the source and by
a walk of its own: by key and ordinal, as in `receipt`, which must equal what the offset map holds;
and by their whole content. The checks sum the content again, of what they read of the output.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.format.batch import CONTROL, LOG_APPEND_TIME
from logwright.format.crc import load_u64
from logwright.format.siphash import load_tail, siphash64
from logwright.format.walk import read_record
from logwright.kernel import inline_kernel, kernel
from logwright.keys.offset_map import has_bit
from logwright.keys.receipt import keeps_most, mix

BATCH_SUMS: Final = np.dtype([("content", "<u8"), ("digest", "<u8")])
"""Sum of the records by their content: offset, time, key, value, headers; sum of the mapped
keys."""

_ODD = np.uint64(0x9FB21C651E98DF25)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_LOW = np.uint64(0xFFFFFFFF)


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
    """Return 64 bits for a record, whose bytes after its offset are data[rest:stop].

    Each word of eight bytes has its own number, so that none depends on the one before: the CPU
    takes several at a time. The sum of the words notices what a half that is 0 hides of the other.
    """
    word = (np.uint64(offset) * _GOLDEN) ^ np.uint64(timestamp)
    word = (word ^ np.uint64(stop - rest)) * _ODD
    products, total = np.uint64(0), np.uint64(0)
    words = (np.int64(stop) - np.int64(rest)) >> 3
    for index in range(words):
        part = load_u64(data, rest + 8 * index)
        total += part
        part += np.uint64(index + 1) * _GOLDEN
        products += (part & _LOW) * (part >> np.uint64(32))
    word = (word ^ (word >> np.uint64(32)) ^ products) * _ODD
    word = (word ^ (word >> np.uint64(32)) ^ total) * _ODD
    at = np.int64(rest) + 8 * words
    if at < stop:
        word = (word ^ (word >> np.uint64(32)) ^ load_tail(data, at, stop - at)) * _ODD
    return word ^ (word >> np.uint64(29))


@kernel
def add_batch(source: Any, span: Any, batch: Any, dead: Any, kept: int, receipt: Any) -> None:
    """Add the records of a batch that stay to a receipt.

    Args:
        source: uint8[n] that holds the batch's uncompressed records in the span (start, end).
        batch: its BATCH row, checked by the first pass. dead: bitmap by ordinal.
        kept: how many of its records stay, if the first pass is over: then its sum of a batch that
            keeps most of them is taken, less those that go. Else 0.
        receipt: `BatchReceipt`.
    """
    key, sums = receipt.hash_key, receipt.sums
    append_time = batch.attributes & LOG_APPEND_TIME != 0
    is_control = batch.attributes & CONTROL != 0
    is_summed = keeps_most(kept, batch, receipt.last_mapped)
    if is_summed:
        sums.digest += batch.keys_digest
    position, end = span
    for index in range(np.int64(batch.count)):
        record = read_record(source, position, end)
        position, length = record.stop, record.key_length
        if position < 0:
            break
        goes = has_bit(dead, batch.first_ordinal + index)
        offset = batch.base_offset + record.delta
        if not goes:
            timestamp = (
                batch.max_timestamp if append_time else batch.base_timestamp + record.time_delta
            )
            sums.content += content_of(source, record.tail, position, offset, timestamp)
        has_key = length >= 0 and not is_control and offset <= receipt.last_mapped
        if has_key and goes == is_summed:
            hash1 = siphash64(source, record.key, length, key[0], key[1])
            word = mix(hash1, batch.first_ordinal + index)
            sums.digest += -word if is_summed else word
