"""A commit begins only if everything it needs is as it was planned."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from logwright.compaction.model import CleanPlan
from logwright.errors import StalePlan, UnreadableFile
from logwright.sweep.build import build
from logwright.sweep.commit import commit, lag_metrics
from logwright.units import TimestampMs
from tests.log_builder import START_MS, LogBuilder
from tests.plans import forced_plan

NOW_MS = TimestampMs(START_MS + 10_000)


def a_log(directory: Path) -> LogBuilder:
    builder = LogBuilder(directory)
    builder.segment(0).batch(0, [("a", "1"), ("b", "1"), ("a", "2")])
    builder.segment(3).batch(3, [("b", "2")])
    builder.segment(4)
    return builder.write()


def plan(builder: LogBuilder, **settings: str) -> CleanPlan:
    return forced_plan(
        builder.log_dir, builder.partition, {"cleanup.policy": "compact", **settings}, now_ms=NOW_MS
    )


def content(builder: LogBuilder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in builder.directory.iterdir() if path.is_file()}


def touch_a_segment(builder: LogBuilder) -> None:
    os.utime(builder.directory / f"{0:020d}.log", ns=(1, 1))


def move_the_checkpoint(builder: LogBuilder) -> None:
    (builder.log_dir / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 3\n")


def add_an_epoch(builder: LogBuilder) -> None:
    (builder.directory / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")


def lose_a_staged_file(builder: LogBuilder) -> None:
    next(builder.directory.rglob("staging/*/*.log")).unlink()


def cut_a_staged_file(builder: LogBuilder) -> None:
    os.truncate(next(builder.directory.rglob("staging/*/*.log")), 1)


@pytest.mark.parametrize(
    "disturb",
    [
        touch_a_segment,
        move_the_checkpoint,
        add_an_epoch,
        lose_a_staged_file,
        cut_a_staged_file,
    ],
)
def test_a_commit_declines_when_the_world_moved(
    tmp_path: Path, disturb: Callable[[LogBuilder], None]
) -> None:
    """Segments, checkpoints, epochs or the staged output changed: nothing is begun."""
    builder = a_log(tmp_path / "logs")
    planned = plan(builder)
    staged = build(planned)
    disturb(builder)
    before = content(builder)
    with pytest.raises(StalePlan):
        commit(planned, staged)
    assert before == content(builder)


def test_a_commit_says_what_it_did(tmp_path: Path) -> None:
    """Bytes, segments, the recorded offset; not overdue, so no delay."""
    builder = a_log(tmp_path / "logs")
    planned = plan(builder)
    result = commit(planned, build(planned))
    assert (1, 4, False) == (
        result.segments_swapped,
        result.first_dirty_offset,
        result.by_max_compaction_lag,
    )
    assert result.bytes_before == planned.log.log_bytes
    assert result.bytes_after == plan(builder).log.log_bytes < result.bytes_before
    assert lag_metrics([result]) == {
        "num-logs-compacted-by-max-compaction-lag": 0,
        "max-compaction-delay": 0,
    }


def test_the_metrics_of_kip_354_are_measured_when_it_is_done(tmp_path: Path) -> None:
    """The delay at the plan's clock, and the time from the plan to the end of the commit."""
    builder = a_log(tmp_path / "logs")
    planned = plan(builder, **{"max.compaction.lag.ms": "2000"})
    assert planned.compaction.compaction_delay_ms == 8_000 - 2
    an_hour_ms = 3_600_000
    planned = planned._replace(planned_ns=planned.planned_ns - an_hour_ms * 1_000_000)
    staged = build(planned)
    before_ms = (time.time_ns() - planned.planned_ns) // 1_000_000
    result = commit(planned, staged)
    after_ms = (time.time_ns() - planned.planned_ns) // 1_000_000
    metrics = lag_metrics([result])
    assert 1 == metrics["num-logs-compacted-by-max-compaction-lag"]
    assert before_ms <= metrics["max-compaction-delay"] - (8_000 - 2) <= after_ms
    assert an_hour_ms <= before_ms


def test_of_several_logs_the_longest_delay_counts(tmp_path: Path) -> None:
    """And each that the lag made due; a log that it did not has no part in either."""
    results = []
    for name, lag_ms in (("late", "2000"), ("later", "1000"), ("in time", "20000")):
        builder = a_log(tmp_path / name)
        planned = plan(builder, **{"max.compaction.lag.ms": lag_ms})
        results.append(commit(planned, build(planned)))
    metrics = lag_metrics(results)
    assert 2 == metrics["num-logs-compacted-by-max-compaction-lag"]
    late, later, in_time = [one.compaction_delay_ms for one in results]
    assert 8_000 - 2 <= late
    assert 9_000 - 2 <= later
    assert (max(late, later), 0) == (metrics["max-compaction-delay"], in_time)


@pytest.mark.parametrize("link", [".logwright", ".logwright/staging"])
def test_output_is_not_built_through_a_link(tmp_path: Path, link: str) -> None:
    """A planted link out of the log directory is refused, and what it points to stays as it was."""
    builder = a_log(tmp_path / "logs")
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "staging").mkdir(parents=True)
    (builder.directory / link).parent.mkdir(exist_ok=True)
    (builder.directory / link).symlink_to(elsewhere)
    before = content(builder)
    with pytest.raises(UnreadableFile, match="a link"):
        build(plan(builder))
    assert [elsewhere / "staging"] == list(elsewhere.rglob("*"))
    assert before == content(builder)
