"""Files of keys: nothing that a program may have added is taken for a key in silence."""

from __future__ import annotations

import base64
import codecs
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from logwright.config.key_words import KeysFormat
from logwright.erasure.key_text import CONTROL, INVISIBLE, NOT_UTF8, QUOTES, WHITE_SPACE
from logwright.erasure.keys_file import MIXED, read_keys
from logwright.errors import PolicyError

PLANTED = "planted"


def written(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "keys"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("content", "form", "expected"),
    [
        (b"alice\nbob\n", "text", [b"alice", b"bob"]),
        (b"alice\nbob", "text", [b"alice", b"bob"]),
        (b"alice\r\nbob\r\n", "text", [b"alice", b"bob"]),
        (b"alice\r\nbob", "text", [b"alice", b"bob"]),
        (base64.b64encode(b"a\nb") + b"\n" + base64.b64encode(b"\0"), "base64", [b"a\nb", b"\0"]),
        (b"00ff\n616C\n", "hex", [b"\0\xff", b"al"]),
    ],
)
def test_a_file_of_keys(
    tmp_path: Path, content: bytes, form: KeysFormat, expected: list[bytes]
) -> None:
    """One key in each line, without a doubt."""
    file = read_keys(written(tmp_path, content), form)
    assert (expected, {}) == ([*file.keys], file.doubts)


@pytest.mark.parametrize(
    ("content", "form", "problem"),
    [
        (b"alice\n\nbob\n", "text", "line 2 is empty"),
        (b"alice\r\n\r\nbob\r\n", "text", "line 2 is empty"),
        (b"alice\n\n", "text", "line 2 is empty"),
        (b"", "text", "line 1 is empty"),
        (b"alice\n \t \n", "text", "line 2 has only white space"),
        ("\u200b\u00a0\n".encode(), "text", "line 1 has only white space"),
        (b"\xef\xbb\xbfplanted\n", "text", "line 1 begins with a byte order mark"),
        (b"alice\n\xef\xbb\xbfplanted\n", "text", "line 2 begins with a byte order mark"),
        (b"\xef\xbb\xbfYQ==\n", "base64", "line 1 begins with a byte order mark"),
        ("planted\n".encode("utf-16"), "text", "line 1 begins with a byte order mark of UTF-16"),
        ("planted\n".encode("utf-32"), "text", "line 1 begins with a byte order mark of UTF-16"),
        ("planted\n".encode("utf-16-le"), "text", "line 1 has a NUL byte"),
        ("planted\n".encode("utf-16-be"), "text", "line 1 has a NUL byte"),
        (b"alice\nplan\0ted\n", "text", "line 2 has a NUL byte"),
        (b"planted\rplanted\r", "text", "line 1 has a carriage return inside"),
        (b"YQ==\nplanted!\n", "base64", "line 2 is not base64"),
        (b"YQ== \n", "base64", "line 1 is not base64"),
        (b"\xffplanted\n", "base64", "line 1 is not base64"),
        (b"616\n", "hex", "line 1 is not hex"),
        (b"0x61\n", "hex", "line 1 is not hex"),
    ],
)
def test_a_bad_line_is_refused_without_its_content(
    tmp_path: Path, content: bytes, form: KeysFormat, problem: str
) -> None:
    """By its number."""
    with pytest.raises(PolicyError, match=problem) as raised:
        read_keys(written(tmp_path, content), form)
    assert PLANTED not in str(raised.value)


@pytest.mark.parametrize(
    ("key", "doubts"),
    [
        ("alice ", [WHITE_SPACE]),
        ("\talice", [WHITE_SPACE]),
        ("alice\u00a0", [WHITE_SPACE]),
        ("alice\u3000", [WHITE_SPACE]),
        ("alice\ufeff", [WHITE_SPACE]),
        ("al\u200bice", [INVISIBLE]),
        ('"alice"', [QUOTES]),
        ("'alice'", [QUOTES]),
        ("\u201ealice\u201c", [QUOTES]),
        (' "alice"', [WHITE_SPACE, QUOTES]),
        ("al\x01ice", [CONTROL]),
        ("al ice", []),
        ('al"ice', []),
        ('"', []),
        ("ålice", []),
    ],
)
def test_what_may_not_be_meant(tmp_path: Path, key: str, doubts: list[str]) -> None:
    """The key is as it is written, and the line is named, without the key."""
    file = read_keys(written(tmp_path, f"bob\n{key}\n".encode()), "text")
    assert (b"bob", key.encode()) == file.keys
    assert dict.fromkeys(doubts, (2,)) == file.doubts
    assert tuple(f"{one}: line 2" for one in doubts) == file.warnings
    assert "alice" not in repr(file)


def test_other_doubts(tmp_path: Path) -> None:
    """Bytes that are not text, and ends of lines of two kinds."""
    file = read_keys(written(tmp_path, b"\xff\xffalice\r\nbob\ncarol\r\n"), "text")
    assert {NOT_UTF8: (1,), MIXED: (1, 3)} == file.doubts
    assert (b"\xff\xffalice", b"bob", b"carol") == file.keys


def test_only_some_lines_are_named(tmp_path: Path) -> None:
    """A file of a million doubtful lines has one short warning."""
    file = read_keys(written(tmp_path, b"a \n" * 100), "text")
    (warning,) = file.warnings
    assert warning.endswith("20 and 80 more lines")


MEANT = st.lists(
    st.text(
        st.characters(codec="utf-8", exclude_categories=("C", "Z", "M"), exclude_characters="\"'`"),
        min_size=1,
        max_size=8,
    ),
    min_size=1,
    max_size=5,
)
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le")


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    meant=MEANT,
    encoding=st.sampled_from(ENCODINGS),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    ends=st.booleans(),
)
def test_what_an_editor_writes(
    tmp_path: Path, meant: list[str], encoding: str, end: str, *, ends: bool
) -> None:
    """The keys that are meant, or a refusal, or a doubt: never other keys without a word."""
    content = (end.join(meant) + end * ends).encode(encoding)
    expected = tuple(key.encode() for key in meant)
    try:
        file = read_keys(written(tmp_path, content), "text")
    except PolicyError:
        assert encoding != "utf-8" or end == "\r" or codecs.BOM_UTF8 in content
        return
    assert expected == file.keys or file.doubts
    if encoding == "utf-8" and end != "\r":
        assert expected == file.keys
