"""Compare a table with the log, without what an update computed: the newest record of every key is
found again, from the log's start.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from logwright.latest.plan import plan_latest
from logwright.latest.read import read_latest
from logwright.tables.columns import OFFSET
from logwright.tables.logs import TopicLog
from logwright.tables.model import Snapshot
from logwright.tables.quarantine import Quarantine
from logwright.tables.store import Store
from logwright.tables.topic import read_rows

if TYPE_CHECKING:
    import pyarrow as pa

_MIXER: Final = np.uint64(0x9E3779B97F4A7C15)


class OffsetSum(NamedTuple):
    """A set of offsets as sums: two sets with equal sums are equal, as good as surely.

    Attributes:
        size: number of the offsets.
        digest: sum of a hash of each, modulo 2^64.
    """

    size: int
    digest: int

    def __add__(self, other: object) -> OffsetSum:
        """Return the sums of both sets, which have no offset in common."""
        if not isinstance(other, OffsetSum):
            return NotImplemented
        return OffsetSum(self.size + other.size, (self.digest + other.digest) % (1 << 64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What one partition's comparison found.

    Attributes:
        live_keys: keys whose newest record below the table's end has a value.
        rows: rows of the table.
        refused: live keys without a row, since their record is in the quarantine table.
        equal: the rows are those of exactly these records.
    """

    partition: int
    live_keys: int
    rows: int
    refused: int
    equal: bool


def compare(
    store: Store, snapshot: Snapshot, quarantine: Quarantine, topic_log: TopicLog
) -> Comparison | None:
    """Compare a partition; None if the table has nothing of it. Rows below the log start offset of
    a running broker's log do not count: the next update takes them away. Memory is bounded.
    Effects: reads the log and the table.

    Raises:
        PointNotHeld: the log was cleaned since, above that offset.
        LogwrightError: the log cannot be read.
    """
    partition = topic_log.partition
    progress = snapshot.progress.get(partition)
    if progress is None:
        return None
    refused_offsets = np.array(sorted(quarantine.offsets(partition)), dtype=np.int64)
    plan = plan_latest(topic_log.log, end_offset=progress.end_offset, cleaner=topic_log.cleaner)
    live = refused = OffsetSum(0, 0)
    for batch in read_latest(plan, columns=(OFFSET,)):
        offsets = _offsets(batch)
        live += _sum(offsets)
        refused += _sum(offsets[np.isin(offsets, refused_offsets)])
    rows = OffsetSum(0, 0)
    first = 0 if topic_log.bound is None else topic_log.log.log_start_offset
    for batch in read_rows(store, snapshot, [OFFSET], partition=partition):
        offsets = _offsets(batch)
        rows += _sum(offsets[offsets >= first])
    return Comparison(
        partition=partition,
        live_keys=live.size,
        rows=rows.size,
        refused=refused.size,
        equal=rows + refused == live,
    )


def largest_offsets(store: Store, snapshot: Snapshot) -> dict[int, int]:
    """Return partition → largest offset of its rows, by the statistics in the files' footers.
    Effects: reads the footers.
    """
    by_partition: dict[int, int] = {}
    for file in snapshot.files:
        with store.source(file) as opened:
            largest = _largest(pq.ParquetFile(opened).metadata)
        if largest is not None:
            by_partition[file.partition] = max(by_partition.get(file.partition, largest), largest)
    return by_partition


def _largest(metadata: pq.FileMetaData) -> int | None:
    groups = range(metadata.num_row_groups)
    names = [metadata.schema.column(index).path for index in range(metadata.num_columns)]
    column = names.index(OFFSET)
    maxima: Iterable[int] = (
        int(statistics.max)
        for group in groups
        if (statistics := metadata.row_group(group).column(column).statistics) is not None
        and statistics.has_min_max
    )
    return max(maxima, default=None)


def _offsets(batch: pa.RecordBatch) -> NDArray[np.int64]:
    return np.asarray(batch[OFFSET].to_numpy(zero_copy_only=False), dtype=np.int64)


def _sum(offsets: NDArray[np.int64]) -> OffsetSum:
    mixed = (offsets.astype(np.uint64) + np.uint64(1)) * _MIXER
    mixed ^= mixed >> np.uint64(29)
    mixed *= _MIXER
    mixed ^= mixed >> np.uint64(32)
    return OffsetSum(len(offsets), int(mixed.sum(dtype=np.uint64)))
