"""The schedule of sweeps: no log waits for ever, no budget is overdrawn, deadlines are kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from logwright.config.policy_models import SweepLimits
from logwright.sweep.schedule import (
    HOUR_MS,
    PATIENCE_MS,
    Candidate,
    Occasion,
    Schedule,
    Spent,
    room_needed,
    schedule,
)

START_MS = 1_760_000_400_000
HOURLY = 1_000
WINDOWS = [(), ("22:00-06:00",), ("Sat,Sun 00:00-24:00", "12:30-13:10")]
bounded = settings(deadline=None)


@st.composite
def candidates(draw: st.DrawFn, *, largest: int = HOURLY) -> list[Candidate]:
    hours = st.integers(-30, 200).map(lambda hour: START_MS + hour * HOUR_MS)
    return [
        Candidate(
            key=str(number),
            volume=draw(st.sampled_from(["a", "b"])),
            read_bytes=draw(st.integers(1, largest)),
            reclaim_bytes=draw(st.integers(0, largest)),
            deadline_ms=draw(st.one_of(st.none(), hours)),
            lag_ms=draw(st.sampled_from([None, 12 * HOUR_MS, 100 * HOUR_MS])),
            since_ms=draw(st.one_of(st.none(), st.just(START_MS), st.just(START_MS - PATIENCE_MS))),
            unclean=draw(st.booleans()) and draw(st.booleans()),
        )
        for number in range(draw(st.integers(0, 12)))
    ]


def limits(**changed: Any) -> SweepLimits:  # noqa: ANN401 -- of `SweepLimits`
    return SweepLimits.model_validate({"max_gb_per_hour": HOURLY / 1e9, **changed})


def hours_of(
    logs: list[Candidate], limits_of: SweepLimits, count: int
) -> list[tuple[int, Schedule, list[Candidate]]]:
    """The decisions of this number of hours, each with the time and the logs before it. What is
    chosen is swept at once.
    """
    decisions, spent, left = [], Spent(), list(logs)
    for hour in range(count):
        now_ms = START_MS + hour * HOUR_MS
        scheduled = schedule(left, Occasion(now_ms=now_ms, limits=limits_of, spent=spent))
        decisions.append((now_ms, scheduled, left))
        spent = scheduled.spent
        left = [one for one in left if one.key not in scheduled.chosen]
    return decisions


@bounded
@given(candidates(largest=2 * HOURLY), st.sampled_from(WINDOWS))
def test_due_logs_are_all_chosen_in_time(logs: list[Candidate], windows: tuple[str, ...]) -> None:
    """Each due log goes within a bound: its place by deadline, at half of the budget, in the hours
    that have a window.
    """
    due = [replace(one, since_ms=one.since_ms or START_MS) for one in logs]
    every_hour = 1 if not windows else 24
    needed = 24 + every_hour * (4 * sum(one.read_bytes for one in due) // HOURLY + 2)
    decisions = hours_of(due, limits(windows=windows), needed + 48)
    chosen = [key for _, found, _ in decisions for key in found.chosen]
    assert sorted(chosen) == sorted(one.key for one in due)


@bounded
@given(
    candidates(largest=3 * HOURLY),
    st.integers(0, 4 * HOURLY),
    st.integers(0, 5),
    st.integers(1, 5),
)
def test_no_budget_is_overdrawn(
    logs: list[Candidate], min_free: int, runs: int, max_logs: int
) -> None:
    """Not of an hour, of a disk, of a sweep, of runs; but a log above the hour's goes alone, and
    a disk's counts only if it is asked for, not for a log that needs recovery.
    """
    sizes = {one.key: one for one in logs}
    tight = limits(min_free_bytes=min_free, max_runs=3, max_logs=max_logs, max_bytes=2 * HOURLY)
    free = {"a": 5 * HOURLY, "b": 2 * HOURLY}
    occasion = Occasion(now_ms=START_MS, limits=tight, free_bytes=free, runs=runs)
    scheduled = schedule(logs, occasion)
    begun = [sizes[key] for key in scheduled.chosen]
    assert sum(one.read_bytes for one in begun) <= HOURLY or len(begun) == 1
    assert len(begun) <= (max_logs if runs < 3 else 0)
    for volume, room in free.items():
        there = [one for one in begun if one.volume == volume]
        left = room - sum(map(room_needed, there))
        assert not min_free or all(one.unclean for one in there) or left >= min_free
    assert scheduled.spent.bytes == sum(one.read_bytes for one in begun)


@bounded
@given(candidates(largest=3 * HOURLY))
def test_hours_pay_for_a_log_above_the_budget(logs: list[Candidate]) -> None:
    """Over any hours from the first on, the bytes are at most their budgets and one large log."""
    sizes = {one.key: one.read_bytes for one in logs}
    begun = 0
    for number, (_, scheduled, _) in enumerate(hours_of(logs, limits(), 60)):
        before = begun
        begun += sum(sizes[key] for key in scheduled.chosen)
        assert before == begun or begun <= (number + 1) * HOURLY or before <= number * HOURLY


@bounded
@given(candidates(largest=HOURLY // 2))
def test_deadlines_are_kept_in_their_order(logs: list[Candidate]) -> None:
    """A log that is past its deadline waits only if the hour is used by logs with earlier ones,
    or it does not fit into what is left.
    """
    for now_ms, scheduled, left in hours_of(logs, limits(), 8):
        taken = [one for one in left if one.key in scheduled.chosen]
        for candidate in left:
            if (
                candidate.key in scheduled.chosen
                or candidate.target_ms > now_ms
                or candidate.unclean
            ):
                continue
            earlier = [
                each.read_bytes
                for each in taken
                if each.unclean or each.target_ms <= candidate.target_ms
            ]
            assert sum(earlier) + candidate.read_bytes > HOURLY


@bounded
@given(candidates())
def test_what_waits_has_a_reason_and_a_time(logs: list[Candidate]) -> None:
    """Every due log is chosen or waits; none waits for an hour in the past."""
    scheduled = schedule(logs, Occasion(now_ms=START_MS, limits=limits()))
    due = {one.key for one in logs if one.since_ms is not None}
    assert due - set(scheduled.chosen) == set(scheduled.waiting)
    assert set(scheduled.early) <= set(scheduled.chosen) - due
    for wait in scheduled.waiting.values():
        assert wait.at_ms is not None
        assert wait.at_ms > START_MS
