"""Decompress the records of batches into memory that is reused."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from logwright.batches.status import (
    NOT_UNPACKED,
    OK,
    SCRATCH_FULL,
    WRONG_CRC,
    StoppedAt,
    require_readable,
)
from logwright.errors import CorruptBatch
from logwright.format import native_codec
from logwright.format.batch import CODEC_MASK, HEADER_BYTES
from logwright.format.codec import decompress
from logwright.format.limits import (
    LIMIT_FACTOR,
    SMALLEST_LIMIT_BYTES,
    AboveLimit,
    CodecError,
    above_limit,
    decompression_limit,
)
from logwright.format.record import SMALLEST_RECORD_BYTES
from logwright.format.scan import check_crcs
from logwright.kernel import inline_kernel, kernel

NOT_GIVEN: Final = -1
"""The scratch memory does not hold the records of the batch yet."""
NO_LIMIT: Final = 1 << 62
SCRATCH_BYTES: Final = 256 * 1024
USUAL_SCRATCH_BYTES: Final = 8 * 1024 * 1024
"""Larger results are not kept when Python decompresses a batch again."""


class Workspace:
    """Memory and codec libraries for decompressing batches. For one thread at a time, which calls
    `use_here` first.

    Args:
        scratch_bytes: to begin with.
        most: limit of the scratch memory where it holds several batches; the first may have more.

    Attributes:
        scratch: uint8[n], decompressed records.
        cells: of `native_codec.libraries`.
    """

    def __init__(self, scratch_bytes: int = SCRATCH_BYTES, most: int = NO_LIMIT) -> None:
        self.scratch: NDArray[np.uint8] = np.empty(scratch_bytes, dtype=np.uint8)
        self.most = most
        self.use_here()

    def use_here(self) -> None:
        """Use this workspace from the calling thread. Each thread has its own codec contexts, as
        long as it lives.
        """
        self.cells = native_codec.libraries()

    def release_scratch(self) -> None:
        """Free the memory that a very large batch needed."""
        if len(self.scratch) > USUAL_SCRATCH_BYTES:
            self.scratch = np.empty(SCRATCH_BYTES, dtype=np.uint8)

    def enlarge(self, used: int, size: int) -> None:
        """Enlarge the scratch memory, of which the first `used` bytes are kept."""
        kept = self.scratch[:used].copy()
        self.scratch = np.empty(0, dtype=np.uint8)  # both at once may be too much
        self.scratch = np.empty(size, dtype=np.uint8)
        self.scratch[:used] = kept

    def fill(self, records: bytes, used: int) -> int:
        """Store the records of a batch that the kernels could not decompress; return their size."""
        end = used + len(records)
        if end > len(self.scratch):
            self.enlarge(used, used + (2 * len(records) if used else len(records)))
        self.scratch[used:end] = np.frombuffer(records, dtype=np.uint8)
        return len(records)


@inline_kernel
def is_packed(batch: Any) -> Any:
    """Return whether there is something to decompress: an empty batch may have any codec."""
    return batch.attributes & CODEC_MASK != 0 and batch.size > HEADER_BYTES


@kernel
def _unpack(data: Any, batch: Any, scratch: Any, at: int, most: int, cells: Any) -> Any:
    """Decompress a batch to scratch[at:], of which `most` bytes are used; return the bytes,
    `NO_ROOM` or `ELSEWHERE`.
    """
    limit = max(np.int64(SMALLEST_LIMIT_BYTES), np.int64(LIMIT_FACTOR) * batch.size)
    limit = min(limit, max(np.int64(most) - at, np.int64(0)))
    start, end = batch.position + HEADER_BYTES, batch.position + batch.size
    codec = np.int64(batch.attributes) & CODEC_MASK
    size = native_codec.unpack(data, start, end, codec, scratch, at, limit, cells)
    # Python says what is wrong: memory is allocated by the count of records.
    if 0 <= size < np.int64(batch.count) * SMALLEST_RECORD_BYTES:
        return np.int64(native_codec.ELSEWHERE)
    return size


@kernel
def open_records(
    data: Any, batch: Any, given: int, scratch: Any, at: int, cells: Any, most: int = NO_LIMIT
) -> Any:
    """Return (start, end, status) of a batch's records: in `data`, or if the batch is packed in
    scratch[at:], to which it is decompressed.

    Args:
        given: bytes of its records that the scratch memory holds from `at` on, else `NOT_GIVEN`.
        most: limit of the scratch memory that is used, bytes; a batch has its own, too.

    Returns:
        The status is `OK`, `SCRATCH_FULL` or `NOT_UNPACKED`.
    """
    start, end = batch.position + HEADER_BYTES, batch.position + batch.size
    if not is_packed(batch):
        return start, end, np.int64(OK)
    if given >= 0:
        return np.int64(at), np.int64(at) + given, np.int64(OK)
    size = _unpack(data, batch, scratch, at, most, cells)
    if size < 0:
        return start, end, np.int64(SCRATCH_FULL if size == native_codec.NO_ROOM else NOT_UNPACKED)
    return np.int64(at), at + size, np.int64(OK)


@kernel
def open_batches(
    data: Any, batches: Any, first: int, given: int, scratch: Any, at: int, spans: Any, space: Any
) -> Any:
    """Open batches from row `first` on, decompressed ones one after the other in scratch[at:];
    return (row, where the scratch memory is free, status).

    Args:
        spans: int64[rows, 2], set: start and end of each batch's records.
        space: (cells, limit of the scratch memory); the first batch may have more.
    """
    cells, most = space
    free = np.int64(at)
    for row in range(first, len(batches)):
        batch = batches[row]
        loaded = np.int64(given) if row == first else np.int64(NOT_GIVEN)
        limit = np.int64(most) if free > 0 else np.int64(NO_LIMIT)
        start, end, status = open_records(data, batch, loaded, scratch, free, cells, limit)
        if status != OK:
            return np.int64(row), free, status
        spans[row, 0], spans[row, 1] = start, end
        if is_packed(batch):
            free = end
    return np.int64(len(batches)), free, np.int64(OK)


def remove_obstacle(space: Workspace, at: StoppedAt, status: int, *, used: int = 0) -> int:
    """Do what a kernel needs before it is called again for a batch: enlarge the scratch memory, or
    decompress what it cannot. Return the bytes of the batch's records that the scratch memory then
    holds, else `NOT_GIVEN`.

    Args:
        used: bytes of the scratch memory that hold other batches.

    Raises:
        CorruptBatch: the batch cannot be read: its CRC is wrong, or it does not decompress, or its
            records are malformed.
        BatchAboveLimit: it unpacks to more than the limit.
    """
    size = len(space.scratch)
    if status == SCRATCH_FULL and (not used or size < space.most):
        space.enlarge(used, min(2 * size, space.most) if used else 2 * size)
    elif status in (SCRATCH_FULL, NOT_UNPACKED):
        if not used:
            space.release_scratch()
        most = max(space.most - used, 0) if used else None
        batch = at.batches[at.row]
        return space.fill(decompress_records(at.data, at.path, batch, most=most), used)
    elif status == WRONG_CRC:
        check_crcs(at.data, at.batches, at.path, first=at.row, last=at.row + 1)
    else:
        require_readable(at, status)
    return NOT_GIVEN


def decompress_records(
    data: NDArray[np.uint8], path: object, batch: np.void, *, most: int | None = None
) -> bytes:
    """Decompress one batch that the kernels could not decompress, or refused.

    Args:
        data: uint8[n] that holds it. path: for messages.
        most: limit of its bytes, if that is below its own limit.

    Raises:
        CorruptBatch: it does not decompress, or to less than its records need.
        BatchAboveLimit: it unpacks to more than the limit.
    """
    position, size = int(batch["position"]), int(batch["size"])
    payload = data[position + HEADER_BYTES : position + size].data
    own = decompression_limit(size)
    limit = own if most is None else min(own, most)
    try:
        records = decompress(int(batch["attributes"]) & CODEC_MASK, payload, limit=limit)
    except AboveLimit as error:
        offset = int(batch["base_offset"])
        named = own if limit == own else None
        raise above_limit(offset, named, path=path, position=position) from error
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
