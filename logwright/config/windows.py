"""Time windows of a week in which sweeps may begin, such as ``Mon-Fri 22:00-06:00``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BeforeValidator

if TYPE_CHECKING:
    from collections.abc import Iterator

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_DAY: Final = "|".join(_DAYS)
_WINDOW: Final = re.compile(
    rf"(?:((?:{_DAY})(?:-(?:{_DAY}))?(?:,(?:{_DAY})(?:-(?:{_DAY}))?)*) )?"
    r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-4]):([0-5]\d)"
)
_DAY_MINUTES: Final = 24 * 60
_AHEAD_DAYS: Final = 8
"""A window opens again within a week; a day more for zones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWindow:
    """A span of the day, on some days of the week.

    Attributes:
        days: on which it opens, 0 is Monday.
        start, end: minutes of the day; an end at or before the start is on the next day.
    """

    days: frozenset[int]
    start: int
    end: int


def _parsed(value: object) -> object:
    if not isinstance(value, str):
        return value
    matched = _WINDOW.fullmatch(value.strip())
    if matched is None:
        raise ValueError("not a time window such as 22:00-06:00 or Mon-Fri,Sun 22:00-06:00")
    days, *clock = matched.groups()
    first_hour, first_minute, hour, minute = map(int, clock)
    end = 60 * hour + minute
    if end > _DAY_MINUTES:
        raise ValueError("a day ends at 24:00")
    return TimeWindow(days=_days(days), start=60 * first_hour + first_minute, end=end)


def _days(text: str | None) -> frozenset[int]:
    if text is None:
        return frozenset(range(7))
    days: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        start = _DAYS.index(first)
        length = (_DAYS.index(last or first) - start) % 7
        days |= {(start + day) % 7 for day in range(length + 1)}
    return frozenset(days)


def _known_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError("not a time zone such as UTC or Europe/Berlin") from error
    return name


Window = Annotated[TimeWindow, BeforeValidator(_parsed)]
Zone = Annotated[str, AfterValidator(_known_zone)]


def spans(
    windows: Sequence[TimeWindow], zone: str, now_ms: int, *, end_ms: int | None = None
) -> Iterator[tuple[int, int]]:
    """Yield the spans (start, end), ms since the epoch, in which a window is open, ascending, not
    overlapping; the first ends after now. None end before `end_ms`, by default eight days.
    Without windows it is always open.
    """
    until = now_ms + _AHEAD_DAYS * 86_400_000 if end_ms is None else end_ms
    if not windows:
        yield now_ms, max(until, now_ms + 1)
        return
    open_since: tuple[int, int] | None = None
    for start, end in sorted(_openings(windows, ZoneInfo(zone), now_ms, until)):
        if end <= now_ms:
            continue
        if open_since is not None and start <= open_since[1]:
            open_since = open_since[0], max(open_since[1], end)
            continue
        if open_since is not None:
            yield open_since
        open_since = start, end
    if open_since is not None:
        yield open_since


def _openings(
    windows: Sequence[TimeWindow], zone: ZoneInfo, now_ms: int, until: int
) -> Iterator[tuple[int, int]]:
    day = datetime.fromtimestamp(now_ms / 1000, tz=zone).date() - timedelta(days=1)
    last = datetime.fromtimestamp(until / 1000, tz=zone).date()
    while day <= last:
        for window in windows:
            if day.weekday() not in window.days:
                continue
            overnight = window.end <= window.start
            end_day = day + timedelta(days=1) if overnight else day
            yield _instant(day, window.start, zone), _instant(end_day, window.end, zone)
        day += timedelta(days=1)


def _instant(day: object, minute: int, zone: ZoneInfo) -> int:
    base = datetime.fromisoformat(f"{day}") + timedelta(days=minute // _DAY_MINUTES)
    hour, rest = divmod(minute % _DAY_MINUTES, 60)
    local = base.replace(hour=hour, minute=rest, tzinfo=zone)
    return int(local.astimezone(UTC).timestamp() * 1000)
