"""Decide which logs a sweep takes now, within a budget. Pure.

1. Logs that need recovery go first.
2. Then logs that must go now so that no deadline is missed, by their deadline (EDF). A deadline is
   when ``max.compaction.lag.ms`` will be exceeded; without that lag it is `PATIENCE_MS` after the
   log became due: so no log waits for ever. A log must go now if the capacity from the next
   opportunity to its deadline is too small for all logs with deadlines up to then, each of which
   comes back after its lag. Such a log need not be due yet.
3. Then the other due logs, by bytes reclaimed per second of work; the value grows with the wait.

The capacity is what the budget and the windows of `SweepLimits` allow. An hour of the clock never
begins more than its budget, but for a log that is larger than it: that one begins alone, and the
next hours have as much less.

Free disk is looked at only if the policy sets ``min_free_bytes``, and never for a log that needs
recovery: a cleaning for whose output there is no room fails without a change to the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Final

import numpy as np

from logwright.config.windows import spans

if TYPE_CHECKING:
    from logwright.config.policy_models import SweepLimits

HOUR_MS: Final = 3_600_000
TICK_MS: Final = 120_000
"""The next opportunity in an open window comes within this time."""
PATIENCE_MS: Final = 24 * HOUR_MS
"""A log that has been due for so long is past its deadline."""
WORK_BYTES_PER_SECOND: Final = 100_000_000
WORK_SECONDS: Final = 0.05
"""Expected speed of a cleaning, and what each log takes besides."""
_LONGEST_MS: Final = 60 * 24 * HOUR_MS
"""Deadlines later than this are not looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A log that may be swept.

    Attributes:
        volume: the file system that its output needs room on.
        read_bytes: bytes that its cleaning reads.
        reclaim_bytes: bytes that it would free, as far as is known.
        deadline_ms: when ``max.compaction.lag.ms`` will be or was exceeded; None without.
        lag_ms: ``max.compaction.lag.ms``: its next deadline comes about so long after this one.
        since_ms: since when it is due; None if it is not due.
        unclean: it needs recovery.
    """

    key: str
    volume: str = ""
    read_bytes: int
    reclaim_bytes: int = 0
    deadline_ms: int | None = None
    lag_ms: int | None = None
    since_ms: int | None = None
    unclean: bool = False

    @property
    def target_ms(self) -> float:
        """The deadline; without one the end of the patience."""
        if self.deadline_ms is not None:
            return self.deadline_ms
        return inf if self.since_ms is None else self.since_ms + PATIENCE_MS

    def value(self, now_ms: int) -> float:
        """Bytes reclaimed per second of work; up to twice as much at the end of the patience."""
        seconds = WORK_SECONDS + self.read_bytes / WORK_BYTES_PER_SECOND
        waited = 0 if self.since_ms is None else max(now_ms - self.since_ms, 0)
        return self.reclaim_bytes / seconds * (1 + waited / PATIENCE_MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What of the budget is used.

    Attributes:
        hour_ms: start of the hour of the clock, ms since the epoch.
        bytes: begun in this hour, and what earlier ones have left to pay.
    """

    hour_ms: int = 0
    bytes: int = 0

    def at(self, now_ms: int, hourly_bytes: int | None) -> Spent:
        """Return what is used at a later time."""
        hour_ms = now_ms - now_ms % HOUR_MS
        if hour_ms <= self.hour_ms:
            return self
        hours = (hour_ms - self.hour_ms) // HOUR_MS
        paid = self.bytes if hourly_bytes is None else hours * hourly_bytes
        return Spent(hour_ms=hour_ms, bytes=max(self.bytes - paid, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
    """The circumstances of a decision.

    Attributes:
        spent: of the budget.
        free_bytes: volume → free bytes, less what sweeps that run may still need.
        runs: sweeps that are queued or run.
    """

    now_ms: int
    limits: SweepLimits
    spent: Spent = field(default_factory=Spent)
    free_bytes: Mapping[str, int] = field(default_factory=dict)
    runs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Why a log does not go now, and about when it will, None if that is not known."""

    reason: str
    at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The decision.

    Attributes:
        chosen: keys, most urgent first.
        early: those of them that are not due yet.
        waiting: the other due logs.
        spent: of the budget, with the chosen ones.
    """

    chosen: tuple[str, ...]
    early: tuple[str, ...]
    waiting: Mapping[str, Wait]
    spent: Spent


class _Capacity:
    """Capacity between now and later times."""

    def __init__(self, occasion: Occasion, until_ms: int) -> None:
        now_ms, limits = occasion.now_ms, occasion.limits
        windows = list(spans(limits.windows, limits.time_zone, now_ms))
        last = min(max(until_ms, now_ms), now_ms + _LONGEST_MS)
        if windows and last > windows[-1][1]:
            windows = list(spans(limits.windows, limits.time_zone, now_ms, end_ms=last))
        self.spans = windows
        self.open = bool(windows) and windows[0][0] <= now_ms
        self.next_ms = self._next_ms(now_ms)
        self._starts = np.array([start for start, _ in windows], dtype=np.float64)
        ends = np.array([end for _, end in windows], dtype=np.float64)
        self._before = np.concatenate([[0.0], np.cumsum(ends - self._starts)])
        self._ends = ends

    def _next_ms(self, now_ms: int) -> float:
        for start, end in self.spans:
            if end > now_ms + TICK_MS:
                return max(start, now_ms + TICK_MS)
        return inf

    def open_ms(self, until_ms: float) -> float:
        """Return for how long windows are open before a time, from the first span's start on."""
        number = int(np.searchsorted(self._starts, until_ms, side="right")) - 1
        if number < 0:
            return 0.0
        inside = min(until_ms, float(self._ends[number])) - float(self._starts[number])
        return float(self._before[number]) + inside


def schedule(candidates: Sequence[Candidate], occasion: Occasion) -> Schedule:
    """Choose the logs that go now, and say of the other due ones when they will."""
    limits, now_ms = occasion.limits, occasion.now_ms
    spent = occasion.spent.at(now_ms, limits.hourly_bytes)
    latest = max((c.target_ms for c in candidates if c.target_ms < inf), default=now_ms)
    capacity = _Capacity(occasion, int(latest))
    order = _order(candidates, occasion, capacity, spent)
    chosen: list[Candidate] = []
    waiting: dict[str, str] = {}
    free = dict(occasion.free_bytes)
    left = limits.max_bytes
    for candidate in order:
        reason = _obstacle(candidate, occasion, capacity, (chosen, left, spent, free))
        if reason is not None:
            waiting[candidate.key] = reason
            continue
        chosen.append(candidate)
        left -= candidate.read_bytes
        spent = Spent(hour_ms=spent.hour_ms, bytes=spent.bytes + candidate.read_bytes)
        if candidate.volume in free:
            free[candidate.volume] -= room_needed(candidate)
    late = [one for one in order if one.key in waiting and one.since_ms is not None]
    times = _times(late, occasion, capacity, spent)
    return Schedule(
        chosen=tuple(one.key for one in chosen),
        early=tuple(one.key for one in chosen if one.since_ms is None and not one.unclean),
        waiting={one.key: Wait(reason=waiting[one.key], at_ms=times.get(one.key)) for one in late},
        spent=spent,
    )


def room_needed(candidate: Candidate) -> int:
    """Return the disk space that a log's output may need, in bytes."""
    return max(candidate.read_bytes - candidate.reclaim_bytes, 0)


def _order(
    candidates: Sequence[Candidate], occasion: Occasion, capacity: _Capacity, spent: Spent
) -> list[Candidate]:
    """Return the logs that may go now, in their order."""
    now_ms = occasion.now_ms
    unclean = sorted((one for one in candidates if one.unclean), key=lambda one: one.key)
    others = [one for one in candidates if not one.unclean]
    dated = sorted(
        (one for one in others if one.target_ms < now_ms + _LONGEST_MS),
        key=lambda one: (one.target_ms, one.key),
    )
    pressed = dated[: _pressed(dated, occasion, capacity, spent)]
    names = {one.key for one in pressed}
    rest = [one for one in others if one.key not in names and one.since_ms is not None]
    rest.sort(key=lambda one: (-one.value(now_ms), one.key))
    return [*unclean, *pressed, *rest]


def _pressed(
    dated: Sequence[Candidate], occasion: Occasion, capacity: _Capacity, spent: Spent
) -> int:
    """Return how many of these logs, in the order of their deadlines, must go now."""
    hourly, now_ms = occasion.limits.hourly_bytes, occasion.now_ms
    if hourly is None:
        # Without a budget and windows nothing is cleaned before it is due.
        next_ms = capacity.next_ms if occasion.limits.windows else now_ms
        return sum(one.target_ms < next_ms for one in dated)
    largest = max((one.read_bytes for one in dated if one.read_bytes <= hourly), default=0)
    # Of an hour as much may remain unused as the largest log is too large by.
    rate = max(hourly - largest, 1) / HOUR_MS
    next_hour_ms = spent.hour_ms + HOUR_MS
    before = capacity.open_ms(next_hour_ms)
    debt = max(spent.bytes - hourly, 0)
    once, again, required = 0, 0.0, 0.0
    last_ms = dated[0].target_ms if dated else 0.0
    returning = 0.0
    for candidate in dated:
        again += returning * max(candidate.target_ms - max(last_ms, now_ms), 0.0)
        last_ms = candidate.target_ms
        once += candidate.read_bytes
        returning += candidate.read_bytes / candidate.lag_ms if candidate.lag_ms else 0.0
        later = (capacity.open_ms(candidate.target_ms) - before) * rate - debt
        required = max(required, once + again - max(later, 0.0))
    count, taken = 0, 0
    while count < len(dated) and (taken < required or dated[count].target_ms <= now_ms):
        taken += dated[count].read_bytes
        count += 1
    return count


def _obstacle(
    candidate: Candidate,
    occasion: Occasion,
    capacity: _Capacity,
    used: tuple[list[Candidate], int, Spent, Mapping[str, int]],
) -> str | None:
    """Return why a log cannot go now, None if it can. `used`: what the chosen ones use."""
    limits, (chosen, left, spent, free) = occasion.limits, used
    hourly = limits.hourly_bytes
    if not capacity.open:
        return "due, but no window is open (policy: sweep.windows)"
    if limits.max_runs is not None and occasion.runs >= limits.max_runs:
        return f"due, but {occasion.runs} sweeps are running (policy: sweep.max_runs)"
    if len(chosen) >= limits.max_logs or (chosen and candidate.read_bytes > left):
        return "due, but this sweep is full (policy: sweep)"
    if hourly is not None and spent.bytes and spent.bytes + candidate.read_bytes > hourly:
        return "due, but the budget of this hour is used (policy: sweep.max_gb_per_hour)"
    room = free.get(candidate.volume) if limits.min_free_bytes and not candidate.unclean else None
    if room is not None and room - room_needed(candidate) < limits.min_free_bytes:
        return "due, but its output would leave too little free disk (policy: sweep.min_free_bytes)"
    return None


def _times(
    late: Sequence[Candidate], occasion: Occasion, capacity: _Capacity, spent: Spent
) -> dict[str, int]:
    """Return about when each log will go, ms, by its key; none beyond the last known window."""
    hourly = occasion.limits.hourly_bytes
    if hourly is None:
        at = capacity.next_ms
        return {} if at == inf else {one.key: int(at) for one in late}
    times: dict[str, int] = {}
    hours = _hours(occasion, capacity)
    start, left = next(hours, (None, 0))
    left -= spent.bytes
    for candidate in late:
        while start is not None and left < min(candidate.read_bytes, hourly):
            start, fresh = next(hours, (None, 0))
            left = min(left, 0) + fresh
        if start is None:
            break
        times[candidate.key] = start
        left -= candidate.read_bytes
    return times


def _hours(occasion: Occasion, capacity: _Capacity) -> Iterator[tuple[int, int]]:
    """Yield (when it is open first, its budget) of each hour of the clock with an open window."""
    hourly = occasion.limits.hourly_bytes or 0
    last = -1
    for start, end in capacity.spans:
        begin = max(start, occasion.now_ms)
        while begin < end:
            hour = begin - begin % HOUR_MS
            if hour != last:
                yield begin, hourly
                last = hour
            begin = hour + HOUR_MS
