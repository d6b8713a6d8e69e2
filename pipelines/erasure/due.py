"""Decide which logs to sweep so that erasure requests meet their deadlines. Pure.

When a log must be swept says `logwright.erasure.outlook.upkeep`.

1. A log in which all is gone by its deadline by itself is not swept for it.
2. A log is not swept for what a sweep does not remove: live records need tombstones first
   (`logwright erase`), retired files a purge.
3. A sweep is requested once for each of the two times of each deadline, and after the second of one
   again and again.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from logwright.erasure.outlook.countdown import LogCountdown
from logwright.erasure.outlook.upkeep import SweepTimes, next_sweep_ms
from logwright.times import duration


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureChoice:
    """The logs to sweep, most urgent first, and why the others are not swept."""

    logs: tuple[str, ...]
    skipped: Mapping[str, str]


def choose_erasures(
    rows: Iterable[tuple[str, LogCountdown, Collection[SweepTimes]]],
    requested: Mapping[str, int],
    *,
    now_ms: int,
    in_flight: frozenset[str],
    held: Mapping[str, str],
) -> ErasureChoice:
    """Return the logs to sweep now.

    Args:
        rows: key of the log, what remains in it, and when it must be cleaned, for each deadline.
        requested: key → when a sweep was requested last, ms.
        now_ms: the clock.
        in_flight: keys of logs that a run works on.
        held: key → why a log is paused or in quarantine.
    """
    chosen: list[str] = []
    skipped: dict[str, str] = {}
    for key, row, times in rows:
        wait = _wait(row, times, requested.get(key, -1), now_ms)
        if key in held:
            skipped[key] = held[key]
        elif wait is not None:
            skipped[key] = wait
        elif key in in_flight:
            skipped[key] = "a run is working on it"
        else:
            chosen.append(key)
    return ErasureChoice(logs=tuple(chosen), skipped=skipped)


def dump_requested(requested: Mapping[str, int], look_ms: int) -> str:
    """Return the cursor: when sweeps and the last search were requested, ms."""
    return json.dumps({"looks": look_ms, "sweeps": dict(requested)})


def load_requested(cursor: str | None) -> tuple[dict[str, int], int]:
    """Return what `dump_requested` wrote; nothing for a cursor of another form."""
    try:
        loaded = json.loads(cursor or "{}")
        sweeps = {str(key): int(at_ms) for key, at_ms in loaded.get("sweeps", {}).items()}
        return sweeps, int(loaded.get("looks", -1))
    except (ValueError, AttributeError, TypeError):
        return {}, -1


def _wait(
    row: LogCountdown, deadlines: Collection[SweepTimes], requested_ms: int, now_ms: int
) -> str | None:
    """Return why a log is not swept now, None if it is."""
    deadline = _instant(row.deadline_ms)
    if not (row.missed or row.late or row.to_sweep):
        return f"gone by {_instant(row.gone_by_ms)}, before its deadline {deadline}"
    if not row.to_sweep:
        return (
            f"{row.live + row.values} records stay: no tombstone, needs `logwright erase`;"
            f" deadline {deadline}"
            if row.live + row.values
            else f"{row.records} records are in retired or other files; deadline {deadline}"
        )
    due_ms, times = min((next_sweep_ms(times, requested_ms), times) for times in deadlines)
    if now_ms >= due_ms:
        return None
    if requested_ms < times.first_ms:
        return f"first deadline {deadline}; swept for a deadline from {_instant(due_ms)} on"
    if requested_ms < times.second_ms:
        return f"swept for a deadline; again from {_instant(due_ms)} on"
    return f"a sweep was requested; again in {duration(due_ms - now_ms)}"


def _instant(time_ms: int) -> str:
    try:
        return f"{datetime.fromtimestamp(time_ms / 1000, tz=UTC):%F %H:%M}Z"
    except (OverflowError, ValueError, OSError):
        return f"{time_ms} ms"
