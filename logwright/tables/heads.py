"""Which record of a key is the newest of a whole topic, if the key is in several partitions. Pure.

After a topic's number of partitions has grown, a key's new records are in another partition than
its old ones, which no cleaning removes. A *head* is the newest record that a key has in one
partition, by offset.

1. Of the heads of a key the one with the latest timestamp is the newest; of equal ones the one with
   the higher offset, then with the higher partition. If it is a tombstone, the key has no row.
   If keys are the same by their decoded values (`logwright.tables.identity`), each way to write one
   has a head of its own, since a cleaner keeps them separately: of those of one partition the one
   with the higher offset counts.
2. A table has the rows of such heads only. The others are *hidden*: the table keeps them without
   their values (`logwright.tables.hidden`), since nothing else says that an older record of another
   partition is not the state of its key: the cleaner removes tombstones.
3. A tombstone is kept as long as another partition has a record of its key, and for
   ``keep_versions_ms`` in any case, for records that come late.
4. A record that the log does not have any more was deleted, by a tombstone that nobody has read:
   then it counts as a tombstone itself. Not so above the cleaner's checkpoint, where no cleaning
   has been, so that the log was cut off; nor below the log's start, nor after an erasure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap64

from logwright.tables.columns import KEY, OFFSET, PARTITION

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

RAW: Final = "raw"
TIME: Final = "time"
DEAD: Final = "dead"
SEEN: Final = "seen"
_HIDDEN, _ROW, _NEW = range(3)
"""Where a head is known from: a newer one of its partition has a higher number."""
HEADS: Final = pa.schema(
    [
        pa.field(KEY, pa.binary()),
        pa.field(PARTITION, pa.int32()),
        pa.field(OFFSET, pa.int64()),
        pa.field(TIME, pa.int64()),
        pa.field(DEAD, pa.bool_()),
        pa.field(SEEN, pa.int64()),
        pa.field(RAW, pa.binary()),
    ]
)
"""A head: its key, or the identity of its decoded key; its timestamp in µs; whether it gives its
key no row, being a tombstone or a record that cannot be decoded; when an update has seen it first,
in ms; the key as it is in the log, null if that is `KEY`.
"""

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The heads that a table knows of some keys.

    Attributes:
        hidden: those without a row.
        rows: those that have one.
        new: what an update has read; it replaces the others of its partition.
    """

    hidden: pa.Table
    rows: pa.Table
    new: pa.Table


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decision:
    """What becomes of the heads of some keys.

    Attributes:
        written: new heads that get a row.
        replaced: rows that go.
        hidden: heads without a row, afterwards.
        lacking: heads that need a row, and whose values only the log has.
    """

    written: pa.Table
    replaced: pa.Table
    hidden: pa.Table
    lacking: pa.Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Vanishing:
    """What is known of a log that was read from its start, for the heads that it does not have.

    Attributes:
        log_start_offset: of the log now.
        cleaned_to: no cleaning has removed a record from here on.
        now_ms: when that was seen.
        erased: records were erased.
        another: it is another log than before.
    """

    log_start_offset: int
    cleaned_to: int
    now_ms: int
    erased: bool = False
    another: bool = False

    def left(self, heads: pa.Table) -> pa.Table:
        """Return what counts of these heads, if the log does not have them any more: as dead."""
        offsets, dead = _numbers(heads, OFFSET), _flags(heads)
        below = offsets < self.log_start_offset
        counts = np.where(below, dead, (offsets < self.cleaned_to) & (dead | (not self.erased)))
        return as_dead(heads.filter(pa.array(counts & (not self.another))), self.now_ms)


def as_heads(
    origin: Sequence[pa.Array],
    number: int,
    no_row: pa.BooleanArray,
    now_ms: int,
    identity: pa.Array | None = None,
) -> pa.RecordBatch:
    """Return records as heads.

    Args:
        origin: keys, offsets and timestamps.
        number: of their partition.
        no_row: which give their key none.
        now_ms: when they were seen.
        identity: of their decoded keys; None: keys are compared by their bytes.
    """
    key, offset, timestamp = origin
    count = len(key)
    return pa.RecordBatch.from_arrays(
        [
            key if identity is None else identity,
            pa.array(np.full(count, number, dtype=np.int32)),
            offset,
            timestamp.cast(pa.int64()),
            no_row,
            pa.array(np.full(count, now_ms, dtype=np.int64)),
            pa.nulls(count, pa.binary()) if identity is None else key,
        ],
        schema=HEADS,
    )


def heads_table(batches: Iterable[pa.RecordBatch | pa.Table]) -> pa.Table:
    """Return heads as one table."""
    tables = [
        heads if isinstance(heads, pa.Table) else pa.Table.from_batches([heads], HEADS)
        for heads in batches
    ]
    return pa.concat_tables([HEADS.empty_table(), *tables]).combine_chunks()


def raw_keys(heads: pa.Table) -> pa.Array:
    """Return the keys of heads as they are in the log."""
    return pc.coalesce(heads[RAW], heads[KEY]).combine_chunks()


