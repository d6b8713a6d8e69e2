"""Keyed SipHash-1-3 with 128 bits of output, over spans of a byte array.

Keys of records come from outside: with a random key per cleaning nobody can prepare two that
collide, and by chance two of 50 million do so with a probability of 4e-24 (docs/adr/0006). The
function is the one of Aumasson and Bernstein with one compression and three finalisation rounds, as
in the hash tables of Rust's standard library.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

import numpy as np

from logwright.format.crc import load_u64
from logwright.kernel import inline_kernel, kernel

_V0 = np.uint64(0x736F6D6570736575)
_V1 = np.uint64(0x646F72616E646F6D)
_V2 = np.uint64(0x6C7967656E657261)
_V3 = np.uint64(0x7465646279746573)


@dataclass(frozen=True, slots=True, kw_only=True)
class HashKey:
    """The secret of one cleaning: two uint64."""

    low: int
    high: int

    @classmethod
    def random(cls) -> HashKey:
        """A new one from the system's randomness. Effects: reads it."""
        return cls(low=secrets.randbits(64), high=secrets.randbits(64))


@inline_kernel
def _rotate(word: Any, bits: Any) -> Any:
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))


@inline_kernel
def _round(v0: Any, v1: Any, v2: Any, v3: Any) -> Any:
    v0 = v0 + v1
    v1 = _rotate(v1, 13) ^ v0
    v0 = _rotate(v0, 32)
    v2 = v2 + v3
    v3 = _rotate(v3, 16) ^ v2
    v0 = v0 + v3
    v3 = _rotate(v3, 21) ^ v0
    v2 = v2 + v1
    v1 = _rotate(v1, 17) ^ v2
    v2 = _rotate(v2, 32)
    return v0, v1, v2, v3


@inline_kernel
def load_tail(data: Any, index: Any, tail: Any) -> Any:
    """Little-endian uint64 of 1 to 7 bytes: read as a word where there are more."""
    if index + 8 <= len(data):
        return load_u64(data, index) & ((np.uint64(1) << np.uint64(8 * tail)) - np.uint64(1))
    word = np.uint64(0)
    for at in range(tail):
        word |= np.uint64(data[index + at]) << np.uint64(8 * at)
    return word


@inline_kernel
def _absorb(data: Any, start: int, length: int, low: Any, high: Any) -> Any:
    """The state when the first half of the output is there."""
    v0 = _V0 ^ low
    v1 = _V1 ^ high ^ np.uint64(0xEE)
    v2 = _V2 ^ low
    v3 = _V3 ^ high
    index = np.int64(start)
    words_end = np.int64(start) + (np.int64(length) & ~np.int64(7))
    while index < words_end:
        word = load_u64(data, index)
        v3 ^= word
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 ^= word
        index += 8
    word = np.uint64(length & 0xFF) << np.uint64(56)
    tail = np.int64(length) & np.int64(7)
    if tail > 0:
        word |= load_tail(data, index, tail)
    v3 ^= word
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0 ^= word
    v2 ^= np.uint64(0xEE)
    for _ in range(3):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0, v1, v2, v3


@kernel
def siphash64(data: Any, start: int, length: int, low: Any, high: Any) -> Any:
    """The first half of `siphash128`."""
    v0, v1, v2, v3 = _absorb(data, start, length, low, high)
    return v0 ^ v1 ^ v2 ^ v3


@kernel
def siphash128(data: Any, start: int, length: int, low: Any, high: Any) -> Any:
    """(uint64, uint64) of data[start : start + length] under the key (low, high); bounds are the
    caller's.
    """
    v0, v1, v2, v3 = _absorb(data, start, length, low, high)
    first = v0 ^ v1 ^ v2 ^ v3
    v1 ^= np.uint64(0xDD)
    for _ in range(3):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return first, v0 ^ v1 ^ v2 ^ v3
