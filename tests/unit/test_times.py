"""Times that people write."""

from __future__ import annotations

from datetime import UTC, tzinfo

import pytest

from logwright.times import durations_apart, time_ms

TEXT = "2026-01-02T03:04:05+01:00"
TEXT_MS = 1_767_319_445_000


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0),
        (str(TEXT_MS), TEXT_MS),
        (TEXT, TEXT_MS),
        ("2026-01-02T02:04:05.0019Z", TEXT_MS + 1),
        ("1969-12-31T23:59:59Z", None),
        ("99999999999999999999", None),
        (2**63, None),
        ("soon", None),
    ],
)
def test_times(value: int | str, expected: int | None) -> None:
    """ISO 8601 with a time zone, or ms since the epoch."""
    assert expected == time_ms(value)


@pytest.mark.parametrize(("zone", "expected"), [(UTC, TEXT_MS), (None, None)])
def test_a_time_without_a_zone(zone: tzinfo | None, expected: int | None) -> None:
    """It is in the given zone, or no time at all."""
    assert expected == time_ms("2026-01-02T02:04:05", zone=zone)


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        ((604_800_001, 604_800_000), ("7 d 1 ms", "7 d")),
        ((604_800_001, 604_740_000), ("7 d", "6 d 23 h")),
        ((45_468_486_087, 3_153_600_000_000), ("526 d 6 h", "36500 d")),
        ((604_800_000, 604_800_000), ("7 d", "7 d")),
        ((0, -1), ("0 ms", "-1 ms")),
    ],
)
def test_two_durations_are_told_apart(pair: tuple[int, int], expected: tuple[str, str]) -> None:
    """In two units each where that is enough, and in more where rounding would make them equal."""
    assert expected == durations_apart(*pair)
