"""One form for each value."""

from __future__ import annotations

import json
import random
from typing import cast

import pytest

from logwright.erasure.certificate.canonical import (
    CorruptCertificate,
    Json,
    canonical,
    parse_canonical,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [True, None, -5]}, '{"a":[true,null,-5],"b":1}'),
        ({"€": 1, "\r": 2, "1": 3, "\x80": 4, "ö": 5}, '{"\\r":2,"1":3,"\x80":4,"ö":5,"€":1}'),
        # RFC 8785, 3.2.3: by UTF-16 code units a character beyond the BMP is before U+FB33
        ({"\ufb33": 1, "\U0001f600": 2}, '{"\U0001f600":2,"\ufb33":1}'),
        ('\x00\x1f\b\t\n\f\r"\\/\x7f', '"\\u0000\\u001f\\b\\t\\n\\f\\r\\"\\\\/\x7f"'),
        (2**63 - 1, "9223372036854775807"),
    ],
)
def test_form(value: object, text: str) -> None:
    """As RFC 8785 has it."""
    assert text.encode() == canonical(cast("Json", value))
    assert value == parse_canonical(text.encode())


@pytest.mark.parametrize("value", [1.0, 2**63, -(2**63) - 1, "\ud800", {1: 2}, b"x", {"a": {3}}])
def test_what_has_no_form(value: object) -> None:
    """Fractions, numbers beyond 64 bits, halves of characters and other types."""
    with pytest.raises(ValueError, match=r"surrog|bits|type|key"):
        canonical(cast("Json", value))


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":1 }',
        b'{"a":1}\n',
        b' {"a":1}',
        b'{"b":1,"a":2}',
        b'{"a":1,"a":1}',
        b'"\\u0041"',
        b'"\\/"',
        b"1.0",
        b"1e3",
        b"-0",
        b"01",
        b"NaN",
        b'"\xff"',
        b'"\\ud800"',
        b"9223372036854775808",
        b"1" * 5_000,
        b"[" * 100_000,
        b"",
    ],
)
def test_other_forms_are_refused(text: bytes) -> None:
    """Even if their value would be the same."""
    with pytest.raises(CorruptCertificate):
        parse_canonical(text)


def test_random_values(seed: int) -> None:
    """Written, read and written again they are the same bytes, and any JSON reader agrees."""
    rng = random.Random(seed)

    def made(depth: int) -> object:
        kind = rng.randrange(6 if depth else 4)
        if kind == 0:
            return rng.choice([None, True, False])
        if kind == 1:
            return rng.randrange(-(2**63), 2**63)
        if kind < 4:
            return "".join(chr(rng.choice([*range(1, 40), 0x7F, 0x2028, 0x1F600])) for _ in "12345")
        if kind == 4:
            return [made(depth - 1) for _ in range(rng.randrange(4))]
        return {str(rng.random()): made(depth - 1) for _ in range(rng.randrange(4))}

    for _ in range(300):
        value = made(3)
        content = canonical(cast("Json", value))
        assert value == parse_canonical(content) == json.loads(content)
        assert content == canonical(parse_canonical(content))
