"""Rows of batches into the offset map, by one thread or several, and the state of that.

1. The rows are split into steps. One thread maps a step after the other, window by window.
2. A window is as many batches as have room for their records. It is read without the lock, and
   mapped when it is the thread's turn.
3. Several threads read steps of their own at the same time; each waits for its turn to map a window
   that it has read. The map's outcome does not depend on the order (`offset_map`), and reading is
   most of the work.
4. When the map is full its shard of hashes is halved; when it is half full and is estimated to
   become too small, it is split into as many shards as are needed. A window that was read for the
   larger shard and is not mapped yet is read again.
5. What a kernel cannot do with a batch is done here, and the kernel called again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import InitVar, dataclass, field
from itertools import pairwise
from math import ceil
from queue import SimpleQueue
from threading import Lock
from typing import Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from logwright.batches.runtime import Progress, Runtime
from logwright.batches.source import Source, row_ranges
from logwright.batches.status import MANY_RECORDS, OK, StoppedAt
from logwright.batches.unpack import NOT_GIVEN, Workspace, remove_obstacle
from logwright.config.topic import CleanerConfig
from logwright.errors import invariant
from logwright.keys import offset_map
from logwright.keys import read as reading
from logwright.keys import receipt as receipts
from logwright.keys.read import OffsetMap, put_window
from logwright.units import INT64_MAX

Rows = tuple[Source, int, int]
"""A source, and its rows [first, last)."""

_NO_HORIZON: Final = -INT64_MAX


@dataclass(slots=True, kw_only=True)
class Reader:
    """The memory of one thread of the first pass.

    Attributes:
        receipt: its own; the mask is the same for all.
    """

    receipt: receipts.KeyReceipt
    found: reading.FoundRecords
    workspace: Workspace = field(default_factory=Workspace)

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
    """

    offsets: tuple[int, int]
    primary: bool
    action: int = reading.INSERT


