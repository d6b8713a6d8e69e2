"""Times as people write and read them. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from logwright.units import INT64_MAX

_UNITS: Final = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1))
_IN_MS: Final = dict(_UNITS) | {"m": 60_000}
_PART: Final = r"([0-9]{1,15})\s*(ms|s|min|m|h|d)"
_LAST_DATETIME_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999."""

_EPOCH: Final = datetime.fromtimestamp(0, tz=UTC)


def time_ms(value: int | str, *, zone: tzinfo | None = None) -> int | None:
    """Return ms since the epoch of ISO 8601 or of ms; None if it is neither, or has no time zone.

    Args:
        zone: of a time without one.
    """
    if isinstance(value, str):
        if re.fullmatch(r"[0-9]{1,19}", value):
            value = int(value)
        else:
            try:
                moment = datetime.fromisoformat(value)
            except ValueError:
                return None
            if moment.tzinfo is None:
                if zone is None:
                    return None
                moment = moment.replace(tzinfo=zone)
            value = (moment - _EPOCH) // timedelta(milliseconds=1)
    return value if 0 <= value <= INT64_MAX else None


def duration(time_ms: int, *, units: int = 2) -> str:
    """Return ``2 d 6 h``, ``5 min``: in the largest units, rounded down.

    Args:
        units: of how many; those of which there is none are not written.
    """
    first = next((n for n, (_, size) in enumerate(_UNITS) if time_ms >= size), len(_UNITS) - 1)
    parts, rest_ms = [], time_ms
    for unit, size in _UNITS[first : first + units]:
        count, rest_ms = divmod(rest_ms, size)
        parts += [f"{count} {unit}"] if count else []
    return " ".join(parts) or "0 ms"


def durations_apart(time_ms: int, other_ms: int) -> tuple[str, str]:
    """Return both as durations, in as many units as it takes to tell them apart; in two if they
    are equal.
    """
    for units in range(2, len(_UNITS) + 1):
        texts = duration(time_ms, units=units), duration(other_ms, units=units)
        if texts[0] != texts[1]:
            return texts
    return duration(time_ms), duration(other_ms)


def duration_ms(text: str) -> int | None:
    """Return the ms of a duration such as ``90s``, ``30m`` or ``2 d 6 h``; None if it is none."""
    if not re.fullmatch(rf"\s*(?:{_PART}\s*)+", text):
        return None
    return sum(int(count) * _IN_MS[unit] for count, unit in re.findall(_PART, text))


def instant(time_ms: int) -> str:
    """Return a time in UTC, to the second; in ms if the calendar does not have it."""
    if not 0 <= time_ms <= _LAST_DATETIME_MS:
        return f"{time_ms} ms"
    return f"{datetime.fromtimestamp(time_ms / 1000, tz=UTC):%F %T}Z"
