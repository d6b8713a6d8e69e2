"""Which batches stay as headers, though they lose all of their records: rule 9 of
`logwright.cleaner_rules`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from logwright.batches.outcomes import outdated_snapshot
from logwright.cleaner_rules import is_last_before, is_last_of_producer
from logwright.format.batch import CONTROL
from logwright.format.legacy import NOT_LEGACY
from logwright.format.snapshot import ProducerEntry
from logwright.log.model import ReadableLog


def keep_ends(
    log: ReadableLog,
    batches: NDArray[np.void],
    producers: Sequence[ProducerEntry],
    *,
    end_offset: int,
) -> None:
    """Set `keep_empty` of a segment's last batch if it ends where an end is kept, and of the last
    batch of each active producer.

    Args:
        batches: BATCH[n], of the segment.
        producers: the active ones.
        end_offset: of `cleaner_rules.end_kept`.

    Raises:
        CorruptProducerSnapshot: a producer has a later batch than the snapshots.
    """
    keep = batches["keep_empty"]
    if producers:
        keep[:] = _last_of_producer(log, batches, producers)
    if len(batches) and is_last_before(int(batches["last_offset"][-1]), end_offset):
        keep[-1] = batches["legacy"][-1] == NOT_LEGACY


def _last_of_producer(
    log: ReadableLog, batches: NDArray[np.void], producers: Sequence[ProducerEntry]
) -> NDArray[np.bool_]:
    """Return which batches are the last of an active producer, bool[n]."""
    ids = np.array([each.producer_id for each in producers], dtype=np.int64)
    order = np.argsort(ids)
    ids = ids[order]
    last = np.array([each.last_offset for each in producers], dtype=np.int64)[order]
    epochs = np.array([each.producer_epoch for each in producers], dtype=np.int64)[order]
    at = np.minimum(np.searchsorted(ids, batches["producer_id"]), len(ids) - 1)
    known = (batches["producer_id"] >= 0) & (ids[at] == batches["producer_id"])
    control = (batches["attributes"] & CONTROL) != 0
    later = known & ~control & (last[at] >= 0) & (batches["last_offset"] > last[at])
    for row in np.flatnonzero(later & (epochs[at] == batches["producer_epoch"]))[:1]:
        raise outdated_snapshot(
            log,
            f"producer {ids[at][row]} has its last batch at {last[at][row]}, the log at"
            f" {batches['last_offset'][row]}",
        )
    result: NDArray[np.bool_] = known & is_last_of_producer(batches, last[at], epochs[at])
    return result