@dataclass(slots=True, kw_only=True)
class MapTask:
    """The shared state of the map pass, which begins with an empty map.

    Args:
        sources: all that is read, with consecutive ordinals.
        cleaner: has the memory budget.
        batch_bytes: what the caller keeps for each batch besides its header.

    Attributes:
        runtime: threads and throttle. progress: called with the phase "map".
        total_bytes: bytes of all mapped rows, for the progress.
        records: the most that may be inserted in one pass.
        now_ms: the clock, for delete horizons; by default none is reached, so that tombstones count
            as any record.
        removable_end: tombstones at or above it stay.
        like_kafka: the map has Kafka's size, and ends where it is full; else its hashes are split.
        presplits: the hashes are split before the map is full, by an estimate.
        dead: bitmap, uint8[(records + 7) / 8], one bit per ordinal: of the offsets that are mapped,
            the records that a later one with their key supersedes, and those without a key.
        expired: bitmap of the same size: tombstones past their horizon.
        shards: ranges of hashes, [start, end); the first is mapped now.
        readers: one for each thread.
        seen: distinct keys and records after the last step.
        passes: how many passes over the keys have begun: one for each shard.
        distinct_keys: of the shards that are done.
        turn: lock of the map and of anything else that threads share.
    """

    sources: InitVar[Sequence[Source]]
    cleaner: InitVar[CleanerConfig]
    batch_bytes: InitVar[int] = 0
    runtime: Runtime
    progress: Progress
    total_bytes: int
    records: int
    now_ms: int = _NO_HORIZON
    removable_end: int = INT64_MAX
    like_kafka: bool = False
    presplits: bool = True
    shards: list[tuple[int, int]] = field(
        default_factory=lambda: [(0, offset_map.SHARD_SPACE)],
    )
    seen: tuple[int, int] = (0, 0)
    passes: int = 0
    distinct_keys: int = 0
    sample: receipts.KeySample = field(default_factory=receipts.KeySample)
    turn: Lock = field(default_factory=Lock)
    bytes_done: int = 0
    state: offset_map.MapState = field(init=False)
    dead: NDArray[np.uint8] = field(init=False)
    expired: NDArray[np.uint8] = field(init=False)
    readers: list[Reader] = field(init=False)
    map_: OffsetMap = field(init=False)
    hash_key: NDArray[np.uint64] = field(init=False)

    def __post_init__(
        self, sources: Sequence[Source], cleaner: CleanerConfig, batch_bytes: int
    ) -> None:
        ordinals = sum(source.records for source in sources)
        self.state = state = offset_map.map_within(
            cleaner,
            keys=self.records,
            records=ordinals,
            other_bytes=offset_map.other_bytes(sources, per_batch=batch_bytes),
            like_kafka=self.like_kafka,
        )
        self.dead = np.zeros((ordinals + 7) // 8, dtype=np.uint8)
        self.expired = np.zeros_like(self.dead)
        self.readers = [Reader.new(ordinals) for _ in range(self.runtime.threads)]
        self.hash_key = np.array([state.key.low, state.key.high], dtype=np.uint64)
        self.map_ = OffsetMap(
            table=state.table,
            dead=self.dead,
            expired=self.expired,
            counters=state.counters,
            capacity=state.capacity,
            ends_when_full=self.like_kafka,
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


def rows_within(sources: Iterable[Source], offsets: tuple[int, int]) -> list[Rows]:
    """Return the rows of all sources that hold the offsets [first, end)."""
    first, end = offsets
    return [
        (source, source.first_row("last_offset", first), source.first_row("base_offset", end))
        for source in sources
    ]


def steps_of(task: MapTask, work: Sequence[Rows]) -> list[tuple[int, Rows]]:
    """Split rows into steps; see `step_ranges`."""
    return step_ranges(work, task.runtime.throttle.step_bytes)


def step_ranges(work: Sequence[Rows], step_bytes: int) -> list[tuple[int, Rows]]:
    """Split rows into steps of bounded bytes, each with the number of the rows that it is of."""
    return [
        (number, (source, begin, end))
        for number, (source, first, last) in enumerate(work)
        for begin, end in row_ranges(source, first=first, last=last, window_bytes=step_bytes)
    ]


def map_rows(task: MapTask, work: Sequence[Rows], mode: MapMode) -> tuple[int, int] | None:
    """Map these rows; return (which of them, the row) at which the map ended, None if it did not.

    Raises:
        CorruptBatch, UnsupportedFormatError: the first batch that cannot be read, by its place.
    """
    steps = steps_of(task, work)
    if len(task.readers) > 1 and len(steps) > 1 and not task.map_.ends_when_full:
        _map_with_threads(task, [step for _, step in steps], mode)
        return None
    for number, step in steps:
        stopped = map_step(task, task.readers[0], step, mode)
        if stopped is not None:
            return number, stopped
    return None


def _map_with_threads(task: MapTask, steps: list[Rows], mode: MapMode) -> None:
    free: SimpleQueue[Reader] = SimpleQueue()
    for reader in task.readers:
        free.put(reader)

    def map_one(step: Rows) -> None:
        reader = free.get()
        try:
            map_step(task, reader, step, mode)
        finally:
            free.put(reader)

    pool = ThreadPoolExecutor(len(task.readers))
    try:
        for _ in pool.map(map_one, steps):
            pass
    finally:
        pool.shutdown(cancel_futures=True)


def map_step(task: MapTask, reader: Reader, step: Rows, mode: MapMode) -> int | None:
    """Read and map one step; return the row at which the map ended, None if it did not.

    Raises:
        CorruptBatch, UnsupportedFormatError: a batch cannot be read.
    """
    source, row, last = step
    prepare(reader, step)
    window = reading.sum_buffers(last - row)
    given = NOT_GIVEN
    while row < last:
        scope, sampled = task.scope(mode), int(reader.receipt.sampled[0])
        buffers = reader.buffers(task.hash_key)
        stop, taken, status = reading.read_batches(
            source.data, source.batches, (row, last), given, scope, buffers, window
        )
        given = NOT_GIVEN
        with task.turn:
            read = _Read(source.batches, row, int(stop), int(taken), scope, buffers, window)
            row = _put(task, read)
        if row < stop:
            if task.map_.ends_when_full:
                task.sample.add(reader.receipt, probed=False)
                return row
            reader.receipt.sampled[0] = sampled
        elif status != OK:
            given = unblock(reader, source, row, status)
    account(task, reader, step, mode)
    return None


class _Read(NamedTuple):
    """What was read of a window: the batches [first, stop) and the number of their records."""

    batches: NDArray[np.void]
    first: int
    stop: int
    taken: int
    scope: reading.MapScope
    buffers: reading.ReadBuffers
    window: reading.WindowSums


def _put(task: MapTask, read: _Read) -> int:
    """Map what was read; return the row from which it must be read again, or where the map ended;
    `stop` otherwise. Nothing is mapped if the shard was split since it was read.
    """
    batches, first, stop, taken, scope, buffers, window = read
    if first == stop or task.shards[0] != (scope.shard_start, scope.shard_end):
        return first
    reached = put_window(batches, (first, stop), taken, scope, task.map_, buffers, window)
    if task.state.counters["full"][0] and not task.map_.ends_when_full:
        split_shard(task)
    return int(reached)


def prepare(reader: Reader, step: Rows) -> None:
    """Make a reader ready for a step on this thread, with room for the sample of all its records;
    a step that failed leaves its own.
    """
    source, first, last = step
    reader.workspace.use_here()
    records = source.records_before(last) - source.records_before(first)
    reader.receipt = receipts.with_room(reader.receipt, records)


def account(task: MapTask, reader: Reader, step: Rows, mode: MapMode) -> None:
    """Account for a mapped step. Effects: reports the progress; sleeps if it is too fast."""
    source, first, last = step
    length = source.bytes_before(last) - source.bytes_before(first)
    with task.turn:
        if mode.primary:
            task.sample.add(reader.receipt, probed=mode.action == reading.PROBE)
        task.bytes_done += length
        task.progress("map", task.bytes_done, task.total_bytes)
        if mode.primary and mode.action == reading.INSERT and task.presplits:
            presplit(task)
    task.runtime.throttle.observe(length)


def unblock(reader: Reader, source: Source, row: int, status: int) -> int:
    """Remove what prevents the kernels from reading a batch; return the bytes of its records that
    the scratch memory then holds, else `NOT_GIVEN`.

    Raises:
        CorruptBatch, UnsupportedFormatError: the batch cannot be read.
    """
    if status == MANY_RECORDS:
        reader.found = reading.record_buffers(int(source.batches["count"][row]))
        return NOT_GIVEN
    stopped = StoppedAt(source.data, source.path, source.batches, row)
    return remove_obstacle(reader.workspace, stopped, status)
