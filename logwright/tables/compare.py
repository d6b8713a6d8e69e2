"""Compare a table with the log, without what an update computed: the newest record of every key is
found again, from the log's start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from logwright.latest.plan import plan_latest
from logwright.latest.read import read_latest
from logwright.tables.buckets import bucket_count
from logwright.tables.columns import (
    KEY,
    OFFSET,
    PARTITION,
    RAW_KEY,
    READ_COLUMNS,
    TIMESTAMP,
    VALUE,
)
from logwright.tables.events import Events
from logwright.tables.files import TableFiles
from logwright.tables.heads import DEAD, HEADS, Known, as_heads, decide, heads_table
from logwright.tables.hidden import HiddenHeads
from logwright.tables.identity import KeyIdentity, identities
from logwright.tables.logs import TopicLog
from logwright.tables.model import Snapshot
from logwright.tables.quarantine import Quarantine
from logwright.tables.spill import Spill
from logwright.tables.store import Store
from logwright.tables.topic import read_rows
from logwright.tables.work import identity_of

if TYPE_CHECKING:
    from logwright.decode.model import Decoder

_KEYS: Final = pa.schema([pa.field(KEY, pa.binary())])
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
    store: Store,
    snapshot: Snapshot,
    quarantine: Quarantine,
    topic_log: TopicLog,
    *,
    events: Events | None = None,
) -> Comparison | None:
    """Compare a partition; None if the table has nothing of it. Rows below the log start offset of
    a running broker's log do not count: the next update takes them away. Memory is bounded.
    Effects: reads the log and the table.

    Args:
        events: those of the topic; None: only tombstones delete keys.

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
    truncated = 0 if events is None else events.truncated_below(topic_log, progress.end_offset)
    for batch in read_latest(plan, columns=(OFFSET,) if events is None else events.columns):
        gone = None if events is None else events.no_row(batch, truncated)
        offsets = _offsets(batch if gone is None else batch.filter(pc.invert(gone)))
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


def compare_topic(
    store: Store,
    snapshot: Snapshot,
    quarantine: Quarantine,
    topic_logs: Sequence[TopicLog],
    hidden: TableFiles,
    *,
    events: Events | None = None,
    decoder: Decoder | None = None,
) -> tuple[Comparison, ...]:
    """Compare a table that has one row of a key in the whole topic, or of a decoded key. What it
    knows of deleted keys counts, since the logs may not have their tombstones any more. Memory is
    that of one bucket's keys. Effects: reads the logs and the table.

    Args:
        topic_logs: of all partitions that the table has.
        hidden: where the hidden heads are.
        events: those of the topic; None: only tombstones delete keys.
        decoder: of the table, if its keys are compared by their decoded values.

    Raises:
        PointNotHeld: a log was cleaned since, above the offset where the table ends.
        LogwrightError: a log cannot be read.
    """
    progress, buckets = snapshot.progress, snapshot.form.buckets
    identity = identity_of(snapshot.form.unique, snapshot.form.unique_by)
    keys = None if identity is None or decoder is None else (identity, decoder)
    name = next((one.heads for one in progress.values() if one.heads), None)
    numbers = [one.partition for one in topic_logs if one.partition in progress]
    refused = {
        number: np.array(sorted(quarantine.offsets(number)), dtype=np.int64) for number in numbers
    }
    live, held_back = ({number: OffsetSum(0, 0) for number in numbers} for _ in range(2))
    with Spill(HEADS, KEY, buckets, quarantine.work) as spill, HiddenHeads(hidden, name) as heads:
        for topic_log in topic_logs:
            if topic_log.partition in progress:
                end_offset = progress[topic_log.partition].end_offset
                for batch in _heads_below(topic_log, end_offset, events, keys):
                    spill.add(batch)
        for bucket in range(buckets):
            deleted = heads.read(bucket).filter(pc.field(DEAD))
            new = heads_table(spill.read(bucket))
            of_log = Known(hidden=deleted, rows=HEADS.empty_table(), new=new)
            shown = decide(of_log).written
            for number in numbers:
                offsets = shown.filter(pc.field(PARTITION) == number)[OFFSET].to_numpy()
                live[number] += _sum(offsets)
                held_back[number] += _sum(offsets[np.isin(offsets, refused[number])])
    sums = ((number, _row_sum(store, snapshot, number)) for number in numbers)
    return tuple(
        Comparison(
            partition=number,
            live_keys=live[number].size,
            rows=rows.size,
            refused=held_back[number].size,
            equal=rows + held_back[number] == live[number],
        )
        for number, rows in sums
    )


