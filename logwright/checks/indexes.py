"""Check the staged index files, entry by entry, against the batches (Kafka 4.3.0: OffsetIndex,
TimeIndex).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from logwright.compaction.model import StagedSegment
from logwright.compaction.source import Source
from logwright.format.names import INDEX, TIMEINDEX, segment_file_name
from logwright.format.scan import read_int32, read_int64
from logwright.kernel import kernel
from logwright.log.mapped import map_file

_OFFSET_ENTRY: Final = 8
"""Bytes: offset 4, position 4."""
_TIME_ENTRY: Final = 12
"""Bytes: timestamp 8, offset 4."""


def check_indexes(
    segment: StagedSegment, staged: Source, directory: Path
) -> tuple[tuple[int, int], list[int]]:
    """Return ((offset index entries, time index entries), offsets of the wrong entries).

    An offset index entry is the last offset of the batch that starts at its position. A time index
    entry's offset is the last offset of a batch, and no batch up to it has a larger timestamp; one
    has this one.
    """
    base, batches = segment.base_offset, staged.batches
    offsets, times = (
        map_file(f"{directory}/{segment_file_name(base, suffix)}") for suffix in (INDEX, TIMEINDEX)
    )
    if len(offsets) % _OFFSET_ENTRY or len(times) % _TIME_ENTRY:
        return (0, 0), [base]
    entries = len(offsets) // _OFFSET_ENTRY, len(times) // _TIME_ENTRY
    wrong = np.empty(sum(entries), dtype=np.int64)
    misplaced = int(_judge_offsets(offsets, batches, base, wrong))
    largest = np.maximum.accumulate(batches["max_timestamp"])
    misplaced = int(_judge_times(times, batches, largest, base, wrong, misplaced))
    return entries, [int(offset) for offset in wrong[:misplaced]]


@kernel
def _judge_offsets(data: Any, batches: Any, base_offset: int, wrong: Any) -> int:
    """Put the offsets of the wrong entries of an offset index into `wrong`; return their number."""
    count, before = 0, -1
    for at in range(0, len(data), _OFFSET_ENTRY):
        delta, position = read_int32(data, at), read_int32(data, at + 4)
        offset = base_offset + delta
        low, high = 0, len(batches)
        while low < high:
            middle = (low + high) // 2
            if batches[middle].position < position:
                low = middle + 1
            else:
                high = middle
        right = low < len(batches) and batches[low].position == position
        right = right and batches[low].last_offset == offset and (at == 0 or delta > before)
        if not right:
            wrong[count] = offset
            count += 1
        before = delta
    return count


@kernel
def _judge_times(
    data: Any, batches: Any, largest: Any, base_offset: int, wrong: Any, count: int
) -> int:
    """Do the same for a time index, after the first `count` offsets in `wrong`.

    largest: int64[n], largest timestamp of the batches up to each.
    """
    before = 0
    for at in range(0, len(data), _TIME_ENTRY):
        timestamp, offset = read_int64(data, at), base_offset + read_int32(data, at + 8)
        low, high = 0, len(batches)
        while low < high:
            middle = (low + high) // 2
            if batches[middle].last_offset < offset:
                low = middle + 1
            else:
                high = middle
        right = low < len(batches) and batches[low].last_offset == offset
        right = right and largest[low] == timestamp and (at == 0 or timestamp > before)
        if not right:
            wrong[count] = offset
            count += 1
        before = timestamp
    return count
