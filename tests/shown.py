"""The numbers in metadata that a page shows as text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import dagster as dg

_NUMBER: Final = re.compile(r"(?:[^()]* \()?(-?[0-9][0-9,]*(?:\.[0-9]+)?)(?: ?(%|s|B))?\)?")
_PERCENT: Final = 100


def number(text: str) -> float:
    """Return the number of ``1,234``, ``1.2 KiB (1,234 B)``, ``0.5 s``; a share as a fraction."""
    matched = _NUMBER.fullmatch(text)
    assert matched is not None, text
    digits = matched[1].replace(",", "")
    value = float(digits) if "." in digits else int(digits)
    return value / _PERCENT if matched[2] == "%" and "." in digits else value


def values(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plain values of metadata: numbers as numbers, a table as lines ``| a | b |``."""
    return {name: _value(entry) for name, entry in metadata.items()}


def _value(entry: Any) -> Any:  # noqa: ANN401 - of any metadata
    if isinstance(entry, dg.TableMetadataValue):
        rows = (" | ".join(map(str, row.data.values())) for row in entry.records)
        return "\n".join(f"| {row} |" for row in rows)
    value = entry.value
    return number(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else value
