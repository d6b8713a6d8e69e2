"""The demo's input files for the asset `ingested` and the sensor `landing`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

TOPIC: Final = "signups"
PARTITIONS: Final = 2
POLICY: Final = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.5"}

_FILES: Final = 3
_ROWS: Final = 200
"""Number of rows per file."""
_PEOPLE: Final = 80
_FIRST_MS: Final = 1_751_700_000_000
"""Timestamp of the first row, shortly before the end of the demo's logs; one row per second."""
_PLANS: Final = ("free", "team", "enterprise")


def source(directory: Path) -> dict[str, object]:
    """Return the landing directory's entry for the policies."""
    return {"topic": TOPIC, "path": str(directory), "partitions": PARTITIONS, "compression": "zstd"}


def write_files(directory: Path) -> None:
    """Write three files of JSON rows with sign-ups and changes of plan; always the same content.
    Effects: creates the directory.
    """
    directory.mkdir(parents=True)
    for file in range(_FILES):
        rows = [_row(file * _ROWS + number) for number in range(_ROWS)]
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        (directory / f"{file + 1}.json").write_text(text)


def _row(number: int) -> dict[str, object]:
    person = number * 37 % _PEOPLE
    value = {"person": person, "plan": _PLANS[number // _PEOPLE % len(_PLANS)]}
    return {"key": f"person-{person}", "value": value, "timestamp": _FIRST_MS + 1000 * number}
