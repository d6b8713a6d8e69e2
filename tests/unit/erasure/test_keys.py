"""Which request a key belongs to, against a dictionary."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from logwright.erasure.keys import Keys, KeySet
from logwright.erasure.request import Request
from logwright.erasure.secret import Secret
from logwright.units import INT64_MAX

SECRET = Secret.of(b"s" * 32)


def as_request(key: bytes, *, topics: str = "regex:.*", has_filter: bool = True) -> Request:
    return Request(
        id=key.hex() or "empty",
        topics=topics,
        hmac=SECRET.hmac(key),
        filter=SECRET.filter(key) if has_filter else None,
        received_at_ms=0,
        deadline_ms=1,
    )


def as_keys(keys: Sequence[bytes | None]) -> Keys:
    """The keys one after the other, with a byte in between."""
    lengths = np.array([-1 if key is None else len(key) for key in keys], dtype=np.int64)
    starts = np.zeros(len(keys), dtype=np.int64)
    joined = b""
    for index, key in enumerate(keys):
        starts[index] = len(joined)
        joined += (key or b"") + b"|"
    return Keys(np.frombuffer(joined, dtype=np.uint8), starts, lengths)


KEYS = st.lists(st.binary(max_size=12), max_size=30, unique=True)


@settings(deadline=None)
@given(KEYS, KEYS, KEYS, KEYS)
def test_as_a_dictionary(
    clear: list[bytes], stored: list[bytes], digests: list[bytes], others: list[bytes]
) -> None:
    """Keys in clear, requests with a filter and those with an HMAC only, in one set."""
    stored = [key for key in stored if key not in clear]
    digests = [key for key in digests if key not in clear and key not in stored]
    requests = [as_request(key) for key in stored]
    requests += [as_request(key, has_filter=False) for key in digests]
    keys = KeySet.of(SECRET, requests=requests, clear=clear)
    indexes = {key: index for index, key in enumerate([*stored, *digests, *clear])}
    candidates = [None, *clear, *stored, *others, *digests, *others]
    expected = [-1 if key is None else indexes.get(key, -1) for key in candidates]
    assert expected == keys.match(as_keys(candidates)).requests.tolist()
    assert len(indexes) == len(keys)
    assert [SECRET.hmac(key) for key in indexes] == [keys.request(n).hmac for n in range(len(keys))]


def test_many_keys() -> None:
    """100,000 keys, of which the filters of some are equal by chance, and as many others."""
    draw = random.Random(7)
    keys = [draw.randbytes(draw.randrange(1, 20)) for _ in range(100_000)]
    clear = list(dict.fromkeys(keys))
    others = [key + b"x" for key in clear]
    keys_ = as_keys([*clear[:5000], *others[:5000]])
    matches = KeySet.of(SECRET, clear=clear).match(keys_).requests
    expected = {key: index for index, key in enumerate(clear)}
    assert [expected.get(key, -1) for key in [*clear[:5000], *others[:5000]]] == matches.tolist()


def test_one_filter_for_several_keys() -> None:
    """Only the exact comparison decides: entries whose filters are equal, of both kinds."""
    filter_ = SECRET.filter(b"a")
    requests = [
        Request(
            id=key.decode(),
            topics="t",
            hmac=SECRET.hmac(key),
            filter=filter_,
            received_at_ms=0,
            deadline_ms=0,
        )
        for key in (b"x", b"y", b"a")
    ]
    keys = KeySet.of(SECRET, requests=requests).for_topic("t")
    assert [2, -1, -1] == keys.match(as_keys([b"a", b"x", b"b"])).requests.tolist()


def test_the_topics_of_a_request() -> None:
    """A key is requested from a topic, or from those whose whole names match; indexes stay."""
    requests = [
        as_request(b"a", topics="orders"),
        as_request(b"b", topics="regex:ord.*"),
        as_request(b"a", topics="regex:ord", has_filter=False),
    ]
    keys = KeySet.of(SECRET, requests=requests, clear=[b"c"], topics="customers")
    candidates = as_keys([b"a", b"b", b"c"])
    expected = {
        "orders": [0, 1, -1],
        "orders2": [-1, 1, -1],
        "ord": [2, 1, -1],
        "customers": [-1, -1, 3],
        "x": [-1, -1, -1],
    }
    assert expected == {
        topic: keys.for_topic(topic).match(candidates).requests.tolist() for topic in expected
    }
    assert ["x"] == [topic for topic in expected if keys.for_topic(topic).is_empty]
    assert keys.for_topic("orders") is keys.for_topic("orders")
    assert b"c" == keys.clear_key(3)
    assert keys.clear_key(0) is None
    assert "line 1" == keys.request(3).id


def test_nothing_shows_a_key() -> None:
    """A set in a message or a traceback does not give its keys away."""
    keys = KeySet.of(SECRET, clear=[b"planted"], requests=[as_request(b"stored")])
    assert "planted" not in repr(keys)
    assert str(list(b"planted"))[1:-1] not in repr(keys)


def test_deadlines() -> None:
    """The first of the stored requests for each key, as far as they are about the topic."""
    requests = [
        replace(as_request(b"a"), deadline_ms=5),
        replace(as_request(b"b", topics="t"), deadline_ms=4),
        replace(as_request(b"a", topics="u"), deadline_ms=3),
    ]
    keys = KeySet.of(SECRET, requests=requests, clear=[b"c"], deadline_ms=1)
    for indexes, topic, expected in (
        ([0, 1, 0], "t", [5, 4, 5]),
        ([0, 2], "u", [3, 3]),
        ([-1, 3], "t", [INT64_MAX] * 2),
        ([], "t", []),
    ):
        deadlines = keys.deadlines_ms(np.array(indexes, dtype=np.int64), topic)
        assert expected == deadlines.tolist()
