"""Rebuild the offset and time index of a segment from its batches (LogSegment.recover, 4.3.0).

A batch gets an entry if its position exceeds that of the last indexed batch (initially 0) by more
than ``index.interval.bytes``; a last time entry has the largest timestamp.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from logwright.format.index import serialize_offset_index, serialize_time_index
from logwright.kernel import kernel

_NO_TIMESTAMP: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuiltIndexes:
    """The content of both index files.

    Attributes:
        refused_at: row whose entry was refused because its offset was not ascending; None if every
            entry was accepted.
        largest_timestamp_ms: largest timestamp of all batches, -1 if none has one.
    """

    index: bytes
    timeindex: bytes
    refused_at: int | None
    largest_timestamp_ms: int


@kernel
def _build(batches: Any, interval: int, offsets: Any, times: Any, state: Any) -> int:
    """Fill both indexes and return the row that is refused, or -1.

    `state`: int64[3]: number of entries of each index, largest timestamp.
    """
    last_indexed = np.int64(0)
    largest, largest_offset = np.int64(_NO_TIMESTAMP), np.int64(0)
    index_entries, time_entries = np.int64(0), np.int64(0)
    refused = -1
    for row in range(len(batches)):
        batch = batches[row]
        if batch.max_timestamp > largest:
            largest, largest_offset = batch.max_timestamp, batch.last_offset
        if batch.position - last_indexed > interval:
            if index_entries > 0 and batch.last_offset <= offsets[index_entries - 1, 0]:
                refused = row
                break
            offsets[index_entries, 0] = batch.last_offset
            offsets[index_entries, 1] = batch.position
            index_entries += 1
            if time_entries > 0 and largest_offset < times[time_entries - 1, 1]:
                refused = row
                break
            if largest > (times[time_entries - 1, 0] if time_entries > 0 else _NO_TIMESTAMP):
                times[time_entries, 0] = largest
                times[time_entries, 1] = largest_offset
                time_entries += 1
            last_indexed = batch.position
    if refused < 0 and largest > (
        times[time_entries - 1, 0] if time_entries > 0 else _NO_TIMESTAMP
    ):
        if time_entries > 0 and largest_offset < times[time_entries - 1, 1]:
            refused = len(batches)
        else:
            times[time_entries, 0] = largest
            times[time_entries, 1] = largest_offset
            time_entries += 1
    state[0], state[1], state[2] = index_entries, time_entries, largest
    return refused


def build_indexes(
    batches: NDArray[np.void], *, base_offset: int, interval_bytes: int
) -> RebuiltIndexes:
    """Build the indexes of a segment with these batches, from position 0.

    Args:
        batches: BATCH[n], contiguous; their offsets fit the segment.
        base_offset: base offset of the segment.
        interval_bytes: ``index.interval.bytes``.
    """
    span = int(batches[-1]["position"] + batches[-1]["size"]) if len(batches) else 0
    room = min(len(batches), span // (interval_bytes + 1) + 1)
    offsets = np.zeros((room, 2), dtype=np.int64)
    times = np.zeros((room + 1, 2), dtype=np.int64)
    state = np.zeros(3, dtype=np.int64)
    refused = _build(batches, interval_bytes, offsets, times, state)
    return RebuiltIndexes(
        index=serialize_offset_index(offsets[: state[0]], base_offset),
        timeindex=serialize_time_index(times[: state[1]], base_offset),
        refused_at=None if refused < 0 else int(refused),
        largest_timestamp_ms=int(state[2]),
    )
