"""What a tick asks for, and what it remembers."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.config.policy_models import SweepLimits
from logwright.format.names import TopicPartition
from logwright.pipelines.lib.skipped import (
    RETRY_AFTER_MS,
    SHOWN_REASON,
    SHOWN_SKIPPED,
    shortened,
    skip_message,
)
from logwright.pipelines.segments.due import (
    NEVER_MS,
    REFUSED,
    UNKNOWN,
    Choice,
    Reading,
    carried,
    choose,
    dump_readings,
    load_readings,
    load_spent,
    reading_of,
    shown_cursor,
    with_requests,
)
from logwright.pipelines.segments.forecasts import FORECAST_BYTES, to_forecast
from logwright.sweep.schedule import HOUR_MS, Occasion, Spent
from tests.log_builder import LogBuilder
from tests.plans import forced_plan

NOW_MS = 1_760_000_000_000
LIMITS = SweepLimits(max_logs=10, max_bytes=1_000)


def reading(**changed: object) -> Reading:
    """A due log of 100 bytes, half of them dirty."""
    values: dict[str, object] = {
        "signature": "s",
        "due": True,
        "unclean": False,
        "deadline_ms": NEVER_MS,
        "ratio": 0.5,
        "total_bytes": 100,
        "look_again_ms": NEVER_MS,
        "requested_ms": NEVER_MS,
        "reason": "why",
        "cleanable": True,
    }
    return Reading(**(values | changed))  # type: ignore[arg-type]


def chosen(readings: dict[str, Reading], **changed: object) -> tuple[str, ...]:
    return choice_of(readings, **changed).logs


def choice_of(
    readings: dict[str, Reading], *, in_flight: frozenset[str] = frozenset(), **changed: object
) -> Choice:
    occasion: dict[str, object] = {"limits": LIMITS, "now_ms": NOW_MS}
    return choose(readings, Occasion(**(occasion | changed)), in_flight=in_flight)  # type: ignore[arg-type]


def test_overdue_logs_go_first_by_deadline_then_the_filthiest() -> None:
    """`max.compaction.lag.ms` is a promise with a date; the ratio only says what is worth most.
    Neither is known of a log to be recovered, so it goes first. Without a budget a log is not
    cleaned before it is due; with windows a deadline before the next opportunity counts as past.
    """
    readings = {
        "filthy": reading(ratio=0.9),
        "overdue": reading(ratio=0.1, deadline_ms=NOW_MS - 1),
        "longer-overdue": reading(ratio=0.2, deadline_ms=NOW_MS - 1_000),
        "dirty": reading(ratio=0.6),
        "unclean": reading(ratio=0.0, unclean=True),
        "soon-overdue": reading(ratio=0.3, deadline_ms=NOW_MS + 1, due=False),
        "later-overdue": reading(ratio=0.55, deadline_ms=NOW_MS + 10_000_000),
    }
    late, others = ("unclean", "longer-overdue", "overdue"), ("filthy", "dirty", "later-overdue")
    assert (*late, *others) == chosen(readings)
    always = SweepLimits(windows=("00:00-24:00",))
    assert (*late, "soon-overdue", *others) == chosen(readings, limits=always)


def test_logs_in_a_run_are_not_asked_for_twice() -> None:
    """One log, one run at a time."""
    readings = {"a": reading(), "b": reading()}
    choice = choice_of(readings, in_flight=frozenset({"a"}))
    assert ("b",) == choice.logs
    assert {"a": "a run is working on it"} == choice.skipped


def test_log_that_a_sweep_left_as_it_was_waits() -> None:
    """One that cannot be swept is not asked for at every tick, and not for ever forgotten."""
    requested = with_requests({"a": reading()}, ["a"], now_ms=NOW_MS)
    assert () == chosen(requested, now_ms=NOW_MS + RETRY_AFTER_MS - 1)
    assert ("a",) == chosen(requested, now_ms=NOW_MS + RETRY_AFTER_MS)


@pytest.mark.parametrize(
    ("bytes_of", "limits", "expected"),
    [
        ([600, 600, 300], SweepLimits(max_logs=10, max_bytes=1_000), ("0", "2")),
        ([5_000, 1], SweepLimits(max_logs=10, max_bytes=1_000), ("0",)),
        ([1, 1, 1], SweepLimits(max_logs=2, max_bytes=1_000), ("0", "1")),
    ],
)
def test_sweep_is_limited(
    bytes_of: list[int], limits: SweepLimits, expected: tuple[str, ...]
) -> None:
    """By logs and by bytes; a log above the limit still goes, alone."""
    readings = {str(number): reading(total_bytes=size) for number, size in enumerate(bytes_of)}
    assert expected == chosen(readings, limits=limits)


def test_every_log_is_asked_for_or_has_a_reason() -> None:
    """A tick accounts for all logs."""
    readings = {
        "clean": reading(due=False, reason="ratio 0.1 of 0.5"),
        "due": reading(),
        "running": reading(),
    }
    choice = choice_of(readings, in_flight=frozenset({"running"}))
    assert readings.keys() == {*choice.logs, *choice.skipped}
    assert "ratio 0.1 of 0.5" == choice.skipped["clean"]


@pytest.mark.parametrize(
    ("changed", "signature", "now_ms", "expected"),
    [
        ({}, "s", NOW_MS, True),
        ({}, "other", NOW_MS, False),
        ({"look_again_ms": NOW_MS}, "s", NOW_MS, False),
        ({"look_again_ms": NOW_MS + 1}, "s", NOW_MS, True),
    ],
)
def test_reading_is_kept_until_the_log_or_its_time_changes(
    changed: dict[str, object], signature: str, now_ms: int, *, expected: bool
) -> None:
    """Only what may say something else is read again."""
    assert expected is reading(**changed).is_fresh(signature, now_ms)


def test_a_log_is_read_again_when_its_segments_are_old_enough(tmp_path: Path) -> None:
    """At the first ms at which `min.compaction.lag.ms` holds no segment back."""
    log = LogBuilder(tmp_path, "t-0")
    log.segment(0).batch(0, [("a", "1"), ("a", "2")], timestamps=[NOW_MS] * 2)
    log.segment(2).batch(2, [("a", "3")], timestamps=[NOW_MS])
    log.write(high_watermark=3)
    settings = {"cleanup.policy": "compact", "min.compaction.lag.ms": "1000"}

    def read_at(now_ms: int) -> Reading:
        plan = forced_plan(tmp_path, TopicPartition("t", 0), settings, now_ms=now_ms)
        return reading_of(plan, "s")

    look_again_ms = read_at(NOW_MS).look_again_ms
    assert NOW_MS + 1000 == look_again_ms
    assert [False, True] == [read_at(look_again_ms + more).cleanable for more in (-1, 0)]


def test_readings_are_brought_back() -> None:
    """As they were."""
    readings = {
        f"orders.{number}-{number % 7}": reading(signature=f"{number:016x}", ratio=number / 9_999)
        for number in range(10_000)
    }
    assert readings == load_readings(dump_readings(readings))


@pytest.mark.parametrize("document", ["", "no JSON", "7", "[]", '{"t-0": [1]}', '{"t-0": 7}', "{}"])
def test_readings_of_another_version_are_none(document: str) -> None:
    """All is read again."""
    assert {} == load_readings(document)


@pytest.mark.parametrize(
    "cursor", [{}, {"spent": 3}, {"spent": {"x": 1}}, {"spent": {"bytes": "x"}}]
)
def test_a_budget_of_another_version_is_not_used(cursor: dict[str, object]) -> None:
    """Nothing of it is spent."""
    assert Spent() == load_spent(cursor)


def test_message_is_bounded() -> None:
    """However many logs there are, and however long their reasons."""
    skipped = {f"t-{number}": shortened("because " * 100) for number in range(10_000)}
    message = skip_message(skipped)
    assert SHOWN_SKIPPED + 1 == len(message.splitlines())
    assert f"And {10_000 - SHOWN_SKIPPED} more." == message.splitlines()[-1]
    assert len(message) < (SHOWN_REASON + 20) * (SHOWN_SKIPPED + 1)


def test_budget_of_an_hour_is_kept_over_ticks() -> None:
    """What one tick begins, the cursor brings to the next; what waits says when it goes, and what
    it will free.
    """
    limits = SweepLimits(max_gb_per_hour=150 / 1e9)
    readings = {
        name: reading(forecast_bytes=freed, ratio=freed / 100_000_000)
        for name, freed in (("a", 90_000_000), ("b", 80_000_000), ("c", 70_000_000))
    }
    hour_ms = NOW_MS - NOW_MS % HOUR_MS
    first = choice_of(readings, limits=limits, now_ms=hour_ms)
    assert ("a",) == first.logs
    assert ("b", "c") == first.next
    assert first.skipped["b"].endswith("; goes about 2025-10-09 09:00Z; frees about 76.3 MiB")
    assert first.skipped["c"].endswith("; goes about 2025-10-09 10:00Z; frees about 66.8 MiB")
    spent = load_spent(shown_cursor(readings, first.spent))
    assert spent == Spent(hour_ms=hour_ms, bytes=100)
    del readings["a"]
    for minutes, expected in ((1, ()), (59, ()), (60, ("b",))):
        now_ms = hour_ms + minutes * 60_000
        assert expected == choice_of(readings, limits=limits, now_ms=now_ms, spent=spent).logs


def test_sweeps_begin_only_in_their_windows() -> None:
    """And a log whose deadline passes before the next window goes at the end of this one."""
    limits = SweepLimits.model_validate({"windows": ["08:00-09:00"]})
    deadline_ms = NOW_MS + 20 * HOUR_MS
    readings = {"early": reading(due=False, deadline_ms=deadline_ms), "due": reading()}
    assert NOW_MS % (24 * HOUR_MS) == 8 * HOUR_MS + 53 * 60_000 + 20_000
    assert ("due",) == choice_of(readings, limits=limits).logs
    last_ms = NOW_MS + 5 * 60_000
    last = choice_of(readings, limits=limits, now_ms=last_ms)
    assert ("early", "due") == last.logs
    assert last.ahead_ms == deadline_ms - last_ms + 1
    closed = choice_of(readings, limits=limits, now_ms=NOW_MS + HOUR_MS)
    assert () == closed.logs
    assert "no window is open" in closed.skipped["due"]
    assert closed.skipped["due"].endswith("; goes about 2025-10-10 08:00Z")


def test_disk_has_room_for_what_runs_and_what_begins() -> None:
    """A cleaning needs room for what it leaves; those that run may still need all of theirs."""
    readings = {"a": reading(forecast_bytes=60), "b": reading(forecast_bytes=50), "c": reading()}
    volumes = dict.fromkeys(readings, "disk")
    occasion = Occasion(
        now_ms=NOW_MS,
        limits=SweepLimits(min_free_bytes=1_000),
        free_bytes={"disk": 1_000 + 100 + 40 + 49},
    )
    choice = choose(readings, occasion, in_flight=frozenset({"c"}), volumes=volumes)
    assert ("a",) == choice.logs
    assert "too little free disk" in choice.skipped["b"]


def test_a_full_disk_stops_nothing_that_nobody_asked_to_be_stopped() -> None:
    """Without ``min_free_bytes`` free disk is not looked at, and never for a recovery."""
    readings = {"due": reading(), "unclean": reading(unclean=True)}
    volumes = dict.fromkeys(readings, "disk")
    tight = SweepLimits(min_free_bytes=1_000)
    for limits, expected in ((SweepLimits(), ("unclean", "due")), (tight, ("unclean",))):
        occasion = Occasion(now_ms=NOW_MS, limits=limits, free_bytes={"disk": 0})
        choice = choose(readings, occasion, in_flight=frozenset(), volumes=volumes)
        assert expected == choice.logs


@pytest.mark.parametrize(
    ("signature", "due", "expected"),
    [("s", True, (3, 2, 1)), ("new", True, (NEVER_MS, 2, UNKNOWN)), ("s", False, (3, 9, 1))],
)
def test_reading_carries_over_what_is_still_true(
    signature: str, expected: tuple[int, int, int], *, due: bool
) -> None:
    """Since when a log is due; of an unchanged one also its forecast, and its request."""
    known = reading(requested_ms=3, since_ms=2, forecast_bytes=1)
    new = carried(reading(signature=signature, due=due, since_ms=9), known)
    assert expected == (new.requested_ms, new.since_ms, new.forecast_bytes)


def test_a_tick_forecasts_a_limited_number_of_bytes() -> None:
    """In the order that it is given, without what is known, refused or needs recovery."""
    half = FORECAST_BYTES // 2
    readings = {
        "known": reading(forecast_bytes=1, total_bytes=half),
        "large": reading(total_bytes=FORECAST_BYTES + 1),
        "first": reading(total_bytes=half),
        "unclean": reading(unclean=True, total_bytes=half),
        "second": reading(total_bytes=half),
        "third": reading(total_bytes=half),
        "refused": reading(forecast_bytes=REFUSED),
    }
    assert ["first", "second"] == to_forecast(readings, readings)
