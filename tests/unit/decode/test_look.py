"""What bytes look like: a guess that says of how many it is."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from logwright.decode.look import MOST, look_at

FRAMED = b"\0\0\0\0\x07\x06Ada"
REGISTRY = "the wire format of a schema registry"
JSON = json.dumps({"a": 1}).encode()


@pytest.mark.parametrize(
    ("contents", "expected"),
    [
        ([JSON] * 10, "10 of 10 values looked at look like JSON"),
        ([JSON, None, None], "the value looks like JSON"),
        ([JSON] * 9 + [b"{"], "9 of 10 values looked at look like JSON"),
        ([JSON] * 8 + [b"{"] * 2, "10 of 10 values looked at look like UTF-8"),
        ([b"[1]", b"text", "\u00e9".encode()], "3 of 3 values looked at look like UTF-8"),
        ([FRAMED] * 2, f"2 of 2 values looked at look like {REGISTRY}"),
        ([(7).to_bytes(8, "big")] * 3, None),
        ([(7).to_bytes(4, "big")] * 3, None),
        ([b"\0\0\0\0\0Ada"] * 3, None),
        ([b"\xff\xfe"] * 3, None),
        ([b""] * 3, None),
        ([None], None),
        ([], None),
        ([FRAMED, b"text"], None),
        ([b"[" * 100_000], "the value looks like UTF-8"),
        ([b'{"a":' * 100_000], "the value looks like UTF-8"),
    ],
)
def test_most_decide(contents: list[bytes | None], expected: str | None) -> None:
    """Nine of ten; JSON that is not all of it is text."""
    look = look_at("value", contents)
    assert expected == (None if look is None else look.sentence)


def test_no_more_is_taken_than_is_looked_at() -> None:
    """A sample of `MOST` is enough."""

    def many() -> Iterator[bytes | None]:
        for _ in range(MOST):
            yield None
            yield b"k"
        raise AssertionError

    look = look_at("key", many())
    assert look is not None
    assert (f"{MOST} of {MOST} keys looked at look like UTF-8", "string") == look
