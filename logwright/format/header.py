"""Kernels that step from one record batch to the next, and read its header (record format v2).

`next_batch` looks at the length and the magic only, as FileLogInputStream (4.3.0) does. Who reads
strictly (`scan`) refuses what is not whole; who reads what is left after a crash (`valid`), or
whatever there is (`erasure.find`), ends or continues there.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from logwright.format.batch import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    SMALLEST_LEGACY_LENGTH,
)
from logwright.kernel import inline_kernel, kernel

# The numbers differ from those of `logwright.batches.status`.
WHOLE: Final = 0
TORN: Final = 4
"""The data ends inside a batch: after 17 bytes or fewer, or before its size."""
LENGTH: Final = 5
"""The length is below that of any format."""
OTHER_MAGIC: Final = 6
SMALL: Final = 7
"""It has fewer bytes than its header, with a right magic."""

_MOST_OF_A_TORN_HEAD: Final = 17


@kernel
def read_int16(data: Any, at: int) -> int:
    """Read a big-endian int16; the caller checks the bounds, as for the functions below."""
    return np.int64(np.int16((np.uint16(data[at]) << np.uint16(8)) | np.uint16(data[at + 1])))


@kernel
def read_uint32(data: Any, at: int) -> int:
    """Read a big-endian uint32."""
    value = np.int64(0)
    for index in range(4):
        value = (value << np.int64(8)) | np.int64(data[at + index])
    return value


@kernel
def read_int32(data: Any, at: int) -> int:
    """Read a big-endian int32."""
    value = read_uint32(data, at)
    return value - np.int64(4294967296) if value > np.int64(2147483647) else value


@kernel
def read_int64(data: Any, at: int) -> int:
    """Read a big-endian int64."""
    value = np.int64(0)
    for index in range(8):
        value = (value << np.int64(8)) | np.int64(data[at + index])
    return value


@inline_kernel
def fill_batch(batch: Any, data: Any, position: int, size: int) -> None:
    """Note the header of the batch at a position in a row of BATCH; sums and flags stay."""
    batch.position = position
    batch.size = size
    batch.base_offset = read_int64(data, position)
    batch.last_offset = batch.base_offset + read_int32(data, position + 23)
    batch.base_timestamp = read_int64(data, position + 27)
    batch.max_timestamp = read_int64(data, position + 35)
    batch.producer_id = read_int64(data, position + 43)
    batch.count = read_int32(data, position + 57)
    batch.attributes = read_int16(data, position + 21)
    batch.producer_epoch = read_int16(data, position + 51)
    batch.control_type = -1


@inline_kernel
def next_batch(data: Any, position: int, end: int) -> Any:
    """Return (size, status) of the batch at a position before `end`; the size, as its length field
    has it, is 0 if that field is torn off.
    """
    if end - position <= _MOST_OF_A_TORN_HEAD:
        return np.int64(0), np.int64(TORN)
    length = np.int64(read_int32(data, position + 8))
    size = length + LOG_OVERHEAD_BYTES
    if length < SMALLEST_LEGACY_LENGTH:
        return size, np.int64(LENGTH)
    if size > end - position:
        return size, np.int64(TORN)
    if data[position + 16] != MAGIC:
        return size, np.int64(OTHER_MAGIC)
    return size, np.int64(SMALL if size < HEADER_BYTES else WHOLE)
