"""Find the valid batches at the start of a segment, which a recovery keeps (LogSegment.recover,
4.3.0).

1. Walk the length fields like FileLogInputStream: end without an error when 17 bytes or fewer are
   left and before a truncated batch; a length below 14 is corrupt.
2. A batch is valid if it is at least as long as its header and its CRC is correct. CRC, magic, base
   offset and leader epoch are not covered by the CRC. Batches of format v0 and v1 have a CRC of
   their own kind, which is always checked: it shows that the magic is not damaged.
3. Kafka does not check the order of offsets here; a caller can request it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from logwright.format.batch import (
    CRC_START,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
)
from logwright.format.crc import crc32c, span_crc32c
from logwright.format.legacy import LEGACY, NO_EPOCH, fill_legacy, is_legacy, is_legacy_magic
from logwright.format.scan import (
    BATCH,
    LENGTH,
    OTHER_MAGIC,
    SMALL,
    TORN,
    WHOLE,
    fill_batch,
    next_batch,
    read_int32,
    read_uint32,
)
from logwright.kernel import kernel
from logwright.units import INT32_MAX

End = Literal["whole", "torn", "length", "crc", "magic", "order", "range"]
"""Why the walk ended: end of file, truncated batch, invalid length, wrong CRC, unsupported magic,
offsets that are not ascending, or offsets too far from the segment's base offset.
"""

_ORDER: Final = 8
_RANGE: Final = 9
_CRC: Final = 10
_ENDS: Final[dict[int, End]] = {
    WHOLE: "whole",
    TORN: "torn",
    LENGTH: "length",
    SMALL: "crc",
    OTHER_MAGIC: "magic",
    _ORDER: "order",
    _RANGE: "range",
    _CRC: "crc",
}
_LARGEST_MAGIC: Final = 127
"""The magic is an int8; Kafka treats values below 0 as old formats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidBatches:
    """The valid part of a segment.

    Attributes:
        batches: BATCH[n]; `control_type` is not set. Of a `legacy` one see `fill_legacy`.
        epochs: int32[n], partitionLeaderEpoch of each batch.
        valid_bytes: size of the valid part.
        end: why it ends there.
    """

    batches: NDArray[np.void]
    epochs: NDArray[np.int32]
    valid_bytes: int
    end: End


@kernel
def _walk(
    data: Any, base_offset: int, rule: Any, position: int, batches: Any, epochs: Any
) -> tuple[int, int, int]:
    """Fill rows from `position` on; return (rows, next position, reason or -1 if the rows are
    full).

    `rule`: int64[5]: check CRCs; require ascending offsets; minimum offset of the first batch;
    exclusive upper bound of all offsets; require offsets that fit the segment.
    """
    end = np.int64(len(data))
    next_offset, bound = rule[2], rule[3]
    row = 0
    while position < end:
        if row == len(batches):
            return row, position, -1
        size, status = next_batch(data, position, end)
        batch = batches[row]
        if status == OTHER_MAGIC and is_legacy_magic(data, position):
            if not is_legacy(data, position, size):
                return row, position, _CRC
            fill_legacy(batch, data, position, size)
            batch.legacy = LEGACY
            epochs[row] = NO_EPOCH
        elif status != WHOLE:
            return row, position, status
        else:
            if rule[0] != 0:
                computed = np.int64(span_crc32c(data, position + 21, position + size))
                if computed != read_uint32(data, position + 17):
                    return row, position, _CRC
            fill_batch(batch, data, position, size)
            epochs[row] = read_int32(data, position + 12)
        if rule[1] != 0:
            first, last = batch.base_offset, batch.last_offset
            if first < next_offset or last < first or last >= bound:
                return row, position, _ORDER
            next_offset = last + 1
        distance = batch.last_offset - base_offset
        if rule[4] != 0 and (distance < 0 or distance > INT32_MAX):
            return row, position, _RANGE
        rule[2] = next_offset
        position += size
        row += 1
    return row, position, WHOLE


def valid_batches(
    data: NDArray[np.uint8],
    *,
    base_offset: int,
    end_offset: int | None = None,
    check_crcs: bool = True,
    check_range: bool = True,
) -> ValidBatches:
    """Return the valid batches at the start of a segment.

    Args:
        data: uint8[n], the ``.log`` or a part of it.
        base_offset: base offset of the segment.
        end_offset: offsets must be ascending and below it; None: like Kafka, do not check their
            order.
        check_crcs: false for bytes that were checked before; of format v2.
        check_range: require that every last offset fits into the segment's index.
    """
    bounds = (0, 0, 0) if end_offset is None else (1, base_offset, end_offset)
    rule = np.array([check_crcs, *bounds, check_range], dtype=np.int64)
    room = 1024
    parts: list[tuple[NDArray[np.void], NDArray[np.int32]]] = []
    position, status = 0, -1
    while status == -1:
        batches = np.zeros(room, dtype=BATCH)
        epochs = np.zeros(room, dtype=np.int32)
        rows, position, status = _walk(data, base_offset, rule, position, batches, epochs)
        parts.append((batches[:rows], epochs[:rows]))
        room = min(room * 2, 1 << 18)
    if status == OTHER_MAGIC and not _is_of_other_magic(data, position):
        status = _CRC
    return ValidBatches(
        batches=np.concatenate([batches for batches, _ in parts]),
        epochs=np.concatenate([epochs for _, epochs in parts]),
        valid_bytes=int(position),
        end=_ENDS[status],
    )


def _is_of_other_magic(data: NDArray[np.uint8], position: int) -> bool:
    """Return whether the CRC, that of v2, confirms a magic above 2. If not, it is a corrupt batch
    of v2.
    """
    head = data[position : position + HEADER_BYTES].tobytes()
    size = int.from_bytes(head[8:12], "big") + LOG_OVERHEAD_BYTES
    content = data[position : position + size].tobytes()
    if head[16] > _LARGEST_MAGIC or size < HEADER_BYTES:
        return False
    return crc32c(content[CRC_START:]) == int.from_bytes(head[17:21], "big")
