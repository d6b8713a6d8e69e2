"""Which logs are swept for a deadline, and when."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest

from logwright.config.topic import parse_settings
from logwright.erasure.outlook.countdown import NEVER, LogCountdown
from logwright.erasure.outlook.upkeep import SWEEP_AGAIN_MS, SweepTimes, sweep_times
from logwright.pipelines.erasure.due import choose_erasures, dump_requested, load_requested

DEADLINE_MS = 1_699_999_200_000  # a full hour
DAY_MS, MINUTE_MS, HOUR_MS = 86_400_000, 60_000, 3_600_000
ROW = LogCountdown(
    directory="d",
    topic="t",
    partition=0,
    live=0,
    superseded=2,
    tombstones=1,
    aborted=0,
    values=0,
    deadline_ms=DEADLINE_MS,
    gone_by_ms=NEVER,
    missed=0,
    late=3,
    to_sweep=3,
)


def times_of(deadline_ms: int, retention_ms: int, delay_ms: int, margin_ms: int) -> SweepTimes:
    pairs = {"delete.retention.ms": str(retention_ms), "file.delete.delay.ms": str(delay_ms)}
    return sweep_times(deadline_ms, parse_settings(pairs)[0], margin_ms=margin_ms)


TIMES = times_of(DEADLINE_MS, DAY_MS, MINUTE_MS, HOUR_MS)


def wait(
    now_ms: int,
    *,
    row: LogCountdown = ROW,
    requested_ms: int = -1,
    busy: bool = False,
    later: Collection[SweepTimes] = (),
) -> str | None:
    """Why it is not swept; None if it is."""
    choice = choose_erasures(
        [("t-0", row, {TIMES, *later})],
        {"t-0": requested_ms},
        now_ms=now_ms,
        in_flight=frozenset(["t-0"] if busy else []),
        held={},
    )
    assert (("t-0",) if not choice.skipped else ()) == choice.logs
    return choice.skipped.get("t-0")


def test_times() -> None:
    """Counted back from the deadline; never below zero."""
    second_ms = DEADLINE_MS - MINUTE_MS - HOUR_MS
    assert SweepTimes(first_ms=second_ms - DAY_MS - HOUR_MS, second_ms=second_ms) == TIMES
    assert SweepTimes(first_ms=0, second_ms=0) == times_of(5, 9, 9, 9)


def test_deadlines_within_a_margin_share_their_sweeps() -> None:
    """They are rounded down to a full margin; without a margin they are as they are."""
    assert times_of(200, 10, 5, 100) == times_of(299, 10, 5, 100)
    assert times_of(200, 10, 5, 100) != times_of(199, 10, 5, 100)
    assert times_of(200, 10, 5, 0) != times_of(201, 10, 5, 0)


@pytest.mark.parametrize(
    ("now_ms", "requested_ms", "swept"),
    [
        (TIMES.first_ms - 1, -1, False),
        (TIMES.first_ms, -1, True),
        (TIMES.first_ms + 1, TIMES.first_ms, False),
        (TIMES.second_ms - 1, TIMES.first_ms, False),
        (TIMES.second_ms - 1, TIMES.first_ms - 1, True),
        (TIMES.second_ms, TIMES.first_ms, True),
        (TIMES.second_ms + SWEEP_AGAIN_MS - 1, TIMES.second_ms, False),
        (TIMES.second_ms + SWEEP_AGAIN_MS, TIMES.second_ms, True),
        (DEADLINE_MS + DAY_MS, DEADLINE_MS, True),
    ],
)
def test_when(now_ms: int, requested_ms: int, *, swept: bool) -> None:
    """Once from the first time on, once from the second, then again and again; to the ms."""
    assert swept is (wait(now_ms, requested_ms=requested_ms) is None)


def test_each_deadline_has_its_sweeps() -> None:
    """Also while the first one is still waited for; the next time of any of them counts."""
    first_ms = TIMES.first_ms + MINUTE_MS
    later = [SweepTimes(first_ms=first_ms, second_ms=DEADLINE_MS + DAY_MS)]
    assert wait(first_ms - 1, requested_ms=TIMES.first_ms, later=later) is not None
    assert wait(first_ms, requested_ms=TIMES.first_ms, later=later) is None
    assert wait(TIMES.second_ms - 1, requested_ms=first_ms, later=later) is not None
    assert wait(TIMES.second_ms, requested_ms=first_ms, later=later) is None


def test_what_goes_by_itself_is_not_swept() -> None:
    """Neither late nor missed; what is not late because of the sweeps is swept."""
    row = replace(ROW, late=0, gone_by_ms=DEADLINE_MS - 1)
    assert wait(DEADLINE_MS - 1, row=row) is None
    assert "before its deadline" in str(wait(DEADLINE_MS - 1, row=replace(row, to_sweep=0)))


def test_live_records_need_tombstones() -> None:
    """A cleaning keeps them."""
    row = replace(ROW, superseded=0, tombstones=0, live=3, values=1, to_sweep=0)
    assert "4 records stay: no tombstone, needs" in str(wait(DEADLINE_MS, row=row))
    assert wait(DEADLINE_MS, row=replace(row, aborted=1, to_sweep=1)) is None


def test_retired_files_are_not_swept() -> None:
    """A purge removes them."""
    row = replace(ROW, to_sweep=0)
    assert "3 records are in retired or other files" in str(wait(DEADLINE_MS, row=row))


def test_a_missed_deadline_is_still_worked_on() -> None:
    """Late is better than never."""
    assert wait(DEADLINE_MS + 1, row=replace(ROW, late=0, missed=3)) is None


def test_one_run_at_a_time() -> None:
    """A log that a run works on, and one that is paused."""
    assert "a run is working on it" == wait(DEADLINE_MS, busy=True)
    choice = choose_erasures(
        [("t-0", ROW, [TIMES])],
        {},
        now_ms=DEADLINE_MS,
        in_flight=frozenset(),
        held={"t-0": "paused"},
    )
    assert {"t-0": "paused"} == choice.skipped


@pytest.mark.parametrize("cursor", [None, "", "x", "[]", '{"sweeps": 3}', '{"looks": "x"}', "9"])
def test_a_cursor_of_another_form(cursor: str | None) -> None:
    """Nothing was requested."""
    assert ({}, -1) == load_requested(cursor)


def test_cursor() -> None:
    """What is written is read."""
    assert ({"t-0": 5}, 7) == load_requested(dump_requested({"t-0": 5}, 7))
