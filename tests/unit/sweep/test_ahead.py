"""A cleaning before it is due."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.compaction.model import CleaningOptions
from logwright.config.topic import parse_settings
from logwright.sweep.plan import plan_cleaning
from logwright.units import TimestampMs
from tests.log_builder import START_MS, LogBuilder

LAG_MS = 60_000


@pytest.mark.parametrize(
    ("ahead_ms", "expected"), [(0, False), (LAG_MS - 10_000, False), (LAG_MS - 10_000 + 2, True)]
)
def test_what_the_lag_makes_due_soon_is_cleaned_on_request(
    tmp_path: Path, ahead_ms: int, *, expected: bool
) -> None:
    """The lag counts from the first dirty batch, and is exceeded a millisecond after it."""
    builder = LogBuilder(tmp_path / "logs")
    builder.segment(0).batch(0, [("a", "1"), ("a", "2")], timestamps=[START_MS, START_MS])
    builder.segment(2)
    builder.write()
    words = {"cleanup.policy": "compact", "max.compaction.lag.ms": str(LAG_MS)}
    planned = plan_cleaning(
        builder.log_dir,
        builder.partition,
        parse_settings(words | {"min.cleanable.dirty.ratio": "1"}),
        now_ms=TimestampMs(START_MS + 10_000),
        options=CleaningOptions(ahead_ms=ahead_ms),
        high_watermark="end",
    )
    assert planned.compaction.due_at_ms == START_MS + LAG_MS + 1
    assert not planned.compaction.eligible
    assert planned.clean is expected


@pytest.mark.parametrize("policy", ["delete", "compact", ""])
@pytest.mark.parametrize("ahead_ms", [0, LAG_MS])
def test_the_lag_makes_only_compacted_logs_due(tmp_path: Path, policy: str, ahead_ms: int) -> None:
    """A log that is not compacted is never cleaned, however old it is."""
    builder = LogBuilder(tmp_path / "logs")
    builder.segment(0).batch(0, [("a", "1"), ("a", "2")], timestamps=[START_MS, START_MS])
    builder.segment(2)
    builder.write()
    words = {"cleanup.policy": policy, "max.compaction.lag.ms": str(LAG_MS)}
    planned = plan_cleaning(
        builder.log_dir,
        builder.partition,
        parse_settings(words | {"min.cleanable.dirty.ratio": "1"}),
        now_ms=TimestampMs(START_MS + 2 * LAG_MS),
        options=CleaningOptions(ahead_ms=ahead_ms),
        high_watermark="end",
    )
    assert (policy == "compact") is planned.clean
    assert (policy == "compact") is (planned.compaction.due_at_ms is not None)
