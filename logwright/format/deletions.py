"""The ledger of retired files, ``<partition>/.logwright/deletions.jsonl``: bytes and values.

::

    {"at_ms":1760003686229,"files":["00000000000000000000.log.deleted","..."]}

One line for each time that files were renamed to ``.deleted``, written before the renames. Kafka
keeps the time of a rename in memory only (``file.delete.delay.ms``); a tool that ends needs a
record.

A line begins with a line end of its own. So an append that a crash cut short spoils no later line,
wherever it stands: a line that cannot be read is passed over, and its files, if they were renamed
at all, count as files without a record.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LEDGER: Final = "deletions.jsonl"


def serialize_retirement(names: Iterable[str], *, at_ms: int) -> bytes:
    """What is appended for files that are about to get these ``.deleted`` names."""
    entry = {"at_ms": at_ms, "files": sorted(names)}
    return b"\n" + json.dumps(entry, separators=(",", ":")).encode() + b"\n"


def parse_ledger(content: bytes) -> dict[str, int]:
    """``.deleted`` name to the time of its retirement in ms; the last line that names it counts."""
    retired_at_ms: dict[str, int] = {}
    for line in content.split(b"\n"):
        retired_at_ms.update(_parse_line(line))
    return retired_at_ms


def serialize_ledger(retired_at_ms: Mapping[str, int]) -> bytes:
    """A whole ledger of these names, one line for each time, oldest first."""
    by_time: dict[int, list[str]] = {}
    for name, at_ms in retired_at_ms.items():
        by_time.setdefault(at_ms, []).append(name)
    lines = (serialize_retirement(by_time[at_ms], at_ms=at_ms) for at_ms in sorted(by_time))
    return b"".join(lines)


def _parse_line(line: bytes) -> dict[str, int]:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(entry, dict):
        return {}
    at_ms, names = entry.get("at_ms"), entry.get("files")
    if type(at_ms) is not int or not isinstance(names, list):
        return {}
    return {name: at_ms for name in names if isinstance(name, str)}
