"""A time index makes no segment older than its batches are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from logwright.config.topic import parse_settings
from logwright.errors import CorruptIndex
from logwright.format.index import serialize_time_index
from logwright.retention.commit import plan_retention_of
from logwright.retention.plan import RetentionPlan
from logwright.sweep.retain import retain
from logwright.units import TimestampMs
from tests.log_builder import START_MS, LogBuilder

CONFIG, _ = parse_settings({"cleanup.policy": "delete", "retention.ms": "1000"})


def a_log(log_dir: Path) -> LogBuilder:
    """Two sealed segments, a record each, of START_MS and 500 ms later."""
    builder = LogBuilder(log_dir)
    builder.segment(0).batch(0, [("a", "1")], timestamps=[START_MS])
    builder.segment(1).batch(1, [("b", "1")], timestamps=[START_MS + 500])
    builder.segment(2).batch(2, [("c", "1")], timestamps=[START_MS + 600])
    return builder.write()


def a_plan(builder: LogBuilder) -> RetentionPlan:
    now_ms = TimestampMs(START_MS + 1200)
    return plan_retention_of(
        builder.log_dir, builder.partition, CONFIG, now_ms=now_ms, high_watermark="end"
    )


@pytest.mark.parametrize("entries", [[(START_MS + 1, 1)], []], ids=["too old", "none"])
def test_a_young_segment_that_looks_old_stays(
    tmp_path: Path, entries: list[tuple[int, int]]
) -> None:
    """By its time index, or, where that is empty, by its file; nothing is changed."""
    builder = a_log(tmp_path / "logs")
    path = builder.directory / f"{1:020d}.timeindex"
    table = np.array(entries, dtype=np.int64).reshape(-1, 2)
    path.write_bytes(serialize_time_index(table, 1))
    before = {one.name: one.read_bytes() for one in builder.directory.iterdir() if one.is_file()}
    plan = a_plan(builder)
    assert [0, 1] == [verdict.base_offset for verdict in plan.deleted]
    with pytest.raises(CorruptIndex, match="newest record is 700 ms old, by this index 1") as error:
        retain(plan)
    assert path == error.value.path
    files = {one.name: one.read_bytes() for one in builder.directory.iterdir() if one.is_file()}
    assert before == files


def test_a_segment_as_old_as_it_looks_goes(tmp_path: Path) -> None:
    """The other stays."""
    builder = a_log(tmp_path / "logs")
    retain(a_plan(builder))
    assert [1, 2] == sorted(int(path.stem) for path in builder.directory.glob("*.log"))
