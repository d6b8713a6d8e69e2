"""What keys and values that nothing decodes look like, and the spec that would decode them. Pure.

Bytes are looked at one by one, and none is ever shown. What is suggested is a guess of most of
them; a decoder decides of each record.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

MOST: Final = 1000
"""Keys or values that are enough for a guess."""

_Kind = Literal["json", "registry", "string", "other"]
_SHOWN: Final = {
    "json": ("JSON", "json"),
    "registry": ("the wire format of a schema registry", "{format: registry, schemas: DIR}"),
    "string": ("UTF-8", "string"),
}
_FRAME_BYTES: Final = 5
_HIGHEST_ID: Final = 10_000_000
_NUMBERS: Final = (4, 8)
"""Sizes of big-endian numbers, which begin with a zero byte like a frame."""
_LARGEST: Final = 1 << 20
_SHARE: Final = 0.9


class Look(NamedTuple):
    """What some keys or values look like.

    Attributes:
        sentence: such as ``998 of 1000 values looked at look like JSON``.
        spec: that decodes them.
    """

    sentence: str
    spec: str


def look_at(part: str, contents: Iterable[bytes | None]) -> Look | None:
    """Return what the first `MOST` keys or values look like; None if nine of ten do not look like
    one thing that is known.

    Args:
        part: ``key`` or ``value``.
        contents: null ones do not count. Not more are taken than are looked at.
    """
    kinds: Counter[_Kind] = Counter()
    for content in contents:
        if content is not None:
            kinds[_kind(content)] += 1
            if kinds.total() >= MOST:
                break
    if kinds["json"] and kinds["json"] < _SHARE * kinds.total():
        kinds["string"] += kinds.pop("json")  # JSON is text, too
    ((kind, count),) = kinds.most_common(1) or (("other", 0),)
    if kind == "other" or count < _SHARE * kinds.total():
        return None
    what, spec = _SHOWN[kind]
    looked = f"{count} of {kinds.total()} {part}s looked at" if count > 1 else f"the {part}"
    return Look(f"{looked} look{'s' * (count == 1)} like {what}", spec)


def _kind(content: bytes) -> _Kind:
    if len(content) > _FRAME_BYTES and content[0] == 0 and len(content) not in _NUMBERS:
        schema_id = int.from_bytes(content[1:_FRAME_BYTES], "big")
        return "registry" if 0 < schema_id < _HIGHEST_ID else "other"
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return "other"
    if not text or not all(character.isprintable() or character.isspace() for character in text):
        return "other"
    if text.lstrip().startswith("{") and len(content) <= _LARGEST:
        try:
            return "json" if isinstance(json.loads(text), dict) else "string"
        except (ValueError, RecursionError):
            pass
    return "string"
