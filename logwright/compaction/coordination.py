"""What a cleaning may remove so that no replica of the partition needs it any more (rules 14 and 15
of `logwright.cleaner_rules`; docs/adr/0030). Pure.

Kafka's brokers clean their replicas independently, and keep tombstones and markers by time alone
(``delete.retention.ms``, KIP-534). A replica that is away for longer never receives them.

1. A replica is clean below its cleaner checkpoint: there each key has one record at most, and no
   aborted data is left. It is never cleaner than its last stable offset, nor clean without a valid
   checkpoint.
2. A tombstone below the clean offset of *every* replica deletes nothing any more: what it deleted
   is gone from all of them. So removing it changes nothing for anybody, whoever leads or follows.
3. The same holds for the marker of an aborted transaction. Committed data stays as long as it is
   the latest of its key, so its marker also stays as long as any replica has such data.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from logwright.batches.outcomes import is_end
from logwright.batches.source import Source
from logwright.compaction.plan import first_dirty_offset
from logwright.log.model import ReadableLog
from logwright.units import Offset


def clean_offset(log: ReadableLog) -> Offset:
    """Return the offset below which a replica is clean (1)."""
    first_dirty, _ = first_dirty_offset(log)
    return min(first_dirty, log.last_stable_offset, log.log_end_offset)


def lowest_clean_offset(replicas: Iterable[ReadableLog]) -> Offset:
    """Return the offset below which all replicas are clean (2); at least one replica."""
    return min(clean_offset(log) for log in replicas)


def held_markers(sources: Sequence[Source], data: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the offsets of the markers that must stay, ascending (3): of those whose transaction
    has data in another replica.

    A transaction ends at the first marker of its producer after its data. A marker that was removed
    here before leaves its transaction to the next one: that keeps too much, never too little.

    Args:
        sources: all segments of the cleaning, in order.
        data: of `RemovalBound`.
    """
    if not len(data):
        return np.zeros(0, dtype=np.int64)
    held: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)]
    ended = [source.batches[is_end(source.batches)] for source in sources]
    markers = np.concatenate([rows[["producer_id", "base_offset"]] for rows in ended])
    markers = markers[np.argsort(markers["producer_id"], kind="stable")]
    if not len(markers):
        return held[0]
    ids, starts = np.unique(markers["producer_id"], return_index=True)
    for producer, own in zip(ids, np.split(markers["base_offset"], starts[1:]), strict=True):
        first, last = np.searchsorted(data[:, 0], (producer, producer + 1))
        offsets = data[first:last, 1]
        below = np.searchsorted(offsets, own)
        held.append(own[np.diff(below, prepend=0) > 0])
    return np.sort(np.concatenate(held))


def keep_held(batches: NDArray[np.void], held: NDArray[np.int64]) -> None:
    """Clear `discard` of the markers that must stay. Effects: changes the batches, BATCH[n]."""
    if len(held):
        batches["discard"] &= ~(is_end(batches) & np.isin(batches["base_offset"], held))
