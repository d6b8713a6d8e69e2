"""The output of a copy: the buffer that batches are written to, the entries of the segment's
indexes, and the counts.

Kernels write to it, field by field. All of it is allocated before they are called.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.kernel import kernel

COUNTS: Final = ("records", "verbatim", "rebuilt", "dropped", "horizons")
COPY_STATE: Final = np.dtype(
    [
        (name, "<i8")
        for name in (
            *("position", "buffered", "next_offset"),
            *("bytes_since_entry", "largest_timestamp", "largest_offset", "last_indexed_timestamp"),
            *("index_entries", "timeindex_entries"),
            *COUNTS,
            *("given", "needed"),
        )
    ]
)
"""Progress of a copy.

position, buffered: bytes written so far; bytes of these that the buffer holds.
next_offset: last offset of the last batch written + 1.
bytes_since_entry: bytes since the last offset index entry.
largest_timestamp, largest_offset: in ms, -1 without a batch; last offset of the first batch that
    has it.
last_indexed_timestamp: of the last time index entry, ms, -1 if there is none.
index_entries, timeindex_entries: how many there are.
records, verbatim, rebuilt, dropped, horizons: records written; batches copied as they are, rebuilt,
    dropped; batches that got a delete horizon.
given: bytes of the next batch's records that the scratch memory already holds, or `NOT_GIVEN`.
needed: bytes of buffer or plain memory that the next batch needs.
"""

OFFSET_ENTRY: Final = np.dtype([("offset", "<i8"), ("position", "<i8")])
"""An entry of the offset index, with the absolute offset."""
TIME_ENTRY: Final = np.dtype([("timestamp", "<i8"), ("offset", "<i8")])
"""An entry of the time index, with the absolute offset."""
_OFFSET_FILE: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])
_TIME_FILE: Final = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])


class Output(NamedTuple):
    """The output of `copy.copy_batches`.

    Attributes:
        buffer: uint8[n]; the first state.buffered bytes are used.
        offset_index: OFFSET_ENTRY[k], room for one entry for each batch.
        time_index: TIME_ENTRY[k + 1].
        state: COPY_STATE.
    """

    buffer: NDArray[np.uint8]
    offset_index: NDArray[np.void]
    time_index: NDArray[np.void]
    state: np.void


_NO_BUFFER: Final = np.empty(0, dtype=np.uint8)


def new_output(*, batches: int, buffer: NDArray[np.uint8] = _NO_BUFFER) -> Output:
    """Return an output without a batch, with room for the entries of this number of batches."""
    state: np.void = np.zeros(1, dtype=COPY_STATE)[0]
    state["largest_timestamp"] = -1
    state["last_indexed_timestamp"] = -1
    return Output(
        buffer=buffer,
        offset_index=np.empty(batches, dtype=OFFSET_ENTRY),
        time_index=np.empty(batches + 1, dtype=TIME_ENTRY),
        state=state,
    )


@kernel
def note_batch(output: Any, interval: int, last_offset: int, size: int, max_timestamp: int) -> None:
    """Add the index entries of a batch that is written next, and count its bytes.

    As LogSegment.append does (4.3.0): first the largest timestamp, then the entries, if more than
    ``index.interval.bytes`` were written since the last ones, then the bytes.
    """
    state = output.state
    if max_timestamp > state.largest_timestamp:
        state.largest_timestamp = max_timestamp
        state.largest_offset = last_offset
    if state.bytes_since_entry > interval:
        entry = output.offset_index[state.index_entries]
        entry.offset = last_offset
        entry.position = state.position
        state.index_entries += 1
        index_time(output)
        state.bytes_since_entry = 0
    state.bytes_since_entry += size
    state.position += size
    state.buffered += size
    state.next_offset = last_offset + 1


@kernel
def index_time(output: Any) -> None:
    """Append the largest timestamp and its offset to the time index, if it is larger than the last
    entry's.
    """
    state = output.state
    if state.largest_timestamp > state.last_indexed_timestamp:
        entry = output.time_index[state.timeindex_entries]
        entry.timestamp = state.largest_timestamp
        entry.offset = state.largest_offset
        state.last_indexed_timestamp = state.largest_timestamp
        state.timeindex_entries += 1


@kernel
def append_output(output: Any, chunk: Any, interval: int) -> None:
    """Append a chunk's batches to the segment: their index entries, as if they were written to it
    one by one, and the counts.

    A batch matters to the time index only if its timestamp is above all before it, so also above
    all before it in its chunk.

    chunk: the output of a copy with an entry for every batch.
    """
    added, at = chunk.state, 0
    for number in range(added.index_entries):
        entry = chunk.offset_index[number]
        end = added.position
        if number + 1 < added.index_entries:
            end = chunk.offset_index[number + 1].position
        max_timestamp: Any = np.int64(-1)
        if at < added.timeindex_entries and chunk.time_index[at].offset == entry.offset:
            max_timestamp = chunk.time_index[at].timestamp
            at += 1
        note_batch(output, interval, entry.offset, end - entry.position, max_timestamp)
    state = output.state
    state.records += added.records
    state.verbatim += added.verbatim
    state.rebuilt += added.rebuilt
    state.dropped += added.dropped
    state.horizons += added.horizons


def index_files(output: Output, base_offset: int) -> tuple[NDArray[np.void], NDArray[np.void]]:
    """Return what the segment's ``.index`` and ``.timeindex`` hold, now that its last batch is
    written. Effects: appends the last time index entry.
    """
    index_time(output)
    entries = output.offset_index[: int(output.state["index_entries"])]
    times = output.time_index[: int(output.state["timeindex_entries"])]
    index = np.empty(len(entries), dtype=_OFFSET_FILE)
    index["offset"] = entries["offset"] - base_offset
    index["position"] = entries["position"]
    timeindex = np.empty(len(times), dtype=_TIME_FILE)
    timeindex["timestamp"] = times["timestamp"]
    timeindex["offset"] = times["offset"] - base_offset
    return index, timeindex
