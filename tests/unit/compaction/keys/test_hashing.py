"""Keys that are hashed together have the hashes that each has alone."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from logwright.compaction.keys.hashing import LANES, hash_keys, lane_buffers
from tests import twins


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
    for number, one in enumerate(keys):
        expected = (int(positions[number]), len(one))
        if number >= first:
            expected = twins.siphash128(one, low, high)
        assert expected == (int(spans[0][number]), int(spans[1][number])), number
