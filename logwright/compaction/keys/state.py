"""The offset map while it is filled: what is shared by all who fill it, and its shards.

When the map is full its shard of hashes is halved; when it is half full and by all appearances will
be too small, cut into as many as will do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from logwright.compaction import receipt as digest
from logwright.compaction.keys import offset_map
from logwright.compaction.keys import read as reading
from logwright.compaction.model import CleanPlan
from logwright.compaction.rewrite.cache import RebuildCache
from logwright.compaction.runtime import Runtime
from logwright.compaction.source import Source
from logwright.compaction.unpack import Workspace
from logwright.errors import invariant

Progress = Callable[[str, int, int], None]
"""Told the phase and how many of how many bytes of it are done."""

Rows = tuple[Source, int, int]
"""A source, and its rows [first, last)."""


@dataclass(slots=True, kw_only=True)
class Reader:
    """What one thread reads with.

    Attributes:
        notes: its own; the mask is the same for all.
    """

    notes: digest.Notes
    workspace: Workspace = field(default_factory=Workspace)
    found: reading.Found = field(
        default_factory=lambda: reading.room_for_records(reading.FOUND_RECORDS)
    )


@dataclass(slots=True, kw_only=True)
class MapTask:
    """The offset map while it is filled, and all who fill it.

    Attributes:
        total_bytes: of all that is mapped, for the progress.
        records: that may be inserted in one pass, at most.
        shards: of hashes, [start, end): the first is the one that is mapped now.
        readers: one for each thread.
        horizon_ms: delete horizon that batches get now.
        cache: of batches that are rebuilt on the way, None if none are.
        seen: distinct keys and records when the last step was done.
        turn: held by who changes the map or anything else that threads share.
    """

    plan: CleanPlan
    runtime: Runtime
    progress: Progress
    total_bytes: int
    records: int
    state: offset_map.MapState
    dead: NDArray[np.uint8]
    expired: NDArray[np.uint8]
    ends_when_full: bool
    readers: list[Reader]
    horizon_ms: int
    cache: RebuildCache | None = None
    shards: list[tuple[int, int]] = field(
        default_factory=lambda: [(0, offset_map.SHARD_SPACE)],
    )
    seen: tuple[int, int] = (0, 0)
    sample: digest.KeySample = field(default_factory=digest.KeySample)
    turn: Lock = field(default_factory=Lock)
    bytes_done: int = 0

    @property
    def totals(self) -> NDArray[np.uint64]:
        """What must survive, by all readers: uint64[digest.TOTAL_CELLS]."""
        summed = np.zeros(digest.TOTAL_CELLS, dtype=np.uint64)
        for reader in self.readers:
            summed += reader.notes.totals
        return summed


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """How rows are mapped.

    Attributes:
        offsets: [first, end) of the records that are mapped.
        primary: it is the first shard's pass, in which everything about the batches is noted.
        mode: of `reading`.
        once: no row is mapped twice in this pass, so that it can be rebuilt.
    """

    offsets: tuple[int, int]
    primary: bool
    mode: int = reading.INSERT
    once: bool = True


def foresee(task: MapTask) -> None:
    """Cut the hashes into shards before the map is full: a table with much room is quicker, and
    shards that were halved may leave half of it empty.
    """
    counters, capacity = task.state.counters, task.state.capacity
    distinct, offered = int(counters[offset_map.DISTINCT]), int(counters[offset_map.OFFERED])
    (before, offered_before), task.seen = task.seen, (distinct, offered)
    if task.ends_when_full or len(task.shards) > 1 or 2 * distinct < capacity:
        return
    new = (distinct - before) / max(offered - offered_before, 1)
    remaining = max(task.records - offered, 0)
    keys = offset_map.expected_keys(distinct, remaining, new=new)
    if keys > capacity:
        split_shard(task, parts=ceil(keys / capacity))


def split_shard(task: MapTask, *, parts: int = 2) -> None:
    """The map is full, or will be: keep the first part of its hashes, and read the keys again for
    the others later.
    """
    start, end = task.shards[0]
    bounds = [start + (end - start) * part // parts for part in range(parts + 1)]
    invariant(bounds[1] > start, "a shard of hashes cannot be halved any more")
    task.shards[0:1] = pairwise(bounds)
    dropped = offset_map.evict_upper(task.state.table, bounds[1])
    task.state.counters[offset_map.DISTINCT] -= dropped
