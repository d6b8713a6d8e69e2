"""The offset map: which record of each key is the latest (SkimpyOffsetMap's role, cleaning.md of
Kafka 4.3.0).

1. A key is known by its 128-bit keyed hash; an entry is the hash and the record's ordinal, 24
   bytes, as in Kafka.
2. Of two records with one key the one with the smaller ordinal is superseded: its bit in the dead
   bitmap is set.
   That is all a second pass needs: neither keys nor map.
3. The slot is the hash scaled to the table (no power of two is needed), probing is linear.
4. The table takes the memory it was given and never more. When it is full, either the map ends
   there, as Kafka's does, or the hashes are cut into shards: entries of all but the first are
   dropped, and the keys are read once more for each other one afterwards. Bits that were set stay
   true, so nothing is lost or counted twice.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from math import expm1
from typing import Any, Final

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from logwright.compaction.siphash import HashKey
from logwright.kernel import inline_kernel, kernel

ENTRY_BYTES: Final = 24
"""16 of hash and 8 of ordinal; Kafka's entries have the same size."""
SHARD_SPACE: Final = 1 << 32
"""Shards are ranges of the upper 32 bits of the hash's second half."""

PREFETCH_DISTANCE: Final = 16


@dataclass(slots=True, kw_only=True)
class MapState:
    """What the kernels share about one map; they change `counters`.

    Attributes:
        table: uint64[slots * 3].
        capacity: keys it takes.
        counters: int64[5]: distinct keys, null-key records marked, offset of the last record put,
            records offered, status of the last window.
    """

    table: NDArray[np.uint64]
    capacity: int
    key: HashKey
    counters: NDArray[np.int64]


DISTINCT: Final = 0
NULL_KEYS: Final = 1
LATEST: Final = 2
OFFERED: Final = 3
FULL: Final = 4


def new_map(slots: int, *, capacity: int) -> MapState:
    """An empty map of `slots` entries in fresh, huge-paged memory, of which `capacity` may be
    used.
    """
    size = max(slots * ENTRY_BYTES, mmap.PAGESIZE)
    # Private: what is shared, the default, gets no huge pages.
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    table = np.frombuffer(memory, dtype=np.uint64, count=slots * 3)
    counters = np.zeros(5, dtype=np.int64)
    counters[LATEST] = -1
    return MapState(table=table, capacity=capacity, key=HashKey.random(), counters=counters)


def expected_keys(distinct: int, remaining: int, *, new: float) -> float:
    """How many keys there will be after so many more records, by those which are distinct so far
    and the share of new ones among the latest: as many as if each key were as frequent as any
    other.
    """
    keys = distinct / max(1 - new, 1e-9)
    return distinct + (keys - distinct) * -expm1(-remaining / keys)


@intrinsic
def _high_product(_typing: Any, left: Any, right: Any) -> Any:
    """Upper 64 bits of the product of two uint64."""
    signature = types.uint64(types.uint64, types.uint64)

    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, wide(64)), ir.IntType(64))

    return signature, codegen


@intrinsic
def _prefetch(_typing: Any, array: Any, index: Any) -> Any:
    """Ask for the cache line of array[index]."""
    signature = types.void(array, types.int64)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        target = context.make_array(signature.args[0])(context, builder, args[0])
        i32 = ir.IntType(32)
        pointer = builder.bitcast(builder.gep(target.data, [args[1]]), ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer(), i32, i32, i32])
        function = builder.module.declare_intrinsic(
            "llvm.prefetch", tys=[ir.IntType(8).as_pointer()], fnty=kind
        )
        builder.call(function, [pointer, i32(1), i32(3), i32(1)])
        return context.get_dummy_value()

    return signature, codegen


@inline_kernel
def set_bit(bits: Any, index: int) -> None:
    """Set one bit of a bitmap, uint8[n]."""
    bits[index >> 3] |= np.uint8(1 << (index & 7))


@inline_kernel
def has_bit(bits: Any, index: int) -> Any:
    """Whether one bit of a bitmap, uint8[n], is set."""
    return (bits[index >> 3] >> np.uint8(index & 7)) & np.uint8(1) != np.uint8(0)


@inline_kernel
def prefetch_slot(table: Any, hash1: Any) -> None:
    """Ask for the cache lines, one or two, of the entry where this hash is looked for first."""
    at = np.int64(_high_product(hash1, np.uint64(len(table) // 3))) * 3
    _prefetch(table, at)
    _prefetch(table, at + 2)


@inline_kernel
def find_slot(table: Any, hash1: Any, hash2: Any) -> Any:
    """Index of the entry of this hash, or of the empty one where it belongs; the table is never
    full.
    """
    slots = np.uint64(len(table) // 3)
    slot = np.int64(_high_product(hash1, slots))
    while True:
        at = slot * 3
        if table[at + 2] == np.uint64(0) or (table[at] == hash1 and table[at + 1] == hash2):
            return at
        slot += 1
        if slot == np.int64(slots):
            slot = np.int64(0)


@kernel
def evict_upper(table: Any, shard_end: Any) -> Any:
    """Drop all entries whose hash belongs to `shard_end` or above, in place; how many were
    dropped.

    From an empty slot on, each entry is taken out and, if it stays, put where it is now looked for
    first: no further than where it was, since all between its home and there was taken out before.
    """
    slots = np.int64(len(table) // 3)
    start, dropped = np.int64(0), 0
    while table[start * 3 + 2] != np.uint64(0):
        start += 1
    for step in range(slots):
        at = (start + step) % slots * 3
        hash1, hash2, entry = table[at], table[at + 1], table[at + 2]
        if entry == np.uint64(0):
            continue
        table[at + 2] = np.uint64(0)
        if hash2 >> np.uint64(32) >= np.uint64(shard_end):
            dropped += 1
            continue
        at = find_slot(table, hash1, hash2)
        table[at], table[at + 1], table[at + 2] = hash1, hash2, entry
    return dropped
