"""A log that is truncated, or recovered, between the look at its files and their bound."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from logwright.batches.runtime import Throttle
from logwright.format.snapshot import serialize_snapshot
from logwright.running.picture import Facts, Picture, bounded
from logwright.running.watermark import read_watermarks
from logwright.units import Offset
from tests.log_builder import LogBuilder
from tests.running_dirs import PAIRS, running, snapshot_of


@pytest.mark.parametrize("truncated", [False, True])
def test_a_log_that_was_truncated_before_its_bound(log: LogBuilder, *, truncated: bool) -> None:
    """A follower truncates its log and fetches other records, which begin another segment: the one
    that was sealed ends before the high watermark now, and a cleaner left no gap there.
    """
    first, half = log.directory / f"{0:020}.log", len(log.segments[0].content) // 2
    first.write_bytes(log.segments[0].content[:half])
    first.with_suffix(".index").write_bytes(b"")
    with running(log.log_dir, {"t-0": 15}):
        snapshot = snapshot_of(log)
        if truncated:
            os.truncate(first, half // 2)
            with first.open("ab") as file:
                file.write(log.segments[0].content[half // 2 : half])
        facts = Facts(Offset(15), read_watermarks(log.log_dir), 0, 0)
        picture = bounded(snapshot, facts, Throttle())
    if truncated:
        assert "a sealed segment was changed" == picture
    else:
        assert isinstance(picture, Picture)
        assert picture.bound is not None
        assert 15 == picture.bound.end_offset


@pytest.mark.parametrize("base", [20, 30])
@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_producer_snapshot_of_what_was_truncated(
    log: LogBuilder, base: int, *, is_deleted: bool
) -> None:
    """A truncation cuts the log, and deletes the snapshots beyond it after that."""
    path = log.directory / f"{base:020}.snapshot"
    path.write_bytes(serialize_snapshot(()))
    with running(log.log_dir, {"t-0": 40}):
        snapshot = snapshot_of(log)
        if is_deleted:
            path.unlink()
        facts = Facts(Offset(40), read_watermarks(log.log_dir), 0, 0)
        picture = bounded(snapshot, facts, Throttle())
    assert isinstance(picture, Picture)
    assert (path.name in picture.sizes) == (base == 20 or not is_deleted)


@pytest.mark.parametrize("suffix", ["index", "timeindex", "txnindex"])
def test_indexes_that_are_made_again_are_not_shown(log: LogBuilder, suffix: str) -> None:
    """By a broker that was killed and starts: the snapshot is of a moment in the middle, the high
    watermark of a later one.
    """
    path = log.directory / f"{0:020}.{suffix}"
    path.write_bytes(b"")
    with running(log.log_dir, {"t-0": 40}):
        snapshot = snapshot_of(log)
        path.write_bytes(bytes(34))
        facts = Facts(Offset(40), read_watermarks(log.log_dir), 0, 0)
        assert "a sealed segment was changed" == bounded(snapshot, facts, Throttle())


@pytest.mark.parametrize(
    ("deleted", "renewed", "why"),
    [
        (20, False, "the log is being truncated"),
        (20, True, None),
        (60, False, None),
        (0, False, None),
    ],
)
def test_a_truncation_that_deletes_segments_is_noticed(
    tmp_path: Path, deleted: int, why: str | None, *, renewed: bool
) -> None:
    """It deletes them one after the other: those that follow are still there. A cleaner renames the
    segment that stands for a deleted one after that; what lies beyond the bound or is replaced
    under its own name is not missing.
    """
    builder = LogBuilder(tmp_path / "logs")
    for base in (0, 20, 40, 60, 80):
        builder.segment(base).batch(base, PAIRS).batch(base + 18, PAIRS)
    builder.write(index_interval=1)
    path = builder.directory / f"{deleted:020}.log"
    path.rename(f"{path}.deleted")
    first = builder.directory / f"{0:020}.log"
    if deleted == 0:
        first.write_bytes(builder.segments[0].content)
    time.sleep(0.01)
    if renewed:
        first.rename(first.with_suffix(".swap"))
        first.with_suffix(".swap").rename(first)
    with running(builder.log_dir, {"t-0": 58}):
        facts = Facts(Offset(58), read_watermarks(builder.log_dir), 0, 0)
        picture = bounded(snapshot_of(builder), facts, Throttle())
    assert why == (None if isinstance(picture, Picture) else picture)
