"""A broker's server.properties."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.config.properties import MAX_FILE_BYTES, parse_properties, read_properties
from logwright.errors import PolicyError

WHERE = Path("server.properties")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("  a : b ", {"a": "b "}),
        ("a b=c", {"a": "b=c"}),
        ("a", {"a": ""}),
        ("#a=b\n!c=d\r\n\ne=f", {"e": "f"}),
        ("a=b,\\\n   c\nd=e", {"a": "b,c", "d": "e"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a\\ b=\\u0041\\t", {"a b": "A\t"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=b\\", {"a": "b"}),
    ],
)
def test_lines_are_read_as_java_reads_them(text: str, expected: dict[str, str]) -> None:
    """Separators, comments, continued lines and escapes are java.util.Properties'."""
    assert expected == parse_properties(text, WHERE).pairs


def test_a_value_has_the_line_on_which_it_begins() -> None:
    """A logical line is known by the number of its first physical line."""
    assert {"a": 2, "b": 4} == parse_properties("#\na=1,\\\n2\nb=3", WHERE).lines


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    """A missing, oversized or binary file is refused by name."""
    path = tmp_path / "server.properties"
    with pytest.raises(PolicyError, match="cannot be read"):
        read_properties(path)
    path.write_bytes(b"a=\xff")
    with pytest.raises(PolicyError, match="at byte 2: is not UTF-8"):
        read_properties(path)
    path.write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    with pytest.raises(PolicyError, match="larger than"):
        read_properties(path)
