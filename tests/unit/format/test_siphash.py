"""The keyed hash: the twin against the authors' vectors, the kernel against the twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from logwright.format.siphash import (
    LANES,
    HashKey,
    hash_keys,
    lane_buffers,
    siphash64,
    siphash128,
)
from tests import twins

# The first vectors of SipHash-2-4-128 for the key 00 01 .. 0f, by length of the input 00 01 02 ...
REFERENCE_2_4 = {
    0: "a3817f04ba25a8e66df67214c7550293",
    1: "da87c1d86b99af44347659119b22fc45",
    2: "8177228da4a45dc7fca38bdef60affe4",
    3: "9c70b60c5267a94e5f33b6b02985ed51",
}
KEY_LOW = int.from_bytes(bytes(range(8)), "little")
KEY_HIGH = int.from_bytes(bytes(range(8, 16)), "little")


@pytest.mark.parametrize(("length", "expected"), REFERENCE_2_4.items())
def test_the_twin_computes_the_published_vectors(length: int, expected: str) -> None:
    """The structure is the authors'; the number of rounds is a parameter."""
    first, second = twins.siphash128(bytes(range(length)), KEY_LOW, KEY_HIGH, rounds=(2, 4))
    got = first.to_bytes(8, "little") + second.to_bytes(8, "little")
    assert bytes.fromhex(expected) == got


@given(st.binary(max_size=70), st.integers(0, 5), st.integers(0, 2**64 - 1))
def test_the_kernel_is_the_twin(data: bytes, start: int, key: int) -> None:
    """For any bytes at any position, under any key."""
    padded = np.frombuffer(bytes(start) + data + b"tail", dtype=np.uint8)
    low, high = np.uint64(key), np.uint64(key ^ 0x5555)
    first, second = siphash128(padded, start, len(data), low, high)
    assert twins.siphash128(data, key, key ^ 0x5555) == (int(first), int(second))
    assert first == siphash64(padded, start, len(data), low, high)


def test_two_keys_are_never_the_same() -> None:
    """Each cleaning has a secret of its own."""
    assert HashKey.random() != HashKey.random()


@given(
    keys=st.lists(st.binary(max_size=90), min_size=1, max_size=40),
    first=st.integers(0, 3),
    secret=st.integers(0, 2**64 - 1),
)
@example(keys=[b"%d" % number for number in range(2 * LANES + 5)], first=1, secret=7)
@example(keys=[bytes(number % 70) for number in range(LANES + 3)], first=0, secret=1)
def test_each_key_has_the_hash_that_it_has_alone(
    keys: list[bytes], first: int, secret: int
) -> None:
    """Of whatever lengths, up to the last byte of the data; the keys before `first` are left."""
    data = np.frombuffer(b"".join(keys) or b"-", dtype=np.uint8)
    lengths = np.array([len(key) for key in keys], dtype=np.uint64)
    positions = np.cumsum(lengths, dtype=np.uint64) - lengths
    spans = (positions.copy(), lengths.copy())
    low, high = secret, secret ^ 0x5555
    key = np.array([low, high], dtype=np.uint64)
    hash_keys(data, spans, min(first, len(keys)), len(keys), key, lane_buffers())
    for number, own in enumerate(keys):
        expected = (int(positions[number]), len(own))
        if number >= first:
            expected = twins.siphash128(own, low, high)
        assert expected == (int(spans[0][number]), int(spans[1][number])), number
