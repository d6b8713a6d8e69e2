"""Times that people write."""

from __future__ import annotations

from datetime import UTC, tzinfo

import pytest

from logwright.times import time_ms

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
