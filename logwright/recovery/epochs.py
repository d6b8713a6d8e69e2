"""The leader epochs of a log, trimmed and completed (LeaderEpochFileCache of Kafka 4.3.0)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from logwright.format.checkpoints import LeaderEpoch
from logwright.recovery.segments import LoadedSegment
from logwright.units import Offset


def assign(epochs: Sequence[LeaderEpoch], entry: LeaderEpoch) -> tuple[LeaderEpoch, ...]:
    """Return the epochs with one more; those that are not below it are removed."""
    if epochs and epochs[-1].epoch == entry.epoch and entry.start_offset >= epochs[-1].start_offset:
        return tuple(epochs)
    kept = list(epochs)
    while kept and (kept[-1].epoch >= entry.epoch or kept[-1].start_offset >= entry.start_offset):
        kept.pop()
    return (*kept, entry)


def assign_batches(
    epochs: Sequence[LeaderEpoch], batches: NDArray[np.void], batch_epochs: NDArray[np.int32]
) -> tuple[LeaderEpoch, ...]:
    """Return the epochs with those of a segment's batches that are later than all before
    (LogSegment.recover).
    """
    latest = np.maximum.accumulate(batch_epochs)
    rises = np.flatnonzero(np.diff(latest, prepend=np.int32(-1)) > 0)
    for row in rises.tolist():
        if not epochs or int(batch_epochs[row]) > epochs[-1].epoch:
            offset = Offset(int(batches[row]["base_offset"]))
            epochs = assign(epochs, LeaderEpoch(epoch=int(batch_epochs[row]), start_offset=offset))
    return tuple(epochs)


def epochs_of(segments: Sequence[LoadedSegment]) -> tuple[LeaderEpoch, ...]:
    """Return the leader epochs of all batches, for a log whose own record of them is malformed.
    Effects: reads headers.
    """
    epochs: tuple[LeaderEpoch, ...] = ()
    for segment in segments:
        valid = segment.batches(check_crcs=False)
        epochs = assign_batches(epochs, valid.batches, valid.epochs)
    return epochs


def trim(
    epochs: Sequence[LeaderEpoch], *, log_start_offset: Offset, log_end_offset: Offset
) -> tuple[LeaderEpoch, ...]:
    """Return the epochs of [start, end): the one that contains the start begins there."""
    kept = [entry for entry in epochs if entry.start_offset < log_end_offset]
    before = [entry for entry in kept if entry.start_offset <= log_start_offset]
    if not before:
        return tuple(kept)
    first = LeaderEpoch(epoch=before[-1].epoch, start_offset=log_start_offset)
    return (first, *kept[len(before) :])
