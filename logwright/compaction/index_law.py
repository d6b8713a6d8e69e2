"""Judge the staged index files entry by entry against the batches (segment-files rules of Kafka
4.3.0).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from logwright.compaction.model import StagedSegment
from logwright.compaction.source import Source
from logwright.format.names import INDEX, TIMEINDEX, segment_file_name
from logwright.log.mapped import map_file

_OFFSET_ENTRY = np.dtype([("offset", ">i4"), ("position", ">i4")])
_TIME_ENTRY = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])


def check_indexes(
    segment: StagedSegment, staged: Source, directory: Path
) -> tuple[tuple[int, int], list[int]]:
    """((offset index entries, time index entries), offsets of the entries that are wrong).

    An offset index entry is the last offset of the batch that starts at its position. A time index
    entry's offset is the last offset of a batch, and no batch up to it has a larger timestamp; one
    has this one.
    """
    entries = _read(directory, segment, INDEX, _OFFSET_ENTRY)
    times = _read(directory, segment, TIMEINDEX, _TIME_ENTRY)
    if entries is None or times is None:
        return (0, 0), [segment.base_offset]
    batches = staged.batches
    wrong: list[int] = []
    rows = np.searchsorted(batches["position"], entries["position"])
    offsets = entries["offset"].astype(np.int64) + segment.base_offset
    inside = rows < len(batches)
    right = np.zeros(len(entries), dtype=np.bool_)
    right[inside] = (batches["position"][rows[inside]] == entries["position"][inside]) & (
        batches["last_offset"][rows[inside]] == offsets[inside]
    )
    right[1:] &= np.diff(offsets) > 0
    wrong += [int(offset) for offset in offsets[~right]]
    largest = np.maximum.accumulate(batches["max_timestamp"]) if len(batches) else np.zeros(0)
    offsets = times["offset"].astype(np.int64) + segment.base_offset
    rows = np.searchsorted(batches["last_offset"], offsets)
    inside = rows < len(batches)
    right = np.zeros(len(times), dtype=np.bool_)
    right[inside] = (batches["last_offset"][rows[inside]] == offsets[inside]) & (
        largest[rows[inside]] == times["timestamp"][inside]
    )
    right[1:] &= np.diff(times["timestamp"].astype(np.int64)) > 0
    wrong += [int(offset) for offset in offsets[~right]]
    return (len(entries), len(times)), wrong


def _read(
    directory: Path, segment: StagedSegment, suffix: str, dtype: np.dtype[np.void]
) -> NDArray[np.void] | None:
    """The entries of a staged index; None if the file is no whole number of them."""
    data = map_file(directory / segment_file_name(segment.base_offset, suffix))
    return data.view(dtype) if data.nbytes % dtype.itemsize == 0 else None
