"""Patterns of policies and requests: whole texts, in linear time, without what RE2 cannot do."""

from __future__ import annotations

import pytest

from logwright.config.patterns import NOT_LINEAR, compiling, is_pattern, matches


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("a|ab", "ab", True),
        ("(orders|payments).*", "orders-2", True),
        ("orders", "orders-2", False),
        ("rders", "orders", False),
        (".*", "ä.\U0001f642", True),
        (".", "\n", False),
        ("[0-9]+", "\u0661", False),
        (r"\d", "\u0661", False),
    ],
)
def test_whole_texts(pattern: str, text: str, expected: bool) -> None:
    """The pattern matches all of a text; a digit is one of ASCII."""
    assert expected == matches(pattern, text)


@pytest.mark.parametrize("pattern", ["(", "[", r"(a)\1", "(?=a)", "(?<!a)b", "(a{1000}){1000}"])
def test_what_is_refused(pattern: str) -> None:
    """Malformed, not linear, or larger than the memory of one pattern."""
    assert not is_pattern(pattern)
    with pytest.raises(ValueError, match=NOT_LINEAR):
        compiling(pattern)
    assert "a+" == compiling("a+")