def decide(known: Known) -> Decision:
    """Return which heads have rows. All heads of each key must be among those that are known."""
    table = pa.concat_tables([known.hidden, known.rows, known.new]).combine_chunks()
    sizes = [len(one) for one in (known.hidden, known.rows, known.new)]
    origin = np.repeat([_HIDDEN, _ROW, _NEW], sizes)
    key, raw = _codes(table[KEY]), _codes(table[RAW])
    partition, offset, time = (_numbers(table, name) for name in (PARTITION, OFFSET, TIME))
    heads = _last_of_each((key, partition, raw), (origin, offset))
    last = heads[_last_of_each((key[heads], partition[heads]), (offset[heads],))]
    newest = last[_last_of_each((key[last],), (time[last], offset[last], partition[last]))]
    is_head, is_newest = (np.zeros(len(table), dtype=np.bool_) for _ in range(2))
    is_head[heads] = True
    is_newest[newest] = True
    shown = is_newest & ~_flags(table)

    def some(which: Flags) -> pa.Table:
        return table.filter(pa.array(which))

    return Decision(
        written=some(shown & (origin == _NEW)),
        replaced=some(~shown & (origin == _ROW)),
        hidden=some(is_head & ~shown),
        lacking=some(shown & (origin == _HIDDEN)),
    )


def forgettable(hidden: pa.Table) -> pa.Table:
    """Return the hidden heads that a table need not keep for long: those of deleted keys, unless
    another partition has a hidden head of the key with a value, or a row (`remembered`).

    Args:
        hidden: all hidden heads of some keys.
    """
    return hidden.filter(pa.array(~_is_needed(hidden)))


def expired(hidden: pa.Table, seen_until_ms: int, *, in_log: pa.Table | None = None) -> pa.Table:
    """Return the forgettable hidden heads that were seen until then.

    Args:
        in_log: those that were read from a log; all others count as seen long ago. None: each
            counts as seen when it was.
    """
    return hidden.filter(pa.array(~_is_needed(hidden) & ~_is_late(hidden, seen_until_ms, in_log)))


def remembered(
    hidden: pa.Table,
    seen_until_ms: int,
    *,
    shown: pa.ChunkedArray,
    now_ms: int,
    in_log: pa.Table | None = None,
) -> pa.Table:
    """Return the hidden heads without those that are expired, unless their key has a row: it is of
    another partition. They count as seen now.

    Args:
        shown: of the keys of expired heads at least those that have a row.
        in_log: as for `expired`.
    """
    late, has_row = _is_late(hidden, seen_until_ms, in_log), of_keys(hidden, shown)
    seen = np.where(has_row & ~late, now_ms, _numbers(hidden, SEEN))
    columns = {name: hidden[name] for name in HEADS.names} | {SEEN: pa.array(seen)}
    kept = pa.array(late | has_row | _is_needed(hidden))
    return pa.table(columns, schema=HEADS).filter(kept)


def _are_of(heads: pa.Table, others: pa.Table) -> Flags:
    """Return which heads are of a record of the others."""
    flags = np.zeros(len(heads), dtype=np.bool_)
    for number in pc.unique(others[PARTITION]).to_pylist():
        offsets = _numbers(others.filter(pc.equal(others[PARTITION], number)), OFFSET)
        flags |= (_numbers(heads, PARTITION) == number) & np.isin(_numbers(heads, OFFSET), offsets)
    return flags


def _is_late(hidden: pa.Table, seen_until_ms: int, in_log: pa.Table | None) -> Flags:
    late = _numbers(hidden, SEEN) > seen_until_ms
    return late if in_log is None else late & _are_of(hidden, in_log)


def _is_needed(hidden: pa.Table) -> Flags:
    dead = _flags(hidden)
    return ~dead | of_keys(hidden, hidden[KEY].filter(pa.array(~dead)))


def vanished(heads: pa.Table, held: BitMap64) -> Flags:
    """Return which heads with a value are of records that a log does not have any more.

    Args:
        heads: of one partition.
        held: offsets of the records of its log, below the offset where the table ends.
    """
    offsets = _numbers(heads, OFFSET)
    gone = list(BitMap64(offsets.astype(np.uint64)) - held)
    return np.isin(offsets, gone) & ~_flags(heads)


def as_dead(heads: pa.Table, now_ms: int) -> pa.Table:
    """Return the heads as those of deleted keys, which was seen now if it was not before."""
    columns = {name: heads[name] for name in HEADS.names}
    columns[SEEN] = pa.array(np.where(_flags(heads), _numbers(heads, SEEN), now_ms))
    columns[DEAD] = pa.array([True] * len(heads), pa.bool_())
    return pa.table(columns, schema=HEADS)


def of_keys(heads: pa.Table, keys: pa.Array | pa.ChunkedArray) -> Flags:
    """Return which heads are of some keys."""
    flags = pc.is_in(heads[KEY], value_set=keys).to_numpy(zero_copy_only=False)
    return np.asarray(flags, dtype=np.bool_)


def _codes(keys: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return a number for each key."""
    encoded = pc.dictionary_encode(keys, null_encoding="encode").combine_chunks()
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)


def _numbers(table: pa.Table, name: str) -> NDArray[np.int64]:
    return np.asarray(table[name].to_numpy(), dtype=np.int64)


def _flags(table: pa.Table) -> Flags:
    return np.asarray(table[DEAD].to_numpy(), dtype=np.bool_)


def _last_of_each(
    groups: tuple[NDArray[np.int64], ...], order: tuple[NDArray[np.int64], ...]
) -> NDArray[np.int64]:
    """Return the position of the last entry of each group in this order."""
    ranked = np.lexsort((*reversed(order), *reversed(groups)))
    ends = np.zeros(len(ranked), dtype=np.bool_)
    ends[-1:] = True
    for group in groups:
        ends[:-1] |= group[ranked][1:] != group[ranked][:-1]
    return ranked[ends]
