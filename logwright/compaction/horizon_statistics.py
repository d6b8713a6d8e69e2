"""A figure of a cleaning's statistics: the earliest delete horizon that is left in the log. It
decides nothing; what may go is decided by `logwright.cleaner_rules`.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from logwright.batches.source import Source
from logwright.format.batch import DELETE_HORIZON
from logwright.units import TimestampMs


def earliest_horizon(
    sources: Iterable[Source], dead: NDArray[np.uint8], *, now_ms: int, new_ms: int | None
) -> TimestampMs | None:
    """Return the earliest delete horizon of the batches that stay with records, ms; None without
    one. Horizons that are reached do not count: what they held back is gone (KIP-534).

    Args:
        sources: all that is cleaned.
        dead: bitmap, uint8[(records + 7) / 8], one bit per ordinal.
        now_ms: the clock of the cleaning.
        new_ms: the horizon that batches get in this cleaning; None if none does.
    """
    earliest = new_ms
    for source in sources:
        if not source.attributes & DELETE_HORIZON:
            continue
        batches = source.batches
        has_horizon = (batches["attributes"] & DELETE_HORIZON) != 0
        rows = np.flatnonzero(has_horizon & (batches["base_timestamp"] > now_ms))
        for row in rows[np.argsort(batches["base_timestamp"][rows], kind="stable")]:
            horizon = int(batches["base_timestamp"][row])
            if earliest is not None and horizon >= earliest:
                break
            if _has_records(batches[row], dead):
                earliest = horizon
                break
    return None if earliest is None else TimestampMs(earliest)


def _has_records(batch: np.void, dead: NDArray[np.uint8]) -> bool:
    """Return whether a record of the batch stays."""
    first, count = int(batch["first_ordinal"]), int(batch["count"])
    bits = np.unpackbits(dead[first >> 3 : (first + count + 7) >> 3], bitorder="little")
    return not bits[first & 7 : (first & 7) + count].all()
