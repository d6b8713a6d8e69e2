"""Rows of batches into the offset map, by one thread or several.

1. The rows are split into steps. One thread maps a step after the other (`step`).
2. Several threads read steps of their own at the same time; each waits for its turn to map a window
   that it has read. The map's outcome does not depend on the order (`offset_map`), and reading is
   most of the work.
3. A log that is mostly compressed is read backwards (`backward`).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

from logwright.batches.source import Source, row_ranges
from logwright.compaction.keys.backward import map_backwards
from logwright.compaction.keys.state import MapMode, MapTask, Reader, Rows
from logwright.compaction.keys.step import map_step


def map_rows(task: MapTask, work: list[Rows], mode: MapMode) -> tuple[int, int] | None:
    """Map these rows; return (which of them, the row) at which the map ended, None if it did not.

    Raises:
        CorruptBatch, UnsupportedFormatError: the first batch that cannot be read, by its place.
    """
    step_bytes = task.runtime.throttle.step_bytes
    steps = [
        (number, (source, begin, end))
        for number, (source, first, last) in enumerate(work)
        for begin, end in row_ranges(source, first=first, last=last, window_bytes=step_bytes)
    ]
    if map_backwards(task, [step for _, step in steps], mode):
        return None
    if len(task.readers) > 1 and len(steps) > 1 and not task.map_.ends_when_full:
        _map_with_threads(task, [step for _, step in steps], mode)
        return None
    for number, step in steps:
        stopped = map_step(task, task.readers[0], step, mode)
        if stopped is not None:
            return number, stopped
    return None


def insert_rows(
    task: MapTask, sources: Sequence[Source], offsets: tuple[int, int], *, primary: bool
) -> tuple[int, int] | None:
    """Insert the records of the offsets [first, end) of all sources; return and errors: see
    `map_rows`.

    Args:
        primary: this is the first shard's pass.
    """
    first, end = offsets
    work = [
        (source, source.first_row("last_offset", first), source.first_row("base_offset", end))
        for source in sources
    ]
    return map_rows(task, work, MapMode(offsets=offsets, primary=primary))


def _map_with_threads(task: MapTask, steps: list[Rows], mode: MapMode) -> None:
    free: SimpleQueue[Reader] = SimpleQueue()
    for reader in task.readers:
        free.put(reader)

    def one(step: Rows) -> None:
        reader = free.get()
        try:
            map_step(task, reader, step, mode)
        finally:
            free.put(reader)

    pool = ThreadPoolExecutor(len(task.readers))
    try:
        for _ in pool.map(one, steps):
            pass
    finally:
        pool.shutdown(cancel_futures=True)
