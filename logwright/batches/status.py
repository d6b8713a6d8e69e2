"""What a kernel that reads batches returns: one number for each reason to stop, and what is done
about it.

1. Below 0 the records are malformed: `logwright.format.walk` has the sentence of each.
2. From 1 on the caller removes an obstacle and calls again: `remove_obstacle`.
3. From `OWN` on the status is of one kernel only, whose caller knows it.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.batches.unpack import (
    NOT_GIVEN,
    NOT_UNPACKED,
    SCRATCH_FULL,
    Workspace,
    decompress_records,
)
from logwright.format.scan import check_crcs
from logwright.format.walk import raise_for_status

WRONG_CRC: Final = 3
"""The CRC of the batch is wrong."""
OWN: Final = 16


class StoppedAt(NamedTuple):
    """The batch at which a kernel stopped.

    Attributes:
        data: uint8[n] that holds it. path: for messages.
        batches: BATCH[m]. row: of the batch.
    """

    data: NDArray[np.uint8]
    path: object
    batches: NDArray[np.void]
    row: int


def remove_obstacle(space: Workspace, at: StoppedAt, status: int) -> int:
    """Do what a kernel needs before it is called again for a batch: enlarge the scratch memory, or
    decompress what it cannot. Return the bytes of the batch's records that the scratch memory then
    holds, else `NOT_GIVEN`.

    Raises:
        CorruptBatch: the batch cannot be read: its CRC is wrong, or it does not decompress, or its
            records are malformed.
    """
    batch = at.batches[at.row]
    if status == SCRATCH_FULL:
        space.double_scratch()
    elif status == NOT_UNPACKED:
        space.release_scratch()
        return space.fill(decompress_records(at.data, at.path, batch))
    elif status == WRONG_CRC:
        check_crcs(at.data, at.batches, at.path, first=at.row, last=at.row + 1)
    else:
        raise_for_status(
            status,
            path=at.path,
            position=int(batch["position"]),
            base_offset=int(batch["base_offset"]),
        )
    return NOT_GIVEN
