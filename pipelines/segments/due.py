"""Decide which logs to sweep, from the readings of a sensor's tick. Pure.

1. A log's signature (names, sizes and times of its files, its settings) shows whether it changed
   since its last reading.
2. If it changed, or if it may have become due by time, it is planned again and gets a new
   `Reading`.
3. A log that needs recovery is due: the sweep recovers it, then plans it.
4. The order of due logs: those that need recovery; those that must go now so that no
   `max.compaction.lag.ms` is exceeded, by deadline; then by bytes reclaimed per second. How many go
   is limited by the policies' `sweep` (`logwright.sweep.schedule`).
5. A log that is paused or in quarantine is skipped, with the reason and the expiry.
6. A log that has not changed since a sweep of it was requested must wait, so that a log that cannot
   be swept is not requested at every tick.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final

from logwright.assets.lib.human import human_bytes
from logwright.compaction.model import ReadablePlan
from logwright.errors import UncleanLogDir
from logwright.pipelines.lib.skipped import RETRY_AFTER_MS, shortened
from logwright.sweep.plan import POLICY_UNKNOWN
from logwright.sweep.schedule import Candidate, Occasion, Spent, schedule
from logwright.times import duration

REFUSED_LOOK_AGAIN_MS: Final = 60 * 1000
"""Time until a log that could not be planned is read again: lock and marker are not part of the
signature."""

NEVER_MS: Final = -1
UNKNOWN: Final = -1
REFUSED: Final = -2
"""A forecast was not possible: it is not tried again until the log changes."""

_NO_LIMIT_MS: Final = 100 * 365 * 86_400_000
"""A longer `max.compaction.lag.ms` is taken for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A tick's reading of one log.

    Attributes:
        signature: signature of the log when it was read.
        due: whether a sweep would change the log.
        unclean: it needs recovery before it can be planned.
        deadline_ms: when `max.compaction.lag.ms` was or will be exceeded, -1 if no lag applies.
        ratio: cleanable ratio.
        total_bytes: bytes that a cleaning reads.
        look_again_ms: when the passing of time may change the result, -1 if never.
        requested_ms: when a sweep was requested with this signature, -1 if never.
        reason: why it is due or not, short.
        cleanable: something can be cleaned, due or not.
        lag_ms: `max.compaction.lag.ms`, -1 if it does not limit.
        since_ms: since when it is due, -1 if it is not or if that is not known.
        forecast_bytes: bytes that a cleaning would free; `UNKNOWN` or `REFUSED` without a forecast.
    """

    signature: str
    due: bool
    unclean: bool
    deadline_ms: int
    ratio: float
    total_bytes: int
    look_again_ms: int
    requested_ms: int
    reason: str
    cleanable: bool = False
    lag_ms: int = NEVER_MS
    since_ms: int = NEVER_MS
    forecast_bytes: int = UNKNOWN

    def is_fresh(self, signature: str, now_ms: int) -> bool:
        """Return whether a new reading would have the same result."""
        if signature != self.signature:
            return False
        return self.look_again_ms == NEVER_MS or now_ms < self.look_again_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The logs that a tick requests a sweep of.

    Attributes:
        logs: keys, most urgent first.
        skipped: key → reason of each skipped log; of a due one also when it will go, and what that
            frees.
        next: keys of the due logs that are limited by the budget, in the order in which they go.
        spent: of the budget, with these logs.
        ahead_ms: the sweep must clean what becomes due within this time.
    """

    logs: tuple[str, ...]
    skipped: Mapping[str, str]
    next: tuple[str, ...]
    spent: Spent
    ahead_ms: int = 0


def reading_of(plan: ReadablePlan, signature: str) -> Reading:
    """Return the reading of a planned log."""
    compaction = plan.compaction
    due = plan.clean or plan.roll.due
    return Reading(
        signature=signature,
        due=due,
        unclean=False,
        deadline_ms=NEVER_MS if compaction.due_at_ms is None else compaction.due_at_ms,
        ratio=round(compaction.cleanable_ratio, 4),
        total_bytes=compaction.total_bytes,
        look_again_ms=_look_again_ms(plan),
        requested_ms=NEVER_MS,
        reason=shortened(_reason(plan)),
        cleanable=plan.config.compact and compaction.cleanable_bytes > 0,
        lag_ms=_lag_ms(plan),
        since_ms=plan.now_ms if due else NEVER_MS,
    )


