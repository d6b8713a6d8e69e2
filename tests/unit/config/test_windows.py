"""Time windows of sweeps."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from logwright.config.policy_models import SweepLimits
from logwright.config.windows import spans

MS = 1_000


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * MS)


def opened(words: list[str], now: str, *, zone: str = "UTC", count: int = 2) -> list[str]:
    limits = SweepLimits.model_validate({"windows": words, "time_zone": zone})
    opened_spans = list(spans(limits.windows, limits.time_zone, at(now)))[:count]
    return [
        " to ".join(f"{datetime.fromtimestamp(each / MS, tz=UTC):%m-%d %H:%M}" for each in span)
        for span in opened_spans
    ]


@pytest.mark.parametrize(
    ("words", "zone", "now", "expected"),
    [
        (
            ["22:00-06:00"],
            "UTC",
            "2025-10-09 05:59",
            ["10-08 22:00 to 10-09 06:00", "10-09 22:00 to 10-10 06:00"],
        ),
        (
            ["22:00-06:00"],
            "Europe/Berlin",
            "2025-10-09 12:00",
            ["10-09 20:00 to 10-10 04:00", "10-10 20:00 to 10-11 04:00"],
        ),
        # 2025-10-11 is a Saturday.
        (
            ["Sat,Sun 00:00-24:00"],
            "UTC",
            "2025-10-09 12:00",
            ["10-11 00:00 to 10-13 00:00"],
        ),
        (
            ["Mon-Fri 01:00-02:00", "Fri-Mon 01:30-03:00"],
            "UTC",
            "2025-10-09 12:00",
            ["10-10 01:00 to 10-10 03:00", "10-11 01:30 to 10-11 03:00"],
        ),
        # The clock goes back an hour: the night is an hour longer.
        (
            ["22:00-06:00"],
            "Europe/Berlin",
            "2025-10-25 12:00",
            ["10-25 20:00 to 10-26 05:00", "10-26 21:00 to 10-27 05:00"],
        ),
    ],
)
def test_windows_open_and_close(words: list[str], zone: str, now: str, expected: list[str]) -> None:
    """By the clock of their zone, on their days; windows that touch are one."""
    assert expected == opened(words, now, zone=zone, count=len(expected))


def test_without_windows_it_is_always_open() -> None:
    """From now on."""
    (span,) = spans((), "UTC", at("2025-10-09 12:00"), end_ms=at("2025-10-10 12:00"))
    assert span == (at("2025-10-09 12:00"), at("2025-10-10 12:00"))


@pytest.mark.parametrize(
    "given",
    [
        {"windows": ["22-6"]},
        {"windows": ["24:00-01:00"]},
        {"windows": ["01:00-24:30"]},
        {"windows": ["Moon 01:00-02:00"]},
        {"time_zone": "Mars/Base"},
        {"time_zone": "../UTC"},
        {"max_gb_per_hour": "0"},
        {"max_runs": 0},
    ],
)
def test_other_words_are_refused(given: dict[str, object]) -> None:
    """With the field that they are in."""
    with pytest.raises(ValidationError, match=next(iter(given))):
        SweepLimits.model_validate(given)
