"""What a kernel that reads batches returns: the one list of its statuses, and of each, if it is a
fault of the file, its sentence and its exception.

1. Below 0 the records are malformed; `logwright.format.walk` has the numbers.
2. From `SCRATCH_FULL` to `WRONG_CRC` the caller removes an obstacle, or learns that there is none
   (`logwright.batches.unpack.remove_obstacle`).
3. The statuses of `logwright.format.scan` say what the next batch is.
4. From `HITS_FULL` on a status is of one kernel only: its caller makes room, and calls again.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.errors import CorruptBatch, LogwrightError, UnsupportedFormatError
from logwright.format import scan, walk

OK: Final = walk.OK
SCRATCH_FULL: Final = 1
"""The scratch memory must be enlarged."""
NOT_UNPACKED: Final = 2
"""The caller must decompress the batch."""
WRONG_CRC: Final = 3
RECORDS: Final = 8
"""The records are malformed, for a reader that does not say how."""

HITS_FULL: Final = 16
"""The buffers of a search must be emptied, or enlarged."""
MANY_RECORDS: Final = 17
"""The buffers are too small for the records of one batch."""
STORE_FULL: Final = 18
"""The buffer for rebuilt batches must be emptied."""
ROWS_FULL: Final = 19
"""The rows must be taken."""
NEEDS_ROOM: Final = 20
"""The buffers are empty and too small for one row."""
BUFFER_FULL: Final = 21
"""What was written must be taken, or its buffer enlarged."""
PLAIN_FULL: Final = 22
"""The memory for the records before they are compressed must be enlarged."""
NOT_PACKED: Final = 23
"""The records cannot be compressed."""
NOT_REBUILT: Final = 24
"""The batch is not in the cache of rebuilt ones."""


class Fault(NamedTuple):
    """What is wrong with a batch: the sentence without its end, and the exception."""

    problem: str
    kind: type[LogwrightError] = CorruptBatch


FAULTS: Final = {
    walk.VARINT: Fault("a varint of a record is longer than Kafka allows or runs past the batch"),
    walk.LENGTH: Fault("a length inside a record runs past the record or the batch"),
    walk.OFFSET_DELTA: Fault("the offset deltas of the records do not ascend inside the batch"),
    walk.TRAILING: Fault("bytes are left over after the declared number of records"),
    walk.HEADERS: Fault("the headers of a record do not fill its declared length"),
    WRONG_CRC: Fault("the record batch's CRC is wrong"),
    scan.TORN: Fault("the file ends inside a record batch"),
    scan.LENGTH: Fault("the record batch's length is invalid; what follows cannot be read"),
    scan.OTHER_MAGIC: Fault(
        "the record batch's magic is unknown, or of an old message format without its CRC",
        UnsupportedFormatError,
    ),
    scan.SMALL: Fault("the record batch's CRC is wrong"),
    RECORDS: Fault("the records of the batch are malformed"),
}


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


def require_readable(at: StoppedAt, status: int) -> None:
    """Raise the error of a batch.

    Raises:
        CorruptBatch, UnsupportedFormatError: unless the status is `OK`.
    """
    if status == OK:
        return
    fault, batch = FAULTS[status], at.batches[at.row]
    raise fault.kind(
        f"in the record batch at offset {int(batch['base_offset'])}, {fault.problem}.",
        path=at.path,
        position=int(batch["position"]),
        remedy="The log was not changed. Restore the segment.",
    )
