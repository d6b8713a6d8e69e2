"""Decompress the records of batches into memory that is reused."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from logwright.errors import CorruptBatch
from logwright.format import native_codec
from logwright.format.batch import CODEC_MASK, HEADER_BYTES
from logwright.format.codec import (
    LIMIT_FACTOR,
    SMALLEST_LIMIT_BYTES,
    CodecError,
    decompress,
    decompression_limit,
)
from logwright.format.record import SMALLEST_RECORD_BYTES
from logwright.kernel import inline_kernel, kernel

OK: Final = 0
NO_ROOM: Final = native_codec.NO_ROOM
ELSEWHERE: Final = native_codec.ELSEWHERE
FEW_BYTES: Final = -10
"""A batch decompresses to fewer bytes than its declared records need."""

SCRATCH_FULL: Final = 1
"""The scratch memory must be enlarged. A status of kernels that read batches, see `status`."""
NOT_UNPACKED: Final = 2
"""The caller must decompress the batch."""

NOT_GIVEN: Final = -1
"""The scratch memory does not hold the records of the batch yet."""
_NO_LIMIT = np.int64(1) << np.int64(62)
SCRATCH_BYTES: Final = 256 * 1024
USUAL_SCRATCH_BYTES: Final = 8 * 1024 * 1024
"""Larger results are not kept when Python decompresses a batch again."""


class Workspace:
    """Memory and codec libraries for decompressing one batch after the other. For one thread at a
    time, which calls `use_here` first.

    Attributes:
        scratch: uint8[n], the decompressed records of a batch.
        cells: of `native_codec.libraries`.
    """

    def __init__(self) -> None:
        self.scratch: NDArray[np.uint8] = np.empty(SCRATCH_BYTES, dtype=np.uint8)
        self.use_here()

    def use_here(self) -> None:
        """Use this workspace from the calling thread. Each thread has its own codec contexts, as
        long as it lives.
        """
        self.cells = native_codec.libraries()

    def double_scratch(self) -> None:
        """Double the memory to decompress to; its content is lost."""
        room = 2 * len(self.scratch)
        self.scratch = np.empty(0, dtype=np.uint8)
        self.scratch = np.empty(room, dtype=np.uint8)

    def release_scratch(self) -> None:
        """Free the memory that a very large batch needed."""
        if len(self.scratch) > USUAL_SCRATCH_BYTES:
            self.scratch = np.empty(SCRATCH_BYTES, dtype=np.uint8)

    def fill(self, records: bytes) -> int:
        """Store the records of a batch that the kernels could not decompress; return their size."""
        if len(records) > len(self.scratch):
            self.scratch = np.empty(len(records), dtype=np.uint8)
        self.scratch[: len(records)] = np.frombuffer(records, dtype=np.uint8)
        return len(records)


@inline_kernel
def is_packed(batch: Any) -> Any:
    """Return whether there is something to decompress: an empty batch may have any codec."""
    return batch.attributes & CODEC_MASK != 0 and batch.size > HEADER_BYTES


@kernel
def unpack_batch(data: Any, batch: Any, out: Any, at: int, most: int, cells: Any) -> Any:
    """Decompress a batch to out[at:], at most `most` bytes, and no more than its limit; return the
    bytes, `NO_ROOM`, `ELSEWHERE` or `FEW_BYTES`.
    """
    limit = max(np.int64(SMALLEST_LIMIT_BYTES), np.int64(LIMIT_FACTOR) * batch.size)
    start, end = batch.position + HEADER_BYTES, batch.position + batch.size
    codec = np.int64(batch.attributes) & CODEC_MASK
    found = native_codec.unpack(data, start, end, codec, out, at, min(limit, most), cells)
    if 0 <= found < np.int64(batch.count) * SMALLEST_RECORD_BYTES:
        return np.int64(FEW_BYTES)
    return found


@kernel
def open_records(data: Any, batch: Any, given: int, scratch: Any, at: int, cells: Any) -> Any:
    """Return (start, end, status) of a batch's records: in `data`, or if the batch is packed in
    scratch[at:], to which it is decompressed.

    Args:
        given: bytes of its records that the scratch memory holds from 0 on, else `NOT_GIVEN`.

    Returns:
        The status is `OK`, `SCRATCH_FULL` or `NOT_UNPACKED`.
    """
    start, end = batch.position + HEADER_BYTES, batch.position + batch.size
    if not is_packed(batch):
        return start, end, np.int64(OK)
    if given >= 0:
        return np.int64(0), np.int64(given), np.int64(OK)
    size = unpack_batch(data, batch, scratch, at, _NO_LIMIT, cells)
    if size < 0:
        return start, end, np.int64(SCRATCH_FULL if size == NO_ROOM else NOT_UNPACKED)
    return np.int64(at), at + size, np.int64(OK)


@kernel
def unpack_batches(
    data: Any, batches: Any, first: int, out: Any, at: int, spans: Any, most: int, cells: Any
) -> Any:
    """Decompress batches from row `first` on, one after the other to out[at:]; return (row, where
    it ends, status).

    Args:
        spans: int64[rows, 2], start and end of each batch's records: set for the compressed ones.
        most: limit of their bytes together; the first may have more.
    """
    for row in range(first, len(batches)):
        if not is_packed(batches[row]):
            continue
        room = max(np.int64(most) - at, np.int64(0)) if at > 0 else _NO_LIMIT
        found = unpack_batch(data, batches[row], out, at, room, cells)
        if found < 0:
            return row, at, found
        spans[row, 0] = at
        at += found
        spans[row, 1] = at
    return len(batches), at, np.int64(OK)


def decompress_records(
    data: NDArray[np.uint8], path: object, batch: np.void, *, most: int | None = None
) -> bytes:
    """Decompress one batch that the kernels could not decompress, or refused.

    Args:
        data: uint8[n] that holds it. path: for messages.
        most: limit of its bytes, if that is below its own limit.

    Raises:
        CorruptBatch: it does not decompress, or to more than the limit, or to less than its records
            need.
    """
    position, size = int(batch["position"]), int(batch["size"])
    payload = data[position + HEADER_BYTES : position + size].data
    own = decompression_limit(size)
    problem = None
    try:
        limit = own if most is None else min(own, most)
        records = decompress(int(batch["attributes"]) & CODEC_MASK, payload, limit=limit)
    except CodecError as error:
        problem = f"does not decompress: {error}"
    else:
        # Memory is allocated by the count of records, so the count must be possible.
        count = int(batch["count"])
        if count * SMALLEST_RECORD_BYTES <= len(records):
            return records
        problem = f"decompresses to {len(records)} bytes, too few for {count} records"
    raise CorruptBatch(
        f"the record batch at offset {int(batch['base_offset'])} {problem}.",
        path=path,
        position=position,
        remedy="The log was left untouched. Restore the segment.",
    )
