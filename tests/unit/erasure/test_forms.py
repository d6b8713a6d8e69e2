"""Which keys are forms of one: the readings, and the kernel that chooses what is read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logwright.erasure.form_of import form_of
from logwright.erasure.forms import readings
from logwright.erasure.keys import Keys, KeySet
from logwright.erasure.request import Request
from logwright.erasure.secret import Secret

SECRET = Secret.of(b"s" * 32)
WINDOW = (1_760_000_000_000).to_bytes(8, "big")


def framed(schema: int, payload: bytes) -> bytes:
    """The wire format of a schema registry."""
    return b"\0" + schema.to_bytes(4, "big") + payload


def avro(text: bytes) -> bytes:
    """A short string of Avro."""
    return bytes([2 * len(text)]) + text


TEXT = [
    b"c1",
    b'"c1"',
    b' "c1"\n',
    b'"\\u0063\\u0031"',
    framed(7, avro(b"c1")),
    framed(9, avro(b"c1")),
    framed(9, b'"c1"'),
    b'{"schema": {"type": "string", "optional": false}, "payload": "c1"}',
    b"c1" + WINDOW,
    b"c1" + WINDOW + b"\0\0\0\1",
    b"c1" + WINDOW + WINDOW,
    framed(7, avro(b"c1")) + WINDOW,
]
OBJECT = [
    b'{"id":1,"name":"x y"}',
    b'{"id": 1, "name": "x y"}',
    b'{"name": "x y",\n "id": "1"}',
    b'{"schema":{"fields":[{"payload":1}]},"payload":{"id":1,"name":"x y"}}',
    b'{"payload":{"id":1,"name":"x y"},"schema":{"type":"struct"}}',
    framed(7, b'{"id": 1, "name": "x y"}'),
    b'{"id":1,"name":"x\\u0020y"}',
]
BINARY = [framed(7, b"\x02\x04\x06"), framed(9, b"\x02\x04\x06\x08")[:-1]]
RECORD = [framed(7, b"\x02\x08anna"), framed(12, b"\x02\x08anna")]
DIFFERENT = [
    (b'{"id":1.10}', b'{"id":1.1}'),  # by their digits
    (b'{"id":1234567890123456789.0}', b'{"id":1234567890123456788.0}'),
    (b"c1", b"c2"),
    (b"c1", b"c1-and-eight"),  # the end of a text is not a time
    (b"c1", framed(7, avro(b"c12"))),
    (b'{"id":1}', b'{"id":2}'),
    (b'{"id":1}', b'{"id":1,"at":1}'),
    (b'{"a":"b c"}', b'{"a":"bc"}'),
    (b'{"a":["b","c"]}', b'{"a":["c","b"]}'),
    (framed(7, b"\x02\x08anna"), framed(7, b"\x02\x08anne")),
    ((5_000_000_000).to_bytes(8, "big"), (5_000_000_000 + (1 << 24)).to_bytes(8, "big")),
    (b"", b"c1"),
    (b"c1", b'"c1'),
    (b"{", b"["),
]


def look(keys: KeySet, key: bytes) -> tuple[int, int]:
    """The request of a key, and how many other requests it is a form for."""
    (request,), answers = keys.search(Keys.of([key]))
    return int(request), len(answers.others)


def stored(key: bytes) -> KeySet:
    form = form_of(key, SECRET)
    request = Request(
        id="r",
        topics="regex:.*",
        hmac=SECRET.hmac(key),
        filter=SECRET.filter(key),
        received_at_ms=0,
        deadline_ms=1,
        forms=form.hmacs,
        form_filters=form.filters,
    )
    return KeySet.of(SECRET, requests=[request])


@pytest.mark.parametrize("group", [TEXT, OBJECT, RECORD], ids=["text", "object", "record"])
def test_each_form_is_known_from_each(group: Sequence[bytes]) -> None:
    """By a key in clear, and by what is stored of it; the key itself is the request's."""
    for given_key in group:
        for keys in (KeySet.of(SECRET, clear=[given_key]), stored(given_key)):
            for key in group:
                assert ((0, 0) if key == given_key else (-1, 1)) == look(keys, key), (
                    given_key,
                    key,
                )


@pytest.mark.parametrize("group", [TEXT, OBJECT], ids=["text", "object"])
def test_a_decoded_key_is_all_of_its_forms(group: Sequence[bytes]) -> None:
    """Also for an erasure, which does not look for others."""
    keys = KeySet.of(SECRET, clear=[group[0]], decoded=True)
    assert [0] * len(group) == keys.match(Keys.of(group)).requests.tolist()
    assert [(0, 0)] * len(group) == [look(keys, key) for key in group]


@pytest.mark.parametrize(("key", "other"), DIFFERENT)
def test_other_keys_are_no_forms(key: bytes, other: bytes) -> None:
    assert not readings(key) & readings(other)
    assert (-1, 0) == look(KeySet.of(SECRET, clear=[key]), other)
    assert (-1, 0) == look(KeySet.of(SECRET, clear=[other]), key)


def test_a_number_of_eight_bytes_is_no_frame() -> None:
    """Unless a text follows: ids of users are longs, too."""
    assert not readings(BINARY[0]) & readings(BINARY[1])
    assert readings(framed(7, avro(b"c1"))) & readings(framed(9, avro(b"c1")))


def test_two_requests_for_one_key() -> None:
    """Each is the other's form: the record of one is named for the other."""
    keys = KeySet.of(SECRET, clear=[b"c1", b'"c1"'])
    (request,), answers = keys.search(Keys.of([b"c1"]))
    assert (0, {(1, SECRET.hmac(b"c1").hex())}) == (request, answers.others)


def test_a_copy_of_the_topic() -> None:
    """Its keys are named, and not erased; those of other topics are not looked at."""
    keys = KeySet.of(SECRET, clear=[b"c1"], topics="orders")
    copy = keys.for_topic("us.orders")
    assert (-1, 1) == look(copy, b"c1")
    assert copy.is_empty
    assert copy.is_searched
    assert not keys.for_topic("backorders").is_searched
    assert [-1] == copy.match(Keys.of([b"c1"])).requests.tolist()


def test_only_an_hmac() -> None:
    """Other forms of a key that nobody knows cannot be looked for."""
    request = stored(b"c1").requests[0]
    bare = replace(request, forms=(), form_filters=())
    assert {request.hmac.hex()} == KeySet.of(SECRET, requests=[bare]).unformed
    assert not stored(b"c1").unformed


VALUES = st.recursive(
    st.integers(-(10**20), 10**20) | st.text(max_size=6) | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)


@settings(deadline=None, max_examples=200)
@given(VALUES.filter(lambda one: isinstance(one, dict | list | str)), st.booleans(), st.booleans())
def test_the_kernel_misses_no_form_of_json(value: object, ascii_only: bool, indented: bool) -> None:
    """However it is written, alone, after an id or with a schema."""
    plain = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    other = json.dumps(value, ensure_ascii=ascii_only, indent=1 if indented else None).encode()
    keys = KeySet.of(SECRET, clear=[plain])
    for key in (other, framed(3, other), b'{"schema":null,"payload":' + other + b"}"):
        if key != plain and readings(key) & readings(plain):
            assert (-1, 1) == look(keys, key)
