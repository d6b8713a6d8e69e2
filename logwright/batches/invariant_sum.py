"""Sums of what no cleaning changes in a batch, to compare replicas that were cleaned at different
times: codec, delete horizon, count, timestamps of the header, size and CRC may differ.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from logwright.format.batch import CONTROL, LOG_APPEND_TIME, TRANSACTIONAL
from logwright.format.scan import read_int32
from logwright.kernel import kernel

_ATTRIBUTES: Final = TRANSACTIONAL | CONTROL | LOG_APPEND_TIME
_EPOCH_AT: Final = 12
_SEQUENCE_AT: Final = 53
_PRIME: Final = np.uint64(0x9E3779B97F4A7C15)


@kernel
def mix_word(word: Any, more: Any) -> Any:
    """Return 64 bits of a uint64 and another one."""
    mixed = (word ^ more) * _PRIME
    return mixed ^ (mixed >> np.uint64(29))


@kernel
def common_sum(data: Any, batch: Any) -> Any:
    """Return 64 bits of what all records of a batch share: leader epoch, producer id and epoch, and
    whether they are of a transaction, markers, or have the time of their append.
    """
    word = np.uint64(read_int32(data, batch.position + _EPOCH_AT))
    word = mix_word(word, np.uint64(batch.producer_id))
    word = mix_word(word, np.uint64(np.int64(batch.producer_epoch)))
    return mix_word(word, np.uint64(np.int64(batch.attributes) & _ATTRIBUTES))


@kernel
def sum_headers(data: Any, batches: Any, sums: Any) -> None:
    """Set, uint64[n], 64 bits of what lasts of each header: `common_sum`, the last offset and the
    first sequence number.
    """
    for row in range(len(batches)):
        batch = batches[row]
        word = mix_word(common_sum(data, batch), np.uint64(batch.last_offset))
        sequence = read_int32(data, batch.position + _SEQUENCE_AT)
        sums[row] = mix_word(word, np.uint64(sequence))
