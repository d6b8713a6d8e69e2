"""Which logs are reported as unmaintained."""

from __future__ import annotations

from dataclasses import replace

from logwright.pipelines.segments.due import NEVER_MS, Reading
from logwright.pipelines.segments.pauses import (
    FLAG_AGAIN_MS,
    Unmaintained,
    Waiting,
    find_unmaintained,
)

NOW_MS = 1_760_000_000_000
LIMIT_MS = 1_000
DUE = Reading(
    signature="s",
    due=True,
    unclean=False,
    deadline_ms=NEVER_MS,
    ratio=0.5,
    total_bytes=100,
    look_again_ms=NEVER_MS,
    requested_ms=NEVER_MS,
    reason="why",
)


def reported(
    reading: Reading, before: Waiting | None, now_ms: int, cause: str = ""
) -> tuple[tuple[Unmaintained, ...], dict[str, Waiting]]:
    known = {} if before is None else {"a": before}
    causes = {"a": cause} if cause else {}
    return find_unmaintained({"a": reading}, known, causes, {"a": LIMIT_MS}, now_ms=now_ms)


def test_due_for_longer_than_the_limit() -> None:
    """Counted from the first tick that saw it due; with the cause, else the reading's reason."""
    first, waiting = reported(DUE, None, NOW_MS)
    assert ((), {"a": Waiting(since_ms=NOW_MS, flagged_ms=-1)}) == (first, waiting)
    at_limit, _ = reported(DUE, waiting["a"], NOW_MS + LIMIT_MS)
    assert () == at_limit
    (late,), waiting = reported(DUE, waiting["a"], NOW_MS + LIMIT_MS + 1, "paused by ops")
    assert ("paused by ops", NOW_MS, LIMIT_MS) == (late.cause, late.since_ms, late.limit_ms)
    assert NOW_MS + LIMIT_MS + 1 == waiting["a"].flagged_ms
    (plain,), _ = reported(DUE, replace(waiting["a"], flagged_ms=-1), NOW_MS + LIMIT_MS + 1)
    assert "why" == plain.cause


def test_told_once_a_day() -> None:
    """Not at every tick."""
    flagged = Waiting(since_ms=NOW_MS - 10 * LIMIT_MS, flagged_ms=NOW_MS)
    assert () == reported(DUE, flagged, NOW_MS + FLAG_AGAIN_MS - 1)[0]
    assert 1 == len(reported(DUE, flagged, NOW_MS + FLAG_AGAIN_MS)[0])


def test_lag_that_ran_out_earlier_counts_from_then() -> None:
    """`max.compaction.lag.ms` has a date of its own."""
    overdue = replace(DUE, deadline_ms=NOW_MS - 5 * LIMIT_MS)
    (late,), _ = reported(overdue, None, NOW_MS)
    assert NOW_MS - 5 * LIMIT_MS == late.since_ms


def test_cleaned_logs_are_forgotten_and_refused_ones_are_not() -> None:
    """What is in order waits for nothing; what cannot even be planned is not maintained."""
    before = Waiting(since_ms=NOW_MS - 10 * LIMIT_MS, flagged_ms=-1)
    assert ((), {}) == reported(replace(DUE, due=False), before, NOW_MS)
    refused = replace(DUE, due=False, reason="refused: CorruptCheckpoint: …")
    assert 1 == len(reported(refused, before, NOW_MS)[0])
