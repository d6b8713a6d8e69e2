"""Which index entries of a segment mislead a broker that looks something up (Kafka 4.4.0).

1. The look-up of an offset begins at the position of the last entry of the ``.index`` that is not
   above it (OffsetIndex.lookup), and takes the first batch from there that reaches the offset
   (LogSegment.translateOffset). So an entry is right if a batch begins at its position, and none
   before that one reaches the entry's offset. The entry need not name that batch: brokers before
   4.0 write an entry for each append, not for each batch (LogSegment.append, 3.9). It names the
   last offset of all batches that a follower, or a producer of an old format, appends at once, and
   the position of the first. Brokers before 0.10 name the first offset of what they append.
2. The next offset of a log is looked up from its last entry's offset (LogSegment.readNextOffset),
   which may not be above all batches.
3. Offsets and positions ascend, since both are searched in halves (OffsetIndex.lookup and
   fetchUpperBoundOffset). No entry is for position 0 (LogSegment.append).
4. The look-up of a timestamp begins where that of an offset would: that of the last entry of the
   ``.timeindex`` that is not above the timestamp (TimeIndex.lookup). From there it takes the first
   batch that reaches the timestamp (LogSegment.findOffsetByTimestamp). So an entry is right if no
   batch before that place reaches its timestamp.
5. The first segment is searched whose last entry is not below the timestamp
   (UnifiedLog.searchOffsetInLocalLog, LogSegment.readMaxTimestampAndOffsetSoFar): one above the
   timestamps of all batches leads to a segment that has no such record. Whether a last entry is
   missing is not asked here. A segment of which no record has a timestamp is searched up to its
   time of modification, whether it has entries or not (LogSegment.largestTimestamp): there a leader
   of 0.10 enters the timestamps of records that it converted to format v0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from logwright.units import INT64_MAX


def wrong_offset_entries(
    entries: NDArray[np.int64], batches: NDArray[np.void]
) -> NDArray[np.bool_]:
    """Return which entries of an offset index mislead a look-up: rules 1 to 3.

    Args:
        entries: int64[n, 2] of offset and position.
        batches: BATCH[m], all of the segment, ascending.
    """
    offsets, positions = entries.T
    right = (positions > 0) & (positions <= _last(batches["position"]))
    right &= offsets <= _last(batches["last_offset"])
    rows = np.searchsorted(batches["position"], positions[right])
    begins = batches["position"][rows] == positions[right]
    right[right] = begins & (batches["last_offset"][rows - 1] < offsets[right])
    right[1:] &= (np.diff(entries, axis=0) > 0).all(axis=1)
    wrong: NDArray[np.bool_] = ~right
    return wrong


def wrong_time_entries(
    entries: NDArray[np.int64], offset_entries: NDArray[np.int64], batches: NDArray[np.void]
) -> NDArray[np.bool_]:
    """Return which entries of a time index mislead a look-up: rules 4 and 5; they ascend, and none
    is above all offsets.

    Args:
        entries: int64[n, 2] of timestamp in ms and offset.
        offset_entries: int64[m, 2] of offset and position, of the offset index.
        batches: BATCH[k], all of the segment, ascending.
    """
    timestamps, offsets = entries.T
    positions = np.concatenate(([0], offset_entries[:, 1]))
    begin = positions[np.searchsorted(offset_entries[:, 0], offsets, side="right")]
    largest = np.concatenate(([-INT64_MAX], np.maximum.accumulate(batches["max_timestamp"])))
    right = largest[np.searchsorted(batches["position"], begin)] < timestamps
    right &= (timestamps <= largest[-1]) | (largest[-1] < 0)
    right &= offsets <= _last(batches["last_offset"])
    right[1:] &= (np.diff(timestamps) > 0) & (np.diff(offsets) >= 0)
    wrong: NDArray[np.bool_] = ~right
    return wrong


def _last(column: NDArray[np.int64]) -> int:
    return int(column[-1]) if len(column) else -1
