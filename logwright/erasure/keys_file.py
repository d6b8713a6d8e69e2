"""Keys in a file, one in each line; byte patterns likewise.

A line that is not a key (`logwright.erasure.key_text`) is refused by its number, and what may not
be meant is a doubt: the caller warns of it. No message has anything of a line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from logwright.config.key_words import KeysFormat
from logwright.erasure.key_text import doubts_about, from_base64, refused_key
from logwright.errors import PolicyError
from logwright.place.files import require_named
from logwright.place.mapped import map_file

WAY_OUT: Final = (
    "Write the file in UTF-8 without a mark, one key in each line, or give the keys as base64 or"
    " hexadecimal digits with --keys-format."
)
MIXED: Final = "ends with a carriage return, which is not taken for part of the key"
"""Of some lines, where others end without one."""
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
_HEX: Final = re.compile(rb"(?:[0-9A-Fa-f]{2})+")
_MOST_LINES: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysFile:
    """The content of a keys file.

    Attributes:
        keys: in the order of the lines; not in its `repr`.
        doubts: what may not be meant → numbers of the lines.
    """

    keys: tuple[bytes, ...] = field(repr=False)
    doubts: dict[str, tuple[int, ...]]

    @property
    def warnings(self) -> tuple[str, ...]:
        """A sentence for each kind of doubt."""
        return tuple(f"{what}: {_lines(numbers)}" for what, numbers in self.doubts.items())


def read_keys(path: Path, form: KeysFormat) -> KeysFile:
    """Return the keys of a file. Effects: reads it.

    Raises:
        PolicyError: a line is empty or malformed.
        UnreadableFile: it cannot be read.
    """
    require_named(path)
    content = map_file(path).tobytes()
    if content.startswith(_UTF16):
        raise _refusal(path, "line 1 begins with a byte order mark of UTF-16.", WAY_OUT)
    lines = content.removesuffix(b"\n").split(b"\n")
    keys: list[bytes] = []
    doubts: dict[str, list[int]] = {}
    for number, line in enumerate(lines, 1):
        text = line.removesuffix(b"\r")
        problem = refused_key(text)
        if problem is not None:
            remedy = WAY_OUT if text else "Remove it."
            raise _refusal(path, f"line {number} {problem}.", remedy)
        try:
            keys.append(_key(text, form))
        except ValueError:
            raise _refusal(path, f"line {number} is not {form}.", "Correct it.") from None
        for what in doubts_about(text) if form == "text" else ():
            doubts.setdefault(what, []).append(number)
    returns = [number for number, line in enumerate(lines, 1) if line.endswith(b"\r")]
    if form == "text" and returns and len(returns) < content.count(b"\n"):
        doubts[MIXED] = returns
    return KeysFile(keys=tuple(keys), doubts={what: tuple(some) for what, some in doubts.items()})


def _key(text: bytes, form: KeysFormat) -> bytes:
    """Return the key of a line.

    Raises:
        ValueError: the line is malformed.
    """
    if form in ("text", "decoded"):
        return text
    if form == "base64":
        return from_base64(text.decode("ascii"))
    if not _HEX.fullmatch(text):
        raise ValueError(form)
    return bytes.fromhex(text.decode("ascii"))


def _refusal(path: Path, problem: str, remedy: str) -> PolicyError:
    return PolicyError(problem, path=path, remedy=remedy)


def _lines(numbers: tuple[int, ...]) -> str:
    shown = ", ".join(map(str, numbers[:_MOST_LINES]))
    more = len(numbers) - _MOST_LINES
    return f"line {shown}" + (f" and {more} more lines" if more > 0 else "")
