"""The automaton finds a pattern exactly where plain search does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logwright.erasure.find.patterns import make_automaton, read_patterns, search_span
from logwright.errors import PolicyError


@settings(deadline=None)
@given(
    st.lists(st.text("ab", min_size=1, max_size=4).map(str.encode), min_size=1, max_size=5),
    st.text("abc", max_size=40).map(str.encode),
)
def test_as_plain_search(patterns: list[bytes], text: bytes) -> None:
    """Few letters make patterns that are parts of each other."""
    data = np.frombuffer(b"ab" + text + b"ab", dtype=np.uint8)
    number = search_span(make_automaton(patterns), data, 2, 2 + len(text))
    assert any(pattern in text for pattern in patterns) == (number >= 0)
    if number >= 0:
        assert patterns[number] in text


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"abc\nab\n", "line 2 has fewer than 3 bytes"),
        (b"abc\n\nabc\n", "line 2 is empty"),
        (b"planted" * 3000, "21000 bytes together, more than 16384"),
    ],
)
def test_patterns_that_are_refused(tmp_path: Path, content: bytes, problem: str) -> None:
    """Short ones are everywhere, many need much memory; none is in the message."""
    path = tmp_path / "patterns"
    path.write_bytes(content)
    with pytest.raises(PolicyError, match=problem) as raised:
        read_patterns(path, "text")
    assert "planted" not in str(raised.value)
