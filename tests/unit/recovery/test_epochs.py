"""Leader epochs, assigned and trimmed as LeaderEpochFileCache does it."""

from __future__ import annotations

import numpy as np
import pytest

from logwright.format.checkpoints import LeaderEpoch
from logwright.format.scan import BATCH
from logwright.recovery.epochs import assign, assign_batches, trim
from logwright.units import Offset


def epochs(*pairs: tuple[int, int]) -> tuple[LeaderEpoch, ...]:
    """Entries of (epoch, start offset)."""
    return tuple(LeaderEpoch(epoch=epoch, start_offset=Offset(start)) for epoch, start in pairs)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ((3, 50), [(0, 0), (2, 20), (3, 50)]),
        ((2, 30), [(0, 0), (2, 20)]),
        ((2, 10), [(0, 0), (2, 10)]),
        ((3, 20), [(0, 0), (3, 20)]),
        ((1, 60), [(0, 0), (1, 60)]),
    ],
)
def test_an_epoch_is_assigned(entry: tuple[int, int], expected: list[tuple[int, int]]) -> None:
    """The same epoch later changes nothing; entries that are not below the new one are removed."""
    (new,) = epochs(entry)
    assert epochs(*expected) == assign(epochs((0, 0), (2, 20)), new)


def test_batches_tell_their_epochs() -> None:
    """Each batch with a later epoch than all before it begins one; batches without have none."""
    batches = np.zeros(6, dtype=BATCH)
    batches["base_offset"] = [0, 10, 20, 30, 40, 50]
    of_batch = np.array([-1, 1, 1, 0, 4, 4], dtype=np.int32)
    assert epochs((1, 10), (4, 40)) == assign_batches((), batches, of_batch)
    assert epochs((1, 5), (4, 40)) == assign_batches(epochs((1, 5)), batches, of_batch)


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0, 100, [(0, 0), (2, 20), (5, 50)]),
        (0, 50, [(0, 0), (2, 20)]),
        (30, 100, [(2, 30), (5, 50)]),
        (20, 100, [(2, 20), (5, 50)]),
        (60, 100, [(5, 60)]),
        (0, 0, []),
    ],
)
def test_epochs_are_trimmed(start: int, end: int, expected: list[tuple[int, int]]) -> None:
    """What begins at the end or later goes; the one that holds the start begins there."""
    trimmed = trim(
        epochs((0, 0), (2, 20), (5, 50)), log_start_offset=Offset(start), log_end_offset=Offset(end)
    )
    assert epochs(*expected) == trimmed
