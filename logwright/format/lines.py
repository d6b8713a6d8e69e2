"""Files of JSON lines that are appended to: each line carries a CRC of itself.

::

    {"at_ms":1760003686229,"files":["..."],"crc":1234567890}

A line begins with a line end of its own, so an append that a crash cut short spoils no later line.
A line that cannot be read, or whose CRC is wrong, is passed over: what such a file says is a hint,
and a wrong hint must not look like a right one.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

CRC: Final = "crc"


def serialize_line(entry: Mapping[str, object]) -> bytes:
    """One line, with its CRC-32 as the last field."""
    return b"\n" + _json({**entry, CRC: zlib.crc32(_json(entry))}) + b"\n"


def parse_lines(content: bytes) -> Iterator[dict[str, Any]]:
    """The entries of the lines that are as they were written, in their order, without the CRC."""
    for line in content.split(b"\n"):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict) and entry.pop(CRC, None) == zlib.crc32(_json(entry)):
            yield entry


def _json(entry: Mapping[str, object]) -> bytes:
    return json.dumps(entry, separators=(",", ":")).encode()
