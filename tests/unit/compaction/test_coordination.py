"""What a coordinated cleaning removes: rules 14 and 15 (docs/adr/0030)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from logwright import cleaner_rules as rules
from logwright.batches.runtime import Runtime
from logwright.compaction.coordination import clean_offset, held_markers, lowest_clean_offset
from logwright.compaction.model import NO_BOUND, CleanPlan, RemovalBound
from logwright.compaction.survivors import open_sources
from logwright.format.batch import DELETE_HORIZON
from logwright.format.scan import BATCH
from logwright.log.load import observe
from logwright.sweep.build import build, examine
from logwright.sweep.commit import commit
from logwright.units import INT64_MAX, Offset
from tests.log_builder import START_MS, LogBuilder
from tests.plain_consumer import plain_batches
from tests.plans import forced_plan

SETTINGS = {"cleanup.policy": "compact", "segment.ms": str(1 << 60)}
NOW_MS = START_MS + 10_000


def bound(end: int, *data: tuple[int, int]) -> RemovalBound:
    rows = np.array(sorted(data), dtype=np.int64).reshape(-1, 2)
    return RemovalBound(Offset(end), rows)


def plan_of(builder: LogBuilder, removal: RemovalBound, **options: object) -> CleanPlan:
    plan = forced_plan(builder.log_dir, builder.partition, SETTINGS, now_ms=NOW_MS, **options)
    return plan._replace(removal=removal)


@pytest.mark.parametrize(
    ("checkpoint", "log_start", "expected"),
    [(None, None, 0), (2, None, 2), (4, None, 3), (9, None, 0), (None, 1, 1), (0, 2, 2)],
)
def test_below_which_offset_a_replica_is_clean(
    checkpoint: int | None, log_start: int | None, expected: int, tmp_path: Path
) -> None:
    """Below its valid checkpoint, but no further than its last stable offset, which is 3 here."""
    builder = LogBuilder(tmp_path / "logs")
    segment = builder.segment(0).batch(0, [("a", "1"), ("b", "2"), ("c", "3")])
    segment.batch(3, [("d", "4"), ("e", "5")], producer_id=7, transactional=True)
    builder.write(cleaner_checkpoint=checkpoint, log_start=log_start, producers=True)
    log = observe(builder.log_dir, builder.partition, high_watermark="end")
    assert expected == clean_offset(log)
    other = log._replace(cleaner_checkpoint=Offset(1), log_start_offset=Offset(0))
    assert min(expected, 1) == lowest_clean_offset([log, other])


@pytest.mark.parametrize(
    ("horizon_ms", "end", "expected"),
    [
        (NOW_MS, 11, True),
        (NOW_MS, 10, False),
        (NOW_MS, INT64_MAX, True),
        (NOW_MS + 1, INT64_MAX, False),
        (None, INT64_MAX, False),
    ],
)
def test_a_horizon_counts_below_the_bound(horizon_ms: int | None, end: int, expected: bool) -> None:
    """The whole batch, whose last offset is 10, is below it."""
    row = np.zeros(1, dtype=BATCH)
    row["last_offset"] = 10
    if horizon_ms is not None:
        row["attributes"], row["base_timestamp"] = DELETE_HORIZON, horizon_ms
    assert expected == rules.delete_horizon_reached(row[0], NOW_MS, end)


def with_tombstones(directory: Path, codec: int) -> LogBuilder:
    """Two tombstones past their horizon, of which the second is dirty."""
    builder = LogBuilder(directory)
    gone = NOW_MS - 1
    builder.segment(0).batch(0, [("a", None), ("b", "1")], codec=codec, horizon_ms=gone)
    builder.segment(2).batch(2, [("c", None), ("d", "1")], codec=codec, horizon_ms=gone)
    builder.segment(4).batch(4, [("e", "1")], codec=codec)
    builder.segment(5)
    return builder.write(cleaner_checkpoint=2)


def offsets(builder: LogBuilder) -> list[int]:
    return [record.offset for batch in plain_batches(builder.directory) for record in batch.records]


@pytest.mark.parametrize("checks", ["quick", "thorough"])
@pytest.mark.parametrize(("codec", "threads"), [(0, 1), (0, 2), (4, 1), (4, 2)])
@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (0, [0, 1, 2, 3, 4]),
        (1, [0, 1, 2, 3, 4]),
        (2, [1, 2, 3, 4]),
        (3, [1, 2, 3, 4]),
        (4, [1, 3, 4]),
    ],
)
def test_tombstones_at_or_above_the_bound_stay(
    tmp_path: Path,
    *,
    end: int,
    expected: Sequence[int],
    codec: int,
    threads: int,
    checks: Literal["quick", "thorough"],
) -> None:
    """However the log is read, and both kinds of checks agree."""
    builder = with_tombstones(tmp_path / "logs", codec)
    plan = plan_of(builder, bound(end), checks=checks)
    staged = build(plan, runtime=Runtime(threads=threads))
    assert () == examine(plan, staged).failed
    assert 5 - len(expected) == staged.stats.removed_tombstones
    commit(plan, staged)
    assert expected == offsets(builder)


def test_the_thorough_checks_notice_what_the_bound_forbids(tmp_path: Path) -> None:
    """They judge by the plan, not by the rules of the passes."""
    builder = with_tombstones(tmp_path / "logs", 0)
    staged = build(plan_of(builder, NO_BOUND, checks="thorough"))
    facts = examine(plan_of(builder, bound(2), checks="thorough"), staged)
    assert ["latest_value_per_key"] == [check.name for check in facts.failed]
    assert [2] == [check.first_offset for check in facts.failed]


def with_markers(directory: Path) -> LogBuilder:
    """Markers of transactions without data, past their horizon: of two producers, twice each."""
    builder = LogBuilder(directory)
    segment = builder.segment(0).batch(0, [("a", "1")])
    for offset, producer, kind in ((2, 5, "commit"), (3, 6, "abort"), (6, 5, "commit")):
        segment.marker(offset, producer, kind, horizon_ms=NOW_MS - 1)  # type: ignore[arg-type]
    builder.segment(8).marker(8, 6, "commit", horizon_ms=NOW_MS - 1).batch(9, [("b", "1")])
    builder.segment(10)
    return builder.write(cleaner_checkpoint=1)


MARKERS = [2, 3, 6, 8]


@pytest.mark.parametrize(
    ("removal", "expected"),
    [
        (NO_BOUND, []),
        (bound(10), []),
        (bound(3), [3, 6, 8]),
        (bound(0), MARKERS),
        (bound(10, (5, 1)), [2]),
        (bound(10, (5, 4)), [6]),
        (bound(10, (5, 1), (5, 4)), [2, 6]),
        (bound(10, (5, 7)), []),
        (bound(10, (6, 1)), [3]),
        (bound(10, (6, 5)), [8]),
        (bound(10, (7, 1)), []),
        (bound(7, (5, 1)), [2, 8]),
    ],
)
def test_markers_stay_that_another_replica_needs(
    tmp_path: Path, removal: RemovalBound, expected: list[int]
) -> None:
    """Those at or above the bound, and those whose transaction has data in another replica: since
    the marker of its producer before.
    """
    builder = with_markers(tmp_path / "logs")
    plan = plan_of(builder, removal)
    held = held_markers(open_sources(plan), removal.data)
    assert [one for one in expected if one < removal.end] == held.tolist()
    staged = build(plan)
    assert () == examine(plan, staged).failed
    commit(plan, staged)
    assert expected == [one for one in offsets(builder) if one in MARKERS]


def test_a_log_without_markers(tmp_path: Path) -> None:
    """None is held, although another replica has transactional data: the transaction is open."""
    builder = LogBuilder(tmp_path / "logs")
    builder.segment(0).batch(0, [("a", "1"), ("b", "2")])
    builder.segment(2).batch(2, [("a", "3")])
    builder.segment(3)
    builder.write()
    plan = plan_of(builder, bound(2, (7, 0)))
    assert [] == held_markers(open_sources(plan), plan.removal.data).tolist()
    commit(plan, build(plan))
    assert [1, 2] == offsets(builder)