def _lag_ms(plan: ReadablePlan) -> int:
    lag_ms = plan.config.max_compaction_lag_ms
    return lag_ms if lag_ms < _NO_LIMIT_MS else NEVER_MS


def _reason(plan: ReadablePlan) -> str:
    """Return briefly why a log is due or not; its plan has the long form."""
    if plan.roll.due:
        return f"due to roll: {plan.roll.reason}"
    if not plan.config.policy_known:
        return POLICY_UNKNOWN
    if not plan.config.compact:
        return f"cleanup.policy is {','.join(plan.config.cleanup_policy)}"
    compaction = plan.compaction
    needed = f"dirty ratio {compaction.cleanable_ratio:.2f} of {compaction.min_cleanable_ratio:.2f}"
    if compaction.due_at_ms is None:
        return needed
    due_at = datetime.fromtimestamp(compaction.due_at_ms / 1000, tz=UTC)
    return f"{needed}, max.compaction.lag.ms at {due_at:%F %T}Z"


def carried(reading: Reading, known: Reading | None) -> Reading:
    """Return a new reading with what an earlier one of the log still shows."""
    if known is None:
        return reading
    if known.due and reading.due and known.since_ms != NEVER_MS:
        reading = replace(reading, since_ms=known.since_ms)
    if known.signature != reading.signature:
        return reading
    return replace(reading, requested_ms=known.requested_ms, forecast_bytes=known.forecast_bytes)


def refused_reading(error: Exception, signature: str, *, now_ms: int) -> Reading:
    """Return the reading of a log that could not be planned."""
    return Reading(
        signature=signature,
        due=False,
        unclean=False,
        deadline_ms=NEVER_MS,
        ratio=0.0,
        total_bytes=0,
        look_again_ms=now_ms + REFUSED_LOOK_AGAIN_MS,
        requested_ms=NEVER_MS,
        reason=shortened(f"refused: {type(error).__name__}: {error}"),
    )


def unclean_reading(error: UncleanLogDir, signature: str, *, total_bytes: int) -> Reading:
    """Return the reading of a log that needs recovery first.

    `total_bytes`: size of its ``.log`` files, the maximum that its cleaning can read.
    """
    return Reading(
        signature=signature,
        due=True,
        unclean=True,
        deadline_ms=NEVER_MS,
        ratio=0.0,
        total_bytes=total_bytes,
        look_again_ms=NEVER_MS,
        requested_ms=NEVER_MS,
        reason=shortened(f"needs recovery: {error}"),
    )


def _look_again_ms(plan: ReadablePlan) -> int:
    """Return when the decision may change although the files do not, in ms."""
    lag_ms = plan.config.min_compaction_lag_ms
    instants: list[int | None] = [plan.compaction.due_at_ms, plan.roll.due_at_ms]
    instants += [segment.largest_timestamp_ms + lag_ms for segment in plan.log.segments]
    coming = [instant for instant in instants if instant is not None and instant > plan.now_ms]
    return min(coming, default=NEVER_MS)


def choose(
    readings: Mapping[str, Reading],
    occasion: Occasion,
    *,
    in_flight: frozenset[str],
    held: Mapping[str, str] = MappingProxyType({}),
    volumes: Mapping[str, str] = MappingProxyType({}),
) -> Choice:
    """Return the logs to sweep now.

    Args:
        readings: key → reading of every log.
        occasion: clock, limits, budget and disk; a log above the limit of bytes is swept alone.
        in_flight: keys of logs that a queued or started run works on.
        held: key → why a log is paused or in quarantine.
        volumes: key → file system, by which free bytes are known.
    """
    now_ms = occasion.now_ms
    skipped: dict[str, str] = {}
    candidates: list[Candidate] = []
    for key, reading in readings.items():
        waits_ms = reading.requested_ms + RETRY_AFTER_MS - now_ms
        early = reading.cleanable and reading.deadline_ms != NEVER_MS
        if key in held:
            skipped[key] = held[key]
        elif not (reading.due or early):
            skipped[key] = reading.reason
        elif key in in_flight:
            skipped[key] = "a run is working on it"
        elif reading.requested_ms != NEVER_MS and waits_ms > 0:
            skipped[key] = f"unchanged since its last sweep; retry in {duration(waits_ms)}"
        else:
            candidates.append(_candidate(key, reading, now_ms, volumes.get(key, "")))
    scheduled = schedule(candidates, _without_running(occasion, readings, in_flight, volumes))
    for key, wait in scheduled.waiting.items():
        skipped[key] = f"{wait.reason}{_when(wait.at_ms)}{_frees(readings[key])}"
    chosen = set(scheduled.chosen)
    for candidate in candidates:
        if candidate.key not in chosen:
            skipped.setdefault(candidate.key, readings[candidate.key].reason)
    ahead = [readings[key].deadline_ms - now_ms + 1 for key in scheduled.early]
    return Choice(
        logs=scheduled.chosen,
        skipped=skipped,
        next=tuple(scheduled.waiting),
        spent=scheduled.spent,
        ahead_ms=max(ahead, default=0),
    )


