"""Kernels that look a key up among any number of requested ones.

1. One bit for each of the filter's low bits: most keys are not requested, and end here.
2. A table of the filters' 32 bits gives the first entry with that filter.
3. The entries of that filter are compared: the bytes, if the requested key is known in clear. For a
   request that is only known by its HMAC the kernel returns a candidate, and the caller compares
   the HMACs.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.compaction.keys.siphash import siphash64
from logwright.kernel import inline_kernel, kernel

NO_MATCH: Final = -1
CANDIDATES: Final = -2
"""This, and all below it: the entries from `CANDIDATES` - code on have the key's filter, and one is
known by its HMAC only."""
UNKNOWN: Final = -1
"""The length of a requested key that is only known by its HMAC."""

_BITS_EACH: Final = 32
_SMALLEST_BITS: Final = 1 << 12
_LARGEST_BITS: Final = 1 << 27
_SPREAD: Final = 0x9E3779B1
"""Knuth's multiplicative hash, 2^32 / golden ratio: the low bits of the filter chose the bit."""


class MatchTable(NamedTuple):
    """The requested keys, as the kernels read them.

    Attributes:
        hash_key: uint64[2], of the filter.
        bits: uint64[m / 64], m a power of two.
        slots: int32[k], k a power of two; number of the first entry with a filter + 1, 0: free.
        filters: uint32[n], ascending.
        starts, lengths: int64[n], of the key in `keys`; a length of `UNKNOWN`.
        keys: uint8[...].
    """

    hash_key: NDArray[np.uint64]
    bits: NDArray[np.uint64]
    slots: NDArray[np.int32]
    filters: NDArray[np.uint32]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    keys: NDArray[np.uint8]


def make_table(
    filters: NDArray[np.uint32],
    spans: tuple[NDArray[np.int64], NDArray[np.int64]],
    keys: NDArray[np.uint8],
    hash_key: NDArray[np.uint64],
) -> MatchTable:
    """Return the table of these entries.

    Args:
        filters: uint32[n], ascending. spans: starts and lengths in `keys`, int64[n].
    """
    wanted = min(max(_BITS_EACH * len(filters), _SMALLEST_BITS), _LARGEST_BITS)
    bits = np.zeros((1 << (wanted - 1).bit_length()) // 64, dtype=np.uint64)
    slots = np.zeros(1 << max(2 * len(filters), 8).bit_length(), dtype=np.int32)
    table = MatchTable(hash_key, bits, slots, filters, spans[0], spans[1], keys)
    _fill(table)
    return table


@kernel
def _fill(table: Any) -> None:
    bits, slots, filters = table.bits, table.slots, table.filters
    for entry in range(len(filters)):
        filter_ = np.uint64(filters[entry])
        at = filter_ & np.uint64(64 * len(bits) - 1)
        bits[at >> np.uint64(6)] |= np.uint64(1) << (at & np.uint64(63))
        if entry > 0 and filters[entry - 1] == filters[entry]:
            continue
        slot = _home(slots, filter_)
        while slots[slot] != 0:
            slot = (slot + 1) & (len(slots) - 1)
        slots[slot] = entry + 1


@inline_kernel
def _home(slots: Any, filter_: Any) -> Any:
    spread = (filter_ * np.uint64(_SPREAD)) & np.uint64(0xFFFFFFFF)
    return np.int64(spread >> np.uint64(4)) & (len(slots) - 1)


@inline_kernel
def may_match(table: Any, hash_: Any) -> Any:
    """Return whether a key with this hash, uint64, may be requested; true for few others."""
    bits = table.bits
    at = hash_ & np.uint64(64 * len(bits) - 1)
    return (bits[at >> np.uint64(6)] >> (at & np.uint64(63))) & np.uint64(1) != np.uint64(0)


@kernel
def match_key(table: Any, hash_: Any, data: Any, start: int, length: int) -> Any:
    """Return the entry of the key data[start : start + length], `NO_MATCH`, or a code for
    candidates.
    """
    slots, filters = table.slots, table.filters
    starts, lengths, keys = table.starts, table.lengths, table.keys
    filter_ = hash_ & np.uint64(0xFFFFFFFF)
    slot = _home(slots, filter_)
    while slots[slot] != 0:
        first = np.int64(slots[slot]) - 1
        if np.uint64(filters[first]) == filter_:
            unknown = False
            entry = first
            while entry < len(filters) and np.uint64(filters[entry]) == filter_:
                if lengths[entry] == UNKNOWN:
                    unknown = True
                elif lengths[entry] == length:
                    at, same = np.int64(0), np.int64(starts[entry])
                    while at < length and data[start + at] == keys[same + at]:
                        at += 1
                    if at == length:
                        return entry
                entry += 1
            return np.int64(CANDIDATES) - first if unknown else np.int64(NO_MATCH)
        slot = (slot + 1) & (len(slots) - 1)
    return np.int64(NO_MATCH)


@kernel
def match_keys(table: Any, data: Any, starts: Any, lengths: Any, out: Any) -> Any:
    """Look up keys; a length below 0 stands for null. Bounds are the caller's.

    Args:
        starts, lengths: int64[n]. out: int64[n], what `match_key` returns.

    Returns:
        how many have candidates.
    """
    low, high = table.hash_key[0], table.hash_key[1]
    unsure = np.int64(0)
    for index in range(len(starts)):
        out[index] = NO_MATCH
        if lengths[index] < 0:
            continue
        hash_ = siphash64(data, starts[index], lengths[index], low, high)
        if may_match(table, hash_):
            out[index] = match_key(table, hash_, data, starts[index], lengths[index])
            unsure += out[index] <= CANDIDATES
    return unsure
