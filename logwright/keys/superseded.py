"""The first pass alone: which records of a range of offsets a later one with their key supersedes.
Nothing else of a cleaning is decided, and nothing is rebuilt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.batches.runtime import Progress, Runtime
from logwright.batches.source import Source
from logwright.config.topic import CleanerConfig
from logwright.keys.offset_map import map_within, other_bytes
from logwright.keys.rows import (
    MapMode,
    MapTask,
    Reader,
    begin_pass,
    end_pass,
    map_rows,
    rows_within,
)
from logwright.units import INT64_MAX

_NO_HORIZON: Final = -INT64_MAX
"""A clock at which no delete horizon is reached: tombstones count as any record."""


class Superseded(NamedTuple):
    """The result of the pass.

    Attributes:
        dead: bitmap, uint8[(records + 7) / 8], one bit per ordinal: of the offsets that were
            mapped, the records that a later one with their key supersedes, and those without a key.
        distinct_keys: number of keys.
        map_reads: how many times the keys were read: 1 unless they outgrew the budget.
        map_bytes: size of the offset map.
    """

    dead: NDArray[np.uint8]
    distinct_keys: int
    map_reads: int
    map_bytes: int


def find_superseded(
    sources: Sequence[Source],
    offsets: tuple[int, int],
    cleaner: CleanerConfig,
    *,
    progress: Progress,
    runtime: Runtime,
) -> Superseded:
    """Read the keys of the offsets [first, end) and find the records that are superseded. Effects:
    reads the segments.

    Args:
        sources: ascending, with consecutive ordinals. Their batches may begin after `first` and end
            before `end`. Control batches are left out, and those with `unmapped` set.
        offsets: first and end.
        cleaner: has the memory budget.
        progress: called with the phase "map".
        runtime: threads and throttle.

    Raises:
        CorruptBatch, UnsupportedFormatError, UnreadableFile, StalePlan: a batch cannot be read.
        PolicyError: ``log.cleaner.dedupe.buffer.size`` has no room for one key.
    """
    task = _map_task(sources, offsets, cleaner, progress, runtime)
    while task.shards:
        mode = MapMode(offsets=offsets, primary=begin_pass(task))
        map_rows(task, rows_within(sources, offsets), mode)
        end_pass(task)
    return Superseded(
        dead=task.dead,
        distinct_keys=task.distinct_keys,
        map_reads=task.passes,
        map_bytes=task.state.table.entries.nbytes,
    )


def _map_task(
    sources: Sequence[Source],
    offsets: tuple[int, int],
    cleaner: CleanerConfig,
    progress: Progress,
    runtime: Runtime,
) -> MapTask:
    """Return the state with an empty map."""
    first, end = offsets
    records = sum(source.records for source in sources)
    keys = total_bytes = 0
    for source in sources:
        row, last = source.first_row("last_offset", first), source.first_row("base_offset", end)
        if row < last:
            keys += source.records_before(last) - source.records_before(row)
            total_bytes += source.bytes_before(last) - source.bytes_before(row)
    others = other_bytes(sources)
    bits = (records + 7) // 8
    return MapTask(
        now_ms=_NO_HORIZON,
        removable_end=INT64_MAX,
        last_mapped_offset=end - 1,
        ends_when_full=False,
        runtime=runtime,
        progress=progress,
        total_bytes=total_bytes,
        records=keys,
        state=map_within(cleaner, keys=keys, records=records, other_bytes=others),
        dead=np.zeros(bits, dtype=np.uint8),
        expired=np.zeros(bits, dtype=np.uint8),
        readers=[Reader.new(records) for _ in range(runtime.threads)],
    )