def _candidate(key: str, reading: Reading, now_ms: int, volume: str) -> Candidate:
    dated = reading.cleanable and reading.deadline_ms != NEVER_MS
    since_ms = now_ms if reading.since_ms == NEVER_MS else reading.since_ms
    guessed = round(reading.ratio * reading.total_bytes)
    return Candidate(
        key=key,
        volume=volume,
        read_bytes=reading.total_bytes,
        reclaim_bytes=guessed if reading.forecast_bytes < 0 else reading.forecast_bytes,
        deadline_ms=reading.deadline_ms if dated else None,
        lag_ms=None if reading.lag_ms == NEVER_MS else reading.lag_ms,
        since_ms=since_ms if reading.due else None,
        unclean=reading.unclean,
    )


def _without_running(
    occasion: Occasion,
    readings: Mapping[str, Reading],
    in_flight: frozenset[str],
    volumes: Mapping[str, str],
) -> Occasion:
    """Return the occasion without the disk space that running sweeps may need."""
    free = dict(occasion.free_bytes)
    for key in in_flight & readings.keys():
        if volumes.get(key) in free:
            free[volumes[key]] -= readings[key].total_bytes
    return replace(occasion, free_bytes=free)


def _when(at_ms: int | None) -> str:
    if at_ms is None:
        return ""
    return f"; goes about {datetime.fromtimestamp(at_ms / 1000, tz=UTC):%F %H:%M}Z"


def _frees(reading: Reading) -> str:
    if reading.forecast_bytes < 0:
        return ""
    return f"; frees about {human_bytes(reading.forecast_bytes)}"


def with_requests(
    readings: Mapping[str, Reading], keys: Iterable[str], *, now_ms: int
) -> dict[str, Reading]:
    """Return the readings, with the time of the request for these keys."""
    requested = set(keys)
    return {
        key: replace(reading, requested_ms=now_ms) if key in requested else reading
        for key, reading in readings.items()
    }


def dump_readings(readings: Mapping[str, Reading]) -> str:
    """Serialize readings as JSON: key → the values of the attributes."""
    fields = attrgetter(*Reading.__dataclass_fields__)
    rows = {key: fields(reading) for key, reading in readings.items()}
    return json.dumps(rows, separators=(",", ":"))


def load_readings(document: str) -> dict[str, Reading]:
    """Parse what `dump_readings` wrote; of another version there are no readings, so all logs are
    read again.
    """
    names = tuple(Reading.__dataclass_fields__)
    try:
        rows = json.loads(document or "{}")
    except ValueError:
        return {}
    return {
        key: Reading(**dict(zip(names, row, strict=True)))
        for key, row in (rows.items() if isinstance(rows, dict) else ())
        if isinstance(row, list) and len(row) == len(names)
    }


def shown_cursor(readings: Mapping[str, Reading], spent: Spent) -> dict[str, Any]:
    """Return what a cursor shows of a tick: numbers of logs, and the used budget."""
    due = sum(reading.due for reading in readings.values())
    return {"logs": len(readings), "due": due, "spent": asdict(spent)}


def load_spent(cursor: Mapping[str, Any]) -> Spent:
    """Return the used budget of a cursor; none is used in a cursor of another form."""
    try:
        return Spent(**{name: int(value) for name, value in cursor.get("spent", {}).items()})
    except (TypeError, ValueError, AttributeError):
        return Spent()
