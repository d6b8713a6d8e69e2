"""Which partition goes into which Spark task.

A task costs 12 ms of the JVM and a job 110 ms, a partition 2 ms and more, so partitions are packed:
a few tasks for each core, so that a slow one is evened out, and no task for each partition
(measured: 1,000 small logs in 16 tasks take a tenth of the time they take in 1,000).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from math import ceil
from typing import Final

PARTITION_COST_BYTES: Final = 2 * 1024 * 1024
"""What opening a partition costs, as bytes that could be cleaned meanwhile: 2 ms at 1 GB/s."""

_ABOUT: Final = 0.1
"""A log that is this much of a core above its whole share gets no further one."""


def share_cores(sizes: Sequence[int], cores: int) -> tuple[int, ...]:
    """Return how many threads work on each item, so that a log that is most of the work has most of
    the cores, and one among many has one.

    Args:
        sizes: bytes of each item.
        cores: that all of them together have.
    """
    total = max(sum(sizes), 1)
    return tuple(min(max(ceil(cores * size / total - _ABOUT), 1), cores) for size in sizes)


def pack(sizes: Sequence[int], bins: int) -> tuple[tuple[int, ...], ...]:
    """Spread items over bins so that the fullest bin is nearly as small as can be.

    Longest processing time first (Graham 1969): the largest item goes to the least full bin, which
    is at most a third above the optimum.

    Args:
        sizes: bytes of each item.
        bins: how many bins there may be, at least 1.

    Returns:
        the item numbers of each bin, largest first; the fullest bin first, as Spark starts tasks in
        this order; no bin is empty.
    """
    if bins < 1:
        raise ValueError(f"{bins} bins")
    order = sorted(range(len(sizes)), key=lambda item: (-sizes[item], item))
    loads = [(0, number) for number in range(min(bins, len(sizes)))]
    contents: list[list[int]] = [[] for _ in loads]
    for item in order:
        load, number = heapq.heappop(loads)
        contents[number].append(item)
        heapq.heappush(loads, (load + sizes[item] + PARTITION_COST_BYTES, number))
    fullest_first = sorted(loads, key=lambda load: (-load[0], load[1]))
    return tuple(tuple(contents[number]) for _, number in fullest_first)
