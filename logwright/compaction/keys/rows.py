"""Rows of batches into the offset map, by one thread or several.

1. One thread reads and maps a window after the other, in one kernel.
2. Several read windows of their own at the same time; each waits for its turn to map what it read.
   The map's outcome does not depend on the order (`offset_map`), and reading is most of the work.
3. When the map is full it is cut down to a part of the hashes, a shard (`map_task`). What was read
   for the larger shard and is not mapped yet is read again.
4. One thread reads a compressed log backwards, and rebuilds its batches on the way
   (`rewrite.cache`), as long as the map holds all hashes.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import numpy as np
from numpy.typing import NDArray

from logwright.compaction import receipt as digest
from logwright.compaction.batch_receipt import new_told
from logwright.compaction.keys import backward, offset_map
from logwright.compaction.keys import fill as mapping
from logwright.compaction.keys import read as reading
from logwright.compaction.keys.state import How, MapTask, Reader, Rows, foresee, split_shard
from logwright.compaction.rewrite.cache import CACHED_BATCH, RebuildCache
from logwright.compaction.source import Source, decompress_batch, row_ranges
from logwright.compaction.unpack import NOT_GIVEN
from logwright.errors import CorruptBatch, UnsupportedFormatError
from logwright.format.scan import check_crcs
from logwright.format.walk import OK, raise_for_status


def map_rows(task: MapTask, work: list[Rows], how: How) -> tuple[int, int] | None:
    """Map these rows; (which of them, the row) at which the map ended, None if it did not.

    Raises:
        CorruptBatch, UnsupportedFormatError: the first batch that cannot be read, by its place.
    """
    step_bytes = task.runtime.throttle.step_bytes
    steps = [
        (number, (source, begin, end))
        for number, (source, first, last) in enumerate(work)
        for begin, end in row_ranges(source, first=first, last=last, window_bytes=step_bytes)
    ]
    if task.cache is not None and how.primary and how.once:
        _map_all_backwards(task, task.cache, [step for _, step in steps], how)
        return None
    if len(task.readers) == 1 or task.ends_when_full or len(steps) == 1:
        for number, step in steps:
            stopped = _map_alone(task, step, how)
            if stopped is not None:
                return number, stopped
        return None
    free: SimpleQueue[Reader] = SimpleQueue()
    for reader in task.readers:
        free.put(reader)

    def one(step: Rows) -> None:
        reader = free.get()
        try:
            _map_beside_others(task, reader, step, how)
        finally:
            free.put(reader)

    pool = ThreadPoolExecutor(len(task.readers))
    try:
        for _ in pool.map(one, [step for _, step in steps]):
            pass
    finally:
        pool.shutdown(cancel_futures=True)
    return None


def _map_alone(task: MapTask, step: Rows, how: How) -> int | None:
    """Read and map one step in one kernel; the row at which the map ended, None if it did not."""
    (source, row, last), (reader, *_) = step, task.readers
    state, space, notes = task.state, reader.workspace, reader.notes
    _make_ready(reader, step)
    given = NOT_GIVEN
    while row < last:
        row, status = mapping.map_batches(
            source.data,
            source.batches,
            (row, last),
            given,
            _bounds(task, how),
            np.array([state.capacity, task.ends_when_full], dtype=np.int64),
            state.table,
            np.array([state.key.low, state.key.high], dtype=np.uint64),
            (task.dead, task.expired),
            state.counters,
            reader.found,
            space.scratch,
            space.cells,
            (notes.mask, notes.sample, notes.sampled),
            notes.totals,
            reading.room_for_sums(last - row),
        )
        row, given = int(row), NOT_GIVEN
        if status != OK:
            given = _remove_obstacle(reader, source, row, status)
        elif state.counters[offset_map.FULL]:
            if task.ends_when_full:
                task.sample.add(notes, probed=False)
                return row
            split_shard(task)
    _done(task, reader, step, how)
    return None


def _map_all_backwards(task: MapTask, cache: RebuildCache, steps: list[Rows], how: How) -> None:
    """The last step first. Should a batch be unreadable, all are read for the first such one."""
    try:
        for step in reversed(steps):
            _map_backwards(task, cache, step, how)
    except (CorruptBatch, UnsupportedFormatError):
        for step in steps:
            _map_alone(task, step, How(offsets=(0, 0), primary=True, mode=reading.FLAG))
        raise


def _map_backwards(task: MapTask, cache: RebuildCache, step: Rows, how: How) -> None:
    """Read, map and rebuild one step; what is left of it when that is not possible any more, is
    mapped as else.
    """
    (source, first, row), (reader, *_) = step, task.readers
    state, space, notes = task.state, reader.workspace, reader.notes
    _make_ready(reader, step)
    if not len(source.cached):
        source.cached = np.zeros(len(source.batches), dtype=CACHED_BATCH)
    last_mapped = task.plan.compaction.first_uncleanable_offset - 1
    told = new_told((state.key.low, state.key.high), last_mapped)
    limits = np.array([state.capacity, False], dtype=np.int64)
    room = reading.room_for_sums(backward.WINDOW_RECORDS, together=True)
    given = NOT_GIVEN
    while first < row and len(task.shards) == 1 and not cache.closed:
        space.need_plain(backward.plain_bytes(len(space.scratch)))
        space.need_kept(len(reader.found[0]))
        cache.state["needed"] = backward.room_needed(len(space.scratch))
        row, status = backward.map_backwards(
            source.data,
            source.batches,
            (first, row),
            given,
            _bounds(task, how),
            (limits, state.table, told[0], (task.dead, task.expired), state.counters),
            (reader.found, (notes.mask, notes.sample, notes.sampled), notes.totals, room),
            space.for_rewrite(),
            (source.cached, cache.out, cache.state, task.horizon_ms, told),
        )
        row, given = int(row), NOT_GIVEN
        if status == backward.STORE_FULL:
            cache.empty()
        elif status != OK:
            given = _remove_obstacle(reader, source, row - 1, status)
        elif state.counters[offset_map.FULL]:
            split_shard(task)
    _done(task, reader, (source, row, step[2]), how)
    if first < row:
        _map_alone(task, (source, first, row), how)


def _map_beside_others(task: MapTask, reader: Reader, step: Rows, how: How) -> None:
    """Read one step, and map each window of it when it is its turn."""
    source, row, last = step
    state, space, notes = task.state, reader.workspace, reader.notes
    _make_ready(reader, step)
    given = NOT_GIVEN
    while row < last:
        shard, sampled = task.shards[0], int(notes.sampled[0])
        bounds = _bounds(task, how, shard)
        starts = np.empty(last - row + 1, dtype=np.int64)
        sums = np.zeros((last - row, 2), dtype=np.uint64)
        no_spans = np.empty((0, 2), dtype=np.int64)
        told = (starts, sums, (notes.mask, notes.sample, notes.sampled), no_spans)
        stop, taken, status = reading.read_batches(
            source.data,
            source.batches,
            (row, last),
            given,
            bounds,
            np.array([state.key.low, state.key.high], dtype=np.uint64),
            reader.found,
            space.scratch,
            space.cells,
            told,
        )
        starts[stop - row] = taken
        given = NOT_GIVEN
        with task.turn:
            if task.shards[0] != shard or not _put(
                task, reader, (source, row, int(stop)), int(taken), bounds, told
            ):
                notes.sampled[0] = sampled
                continue
        row = int(stop)
        if status != OK:
            given = _remove_obstacle(reader, source, row, status)
    _done(task, reader, step, how)


def _put(
    task: MapTask,
    reader: Reader,
    window: Rows,
    taken: int,
    bounds: NDArray[np.int64],
    told: tuple[NDArray[np.int64], NDArray[np.uint64], object, NDArray[np.int64]],
) -> bool:
    """Map what was read of a window; False if the map was full: then the shard was halved."""
    (source, first, stop), state = window, task.state
    if stop == first:
        return True
    state.counters[offset_map.FULL] = 0
    mapping.put_window(
        source.batches,
        (first, stop),
        taken,
        bounds,
        np.array([state.capacity, False], dtype=np.int64),
        state.table,
        reader.found,
        (task.dead, task.expired),
        state.counters,
        told,
        reader.notes.totals,
    )
    if state.counters[offset_map.FULL]:
        split_shard(task)
        return False
    return True


def _bounds(task: MapTask, how: How, shard: tuple[int, int] | None = None) -> NDArray[np.int64]:
    """int64[7], see `mapping.map_batches`."""
    of_shard = task.shards[0] if shard is None else shard
    now_ms = task.plan.now_ms
    return np.array([*how.offsets, now_ms, how.primary, *of_shard, how.mode], dtype=np.int64)


def _make_ready(reader: Reader, step: Rows) -> None:
    """For this step and this thread. The sample has room for one step: one that failed leaves its
    own.
    """
    reader.workspace.use_here()
    reader.notes.sampled[0] = 0
    source, first, last = step
    digest.make_room(reader.notes, source.records_before(last) - source.records_before(first))


def _done(task: MapTask, reader: Reader, step: Rows, how: How) -> None:
    """Account for a step that was mapped. Effects: tells the progress; sleeps if it is too fast."""
    source, first, last = step
    length = source.bytes_before(last) - source.bytes_before(first)
    with task.turn:
        if how.primary:
            task.sample.add(reader.notes, probed=how.mode == reading.PROBE)
        task.bytes_done += length
        task.progress("map", task.bytes_done, task.total_bytes)
        if how.primary and how.mode == reading.INSERT and task.cache is None:
            foresee(task)
    task.runtime.throttle.observe(length)


def _remove_obstacle(reader: Reader, source: Source, row: int, status: int) -> int:
    """Remove what keeps the kernels from reading a batch; bytes of its records that the scratch
    memory holds then, else `NOT_GIVEN`.

    Raises:
        CorruptBatch, UnsupportedFormatError: the batch cannot be read.
    """
    batch, space = source.batches[row], reader.workspace
    match status:
        case reading.SCRATCH_FULL:
            space.double_scratch()
        case reading.NOT_UNPACKED:
            space.release_scratch()
            return space.fill(decompress_batch(source, batch))
        case reading.MANY_RECORDS:
            reader.found = reading.room_for_records(int(batch["count"]))
        case reading.WRONG_CRC:
            check_crcs(source.data, source.batches, source.path, first=row, last=row + 1)
        case _:
            raise_for_status(
                status,
                path=source.path,
                position=int(batch["position"]),
                base_offset=int(batch["base_offset"]),
            )
    return NOT_GIVEN
