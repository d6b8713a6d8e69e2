"""Check index files, entry by entry, against the batches, by the rules of `format.lookup`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from logwright.batches.source import Source
from logwright.format.index import (
    OFFSET_ENTRY_BYTES,
    TIME_ENTRY_BYTES,
    parse_offset_index,
    parse_time_index,
)
from logwright.format.lookup import wrong_offset_entries
from logwright.format.names import INDEX, TIMEINDEX, segment_file_name
from logwright.place.mapped import map_file
from logwright.rewrite.model import StagedSegment


def check_indexes(
    segment: StagedSegment, staged: Source, directory: Path
) -> tuple[tuple[int, int], list[int]]:
    """Return ((offset index entries, time index entries), offsets of the wrong entries). Effects:
    reads both files.
    """
    base, batches = segment.base_offset, staged.batches
    offset_bytes, time_bytes = (
        map_file(f"{directory}/{segment_file_name(base, suffix)}").tobytes()
        for suffix in (INDEX, TIMEINDEX)
    )
    if len(offset_bytes) % OFFSET_ENTRY_BYTES or len(time_bytes) % TIME_ENTRY_BYTES:
        return (0, 0), [base]
    offsets = parse_offset_index(offset_bytes, base)
    times = parse_time_index(time_bytes, base)
    wrong = [
        *offsets[wrong_offset_entries(offsets, batches), 0].tolist(),
        *times[_wrong_time_entries(times, batches), 1].tolist(),
    ]
    return (len(offsets), len(times)), wrong


def _wrong_time_entries(entries: NDArray[np.int64], batches: NDArray[np.void]) -> NDArray[np.bool_]:
    """Return which entries do not ascend, or do not give the largest timestamp up to the batch that
    has, or first follows, the offset that they name. This is more than a look-up needs.

    Args:
        entries: int64[n, 2] of timestamp in ms and offset.
        batches: BATCH[m], ascending.
    """
    timestamps, offsets = entries.T
    rows = np.searchsorted(batches["last_offset"], offsets)
    right = rows < len(batches)
    rows = rows[right]
    largest = np.maximum.accumulate(batches["max_timestamp"])
    right[right] = largest[rows] == timestamps[right]
    right[1:] &= np.diff(timestamps) > 0
    wrong: NDArray[np.bool_] = ~right
    return wrong
