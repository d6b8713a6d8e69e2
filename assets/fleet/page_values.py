"""The values that the fleet page shows. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from logwright.fleet.model import DirectorySpace

SHOWN_LOGS: Final = 300
"""Maximum rows of the page's table; those that need attention come first."""
DAYS: Final = 30
"""Days of the history that the page shows."""

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_KIB: Final = 1024
_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS
_DAY_MS: Final = 24 * _HOUR_MS
DEADLINES: Final = (
    ("passed", 0),
    ("in 1 h", _HOUR_MS),
    ("in 6 h", 6 * _HOUR_MS),
    ("in 1 d", _DAY_MS),
    ("in 7 d", 7 * _DAY_MS),
)
"""Classes of the time to a deadline: name, inclusive upper bound in ms."""
LATER: Final = "later"
NEVER: Final = "no deadline"

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """What one day's maintenance saved, in bytes.

    Attributes:
        reclaimed: by cleanings, then free after a purge; retained: deleted by retention, likewise.
        freed: by purges.
    """

    day: date
    reclaimed: int
    retained: int
    freed: int


def human_bytes(count: float) -> str:
    """Return a size for people: ``1,023 B``, ``1.2 MiB``."""
    size = float(count)
    for unit in _UNITS:
        if abs(size) < _KIB or unit == _UNITS[-1]:
            return f"{size:,.0f} B" if unit == "B" else f"{size:,.1f} {unit}"
        size /= _KIB
    raise AssertionError(count)


def unit_of(largest: float) -> tuple[str, int]:
    """Return the unit, and its bytes, in which a plot with this largest size is drawn."""
    power = 0
    while largest >= _KIB ** (power + 1) and power < len(_UNITS) - 1:
        power += 1
    return _UNITS[power], _KIB**power


def human_ms(length_ms: int) -> str:
    """Return a length of time for people: ``3 d``, ``2 h``, ``5 min``, ``4 s``."""
    for unit, unit_ms in (("d", _DAY_MS), ("h", _HOUR_MS), ("min", _MINUTE_MS), ("s", 1_000)):
        if abs(length_ms) >= 2 * unit_ms:
            return f"{length_ms // unit_ms:,} {unit}"
    return f"{length_ms / 1_000:.1f} s"


def human_time(time_ms: int) -> str:
    """Return a time, UTC, to the minute; empty for a negative one."""
    if time_ms < 0:
        return ""
    try:
        return f"{datetime.fromtimestamp(time_ms / 1_000, tz=UTC):%F %H:%M}Z"
    except (OverflowError, ValueError):
        return "after the year 9999"


def is_compacted(row: Row) -> bool:
    """Return whether the log is compacted: only then its dirty ratio has a meaning."""
    return "compact" in row["policy"].split(",")


def dirty_ratio(row: Row) -> float:
    """Return the dirty ratio of a compacted log; 0 for any other."""
    return float(row["dirty_ratio"]) if is_compacted(row) else 0.0


def needs_attention(row: Row) -> bool:
    """Return whether somebody should look at a log."""
    return bool(
        row["state"] == "refused"
        or row["quarantined"]
        or row["paused"]
        or row["stray"]
        or row["compaction_delay_ms"]
    )


def shown_rows(rows: Iterable[Row]) -> list[Row]:
    """Return the rows of the table: those that need attention, then those that are due, then the
    dirtiest, then the largest.
    """

    def order(row: Row) -> tuple[object, ...]:
        due = row["state"] == "due"
        urgent = -row["compaction_delay_ms"]
        return (not needs_attention(row), urgent, not due, -dirty_ratio(row), -row["bytes"])

    return sorted(rows, key=order)[:SHOWN_LOGS]


def deadline_counts(rows: Iterable[Row], now_ms: int) -> dict[str, int]:
    """Return the number of logs by the time to their deadline by `max.compaction.lag.ms`."""
    counts = dict.fromkeys([*(name for name, _ in DEADLINES), LATER, NEVER], 0)
    for row in rows:
        left_ms = row["due_at_ms"] - now_ms
        within = (name for name, bound_ms in DEADLINES if left_ms <= bound_ms)
        counts[NEVER if row["due_at_ms"] < 0 else next(within, LATER)] += 1
    return counts


