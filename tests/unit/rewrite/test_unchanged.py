"""Which segments a cleaning leaves as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.sweep.build import build
from tests.log_builder import LogBuilder
from tests.plans import forced_plan

SETTINGS = {"cleanup.policy": "compact", "segment.ms": str(1 << 60)}


@pytest.mark.parametrize("is_active", [False, True])
def test_a_segment_that_was_active_is_written_again(tmp_path: Path, *, is_active: bool) -> None:
    """The indexes of one that the same cleaning rolls are not final, whatever they hold."""
    builder = LogBuilder(tmp_path / "logs")
    builder.segment(0).batch(0, [("a", "1"), ("b", "2")])
    if not is_active:
        builder.segment(2)
    builder.write()
    staged = build(forced_plan(builder.log_dir, builder.partition, SETTINGS, roll=is_active))
    unchanged = [segment.base_offset for segment in staged.unchanged]
    written = [segment.base_offset for segment in staged.segments]
    assert (([], [0]) if is_active else ([0], [])) == (unchanged, written)
