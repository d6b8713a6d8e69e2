"""Read times that people write."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from logwright.units import INT64_MAX

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
