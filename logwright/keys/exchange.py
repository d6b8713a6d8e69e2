"""The keys of a log that several tasks read: each group of segments by itself, then each shard of
the hashes over all groups.

1. A task reads the keys of one group (`KeyRows`) as the first pass does, and sorts them into shards
   by their hashes. A row has 24 bytes, whatever the key is.
2. A task takes one shard of all groups, the newest group first (`NewestKeys`): what of it is to be
   inserted goes into a table of the offset map's kind; then a row is superseded if the table holds
   a later record of its key. A record's place in the log is its group's number, then its ordinal in
   the group.
3. Of the rows that are not superseded the sums are taken that the checks compare with the output
   (`receipt`); a sample of the keys is sorted, to test the table.

If the keys of a shard do not fit into the table, it is read several times, a range of its hashes
each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.batches.runtime import Throttle
from logwright.batches.status import OK
from logwright.batches.unpack import NOT_GIVEN
from logwright.cleaner_rules import EXPIRED, NULL_KEY, is_superseded
from logwright.errors import invariant
from logwright.format.siphash import HashKey
from logwright.kernel import kernel
from logwright.keys import read as reading
from logwright.keys import receipt as receipts
from logwright.keys.offset_map import (
    ENTRY_BYTES,
    PREFETCH_DISTANCE,
    SHARD_SPACE,
    find_slot,
    has_bit,
    new_map,
    ordinal_at,
    prefetch_slot,
    put_entry,
    set_bit,
)
from logwright.keys.receipt import horizon_reached, mix
from logwright.keys.rows import Reader, Rows, prepare, step_ranges, unblock
from logwright.units import INT32_MAX

if TYPE_CHECKING:
    from logwright.config.topic import CleanerConfig

KEY_ROW: Final = np.dtype(
    [("hash1", np.uint64), ("hash2", np.uint64), ("ordinal", np.uint32), ("flags", np.uint32)]
)
"""One record with a key: both halves of the key's hash, its ordinal in its group, `INSERTED` and
`LEAVES`."""
INSERTED: Final = 1
"""It is of the dirty section, and supersedes what is before it; others are only looked up."""
LEAVES: Final = 2
"""A tombstone that may go, by the rule of the receipts."""

BUFFERED_ROWS: Final = 1 << 21
"""Rows that a task holds before it gives them away, sorted: 48 MiB, and as many while they are."""
SAMPLE_ROWS: Final = 4096
"""About how many rows of a shard are sampled."""
_GROUP_BITS: Final = 32
_FEWEST_SLOTS: Final = 64
_ROOM: Final = 2
"""Slots of a table for each key, if there is memory for them."""
_ALL: Final = 1 << 64

GROUP_SUMS: Final = np.dtype([("digest", np.uint64), ("records", np.int64)])
"""Records of one group that must survive: their sum, modulo 2**64, and their number."""


class Reading(NamedTuple):
    """What a task reads of a group, as a first pass would.

    Attributes:
        inserted: rows that are inserted, and the offsets [first, end) of their records.
        looked_up: the same of those that are only looked up; several, each with its offsets.
        now_ms, removable_end: see `MapTask`.
    """

    inserted: tuple[list[Rows], tuple[int, int]]
    looked_up: Sequence[tuple[list[Rows], tuple[int, int]]]
    now_ms: int
    removable_end: int


@dataclass(slots=True, kw_only=True)
class KeyRows:
    """Reads the keys of one group of segments, whose ordinals begin at 0.

    Args:
        records: of the group.

    Attributes:
        key: of the hash.
        shards: how many.
        give: takes rows, KEY_ROW[n], by shard, and how many each shard has, int64[2, shards]: all,
            and those that are inserted.
        throttle: of what is read.
        null_keys, expired: bitmaps by ordinal: records without a key, tombstones past their
            horizon.
        offered: records of the rows that are inserted.
    """

    records: int
    key: HashKey
    shards: int
    give: Callable[[NDArray[np.void], NDArray[np.int64]], None]
    throttle: Throttle = field(default_factory=Throttle)
    null_keys: NDArray[np.uint8] = field(init=False)
    expired: NDArray[np.uint8] = field(init=False)
    offered: int = 0
    _rows: NDArray[np.void] = field(init=False)
    _used: int = 0

    def __post_init__(self) -> None:
        invariant(self.records <= INT32_MAX, "a group has more records than offsets")
        self.null_keys = np.zeros((self.records + 7) // 8, dtype=np.uint8)
        self.expired = np.zeros_like(self.null_keys)
        self._rows = np.empty(min(BUFFERED_ROWS, max(self.records, 1)), dtype=KEY_ROW)

    def read(self, what: Reading) -> None:
        """Read the keys. Effects: reads the segments; sets in their batches what the records show;
        calls `give`.

        Raises:
            CorruptBatch, UnsupportedFormatError: the first batch that cannot be read, by its place.
        """
        reader = Reader.new(self.records)
        self._read(reader, what, *what.inserted, action=reading.INSERT)
        for work, offsets in what.looked_up:
            self._read(reader, what, work, offsets, action=reading.PROBE)
        self._flush()

    def _read(
        self,
        reader: Reader,
        what: Reading,
        work: list[Rows],
        offsets: tuple[int, int],
        *,
        action: int,
    ) -> None:
        scope = reading.MapScope(
            first_offset=offsets[0],
            last_offset=offsets[1] - 1,
            now_ms=what.now_ms,
            removable_end=what.removable_end,
            primary=True,
            shard_start=0,
            shard_end=SHARD_SPACE,
            action=action,
        )
        for _, step in step_ranges(work, self.throttle.step_bytes):
            self._read_step(reader, step, scope)

    def _read_step(self, reader: Reader, step: Rows, scope: reading.MapScope) -> None:
        source, row, last = step
        first = row
        prepare(reader, step)
        window = reading.sum_buffers(last - row)
        hash_key = np.array([self.key.low, self.key.high], dtype=np.uint64)
        given = NOT_GIVEN
        while row < last:
            buffers = reader.buffers(hash_key)
            stop, taken, status = reading.read_batches(
                source.data, source.batches, (row, last), given, scope, buffers, window
            )
            given, stop = NOT_GIVEN, int(stop)
            if stop > row:
                self._take(source.batches[row:stop], int(taken), scope, buffers, window)
            row = stop
            if status != OK:
                given = unblock(reader, source, row, status)
        self.throttle.observe(source.bytes_before(last) - source.bytes_before(first))

    def _take(
        self,
        batches: NDArray[np.void],
        taken: int,
        scope: reading.MapScope,
        buffers: reading.ReadBuffers,
        window: reading.WindowSums,
    ) -> None:
        """Take over what was read of some batches."""
        sums = window.sums[: len(batches)]
        receipts.sum_found(buffers.found, window.starts, taken, sums, buffers.receipt)
        receipts.keep_sums(batches, sums)
        inserts = scope.action == reading.INSERT
        self.offered += taken if inserts else 0
        if self._used + taken > len(self._rows):
            self._flush()
        if taken > len(self._rows):
            self._rows = np.empty(taken, dtype=KEY_ROW)
        self._used = int(
            _add_rows(
                buffers.found,
                (window.starts, batches),
                scope,
                INSERTED if inserts else 0,
                (self._rows, self._used),
                self.null_keys,
                self.expired,
            )
        )

    def _flush(self) -> None:
        if not self._used:
            return
        counts = np.zeros((2, self.shards), dtype=np.int64)
        ordered = np.empty(self._used, dtype=KEY_ROW)
        _order_rows(self._rows[: self._used], ordered, counts, np.zeros(self.shards, np.int64))
        self._used = 0
        self.give(ordered, counts)


@kernel
def _add_rows(
    records: Any, window: Any, scope: Any, flags: int, out: Any, null_keys: Any, expired: Any
) -> Any:
    """Add the records that were read of a window to the rows; return how many are used then.

    Args:
        records: `FoundRecords`. window: starts, int64[n + 1], and batches, BATCH[n].
        scope: `MapScope`. flags: of inserted records.
        out: KEY_ROW[m] and how many of them are used. null_keys, expired: bitmaps by ordinal.
    """
    starts, batches = window
    rows, used = out
    hash1, hash2, kinds = records.hash1, records.hash2, records.kinds
    for number in range(len(batches)):
        reached = horizon_reached(batches[number], scope.now_ms, scope.removable_end)
        for index in range(starts[number], starts[number + 1]):
            ordinal = records.ordinals[index]
            if kinds[index] == NULL_KEY:
                set_bit(null_keys, ordinal)
                continue
            leaves = kinds[index] == EXPIRED and reached
            if kinds[index] == EXPIRED:
                set_bit(expired, ordinal)
            row = rows[used]
            row.hash1, row.hash2 = hash1[index], hash2[index]
            row.ordinal = np.uint32(ordinal)
            row.flags = np.uint32(flags | (LEAVES if leaves else 0))
            used += 1
    return used


@kernel
def _order_rows(rows: Any, ordered: Any, counts: Any, at: Any) -> None:
    """Copy rows by shard, in each as they come; set how many each has, int64[2, shards]. at:
    int64[shards] of 0.
    """
    shards = np.uint64(counts.shape[1])
    for index in range(len(rows)):
        shard = np.int64((rows[index].hash1 >> np.uint64(32)) * shards >> np.uint64(32))
        counts[0, shard] += 1
        counts[1, shard] += rows[index].flags & np.uint32(INSERTED) != 0
    for before in range(len(at) - 1):
        at[before + 1] = at[before] + counts[0, before]
    for index in range(len(rows)):
        shard = np.int64((rows[index].hash1 >> np.uint64(32)) * shards >> np.uint64(32))
        ordered[at[shard]] = rows[index]
        at[shard] += 1


class Superseded(NamedTuple):
    """What one shard shows of all groups.

    Attributes:
        dead: by the number of a group the ordinals that are superseded there, uint32[n].
        sums: GROUP_SUMS[groups].
        sampled, expected: sum of the sampled records that must survive, by the table and by
            sorting.
        distinct: keys that were inserted.
        table_bytes: of the table.
        reads: how often the shard was read.
    """

    dead: dict[int, NDArray[np.uint32]]
    sums: NDArray[np.void]
    sampled: int
    expected: int
    distinct: int
    table_bytes: int
    reads: int


@dataclass(slots=True, kw_only=True)
class NewestKeys:
    """One shard of the hashes, over all groups.

    Attributes:
        shard: its number; shards: how many there are.
        rows: gives the rows of groups, by their numbers, in that order: KEY_ROW[n]. It may be
            called again.
        counts: int64[groups], how many each has.
        inserted: how many of all rows are inserted.
        cleaner: has the memory budget.
    """

    shard: int
    shards: int
    rows: Callable[[Sequence[int]], Iterable[NDArray[np.void]]]
    counts: NDArray[np.int64]
    inserted: int
    cleaner: CleanerConfig

    def find(self) -> Superseded:
        """Find what is superseded. Effects: reads the rows."""
        most = max(self.cleaner.map_bytes(like_kafka=False) // ENTRY_BYTES, _FEWEST_SLOTS)
        parts = max(ceil(self.inserted / max(int(most * self.cleaner.load_factor), 1)), 1)
        while True:
            slots = max(_ROOM * ceil(self.inserted / parts), _FEWEST_SLOTS)
            superseded = self._find(parts, min(slots, most))
            if superseded is not None:
                return superseded
            parts *= 2

    def _find(self, parts: int, slots: int) -> Superseded | None:
        """Read the shard once for each part of its hashes; None if one does not fit."""
        groups = len(self.counts)
        numbers = [each for each in reversed(range(groups)) if self.counts[each]]
        sums = np.zeros(groups, dtype=GROUP_SUMS)
        sample = _Sample(int(self.counts.sum()))
        dead: dict[int, list[NDArray[np.uint32]]] = {}
        distinct = sampled = table_bytes = 0
        for part in self._parts(parts):
            state = new_map(slots, capacity=slots - 1, largest=groups << _GROUP_BITS)
            table_bytes = state.table.entries.nbytes
            count = np.zeros(1, dtype=np.int64)
            for number, rows in zip(numbers, self.rows(numbers), strict=True):
                if not _insert(state.table, rows, number, part, state.capacity, count):
                    return None
                gone = np.empty(len(rows), dtype=np.uint32)
                own = sums[number : number + 1]
                some, seen = _look_up(state.table, rows, number, part, gone, own, sample.mask)
                sampled = (sampled + int(seen)) % _ALL
                sample.add(rows, number, part)
                dead.setdefault(number, []).append(gone[:some].copy())
            distinct += int(count[0])
        return Superseded(
            dead={number: np.concatenate(some) for number, some in dead.items()},
            sums=sums,
            sampled=sampled,
            expected=sample.expected(),
            distinct=distinct,
            table_bytes=table_bytes,
            reads=parts,
        )

    def _parts(self, parts: int) -> Iterable[tuple[int, int]]:
        """Return ranges of hashes, [start, end), which together have all of the shard."""
        first, last = (SHARD_SPACE * each // self.shards for each in (self.shard, self.shard + 1))
        inner = [first + (last - first) * part // parts for part in range(1, parts)]
        return pairwise([0, *inner, SHARD_SPACE])


@kernel
def _insert(table: Any, rows: Any, group: int, part: Any, capacity: int, count: Any) -> Any:
    """Insert the rows of a group whose hash is within a part; return whether all had room. count:
    int64[1], keys in the table.
    """
    start, end = np.uint64(part[0]), np.uint64(part[1])
    place = np.int64(group) << _GROUP_BITS
    for index in range(len(rows)):
        ahead = index + PREFETCH_DISTANCE
        if ahead < len(rows):
            prefetch_slot(table, rows[ahead].hash2)
        row = rows[index]
        upper = row.hash1 >> np.uint64(32)
        if row.flags & np.uint32(INSERTED) == 0 or upper < start or upper >= end:
            continue
        at = find_slot(table, row.hash1, row.hash2)
        latest, own = ordinal_at(table, at), place + row.ordinal
        if latest < 0:
            if count[0] >= capacity:
                return False
            count[0] += 1
        if latest < own:
            put_entry(table, at, row.hash1, row.hash2, own)
    return True


@kernel
def _look_up(table: Any, rows: Any, group: int, part: Any, dead: Any, sums: Any, mask: Any) -> Any:
    """Look the rows of a group up, of which and of all later groups what is inserted is in the
    table. Return how many are superseded, whose ordinals are written to `dead`, and the sum of the
    sampled ones that are not and stay; add those that stay to sums, GROUP_SUMS[1].
    """
    start, end = np.uint64(part[0]), np.uint64(part[1])
    place = np.int64(group) << _GROUP_BITS
    gone, sampled = 0, np.uint64(0)
    for index in range(len(rows)):
        ahead = index + PREFETCH_DISTANCE
        if ahead < len(rows):
            prefetch_slot(table, rows[ahead].hash2)
        row = rows[index]
        upper = row.hash1 >> np.uint64(32)
        if upper < start or upper >= end:
            continue
        latest = ordinal_at(table, find_slot(table, row.hash1, row.hash2))
        if is_superseded(place + row.ordinal, latest):
            dead[gone] = row.ordinal
            gone += 1
            continue
        if row.flags & np.uint32(LEAVES) != 0:
            continue
        word = mix(row.hash1, row.ordinal)
        sums[0].digest += word
        sums[0].records += 1
        if row.hash1 & mask == np.uint64(0):
            sampled += word
    return gone, sampled


class _Sample:
    """The sampled rows of a shard, and which of them must survive: by sorting."""

    def __init__(self, rows: int) -> None:
        self.mask = np.uint64((1 << max((rows // SAMPLE_ROWS).bit_length(), 0)) - 1)
        self._taken: list[NDArray[np.void]] = []
        self._places: list[NDArray[np.int64]] = []

    def add(self, rows: NDArray[np.void], group: int, part: tuple[int, int]) -> None:
        """Add what is drawn of a group."""
        upper = rows["hash1"] >> np.uint64(32)
        within = (upper >= np.uint64(part[0])) & (upper < np.uint64(part[1]))
        drawn = rows[within & (rows["hash1"] & self.mask == 0)]
        self._taken.append(drawn)
        self._places.append((group << _GROUP_BITS) + drawn["ordinal"].astype(np.int64))

    def expected(self) -> int:
        """Return the sum of the records that must survive."""
        if not self._taken:
            return 0
        rows, places = np.concatenate(self._taken), np.concatenate(self._places)
        inserted = rows["flags"] & INSERTED != 0
        keys, newest = rows["hash1"][inserted], places[inserted]
        order = np.lexsort((newest, keys))
        keys, newest = keys[order], newest[order]
        lasts = np.append(keys[1:] != keys[:-1], True) if len(keys) else np.zeros(0, np.bool_)
        keys, newest = keys[lasts], newest[lasts]
        stays = rows["flags"] & LEAVES == 0
        if len(keys):
            at = np.minimum(np.searchsorted(keys, rows["hash1"]), len(keys) - 1)
            stays &= (keys[at] != rows["hash1"]) | (newest[at] <= places)
        ordinals = rows["ordinal"].astype(np.int64)
        hash1 = np.ascontiguousarray(rows["hash1"])
        return int(receipts.sum_chosen(hash1, ordinals, stays))


@kernel
def set_dead(dead: Any, ordinals: Any, records: int) -> Any:
    """Set the bits of ordinals; return whether all are below `records`, and were not set."""
    for index in range(len(ordinals)):
        ordinal = ordinals[index]
        if ordinal >= records or has_bit(dead, ordinal):
            return False
        set_bit(dead, ordinal)
    return True
