"""The table of requested keys: several keys with one filter, which is rare by chance."""

from __future__ import annotations

import numpy as np
import pytest

from logwright.erasure.match import CANDIDATES, NO_MATCH, UNKNOWN, make_table, match_key, may_match


@pytest.mark.parametrize(
    ("key", "filter_", "expected"),
    [
        (b"ab", 7, 1),
        (b"cd", 7, 2),
        (b"", 7, 3),
        (b"xy", 7, NO_MATCH),
        (b"abc", 7, NO_MATCH),
        (b"a", 7, NO_MATCH),
        (b"ab", 5, NO_MATCH),
        (b"ab", 9, CANDIDATES - 4),
        (b"ef", 9, 5),
        (b"ab", 10, CANDIDATES - 6),
        (b"ab", 8, NO_MATCH),
    ],
)
def test_entries_with_one_filter(key: bytes, filter_: int, expected: int) -> None:
    """Only the bytes decide; where one is known by its HMAC only, the first such entry is given."""
    filters = np.array([5, 7, 7, 7, 9, 9, 10, 10], dtype=np.uint32)
    keys = [b"zz", b"ab", b"cd", b"", None, b"ef", None, None]
    lengths = np.array([UNKNOWN if one is None else len(one) for one in keys], dtype=np.int64)
    data = np.frombuffer(b"".join(one or b"" for one in keys), dtype=np.uint8)
    starts = np.cumsum(np.maximum(lengths, 0)) - np.maximum(lengths, 0)
    table = make_table(filters, (starts, lengths), data, np.zeros(2, dtype=np.uint64))
    buffer = np.frombuffer(b"|" + key + b"|", dtype=np.uint8)
    hash_ = np.uint64(filter_ | 0xABC << 32)  # only the low bits are the filter
    assert expected == match_key(table, hash_, buffer, 1, len(key))
    assert expected == NO_MATCH or may_match_here(table, hash_)


def may_match_here(table: object, hash_: np.uint64) -> bool:
    """The inline kernel, as Python reads it."""
    return bool(may_match.function(table, hash_))  # type: ignore[attr-defined]
