"""Append-only files of JSON lines, each with its own CRC.

::

    {"at_ms":1760003686229,"files":["..."],"crc":1234567890}

Each line starts with a newline, so that a torn append does not corrupt the next line. An unreadable
line or one with a wrong CRC is ignored: these files are hints, and the CRC keeps a damaged hint
from being used.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

CRC: Final = "crc"


def serialize_line(entry: Mapping[str, object]) -> bytes:
    """Return one line, with its CRC-32 as the last field."""
    return b"\n" + _json({**entry, CRC: zlib.crc32(_json(entry))}) + b"\n"


def parse_lines(content: bytes) -> Iterator[dict[str, Any]]:
    """Yield the entries of the valid lines in file order, without the CRC."""
    for line in content.split(b"\n"):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict) and entry.pop(CRC, None) == zlib.crc32(_json(entry)):
            yield entry


def _json(entry: Mapping[str, object]) -> bytes:
    return json.dumps(entry, separators=(",", ":")).encode()
