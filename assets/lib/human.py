"""Sizes and times for people; lengths of time are in `logwright.times`. Pure."""

from datetime import UTC, datetime
from typing import Final

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_KIB: Final = 1024


def human_bytes(count: float) -> str:
    """Return a size for people: ``1,023 B``, ``1.2 MiB``."""
    size = float(count)
    for unit in _UNITS:
        if abs(size) < _KIB or unit == _UNITS[-1]:
            return f"{size:,.0f} B" if unit == "B" else f"{size:,.1f} {unit}"
        size /= _KIB
    raise AssertionError(count)


def unit_of(largest: float) -> tuple[str, int]:
    """Return the unit, and its bytes, in which a plot with this largest size is drawn."""
    power = 0
    while largest >= _KIB ** (power + 1) and power < len(_UNITS) - 1:
        power += 1
    return _UNITS[power], _KIB**power


def human_time(time_ms: int) -> str:
    """Return a time, UTC, to the minute; empty for a negative one."""
    if time_ms < 0:
        return ""
    try:
        return f"{datetime.fromtimestamp(time_ms / 1_000, tz=UTC):%F %H:%M}Z"
    except (OverflowError, ValueError):
        return "after the year 9999"
