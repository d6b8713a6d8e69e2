"""A cleaning that rolls first, due or not, for what only the active segment holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.compaction.model import CleaningOptions
from logwright.config.topic import parse_settings
from logwright.sweep.build import build
from logwright.sweep.commit import commit
from logwright.sweep.plan import plan_cleaning
from logwright.units import TimestampMs
from tests.erasing import keys_in, logs_of
from tests.log_builder import START_MS, LogBuilder


@pytest.mark.parametrize(
    ("policy", "roll", "cause", "clean"),
    [
        ("compact", False, None, False),
        ("compact", True, "forced", True),
        ("delete", True, None, False),
    ],
)
def test_the_active_segment_is_rolled_on_request(
    tmp_path: Path, policy: str, *, roll: bool, cause: str | None, clean: bool
) -> None:
    """Of a compacted log; then there is something to clean."""
    builder = LogBuilder(tmp_path / "logs")
    builder.segment(0).batch(0, [("a", "1"), ("a", "2")], timestamps=[START_MS, START_MS])
    builder.write()
    planned = plan_cleaning(
        builder.log_dir,
        builder.partition,
        parse_settings({"cleanup.policy": policy}),
        now_ms=TimestampMs(START_MS + 10_000),
        options=CleaningOptions(force=True, roll=roll),
        high_watermark="end",
    )
    assert cause == planned.roll.cause
    assert clean is planned.clean


@pytest.mark.parametrize("roll", [False, True])
def test_a_quiet_log_is_cleaned_from_its_start(tmp_path: Path, *, roll: bool) -> None:
    """On the same request: its tombstones leave, although nothing is dirty."""
    builder = LogBuilder(tmp_path / "logs")
    builder.segment(0).batch(0, [("a", None)], horizon_ms=START_MS)
    builder.segment(1)
    builder.write(cleaner_checkpoint=1)
    planned = plan_cleaning(
        builder.log_dir,
        builder.partition,
        parse_settings({"cleanup.policy": "compact"}),
        now_ms=TimestampMs(START_MS + 10_000),
        options=CleaningOptions(force=True, roll=roll),
        high_watermark="end",
    )
    assert roll is planned.clean
    if roll:
        commit(planned, build(planned))
        assert [] == keys_in(logs_of(builder.directory))
