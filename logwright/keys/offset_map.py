"""The offset map: which record of each key is the latest (SkimpyOffsetMap's role, cleaning.md of
Kafka 4.3.0).

1. A key is represented by its keyed hash. An entry has 128 bits: as many as the largest ordinal
   needs, and the hash in all others. The bits of the hash that are not stored decide where the
   entry is looked for, so that they count too (docs/adr/0006).
2. Of two records with one key the one with the smaller ordinal is superseded: its bit in the dead
   bitmap is set. The second pass needs only that bitmap.
3. The slot is a part of the hash scaled to the table (no power of two is needed), probing is
   linear.
4. The table never takes more than its given memory. When it is full, either the map ends
   there, as Kafka's does, or the hashes are split into shards: entries of all but the first are
   dropped, and the keys are read once more for each other shard. Bits stay set, so nothing is lost
   or counted twice.
5. A bitmap of records is uint8[(records + 7) / 8], one bit for each ordinal (`has_bit`).
"""

from __future__ import annotations

import mmap
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, expm1, floor
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.batches.source import Source
from logwright.config.topic import CleanerConfig
from logwright.errors import PolicyError
from logwright.format.crc import prefetch
from logwright.format.scan import BATCH
from logwright.format.siphash import HashKey
from logwright.kernel import inline_kernel, intrinsic, kernel

ENTRY_BYTES: Final = 16
KAFKA_ENTRY_BYTES: Final = 24
"""16 of MD5 and 8 of offset."""
SHARD_SPACE: Final = 1 << 32
"""Shards are ranges of the upper 32 bits of the hash's first half."""

PREFETCH_DISTANCE: Final = 16

_HUGE_SLOTS: Final = 2 * 1024 * 1024 // ENTRY_BYTES
"""A map of fewer slots fills no huge page. Its memory is reused within the process: the
system would clear fresh memory page by page, at the first read and at the first write.
"""

_RECORDS_PER_BYTE: Final = 4
_ROOMY_LOAD: Final = 0.75
"""Load of a map that does not need all its memory: inserts are twice as fast as at 0.9."""

_spare: list[mmap.mmap] = []
"""The memory of a freed large map, or none."""

COUNTERS: Final = np.dtype(
    [
        ("distinct", np.int64),
        ("null_keys", np.int64),
        ("latest", np.int64),
        ("offered", np.int64),
        ("full", np.bool_),
    ],
    align=True,
)
"""What is counted while a map is filled: distinct keys, records without a key, offset of the last
record put, records offered; whether the last window found the map full.
"""


class Table(NamedTuple):
    """The entries of a map.

    An entry is the hash's first half, then the upper bits of its second half above the ordinal + 1.
    Both words of a free entry are 0. In a dropped entry the ordinal's bits are all set and the
    others are 0: a search continues after it.

    Attributes:
        entries: uint64[slots * 2]. ordinal_bits: how many bits an ordinal takes.
    """

    entries: NDArray[np.uint64]
    ordinal_bits: int


@dataclass(slots=True, kw_only=True)
class MapState:
    """The state of one map.

    Attributes:
        capacity: keys it takes. key: of the keys' hash.
        counters: COUNTERS[1], changed by the kernels.
    """

    table: Table
    capacity: int
    key: HashKey
    counters: NDArray[np.void]


def new_map(slots: int, *, capacity: int, largest: int) -> MapState:
    """Return an empty map of `slots` entries, of which `capacity`, fewer, may be used, for ordinals
    up to `largest`.
    """
    entries = _large_zeros(slots * 2) if slots >= _HUGE_SLOTS else np.zeros(slots * 2, np.uint64)
    counters = np.zeros(1, dtype=COUNTERS)
    counters["latest"] = -1
    table = Table(entries, min((largest + 2).bit_length(), 63))
    return MapState(table=table, capacity=capacity, key=HashKey.random(), counters=counters)


