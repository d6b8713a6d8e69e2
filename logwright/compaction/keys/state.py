"""The working state of the first pass while it fills the offset map: shared state, one reader for
each thread, and the shards of the hashes.

When the map is full its shard of hashes is halved; when it is half full and is estimated to
become too small, it is split into as many shards as are needed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil
from threading import Lock
from typing import Self

import numpy as np
from numpy.typing import NDArray

from logwright.batches.runtime import Progress, Runtime
from logwright.batches.source import Source
from logwright.compaction import receipt as receipts
from logwright.compaction.keys import offset_map
from logwright.compaction.keys import read as reading
from logwright.compaction.keys.fill import OffsetMap
from logwright.compaction.rewrite.batch import RewriteWorkspace
from logwright.compaction.rewrite.cache import RebuildCache
from logwright.errors import invariant

Rows = tuple[Source, int, int]
"""A source, and its rows [first, last)."""


@dataclass(slots=True, kw_only=True)
class Reader:
    """The memory of one thread of the first pass.

    Attributes:
        receipt: its own; the mask is the same for all.
    """

    receipt: receipts.KeyReceipt
    found: reading.FoundRecords
    workspace: RewriteWorkspace = field(default_factory=RewriteWorkspace)

    @classmethod
    def new(cls, records: int) -> Self:
        """Return a reader for a log of this number of records."""
        return cls(
            receipt=receipts.new_receipt(records),
            found=reading.record_buffers(min(records, reading.FOUND_RECORDS)),
        )

    def buffers(self, hash_key: NDArray[np.uint64]) -> reading.ReadBuffers:
        """Return what the kernels read into; it changes with each obstacle that is removed."""
        space = self.workspace
        return reading.ReadBuffers(hash_key, self.found, self.receipt, space.scratch, space.cells)


@dataclass(frozen=True, slots=True, kw_only=True)
class MapMode:
    """How rows are mapped.

    Attributes:
        offsets: [first, end) of the records that are mapped.
        primary: this is the first shard's pass, which notes all facts about the batches.
        action: INSERT, PROBE or FLAG of `read`.
        once: no row is mapped twice in this pass, so that its batches can be rebuilt.
    """

    offsets: tuple[int, int]
    primary: bool
    action: int = reading.INSERT
    once: bool = True


@dataclass(slots=True, kw_only=True)
class MapTask:
    """The shared state of the map pass.

    Attributes:
        now_ms: the clock, for delete horizons.
        removable_end: tombstones at or above it stay.
        last_mapped_offset: of the last record that the map may take.
        ends_when_full: the map ends where it is full, as Kafka's does; else its hashes are split.
        total_bytes: bytes of all mapped rows, for the progress.
        records: the most that may be inserted in one pass.
        shards: ranges of hashes, [start, end); the first is mapped now.
        readers: one for each thread.
        horizon_ms: delete horizon that batches get now.
        cache: of batches rebuilt while they are read, None if none are.
        seen: distinct keys and records after the last step.
        passes: how many passes over the keys have begun: one for each shard.
        distinct_keys: of the shards that are done.
        turn: lock of the map and of anything else that threads share.
    """

    now_ms: int
    removable_end: int
    last_mapped_offset: int
    ends_when_full: bool
    runtime: Runtime
    progress: Progress
    total_bytes: int
    records: int
    state: offset_map.MapState
    dead: NDArray[np.uint8]
    expired: NDArray[np.uint8]
    readers: list[Reader]
    horizon_ms: int
    cache: RebuildCache | None = None
    shards: list[tuple[int, int]] = field(
        default_factory=lambda: [(0, offset_map.SHARD_SPACE)],
    )
    seen: tuple[int, int] = (0, 0)
    passes: int = 0
    distinct_keys: int = 0
    sample: receipts.KeySample = field(default_factory=receipts.KeySample)
    turn: Lock = field(default_factory=Lock)
    bytes_done: int = 0
    map_: OffsetMap = field(init=False)
    hash_key: NDArray[np.uint64] = field(init=False)

    def __post_init__(self) -> None:
        state = self.state
        self.hash_key = np.array([state.key.low, state.key.high], dtype=np.uint64)
        self.map_ = OffsetMap(
            table=state.table,
            dead=self.dead,
            expired=self.expired,
            counters=state.counters,
            capacity=state.capacity,
            ends_when_full=self.ends_when_full,
        )

    def scope(self, mode: MapMode) -> reading.MapScope:
        """Return what the kernels do in this mode with the shard that is mapped now."""
        (first, end), (shard_start, shard_end) = mode.offsets, self.shards[0]
        return reading.MapScope(
            first_offset=first,
            last_offset=end - 1,
            now_ms=self.now_ms,
            removable_end=self.removable_end,
            primary=mode.primary,
            shard_start=shard_start,
            shard_end=shard_end,
            action=mode.action,
        )

    @property
    def totals(self) -> NDArray[np.void]:
        """The sums of what must survive, over all readers: one of TOTALS."""
        summed = np.zeros(1, dtype=receipts.TOTALS)
        for reader in self.readers:
            for name in receipts.TOTALS.names or ():
                summed[name] += reader.receipt.totals[name]
        return summed


def begin_pass(task: MapTask) -> bool:
    """Begin the pass of the next shard with an empty map; return whether it is the first pass."""
    primary = task.passes == 0
    task.passes += 1
    if not primary:
        task.state.table.entries[:] = 0
        task.state.counters["distinct"] = 0
    return primary


def end_pass(task: MapTask) -> None:
    """End the pass of a shard."""
    task.distinct_keys += int(task.state.counters["distinct"][0])
    task.shards.pop(0)


def presplit(task: MapTask) -> None:
    """Split the hashes into shards before the map is full: a table with much room is faster, and
    shards that were halved may leave half of it empty.
    """
    capacity = task.state.capacity
    distinct = int(task.state.counters["distinct"][0])
    offered = int(task.state.counters["offered"][0])
    (before, offered_before), task.seen = task.seen, (distinct, offered)
    if task.map_.ends_when_full or len(task.shards) > 1 or 2 * distinct < capacity:
        return
    new = (distinct - before) / max(offered - offered_before, 1)
    remaining = max(task.records - offered, 0)
    keys = offset_map.expected_keys(distinct, remaining, new=new)
    if keys > capacity:
        split_shard(task, parts=ceil(keys / capacity))


def split_shard(task: MapTask, *, parts: int = 2) -> None:
    """Keep the first part of the map's hashes, since it is full or will be; the keys are read again
    for the other parts later.
    """
    start, end = task.shards[0]
    bounds = [start + (end - start) * part // parts for part in range(parts + 1)]
    invariant(bounds[1] > start, "a shard of hashes cannot be halved any more")
    task.shards[0:1] = pairwise(bounds)
    dropped = offset_map.evict_upper(task.state.table, bounds[1])
    task.state.counters["distinct"] -= dropped
