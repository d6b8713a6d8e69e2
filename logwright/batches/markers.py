"""Which transactional data is aborted, by the markers alone: the next marker of its producer
decides (KIP-98). A transaction index is a hint, and is not read.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from logwright.batches.outcomes import is_end
from logwright.format.batch import CONTROL, TRANSACTIONAL
from logwright.format.scan import bad_crcs
from logwright.kernel import kernel

NO_MARKERS: Final = np.zeros((0, 3), dtype=np.int64)


def markers_of(data: NDArray[np.uint8], batches: NDArray[np.void]) -> NDArray[np.int64]:
    """Return int64[n, 3] of producer id, offset, and kind (`scan.ABORT` or `scan.COMMIT`) of the
    markers among batches whose CRC is right.
    """
    ends = batches[is_end(batches)]
    if not len(ends):
        return NO_MARKERS
    ends = np.delete(ends, bad_crcs(data, ends))
    columns = (ends["producer_id"], ends["base_offset"], ends["control_type"])
    return np.stack([column.astype(np.int64) for column in columns], axis=1)


def with_markers(
    known: NDArray[np.int64], more: NDArray[np.int64], *, from_offset: int
) -> NDArray[np.int64]:
    """Return markers, ascending by producer and offset, without those below an offset."""
    every = np.concatenate([known[known[:, 1] >= from_offset], more])
    return np.ascontiguousarray(every[np.lexsort((every[:, 1], every[:, 0]))])


@kernel
def decide(batches: Any, markers: Any, first_offset: int, end_offset: int) -> int:
    """Set `discard` of aborted data; return how many batches no marker decides.

    Args:
        batches: BATCH[n]; those with records in [first_offset, end_offset) are decided.
        markers: as of `with_markers`.
    """
    undecided = np.int64(0)
    for row in range(len(batches)):
        batch = batches[row]
        if (
            batch.attributes & (CONTROL | TRANSACTIONAL) != TRANSACTIONAL
            or batch.producer_id < 0
            or batch.count == 0
            or batch.last_offset < first_offset
            or batch.base_offset >= end_offset
        ):
            continue
        low, high = np.int64(0), np.int64(len(markers))
        while low < high:
            middle = (low + high) // 2
            producer, offset = markers[middle, 0], markers[middle, 1]
            if producer < batch.producer_id or (
                producer == batch.producer_id and offset <= batch.base_offset
            ):
                low = middle + 1
            else:
                high = middle
        if low < len(markers) and markers[low, 0] == batch.producer_id:
            batch.discard = markers[low, 2] == 0
        else:
            undecided += 1
    return undecided
