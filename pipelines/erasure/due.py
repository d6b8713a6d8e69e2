"""Decide which logs to sweep so that erasure requests meet their deadlines. Pure.

A record whose key has a tombstone goes in two cleanings: the first removes the record and gives the
tombstone its delete horizon, `delete.retention.ms` later (KIP-534); one after that removes the
tombstone. What a cleaning replaces is gone `file.delete.delay.ms` after it. So, counted back from
the deadline:

    first cleaning at deadline - delete.retention.ms - file.delete.delay.ms - 2 margins
    second cleaning at deadline - file.delete.delay.ms - 1 margin

1. A log in which all is gone by its deadline by itself is not swept for it.
2. A log with live records only is not swept: they need tombstones first (`logwright erase`).
3. A sweep is requested once for each of the two times, and after the second again and again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from logwright.erasure.countdown import LogCountdown
from logwright.pipelines.lib.skipped import RETRY_AFTER_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """When a log must be cleaned for its deadline, ms since the epoch."""

    first_ms: int
    second_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureChoice:
    """The logs to sweep, most urgent first, and why the others are not swept."""

    logs: tuple[str, ...]
    skipped: Mapping[str, str]


def times_of(
    deadline_ms: int, *, delete_retention_ms: int, file_delete_delay_ms: int, margin_ms: int
) -> Times:
    """Return the two times, not below 0."""
    second_ms = max(deadline_ms - file_delete_delay_ms - margin_ms, 0)
    return Times(first_ms=max(second_ms - delete_retention_ms - margin_ms, 0), second_ms=second_ms)


def choose_erasures(
    rows: Iterable[tuple[str, LogCountdown, Times]],
    requested: Mapping[str, int],
    *,
    now_ms: int,
    in_flight: frozenset[str],
    held: Mapping[str, str],
) -> ErasureChoice:
    """Return the logs to sweep now.

    Args:
        rows: key of the log, what remains in it, and when it must be cleaned.
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


def _wait(row: LogCountdown, times: Times, requested_ms: int, now_ms: int) -> str | None:
    """Return why a log is not swept now, None if it is."""
    if not (row.missed or row.late):
        return f"gone by {_time(row.gone_by_ms)}, before its deadline {_time(row.deadline_ms)}"
    if not row.superseded + row.tombstones + row.aborted:
        return (
            f"{row.live + row.values} records stay: no tombstone, needs `logwright erase`;"
            f" deadline {_time(row.deadline_ms)}"
        )
    if now_ms < times.first_ms:
        return f"deadline {_time(row.deadline_ms)}; swept for it from {_time(times.first_ms)} on"
    if requested_ms < times.first_ms or requested_ms < times.second_ms <= now_ms:
        return None
    if now_ms < times.second_ms:
        return f"swept for its deadline; again from {_time(times.second_ms)} on"
    waits_ms = requested_ms + RETRY_AFTER_MS - now_ms
    return None if waits_ms <= 0 else f"a sweep was requested; again in {waits_ms // 1000} s"


def _time(time_ms: int) -> str:
    try:
        return f"{datetime.fromtimestamp(time_ms / 1000, tz=UTC):%F %H:%M}Z"
    except (OverflowError, ValueError, OSError):
        return f"{time_ms} ms"
