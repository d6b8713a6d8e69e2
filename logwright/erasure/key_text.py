"""Text that is given as a key, and what a program may have put there instead. Pure.

A byte order mark, NUL bytes (text in UTF-16), a carriage return inside and text of white space only
are refused. What may be part of the key, but seldom is, such as quotes around it, is a doubt. A key
that has any of this can be given in base64 or in hexadecimal digits.

No message has anything of the text.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

MARK: Final = "\ufeff".encode()
"""The byte order mark in UTF-8."""
WHITE_SPACE: Final = "has white space at its start or end, which is taken for part of the key"
INVISIBLE: Final = "has an invisible character, which is taken for part of the key"
QUOTES: Final = "has quotes around it, which are taken for part of the key"
CONTROL: Final = "has a control character, which is taken for part of the key"
NOT_UTF8: Final = "is not UTF-8, and is taken as it is"
_NO_WIDTH: Final = "\u00ad\u200b\u200c\u200d\u2060\ufeff"
"""An editor does not show them."""
_QUOTES: Final = (
    "\"'`\u00b4\u00ab\u00bb\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u2039\u203a"
)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]")


def refused_key(text: bytes) -> str | None:
    """Return why text is not taken for a key, None if it is."""
    if not text:
        return "is empty"
    if text.startswith(MARK):
        return "begins with a byte order mark"
    if b"\0" in text:
        return "has a NUL byte: it may be text in UTF-16"
    if b"\r" in text:
        return "has a carriage return inside"
    if not _bare(text.decode("utf-8", "replace")):
        return "has only white space"
    return None


def doubts_about(text: bytes) -> tuple[str, ...]:
    """Return what may not be meant in a key."""
    try:
        shown = text.decode()
    except UnicodeDecodeError:
        return (NOT_UTF8,)
    bare = _bare(shown)
    doubts = []
    if shown != bare:
        doubts.append(WHITE_SPACE)
    if any(one in bare for one in _NO_WIDTH):
        doubts.append(INVISIBLE)
    if len(bare) > 1 and bare[0] in _QUOTES and bare[-1] in _QUOTES:
        doubts.append(QUOTES)
    if _CONTROL.search(shown):
        doubts.append(CONTROL)
    return tuple(doubts)


def from_base64(text: str) -> bytes:
    """Return the bytes of base64 (RFC 4648, section 4).

    Raises:
        ValueError: it is malformed; the message has nothing of the text.
    """
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("key_base64 is not base64") from None


def _bare(text: str) -> str:
    """Return text without white space, and what has no width, around it."""
    first, end = 0, len(text)
    while first < end and _is_blank(text[first]):
        first += 1
    while end > first and _is_blank(text[end - 1]):
        end -= 1
    return text[first:end]


def _is_blank(character: str) -> bool:
    return character.isspace() or character in _NO_WIDTH