def _row_sum(store: Store, snapshot: Snapshot, partition: int) -> OffsetSum:
    """Return the offsets of a partition's rows. Effects: reads the table."""
    rows = OffsetSum(0, 0)
    for batch in read_rows(store, snapshot, [OFFSET], partition=partition):
        rows += _sum(_offsets(batch))
    return rows


def _heads_below(
    topic_log: TopicLog,
    end_offset: int | None,
    events: Events | None,
    keys: tuple[KeyIdentity, Decoder] | None,
) -> Iterator[pa.RecordBatch]:
    """Yield the newest record of each key of a log, tombstones too, as heads. `keys`: how they are
    compared by their decoded values; None: by their bytes. Effects: reads.
    """
    plan = plan_latest(topic_log.log, end_offset=end_offset, cleaner=topic_log.cleaner)
    number = topic_log.partition
    truncated = 0 if events is None else events.truncated_below(topic_log, end_offset)
    others = () if events is None else events.columns
    decoded = () if keys is None else READ_COLUMNS
    columns = tuple(dict.fromkeys((KEY, OFFSET, TIMESTAMP, VALUE, *others, *decoded)))
    for batch in read_latest(plan, columns=columns, tombstones=True):
        no_row = batch[VALUE].is_null()
        if events is not None:
            no_row = pc.or_(no_row, events.no_row(batch, truncated))
        known = None
        if keys is not None:
            (identity, decoder) = keys
            known = identity.of_keys(decoder, batch, number)
        yield as_heads([batch[name] for name in columns[:3]], number, no_row, 0, known)


class DecodedKeys(NamedTuple):
    """How many decoded keys a table has, and how many of them have several rows, since a format
    writes one value in several ways. `by_partition`: the latter, of each partition that has some;
    empty where a key has one row in the whole topic.
    """

    keys: int
    in_several_rows: int
    by_partition: Mapping[int, int]


def decoded_keys(store: Store, snapshot: Snapshot, work: Path) -> DecodedKeys | None:
    """Count the decoded keys of a table; None: its keys are not decoded. Only the column of keys is
    read. Memory is bounded. Effects: reads the table.

    Args:
        work: directory of a temporary file.
    """
    names = {name for name, _ in snapshot.form.columns}
    if not {KEY, RAW_KEY} <= names:
        return None
    scopes: Sequence[int | None] = [None]
    if snapshot.form.unique == "partition":
        scopes = sorted({file.partition for file in snapshot.files})
    buckets = bucket_count([snapshot.bytes])
    keys = 0
    several: dict[int | None, int] = {}
    for partition in scopes:
        with Spill(_KEYS, KEY, buckets, work) as spill:
            for batch in read_rows(store, snapshot, [KEY], partition=partition):
                spill.add(pa.RecordBatch.from_arrays([identities(batch[KEY])], schema=_KEYS))
            count, in_several = _counted(spill, buckets)
        keys += count
        several[partition] = in_several
    by_partition = {one: count for one, count in several.items() if one is not None and count}
    return DecodedKeys(keys, sum(several.values()), by_partition)


def _counted(spill: Spill, buckets: int) -> tuple[int, int]:
    """Return how many keys are there, and how many of them several times. Effects: reads."""
    keys = in_several = 0
    for bucket in range(buckets):
        batches = list(spill.read(bucket))
        if batches:
            counts = pc.value_counts(pa.Table.from_batches(batches)[KEY]).field("counts")
            keys += len(counts)
            in_several += int(pc.sum(pc.greater(counts, 1)).as_py())
    return keys, in_several


class SeveralPartitions(NamedTuple):
    """How many keys a topic has, deleted ones whose tombstones are there too; and how many of them
    have records in several partitions.
    """

    keys: int
    in_several: int


def keys_in_several(topic_logs: Sequence[TopicLog], work: Path) -> SeveralPartitions:
    """Count the keys of some partitions of a topic. Memory is bounded. Effects: reads the logs.

    Args:
        work: directory of a temporary file.

    Raises:
        LogwrightError: a log cannot be read.
    """
    buckets = bucket_count([sum(one.log.log_bytes for one in topic_logs)])
    with Spill(_KEYS, KEY, buckets, work) as spill:
        for topic_log in topic_logs:
            plan = plan_latest(topic_log.log, cleaner=topic_log.cleaner)
            for batch in read_latest(plan, columns=(KEY,), tombstones=True):
                spill.add(batch)
        return SeveralPartitions(*_counted(spill, buckets))


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
