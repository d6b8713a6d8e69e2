"""Estimate what a cleaning would reclaim: run its first pass, which reads only keys, and use the
average record size of each segment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from logwright.compaction.keys.survivors import find_survivors
from logwright.compaction.runtime import Runtime

if TYPE_CHECKING:
    from logwright.cli.output import Progress
    from logwright.compaction.model import CleanPlan


def reclaimed_bytes(plan: CleanPlan, *, progress: Progress) -> int:
    """Estimate the bytes of the records that would not survive, from each segment's average record
    size. Effects: reads the segments.

    Raises:
        LogwrightError: as `logwright.compaction.keys.survivors.find_survivors`.
    """
    survivors = find_survivors(plan, progress=progress, runtime=Runtime())
    sources = [source for group in survivors.groups for _, source in group]
    records = sum(source.records for source in sources)
    dead = np.unpackbits(survivors.dead, bitorder="little", count=records)
    reclaimed = 0
    first = 0
    for source in sources:
        end = first + source.records
        if end > first:
            reclaimed += (
                source.data.size * int(dead[first:end].sum(dtype=np.int64)) // (end - first)
            )
        first = end
    return reclaimed
