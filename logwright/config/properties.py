"""A broker's ``server.properties``: names, values and line numbers (java.util.Properties)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from logwright.errors import PolicyError

MAX_FILE_BYTES: Final = 1_048_576
_BLANKS: Final = " \t\f"
_KEY: Final = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProperties:
    """The static settings of a broker.

    Attributes:
        path: path of the file, None if none was given.
        pairs: name → value; the last one wins.
        lines: name → line number, from 1.
    """

    path: Path | None = None
    pairs: Mapping[str, str] = field(default_factory=dict)
    lines: Mapping[str, int] = field(default_factory=dict)


def read_properties(path: Path) -> ServerProperties:
    """Read a properties file. Effects: reads it.

    Raises:
        PolicyError: it cannot be read, is too large, or is not UTF-8.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise PolicyError(f"cannot be read: {error.strerror}.", path=path) from error
    if len(content) > MAX_FILE_BYTES:
        raise PolicyError(f"is larger than {MAX_FILE_BYTES} bytes.", path=path)
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise PolicyError("is not UTF-8.", path=path, position=error.start) from error
    return parse_properties(text, path)


def parse_properties(text: str, path: Path) -> ServerProperties:
    """Parse the text of a properties file.

    A line that ends with an odd number of backslashes continues on the next one. The key ends at
    the first ``=``, ``:`` or blank without a backslash before it. ``#`` and ``!`` start comments.
    """
    pairs: dict[str, str] = {}
    lines: dict[str, int] = {}
    number, physical = 0, re.split(r"\r\n|\r|\n", text)
    while number < len(physical):
        line, start = physical[number].lstrip(_BLANKS), number + 1
        number += 1
        if not line or line[0] in "#!":
            continue
        while _continues(line) and number < len(physical):
            line = line[:-1] + physical[number].lstrip(_BLANKS)
            number += 1
        matched = _KEY.match(line.removesuffix("\\") if _continues(line) else line)
        if matched is None:
            continue
        name, value = map(_unescaped, matched.groups())
        pairs[name], lines[name] = value, start
    return ServerProperties(path=path, pairs=pairs, lines=lines)


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescaped(text: str) -> str:
    def character(matched: re.Match[str]) -> str:
        code = matched[1]
        return chr(int(code[1:], 16)) if len(code) > 1 else _CONTROLS.get(code, code)

    return _ESCAPE.sub(character, text)
