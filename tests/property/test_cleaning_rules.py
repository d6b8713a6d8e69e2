"""The compiled cleaning does what the plain rules say, on logs that Hypothesis makes up."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from logwright.checks.thorough import examine_thoroughly
from logwright.format.batch import parse_batch
from logwright.format.codec import NONE
from logwright.format.names import segment_file_name
from logwright.format.record import Record, read_records
from logwright.rewrite.staging import discard_staging
from logwright.rewrite.steps import swap_steps
from logwright.steps.filesystem import RealFileSystem
from logwright.steps.interpreter import execute
from logwright.sweep.build import build, examine
from logwright.sweep.commit import commit
from tests import twins
from tests.property.made_up_logs import (
    NOW_MS,
    MadeUpLog,
    committed_values,
    made_up_logs,
    plan,
    read,
    read_aborted,
    rules,
    write,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from logwright.checks.model import OutputFacts
    from logwright.compaction.model import CleanPlan, StagedCleaning
    from tests.log_builder import LogBuilder

bounded = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
LONGER = 20 if settings.default.max_examples > 100 else 1  # by tests/conftest.py: more at night

# rotates(1): all of them by day, and again at night, with LONGER times as many examples
pytestmark = pytest.mark.rotates(1)


@contextmanager
def written(log: MadeUpLog) -> Iterator[LogBuilder]:
    """The log on disk, in memory where there is such a place: syncs would take most of the time."""
    memory = Path("/dev/shm")  # noqa: S108 -- a private directory below it
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as scratch:
        yield write(log, Path(scratch))


def meaning(content: bytes) -> object:
    """A batch without what a compressor decides: its bytes if it is not compressed; else all fields
    but length and CRC, and all records.
    """
    batch = parse_batch(content)
    if batch.codec == NONE:
        return content
    return replace(batch, batch_length=0, crc=0), read_records(batch, content)


def staged_batches(staged: StagedCleaning, base_offset: int) -> list[bytes]:
    content = (staged.directory / segment_file_name(base_offset, ".log")).read_bytes()
    return [whole for _, whole, _ in twins.read_segment(0, content).batches]


def data_records(segments: Iterable[twins.Segment]) -> list[Record]:
    """The records of all batches but control batches."""
    return [
        record
        for segment in segments
        for batch, _, records in segment.batches
        if not batch.is_control
        for record in records
    ]


@settings(bounded, max_examples=200 * LONGER)
@given(made_up_logs())
def test_the_kernels_leave_what_the_plain_rules_leave(log: MadeUpLog) -> None:
    """Batches, records, transaction indexes, next first dirty offset, counts and every check."""
    with written(log) as builder:
        planned = plan(log, builder)
        if not planned.clean:
            assert planned.compaction.cleanable_bytes == 0
            return
        before = read(builder)
        staged = build(planned)
        unchanged = {each.base_offset for each in staged.unchanged}
        groups = sorted(
            [*(each.source_base_offsets for each in staged.segments), *((b,) for b in unchanged)]
        )
        expected = twins.clean(before[:-1], rules(log, planned, before, groups))
        assert expected.end_offset == staged.end_offset
        for segment in staged.segments:
            wanted = [b for base in segment.source_base_offsets for b in expected.written[base]]
            got = staged_batches(staged, segment.base_offset)
            assert [meaning(one) for one in wanted] == [meaning(one) for one in got]
            aborted = read_aborted(staged.directory, segment.base_offset)
            assert expected.aborted[segment.base_offset] == list(aborted)
        for segment in before:
            if segment.base_offset in unchanged:
                wanted = expected.written[segment.base_offset]
                assert wanted == [whole for _, whole, _ in segment.batches]
                aborted = read_aborted(builder.directory, segment.base_offset)
                assert expected.aborted[segment.base_offset] == list(aborted)
        _check_figures(examine_thoroughly(planned, staged), staged)
        _check_figures(examine(planned, staged), staged)


def _check_figures(facts: OutputFacts, staged: StagedCleaning) -> None:
    assert () == facts.failed
    kept = sum(segment.records for segment in (*facts.segments, *staged.unchanged))
    assert kept == staged.stats.records_written
    assert staged.stats.records_read - kept == (
        staged.stats.removed_superseded
        + staged.stats.removed_tombstones
        + staged.stats.removed_null_keys
        + staged.stats.removed_aborted
        + staged.stats.removed_markers
    )


def clean(log: MadeUpLog, builder: LogBuilder) -> CleanPlan:
    """Clean once, if there is something to clean. Effects: changes the log."""
    planned = plan(log, builder)
    commit(planned, build(planned) if planned.clean else None)
    return planned


@settings(bounded, max_examples=75 * LONGER)
@given(made_up_logs())
def test_the_last_committed_value_of_each_key_survives(log: MadeUpLog) -> None:
    """A reader of committed records sees the same last value of each key before and after; only a
    deleted key may be gone, once its tombstone's horizon is reached.
    """
    with written(log) as builder:
        before = read(builder)
        stable = plan(log, builder).log.last_stable_offset
        due = {
            record.offset
            for segment in before
            for batch, _, records in segment.batches
            if batch.delete_horizon_ms is not None and batch.delete_horizon_ms <= NOW_MS
            for record in records
            if record.value is None
        }
        clean(log, builder)
        after = committed_values(read(builder), stable)
        for key, (offset, value) in committed_values(before, stable).items():
            if offset not in due:
                assert (offset, value) == after.get(key)


@settings(bounded, max_examples=75 * LONGER)
@given(made_up_logs(), st.sampled_from([700_000, 850_000, 999_999, 1_000_000]))
def test_what_is_younger_than_the_lag_survives(log: MadeUpLog, lag_ms: int) -> None:
    """`min.compaction.lag.ms`: no record above the first dirty offset goes before its time."""
    log = replace(log, min_lag_ms=lag_ms, first_dirty=None)
    with written(log) as builder:
        young = [
            record
            for record in data_records(read(builder))
            if record.timestamp_ms > NOW_MS - lag_ms and record.offset >= (log.log_start or 0)
        ]
        clean(log, builder)
        kept = {record.offset for record in data_records(read(builder))}
        assert [] == [record.offset for record in young if record.offset not in kept]


@settings(bounded, max_examples=75 * LONGER)
@given(made_up_logs())
def test_cleaning_twice_at_one_clock_changes_nothing(log: MadeUpLog) -> None:
    """There is nothing left to clean; and if the log is taken for dirty again, no data record
    changes.
    """
    log = replace(log, buffer=None, first_dirty=None)
    with written(log) as builder:
        first = clean(log, builder)
        assert first.clean or first.compaction.cleanable_bytes == 0
        once = data_records(read(builder))
        assert not plan(log, builder).clean
        (builder.log_dir / "cleaner-offset-checkpoint").write_bytes(b"")
        clean(log, builder)
        assert once == data_records(read(builder))


@settings(bounded, max_examples=75 * LONGER)
@given(made_up_logs(), st.integers(0, 3))
def test_a_cleaning_that_was_stopped_and_resumed_leaves_the_same(
    log: MadeUpLog, stopped_after: int
) -> None:
    """Some groups are swapped, the others are not, the checkpoint is not written; planned again,
    the data records are those of a cleaning that nobody stopped.
    """
    log = replace(log, buffer=None, first_dirty=None, segment_bytes=300)
    with written(log) as builder:
        clean(log, builder)
        undisturbed = data_records(read(builder))
    with written(log) as builder:
        planned = plan(log, builder)
        if planned.clean:
            _swap_some(planned, build(planned), stopped_after)
        clean(log, builder)
        assert undisturbed == data_records(read(builder))


def _swap_some(planned: CleanPlan, staged: StagedCleaning, count: int) -> None:
    """Put the first groups in, as a commit does, and give the rest up. Effects: changes the log."""
    with RealFileSystem(planned.log.log_dir) as files:
        for segment in islice(staged.segments, count):
            steps = swap_steps(planned.rolled_log, segment, staged.directory, now_ms=planned.now_ms)
            execute(steps, files)
    discard_staging(planned)
