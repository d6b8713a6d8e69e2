"""Prepare the first pass: the segments below the first uncleanable offset, and an offset map with
room for their keys within the memory budget.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil, floor
from typing import Final

from logwright.batches.source import Source, open_source
from logwright.compaction.keys import offset_map
from logwright.compaction.model import CleanPlan
from logwright.compaction.rewrite.cache import CACHED_BATCH
from logwright.config.topic import CleanerConfig
from logwright.errors import PolicyError
from logwright.format.scan import BATCH
from logwright.log.mapped import MappedFiles

_RECORDS_PER_BYTE: Final = 4
_ROOMY_LOAD: Final = 0.75
"""Load of a map that does not need all its memory: inserts are twice as fast as at 0.9."""


def open_sources(plan: CleanPlan, files: MappedFiles | None = None) -> list[Source]:
    """Return all segments below the first uncleanable offset, with an ordinal for each record.
    Effects: maps them.

    Args:
        plan: of the cleaning.
        files: the maps, to which they are added.
    """
    directory, segments = plan.log.directory_text, plan.rolled_log.segments
    sources: list[Source] = []
    files = MappedFiles() if files is None else files
    ordinal = 0
    for segment, following in pairwise(segments):
        if segment.base_offset >= plan.compaction.first_uncleanable_offset:
            break
        source = open_source(
            directory,
            segment,
            files,
            end_offset=following.base_offset,
            first_ordinal=ordinal,
        )
        ordinal += source.records
        sources.append(source)
    return sources


def dirty_records(plan: CleanPlan, sources: list[Source]) -> int:
    """Return an upper bound of the keys that the map must take."""
    first_dirty = plan.compaction.first_dirty_offset
    return sum(
        source.records - source.records_before(source.first_row("last_offset", first_dirty))
        for source in sources
    )


def other_bytes(sources: Sequence[Source], *, rebuilt: bool) -> int:
    """Return how much memory a cleaning takes, apart from the map, that grows with the log: the
    headers of all batches, an entry for each that may be rebuilt on the way, and two bitmaps with
    one bit for each record.
    """
    each = BATCH.itemsize + (CACHED_BATCH.itemsize if rebuilt else 0)
    headers = sum(len(source.batches) for source in sources) * each
    return headers + sum(source.records for source in sources) // _RECORDS_PER_BYTE


def new_map(
    cleaner: CleanerConfig,
    *,
    keys: int,
    records: int,
    other_bytes: int = 0,
    like_kafka: bool = False,
) -> offset_map.MapState:
    """Return a map within ``log.cleaner.dedupe.buffer.size``; under ``like_kafka`` one of exactly
    Kafka's capacity.

    Args:
        cleaner: has the memory budget.
        keys: an upper bound of its keys.
        records: of the log, as many as there are ordinals.
        other_bytes: what must have room in the budget too; it leaves the map half of it at least.
            Kafka's budget is the map's alone.

    Raises:
        PolicyError: the budget has no room for one key.
    """
    budget_bytes = cleaner.map_bytes(like_kafka=like_kafka)
    if not like_kafka:
        half = max(budget_bytes // 2, min(budget_bytes, 2 * offset_map.ENTRY_BYTES))
        budget_bytes = max(budget_bytes - other_bytes, half)
    entry_bytes = offset_map.KAFKA_ENTRY_BYTES if like_kafka else offset_map.ENTRY_BYTES
    budget_slots = budget_bytes // entry_bytes
    capacity = floor(budget_slots * cleaner.load_factor)
    if budget_slots < 1 or (like_kafka and capacity < 1):
        given = cleaner.dedupe_buffer_bytes
        least = max(2, ceil(1 / cleaner.load_factor)) * entry_bytes
        raise PolicyError(
            f"log.cleaner.dedupe.buffer.size={given} has no room for a key.",
            remedy=f"Give it {least} bytes or more.",
        )
    wanted = max(ceil(keys / _ROOMY_LOAD), 2)
    slots = max(min(budget_slots, wanted), 2)
    if like_kafka:
        slots = max(slots, min(capacity, keys) + 1)  # probing ends at an empty slot
    else:
        capacity = max(min(capacity, slots - 1), 1) if slots < wanted else slots - 1
    return offset_map.new_map(slots, capacity=capacity, largest=records)
