"""Keyed SipHash-1-3 with 128 bits of output, over spans of a byte array.

Keys of records come from outside: with a random key per cleaning nobody can prepare two that
collide, and by chance it hardly ever happens (docs/adr/0006). The function is the one of Aumasson
and Bernstein with one compression and three finalisation rounds, as in the hash tables of Rust's
standard library.

`hash_keys` hashes many keys in lockstep, so that the CPU does each step for several keys with one
instruction. This is up to twice as fast as one key after the other: most for short keys of the same
length.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

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

LANES: Final = 256
"""Keys that are hashed together."""
_WORTH_IT: Final = 4
"""Fewer keys are faster one by one."""
_LONG_BYTES: Final = 64
"""A longer key is hashed alone: the others would have to wait for it."""

# One array holds it all, so that the compiler sees that nothing in it overlaps.
_AT_V1: Final = LANES
_AT_V2: Final = 2 * LANES
_AT_V3: Final = 3 * LANES
_AT_WORD: Final = 4 * LANES
_AT_COUNT: Final = 5 * LANES
_AT_FIRST: Final = 6 * LANES


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


def lane_buffers() -> NDArray[np.uint64]:
    """Return the memory that `hash_keys` works in."""
    return np.empty(7 * LANES, dtype=np.uint64)


@kernel
def hash_keys(data: Any, spans: Any, first: int, end: int, key: Any, lanes: Any) -> None:
    """Hash the keys [first, end).

    Args:
        spans: two arrays uint64[n], each key's position and length; the halves of its hash
            (`siphash128`) take their place. Bounds are the caller's.
        key: uint64[2]. lanes: of `lane_buffers`.
    """
    for start in range(first, end, LANES):
        count = min(end - start, LANES)
        if count >= _WORTH_IT:
            _hash_block(data, spans, start, count, key, lanes)
            continue
        for index in range(start, start + count):
            _hash_one(data, spans, index, key)


@inline_kernel
def _hash_one(data: Any, spans: Any, index: int, key: Any) -> None:
    at: Any = np.int64(spans[0][index])
    length: Any = np.int64(spans[1][index])
    spans[0][index], spans[1][index] = siphash128(data, at, length, key[0], key[1])


@kernel
def _hash_block(data: Any, spans: Any, start: int, count: int, key: Any, lanes: Any) -> None:
    positions, lengths = spans
    low, high = key[0], key[1]
    least, most = np.uint64(_LONG_BYTES), np.uint64(0)
    for lane in range(count):
        words = lengths[start + lane] >> np.uint64(3)
        words = words if lengths[start + lane] <= np.uint64(_LONG_BYTES) else np.uint64(0)
        least, most = min(least, words), max(most, words)
        lanes[_AT_COUNT + lane] = words
    for lane in range(count):
        lanes[lane], lanes[_AT_V1 + lane] = START[0] ^ low, START[1] ^ high
        lanes[_AT_V2 + lane], lanes[_AT_V3 + lane] = START[2] ^ low, START[3] ^ high
    for word in range(np.int64(most)):
        if np.uint64(word) < least:
            for lane in range(count):
                at = np.int64(positions[start + lane]) + 8 * word
                lanes[_AT_WORD + lane] = load_u64(data, at)
            _absorb_all(lanes, count)
            continue
        for lane in range(count):
            at = np.int64(positions[start + lane]) + 8 * word
            has_word = np.uint64(word) < lanes[_AT_COUNT + lane]
            lanes[_AT_WORD + lane] = load_u64(data, at) if has_word else np.uint64(0)
        _absorb_words(lanes, count, np.uint64(word))
    for lane in range(count):
        at, length = np.int64(positions[start + lane]), np.int64(lengths[start + lane])
        lanes[_AT_WORD + lane] = last_word(data, at + (length & ~np.int64(7)), length)
    _finish(lanes, count)
    for lane in range(count):
        if lengths[start + lane] > np.uint64(_LONG_BYTES):
            _hash_one(data, spans, start + lane, key)
        else:
            positions[start + lane] = lanes[_AT_FIRST + lane]
            lengths[start + lane] = lanes[_AT_WORD + lane]


@kernel
def _absorb_all(lanes: Any, count: int) -> None:
    for lane in range(count):
        v0, v1, v2, v3 = (
            lanes[lane],
            lanes[_AT_V1 + lane],
            lanes[_AT_V2 + lane],
            lanes[_AT_V3 + lane],
        )
        v0, v1, v2, v3 = absorb(v0, v1, v2, v3, lanes[_AT_WORD + lane])
        lanes[lane], lanes[_AT_V1 + lane], lanes[_AT_V2 + lane], lanes[_AT_V3 + lane] = (
            v0,
            v1,
            v2,
            v3,
        )


@kernel
def _absorb_words(lanes: Any, count: int, number: Any) -> None:
    """Absorb the word of this number of the keys that have it."""
    for lane in range(count):
        v0, v1, v2, v3 = (
            lanes[lane],
            lanes[_AT_V1 + lane],
            lanes[_AT_V2 + lane],
            lanes[_AT_V3 + lane],
        )
        n0, n1, n2, n3 = absorb(v0, v1, v2, v3, lanes[_AT_WORD + lane])
        has_word = number < lanes[_AT_COUNT + lane]
        lanes[lane] = n0 if has_word else v0
        lanes[_AT_V1 + lane] = n1 if has_word else v1
        lanes[_AT_V2 + lane] = n2 if has_word else v2
        lanes[_AT_V3 + lane] = n3 if has_word else v3


@kernel
def _finish(lanes: Any, count: int) -> None:
    """Absorb the last word and write the output."""
    for lane in range(count):
        v0, v1, v2, v3 = (
            lanes[lane],
            lanes[_AT_V1 + lane],
            lanes[_AT_V2 + lane],
            lanes[_AT_V3 + lane],
        )
        v0, v1, v2, v3 = absorb(v0, v1, v2, v3, lanes[_AT_WORD + lane])
        v2 ^= LAST[0]
        v0, v1, v2, v3 = sip_round(*sip_round(*sip_round(v0, v1, v2, v3)))
        lanes[_AT_FIRST + lane] = v0 ^ v1 ^ v2 ^ v3
        v1 ^= LAST[1]
        v0, v1, v2, v3 = sip_round(*sip_round(*sip_round(v0, v1, v2, v3)))
        lanes[_AT_WORD + lane] = v0 ^ v1 ^ v2 ^ v3
