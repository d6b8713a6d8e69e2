"""What is read of one partition for its latest state, as a value: small, frozen, and sent to the
tasks that read.
"""

from __future__ import annotations

from dataclasses import dataclass

from logwright.config.topic import CleanerConfig
from logwright.format.names import TopicPartition
from logwright.keys.rows import MapTask
from logwright.records.model import RecordsRange
from logwright.units import Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestPlan:
    """The newest committed record of each key in [start_offset, end_offset) of one partition.

    Attributes:
        records: what is read; None if there is nothing in that range.
        cleaner: has the memory budget of the offset map.
    """

    partition: TopicPartition
    start_offset: Offset
    end_offset: Offset
    records: RecordsRange | None
    cleaner: CleanerConfig


@dataclass(slots=True, kw_only=True)
class LatestCounts:
    """What reading came to.

    Attributes:
        rows: rows returned.
        distinct_keys: keys in the range, those of tombstones included.
        map_reads: how many times the keys were read: 1 unless they outgrew the budget.
        map_bytes: size of the offset map.
        keyless: records of the range without a key, which are left out.
    """

    rows: int = 0
    distinct_keys: int = 0
    map_reads: int = 0
    map_bytes: int = 0
    keyless: int = 0

    def add(self, task: MapTask) -> None:
        """Add what the first pass came to."""
        self.distinct_keys += task.distinct_keys
        self.map_reads += task.passes
        self.keyless += int(task.state.counters["null_keys"][0])
        self.map_bytes = max(self.map_bytes, task.state.table.entries.nbytes)
