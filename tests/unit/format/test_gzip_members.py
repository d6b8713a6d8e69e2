"""A gzip payload of several members, which the JDK reads one after the other."""

from __future__ import annotations

import gzip
import random
import zlib

import pytest

from logwright.format.codec import GZIP, decompress
from logwright.format.limits import CodecError

LIMIT = 1 << 20


def test_many_empty_gzip_members_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is given little more than its own bytes, so that time grows as the payload does."""
    given: list[int] = []
    new = zlib.decompressobj

    class Counting:
        """A decompressor that notes how many bytes it is given."""

        def __init__(self, wbits: int) -> None:
            self._real = new(wbits=wbits)

        def decompress(self, content: memoryview, most: int) -> bytes:
            given.append(len(content))
            return self._real.decompress(content, most)

        @property
        def eof(self) -> bool:
            return self._real.eof

        @property
        def unused_data(self) -> bytes:
            return self._real.unused_data

    monkeypatch.setattr(zlib, "decompressobj", Counting)
    empty = gzip.compress(b"")
    payload = gzip.compress(b"first") + empty * 5000 + gzip.compress(b"last")
    assert b"firstlast" == decompress(GZIP, payload, limit=LIMIT)
    assert sum(given) <= 30 * len(payload)


@pytest.mark.parametrize("size", [511, 512, 513, 1536, 100_000])
def test_gzip_members_of_any_size_follow_each_other(size: int) -> None:
    """Also where a member ends at the end of what it was given."""
    content = random.Random(size).randbytes(size)
    payload = gzip.compress(content) + gzip.compress(content[:1], 0) + gzip.compress(content)
    expected = content + content[:1] + content
    assert expected == decompress(GZIP, payload, limit=len(expected))
    with pytest.raises(CodecError):
        decompress(GZIP, payload, limit=len(expected) - 1)