def _large_zeros(words: int) -> NDArray[np.uint64]:
    """Return uint64[words] of zeros in huge-paged memory, which is kept for the next array when
    this one is freed.

    A broker keeps its dedupe buffer too. Fresh memory costs a quarter of a second for each
    128 MiB on a virtual machine whose host reclaims free memory.
    """
    try:
        memory: mmap.mmap | None = _spare.pop()
    except IndexError:
        memory = None
    if memory is None or len(memory) < words * 8:
        memory = None  # freed before a larger one is allocated
        # Private: shared memory, the default, gets no huge pages.
        memory = mmap.mmap(-1, words * 8, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            memory.madvise(mmap.MADV_HUGEPAGE)
        entries = np.frombuffer(memory, dtype=np.uint64)
    else:
        entries = np.frombuffer(memory, dtype=np.uint64, count=words)
        entries[:] = 0
    weakref.finalize(entries, _keep, memory).atexit = False
    return entries


def _keep(memory: mmap.mmap) -> None:
    """Keep the larger of two offsets."""
    if not _spare or len(memory) > len(_spare[0]):
        _spare[:] = [memory]


def map_within(
    cleaner: CleanerConfig,
    *,
    keys: int,
    records: int,
    other_bytes: int = 0,
    like_kafka: bool = False,
) -> MapState:
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
        half = max(budget_bytes // 2, min(budget_bytes, 2 * ENTRY_BYTES))
        budget_bytes = max(budget_bytes - other_bytes, half)
    entry_bytes = KAFKA_ENTRY_BYTES if like_kafka else ENTRY_BYTES
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
    return new_map(slots, capacity=capacity, largest=records)


def other_bytes(sources: Iterable[Source], *, per_batch: int = 0) -> int:
    """Return how much memory a first pass takes, apart from the map, that grows with the log: the
    headers of all batches, and two bitmaps with one bit for each record.

    Args:
        per_batch: what it takes besides for each batch.
    """
    batches = records = 0
    for source in sources:
        batches += len(source.batches)
        records += source.records
    return batches * (BATCH.itemsize + per_batch) + records // _RECORDS_PER_BYTE


def expected_keys(distinct: int, remaining: int, *, new: float) -> float:
    """Estimate the number of keys after `remaining` further records, from those that are distinct
    so far and the share of new ones among the latest, as if all keys were equally frequent.
    """
    keys = distinct / max(1 - new, 1e-9)
    return distinct + (keys - distinct) * -expm1(-remaining / keys)


_high_product = intrinsic("high_product")


@inline_kernel
def _home(table: Any, hash2: Any) -> Any:
    """Return the slot where a hash is looked for first: by the bits that its entry does not hold,
    and more.
    """
    entries, bits = table
    word = (hash2 >> np.uint64(bits)) | (hash2 << np.uint64(64 - bits))
    return np.int64(_high_product(word, np.uint64(len(entries) // 2)))


@inline_kernel
def prefetch_slot(table: Any, hash2: Any) -> None:
    """Ask for the cache line of the entry where this hash is looked for first."""
    prefetch(table[0], _home(table, hash2) * 2)


@inline_kernel
def find_slot(table: Any, hash1: Any, hash2: Any) -> Any:
    """Return the index of the entry of this hash, or of the free entry where it belongs."""
    entries, bits = table
    vacated = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    home = _home(table, hash2)
    slot, free = home, np.int64(-1)
    while True:
        at = slot * 2
        word = entries[at + 1]
        if word == np.uint64(0):
            return at if free < 0 else free
        if word == vacated:
            if free < 0:
                free = at
        elif entries[at] == hash1 and word ^ hash2 <= vacated:
            return at
        slot += 1
        if slot == len(entries) // 2:
            slot = np.int64(0)
        if slot == home:
            return free


@inline_kernel
def ordinal_at(table: Any, at: int) -> Any:
    """Return the ordinal of an entry, -1 if it is free."""
    entries, bits = table
    last = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    ordinal = entries[at + 1] & last
    return np.int64(-1) if ordinal == last else np.int64(ordinal) - 1


@inline_kernel
def put_entry(table: Any, at: int, hash1: Any, hash2: Any, ordinal: int) -> None:
    """Write an entry at the slot that `find_slot` returned."""
    entries, bits = table
    entries[at] = hash1
    entries[at + 1] = (hash2 >> np.uint64(bits)) << np.uint64(bits) | np.uint64(ordinal + 1)


@kernel
def evict_upper(table: Any, shard_end: Any) -> Any:
    """Drop all entries whose hash belongs to `shard_end` or above, in place; return how many.

    Nothing is moved. Entries may follow a dropped one, unless an empty entry comes next.
    """
    entries, bits = table
    vacated = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    dropped, is_last = 0, entries[1] == np.uint64(0)
    for at in range(len(entries) - 2, -1, -2):
        word = entries[at + 1]
        is_free = (word == np.uint64(0)) | (word == vacated)
        goes = (entries[at] >> np.uint64(32) >= np.uint64(shard_end)) & (not is_free)
        # No branch: the CPU could not predict it.
        stays = np.uint64(not goes)
        dropped += goes
        entries[at] *= stays
        word = word * stays | vacated * np.uint64(goes)
        word *= np.uint64((word != vacated) | (not is_last))
        entries[at + 1] = word
        is_last = word == np.uint64(0)
    return dropped


@inline_kernel
def set_bit(bits: Any, index: int) -> None:
    """Set one bit of a bitmap, uint8[n]."""
    bits[index >> 3] |= np.uint8(1 << (index & 7))


@inline_kernel
def has_bit(bits: Any, index: int) -> Any:
    """Return whether one bit of a bitmap, uint8[n], is set."""
    return (bits[index >> 3] >> np.uint8(index & 7)) & np.uint8(1) != np.uint8(0)


@kernel
def count_dead(dead: Any, first: int, count: int) -> int:
    """Return how many of the bits [first, first + count) are set."""
    total = np.int64(0)
    position = np.int64(first)
    end = position + np.int64(count)
    while position < end:
        if position & 7 == 0 and position + 8 <= end:
            byte = np.uint64(dead[position >> 3])
            while byte != np.uint64(0):
                byte &= byte - np.uint64(1)
                total += 1
            position += 8
        else:
            total += np.int64((dead[position >> 3] >> np.uint8(position & 7)) & np.uint8(1))
            position += 1
    return total