def ratio_counts(rows: Iterable[Row]) -> list[int]:
    """Return the number of compacted logs by dirty ratio, in ten classes."""
    counts = [0] * 10
    for row in rows:
        if is_compacted(row):
            counts[min(int(row["dirty_ratio"] * 10), 9)] += 1
    return counts


def days_of(history: Iterable[Row], today: date) -> list[Day]:
    """Return what each of the last days saved, the oldest first."""
    first = today - timedelta(days=DAYS - 1)
    saved = {first + timedelta(days=number): [0, 0, 0] for number in range(DAYS)}
    place = {"clean": 0, "retain": 1, "purge": 2}
    for row in history:
        sums = saved.get(row["started_at"].astimezone(UTC).date())
        if sums is not None and row["operation"] in place:
            difference = (row["bytes_before"] or 0) - (row["bytes_after"] or 0)
            sums[place[row["operation"]]] += difference
    return [
        Day(day=day, reclaimed=sums[0], retained=sums[1], freed=sums[2])
        for day, sums in saved.items()
    ]


def passed_horizons(rows: Iterable[Row], history: Iterable[Row], now_ms: int) -> tuple[int, int]:
    """Return (logs whose earliest delete horizon has passed since their last cleaning, the longest
    time since then, ms): their next cleaning can remove tombstones or markers. Only cleanings in
    the history count, and logs that are there.
    """
    there = {row["log"] for row in rows}
    newest: dict[str, Row] = {}
    for row in history:
        before = newest.get(row["log"])
        if (
            row["operation"] == "clean"
            and row["log"] in there
            and (before is None or row["started_at"] >= before["started_at"])
        ):
            newest[row["log"]] = row
    horizons = (row["delete_horizon"] for row in newest.values())
    ages = [now_ms - int(one.timestamp() * 1000) for one in horizons if one is not None]
    past = [age for age in ages if age >= 0]
    return len(past), max(past, default=0)


def tiles(
    rows: Sequence[Row],
    spaces: Sequence[DirectorySpace],
    history: Sequence[Row],
    days: Sequence[Day],
    now_ms: int,
) -> list[tuple[str, str, bool]]:
    """Return the figures at the top: title, value, whether it needs attention."""
    overdue = sum(row["compaction_delay_ms"] > 0 for row in rows)
    worst_ms = max((row["compaction_delay_ms"] for row in rows), default=0)
    coming = [row["due_at_ms"] for row in rows if row["due_at_ms"] > now_ms]
    refused = sum(row["state"] == "refused" for row in rows)
    held = [sum(bool(row[name]) for row in rows) for name in ("paused", "quarantined", "stray")]
    delay = f"{overdue:,}, up to {human_ms(worst_ms)}" if overdue else "0"
    due = sum(row["state"] == "due" for row in rows)
    past, longest_ms = passed_horizons(rows, history, now_ms)
    horizons = f"{past:,}, up to {human_ms(longest_ms)}" if past else "0"
    deadline = f"in {human_ms(min(coming) - now_ms)}" if coming else "none"
    return [
        ("logs", f"{len(rows):,}", False),
        ("size", human_bytes(sum(row["bytes"] for row in rows)), False),
        ("due", f"{due:,}", False),
        ("over compaction lag", delay, overdue > 0),
        ("next deadline", deadline, False),
        ("past delete horizon", horizons, False),
        ("refused", f"{refused:,}", refused > 0),
        ("paused", f"{held[0]:,}", held[0] > 0),
        ("in quarantine", f"{held[1]:,}", held[1] > 0),
        ("stray", f"{held[2]:,}", held[2] > 0),
        (f"reclaimed in {DAYS} d", human_bytes(sum(d.reclaimed + d.retained for d in days)), False),
        (f"freed in {DAYS} d", human_bytes(sum(day.freed for day in days)), False),
        ("wait for a purge", human_bytes(sum(space.retired_bytes for space in spaces)), False),
    ]
