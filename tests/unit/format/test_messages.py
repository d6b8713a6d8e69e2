"""Kafka's messages: lengths that do not fit are refused before anything is allocated."""

from __future__ import annotations

import pytest

from logwright.format.messages import Field, MalformedMessage, Message, read_message, read_varint

MESSAGE = Message(
    (
        Field("numbers", "[]int16", nullable_since=0),
        Field("late", "string", since=1, tag=3),
    ),
    latest=1,
    flexible_since=0,
)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\x01", (1, 1)),
        (b"\xff\x01", (255, 2)),
        (b"\xff\xff\xff\xff\x0f", (2**32 - 1, 5)),
        (b"\x80\x80\x80\x80\x70", (0, 5)),
    ],
)
def test_varints(content: bytes, expected: tuple[int, int]) -> None:
    """Bits above the 32nd are dropped, as ByteUtils does."""
    assert expected == read_varint(content, 0)


@pytest.mark.parametrize(
    ("version", "content", "expected"),
    [
        (0, b"\x03\x00\x01\xff\xff\x00", {"numbers": [1, -1]}),
        (0, b"\x00\x00", {"numbers": None}),
        (1, b"\x01\x01\x03\x02\x02x", {"numbers": [], "late": "x"}),
        (1, b"\x01\x01\x04\x01x", {"numbers": []}),
    ],
)
def test_fields(version: int, content: bytes, expected: dict[str, object]) -> None:
    """Arrays of numbers, null, tagged fields; a tag that is unknown is ignored."""
    assert expected == read_message(MESSAGE, content, 0, version)


@pytest.mark.parametrize(
    ("version", "content", "reason"),
    [
        (2, b"\x01\x00", "has an unknown version"),
        (0, b"\x05\x00\x00\x00\x00\x00", "more than the bytes that are left"),
        (0, b"\xff\xff\xff\xff\x0f\x00", "more than the bytes that are left"),
        (0, b"\x01\x01\x03\x02\x02x", "that its version does not have"),
        (1, b"\x01\x01\x03\x03\x02xy", "of another size"),
        (1, b"\x01\x02\x04\x00\x03\x02\x02x", "out of order"),
        (1, b"\x01\x00\x00", "bytes left"),
        (1, b"", "more than the bytes that are left"),
    ],
)
def test_malformed(version: int, content: bytes, reason: str) -> None:
    """The reason has nothing of the content."""
    with pytest.raises(MalformedMessage, match=reason):
        read_message(MESSAGE, content, 0, version)
