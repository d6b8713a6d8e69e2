"""One step of the first pass: a run of batches is read and mapped by one thread, window by window.

1. A window is as many batches as have room for their records. It is read without the lock, and
   mapped when it is the thread's turn.
2. When the map is full it is reduced to a shard of the hashes. A window that was read for the
   larger shard and is not mapped yet is read again.
3. What a kernel cannot do with a batch is done here, and the kernel called again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.batches.source import Source
from logwright.batches.status import MANY_RECORDS, OK, StoppedAt
from logwright.batches.unpack import NOT_GIVEN, remove_obstacle
from logwright.compaction import receipt as receipts
from logwright.compaction.keys import read as reading
from logwright.compaction.keys.fill import put_window
from logwright.compaction.keys.state import MapMode, MapTask, Reader, Rows, presplit, split_shard


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
            found = _Found(source.batches, row, int(stop), int(taken), scope, buffers, window)
            row = _put(task, found)
        if row < stop:
            if task.map_.ends_when_full:
                task.sample.add(reader.receipt, probed=False)
                return row
            reader.receipt.sampled[0] = sampled
        elif status != OK:
            given = unblock(reader, source, row, status)
    account(task, reader, step, mode)
    return None


class _Found(NamedTuple):
    """What was read of a window: the batches [first, stop) and the number of their records."""

    batches: NDArray[np.void]
    first: int
    stop: int
    taken: int
    scope: reading.MapScope
    buffers: reading.ReadBuffers
    window: reading.WindowSums


def _put(task: MapTask, found: _Found) -> int:
    """Map what was read; return the row from which it must be read again, or where the map ended;
    `stop` otherwise. Nothing is mapped if the shard was split since it was read.
    """
    batches, first, stop, taken, scope, buffers, window = found
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
        if mode.primary and mode.action == reading.INSERT and task.cache is None:
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
