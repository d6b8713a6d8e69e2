"""Which offsets of a log are missing: a cleaning has removed them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from logwright.batches.source import Source


def first_missing(sources: Iterable[Source], first: int, end: int) -> int | None:
    """Return the lowest of the offsets [first, end) that may be missing, None if all are there.
    Pure.

    By the headers: of a batch that has fewer records than offsets the first offset may be missing,
    also if only a part of the batch is asked for.

    Args:
        sources: ascending, all batches that concern these offsets.
        first, end: the offsets.
    """
    expected = first
    for source in sources:
        rows = source.batches[
            source.first_row("last_offset", first) : source.first_row("base_offset", end)
        ]
        if not len(rows):
            continue
        base, last = rows["base_offset"], rows["last_offset"]
        follows = np.append(np.int64(expected), last[:-1] + 1)
        gap = base > follows
        thinned = rows["count"] < last - base + 1
        apart = np.flatnonzero(gap | thinned)
        if len(apart):
            row = int(apart[0])
            return int(follows[row] if gap[row] else max(int(base[row]), first))
        expected = int(last[-1]) + 1
    return expected if expected < end else None
