"""Keyed SipHash-1-3 with 128 bits of output, over spans of a byte array.

Keys of records come from outside: with a random key per cleaning nobody can prepare two that
collide, and by chance it hardly ever happens (docs/adr/0006). The function is the one of Aumasson
and Bernstein with one compression and three finalisation rounds, as in the hash tables of Rust's
standard library.
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
_WIDE = np.uint64(0xEE)
START = (_V0, _V1 ^ _WIDE, _V2, _V3)
"""The state to which the key is added."""
LAST = (_WIDE, np.uint64(0xDD))
"""What is added to the third word of the state when all is absorbed, and to the second one when the
first half of the output is computed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HashKey:
    """The secret of one cleaning: two uint64."""

    low: int
    high: int

    @classmethod
    def random(cls) -> HashKey:
        """Return a new key from the system's randomness. Effects: reads it."""
        return cls(low=secrets.randbits(64), high=secrets.randbits(64))


@inline_kernel
def _rotate(word: Any, bits: Any) -> Any:
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))


@inline_kernel
def sip_round(v0: Any, v1: Any, v2: Any, v3: Any) -> Any:
    """Return the state after one round of SipHash."""
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
def absorb(v0: Any, v1: Any, v2: Any, v3: Any, word: Any) -> Any:
    """Return the state after one more word."""
    v0, v1, v2, v3 = sip_round(v0, v1, v2, v3 ^ word)
    return v0 ^ word, v1, v2, v3


@inline_kernel
def load_tail(data: Any, index: Any, tail: Any) -> Any:
    """Return the little-endian uint64 of 1 to 7 bytes, read as a word if there are more."""
    if index + 8 <= len(data):
        return load_u64(data, index) & ((np.uint64(1) << np.uint64(8 * tail)) - np.uint64(1))
    word = np.uint64(0)
    for at in range(tail):
        word |= np.uint64(data[index + at]) << np.uint64(8 * at)
    return word


@inline_kernel
def last_word(data: Any, index: Any, length: Any) -> Any:
    """Return the word that is absorbed last: the bytes from `index` on that fill no word, and the
    length.
    """
    word = np.uint64(length & 0xFF) << np.uint64(56)
    tail = np.int64(length) & np.int64(7)
    return word | load_tail(data, index, tail) if tail > 0 else word


@inline_kernel
def _first_half(data: Any, start: int, length: int, low: Any, high: Any) -> Any:
    """Return the state when the first half of the output is computed."""
    v0, v1, v2, v3 = START[0] ^ low, START[1] ^ high, START[2] ^ low, START[3] ^ high
    index = np.int64(start)
    words_end = np.int64(start) + (np.int64(length) & ~np.int64(7))
    while index < words_end:
        v0, v1, v2, v3 = absorb(v0, v1, v2, v3, load_u64(data, index))
        index += 8
    v0, v1, v2, v3 = absorb(v0, v1, v2, v3, last_word(data, index, length))
    v2 ^= LAST[0]
    for _ in range(3):
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    return v0, v1, v2, v3


@kernel
def siphash64(data: Any, start: int, length: int, low: Any, high: Any) -> Any:
    """Return the first half of `siphash128`."""
    v0, v1, v2, v3 = _first_half(data, start, length, low, high)
    return v0 ^ v1 ^ v2 ^ v3


@kernel
def siphash128(data: Any, start: int, length: int, low: Any, high: Any) -> Any:
    """Return (uint64, uint64) of data[start : start + length] under the key (low, high); the caller
    checks the bounds.
    """
    v0, v1, v2, v3 = _first_half(data, start, length, low, high)
    first = v0 ^ v1 ^ v2 ^ v3
    v1 ^= LAST[1]
    for _ in range(3):
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    return first, v0 ^ v1 ^ v2 ^ v3
