"""Rows of purges and of deleted logs; those of sweeps are tested on real runs in tests/e2e."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.deletion.plan import PurgedLog
from logwright.errors import CorruptBatch
from logwright.format.names import TopicPartition
from logwright.history.model import RowOrigin, purge_rows, purged_log_rows, sweep_rows
from logwright.purge.plan import PendingDeletion, PurgeResult
from logwright.sweep.model import LogWork, SweepState
from logwright.units import ByteCount, TimestampMs

T0 = TopicPartition("t", 0)
ORIGIN = RowOrigin(
    run_id="run",
    key="d:t-0",
    log_dir=Path("/logs"),
    partition=T0,
    started_at_ms=10,
    ended_at_ms=5,
)
PENDING = PendingDeletion(name="x", bytes=ByteCount(7), due_at_ms=TimestampMs(99))


def result(*, removed: int = 0, leftovers: int = 0) -> PurgeResult:
    """A purge that removed as many files of 10 bytes each, and leaves one of 7 bytes."""
    return PurgeResult(
        removed=tuple(str(number) for number in range(removed)),
        removed_bytes=ByteCount(10 * removed),
        leftovers=tuple(str(number) for number in range(leftovers)),
        staging=(),
        failed_outputs=(),
        pending=(PENDING,),
    )


def deleted(*, goes: bool) -> PurgedLog:
    return PurgedLog(
        directory="t-0.1-delete",
        partition=T0,
        bytes=ByteCount(50),
        due_at_ms=TimestampMs(0),
        goes=goes,
        reason="deleted 70 ms ago",
    )


def test_purge() -> None:
    """Bytes of retired files before and after; it does not end before it started."""
    (row,) = purge_rows(result(removed=2, leftovers=1), ORIGIN)
    assert ("purge", "d:t-0", "t", 0, "/logs") == (
        row.operation,
        row.log,
        row.topic,
        row.partition,
        row.log_dir,
    )
    assert (27, 7) == (row.bytes_before, row.bytes_after)
    assert "2 retired files were due, 1 wait, 1 leftovers" == row.why
    assert (10, 10) == (row.started_at_ms, row.ended_at_ms)


def test_purge_of_nothing() -> None:
    """Is not an operation: neither of a log, nor of a deleted one that has to wait."""
    assert [] == purge_rows(result(), ORIGIN)
    assert [] == purged_log_rows(deleted(goes=False), ORIGIN)


def test_deleted_log() -> None:
    """All its bytes go."""
    (row,) = purged_log_rows(deleted(goes=True), ORIGIN)
    assert (50, 0, "deleted 70 ms ago") == (row.bytes_before, row.bytes_after, row.why)


@pytest.mark.parametrize(
    ("findings", "why"), [((), "nothing to repair"), (("a", "b"), "a; b")], ids=str
)
def test_recovery_of_a_log_that_failed_later(findings: tuple[str, ...], why: str) -> None:
    """It is a row; the failed cleaning is not."""
    work = LogWork(
        key="t-0",
        log_dir=Path("/logs"),
        partition=T0,
        recovered=findings,
        failure=CorruptBatch("its CRC is wrong."),
    )
    state = SweepState(works=(work,), now_ms=TimestampMs(10))
    (row,) = sweep_rows(state, run_id="run")
    assert ("recover", why, 10, 10) == (
        row.operation,
        row.why,
        row.started_at_ms,
        row.ended_at_ms,
    )
