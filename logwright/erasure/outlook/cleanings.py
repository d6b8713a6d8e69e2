"""When a log will be cleaned, and how far, if nothing more is appended to it. Pure.

1. Whether a run rolls and cleans is asked of the rules themselves (`logwright.roll.plan`,
   `logwright.compaction.plan`), at each time at which their answer can change. After a cleaning up
   to an offset that is the first dirty offset.
2. The output of a cleaning is taken to be as large as its input: so the dirty ratio is estimated
   too low. If it is smaller, the log may be due already when something is cleanable again. That
   removes something earlier, and what is appended after that may not be due any more: so a cleaning
   that is foreseen is counted on only up to where that earlier one would end, and only for
   tombstones whose delete horizon that one would find passed.
3. A sweep for a deadline (`logwright.erasure.outlook.upkeep`) rolls the active segment and cleans
   whether or not the log is due; if nothing is dirty, from the log's start, as by
   `logwright.sweep.plan`, which removes the tombstones whose delete horizon has passed.
4. When the sensor requested the last sweep is not known. So one that could have been requested by
   now is not counted on; those after the second time are expected at the latest `SWEEP_AGAIN_MS`
   after there is something for them to do; and while one may come at any time, no run is counted
   on, since after it nothing may be due.
5. A log may also be swept for other deadlines. Those sweeps only remove something earlier, but from
   the first of them on no run is counted on either.
6. Retention may remove, before, the segment for whose sake a log would be due: so a cleaning is
   counted on only by when the rest of the log is due, and only up to where that earlier one would
   end. What is due because of that removal is cleaned by the run after it: a run cleans first.
   After a cleaning the removal is not counted on either: segments are smaller, and merged ones are
   as young as their last record.
7. If a sweep may come before the one that is expected (rules 4 and 5), what is left after it may be
   due by a run in time. Then the expected one is not requested, and it is gone by the deadline.
8. Cleanings that are coordinated with other replicas (rule 14 of `logwright.cleaner_rules`) are
   not foreseen: neither the settings nor the policies say that there are any.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from logwright.cleaner_rules import delete_horizon_ms
from logwright.compaction.model import CompactionPlan
from logwright.compaction.plan import plan_compaction
from logwright.config.topic import TopicConfig
from logwright.erasure.outlook.upkeep import SWEEP_AGAIN_MS, SweepTimes, Upkeep
from logwright.log.model import PartitionLog
from logwright.retention.plan import plan_retention
from logwright.roll.plan import force_roll, plan_roll
from logwright.sweep.plan import plan_from_start
from logwright.units import INT64_MAX, Offset, TimestampMs

MAX_LAG: Final = "max.compaction.lag.ms"
RATIO: Final = "min.cleanable.dirty.ratio"
SWEEP: Final = "deadline sweep"
NO_TIME: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaning:
    """A cleaning that will be due.

    Attributes:
        at_ms: by when, with an interval of 0.
        sees_ms: it finds what is due by then: `at_ms`, or earlier if its time is not known.
        first_offset, end_offset: what its map covers.
        rule: the setting that makes it due, or `SWEEP`.
    """

    at_ms: int
    sees_ms: int
    first_offset: int
    end_offset: int
    rule: str


class _Event(NamedTuple):
    """What changes a log: a cleaning, or the roll of a sweep that finds nothing to clean.

    Attributes:
        log: as it is then.
    """

    at_ms: int
    log: PartitionLog
    cleaning: Cleaning | None


def cleanings(
    log: PartitionLog,
    config: TopicConfig,
    *,
    now_ms: int,
    upkeep: Upkeep,
    horizons: Iterable[int] = (),
    retains: bool = True,
) -> tuple[Cleaning, ...]:
    """Return all cleanings to come, in their order.

    Args:
        retains: retention may remove segments before (rule 6); False: when they come at the
            earliest.
        horizons: the delete horizons of the tombstones that are asked about, ms; `NO_TIME` for
            those without: a log is swept until all have passed.
    """
    coming: list[Cleaning] = []
    waiting = set(horizons)
    gives_horizons = NO_TIME in waiting
    times = upkeep.sweep_times(config)
    runs_until_ms = upkeep.alone_until_ms
    if times is not None:
        runs_until_ms = min(runs_until_ms, times.second_ms if now_ms < times.first_ms else 0)
    from_ms, swept_ms, end_offset = now_ms, now_ms, -1
    while config.compact:
        since_ms = coming[-1].sees_ms if coming else None
        due = None
        if upkeep.cleans:
            due = _next_due(log, config, (from_ms, since_ms), upkeep, retains=retains)
        swept = times and _next_sweep(log, config, (from_ms, swept_ms), times, waiting)
        if swept and times and (now_ms >= times.first_ms or upkeep.alone_until_ms <= swept.at_ms):
            swept = _perhaps_by_a_run(swept, config, upkeep.deadline_ms)
        events = [each for each in (swept,) if each]
        if due and due.at_ms <= runs_until_ms:
            events.append(due)
        if not events:
            break
        event = min(events, key=lambda each: each.at_ms)
        log, from_ms = event.log, event.at_ms + upkeep.run_interval_ms
        swept_ms = from_ms if event is swept else swept_ms
        cleaning = event.cleaning
        if cleaning is None:
            continue
        coming.append(cleaning)
        is_further = NO_TIME in waiting or cleaning.end_offset > end_offset
        waiting = {horizon_ms for horizon_ms in waiting if horizon_ms > cleaning.sees_ms}
        if gives_horizons and is_further:  # also one that is reached at once: for the next one
            waiting.add(delete_horizon_ms(from_ms, config.delete_retention_ms))
        end_offset = max(end_offset, cleaning.end_offset)
    return tuple(coming)


def _next_due(
    log: PartitionLog,
    config: TopicConfig,
    since: tuple[int, int | None],
    upkeep: Upkeep,
    *,
    retains: bool,
) -> _Event | None:
    """Return the next cleaning that a run certainly finds due.

    Args:
        since: the end of the last run, and when the last cleaning may have been at the earliest,
            None: there was none, and sizes are those on disk.
    """
    from_ms, cleaned_ms = since
    earliest: tuple[int, int] | None = None
    for at_ms in _times(log, config, from_ms if cleaned_ms is None else cleaned_ms):
        now_ms = TimestampMs(at_ms)
        whole = plan_roll(log, config, now_ms=now_ms, like_kafka=False).applied_to(log)
        rolled = _retained(whole, config, now_ms) if retains else whole
        if rolled is None:
            return None
        plan = before = plan_compaction(rolled, config, now_ms=now_ms, like_kafka=False)
        if rolled is not whole:
            before = plan_compaction(whole, config, now_ms=now_ms, like_kafka=False)
            only_before = before.eligible and not plan.eligible
            if earliest is None and before.cleanable_bytes > 0 and only_before:
                earliest = at_ms, before.first_uncleanable_offset
        if plan.cleanable_bytes <= 0:
            continue
        counts = before.eligible or (plan.eligible and cleaned_ms is None)
        if at_ms >= from_ms and (upkeep.forced or (plan.eligible and counts)):
            rule = MAX_LAG if plan.compaction_delay_ms > 0 else RATIO
            waits = not (upkeep.forced or before.eligible)  # for the run after that which retains
            by_ms = at_ms + (upkeep.run_interval_ms if waits else 0)
            cleaning = _cleaning(plan, (by_ms, at_ms), rule)
            if earliest is not None:
                sees_ms, end_offset = earliest
                end_offset = min(end_offset, cleaning.end_offset)
                cleaning = replace(cleaning, sees_ms=sees_ms, end_offset=end_offset)
            return _event(cleaning, whole)
        if earliest is None and cleaned_ms is not None and config.min_cleanable_dirty_ratio < 1:
            earliest = at_ms, plan.first_uncleanable_offset
    return None


def _retained(log: PartitionLog, config: TopicConfig, now_ms: TimestampMs) -> PartitionLog | None:
    """Return what retention leaves of a log by a time (rule 6); None if it is nothing."""
    if not config.delete:
        return log
    plan = plan_retention(log, config, now_ms=now_ms)
    if not plan.deleted:
        return log
    if not plan.kept:
        return None
    left = log.with_segments(plan.kept)
    return left._replace(log_start_offset=plan.log_start_offset)


def _next_sweep(
    log: PartitionLog,
    config: TopicConfig,
    since: tuple[int, int],
    times: SweepTimes,
    horizons: Iterable[int],
) -> _Event | None:
    """Return the next sweep that has something to do.

    Args:
        since: the last cleaning, and the last sweep.
        horizons: of the tombstones that wait for one.
    """
    from_ms, swept_ms = since
    young = (one.largest_timestamp_ms + config.min_compaction_lag_ms for one in log.segments)
    for change_ms in sorted(time for time in {from_ms, *horizons, *young} if time >= from_ms):
        at_ms, sees_ms = _swept_by(times, swept_ms, change_ms)
        if at_ms > INT64_MAX:
            return None
        now_ms = TimestampMs(sees_ms)
        roll = plan_roll(log, config, now_ms=now_ms, like_kafka=False)
        rolled = (roll if roll.due else force_roll(log, cause="forced")).applied_to(log)
        plan = plan_compaction(rolled, config, now_ms=now_ms, like_kafka=False)
        if not plan.cleanable_bytes and any(horizon_ms <= sees_ms for horizon_ms in horizons):
            plan = plan_from_start(rolled, config, now_ms=now_ms)
        if plan.cleanable_bytes:
            return _event(_cleaning(plan, (at_ms, sees_ms), SWEEP), rolled)
        if log.active.log_bytes:
            return _Event(at_ms, rolled, None)
    return None


def _perhaps_by_a_run(swept: _Event, config: TopicConfig, deadline_ms: int | None) -> _Event:
    """Return a sweep before which another one may come (rule 7)."""
    at_ms = max(swept.at_ms, (deadline_ms or 0) - config.file_delete_delay_ms)
    cleaning = swept.cleaning and replace(swept.cleaning, at_ms=at_ms)
    return _Event(at_ms, swept.log, cleaning)


def _swept_by(times: SweepTimes, swept_ms: int, change_ms: int) -> tuple[int, int]:
    """Return by when a log is swept again that changes at a time, and what time that sweep sees."""
    for at_ms in times:
        if at_ms > swept_ms and at_ms >= change_ms:
            return at_ms, at_ms
    return change_ms + SWEEP_AGAIN_MS, change_ms


def _event(cleaning: Cleaning, rolled: PartitionLog) -> _Event:
    cleaned = rolled._replace(cleaner_checkpoint=Offset(cleaning.end_offset))
    return _Event(cleaning.at_ms, cleaned, cleaning)


def _cleaning(plan: CompactionPlan, times: tuple[int, int], rule: str) -> Cleaning:
    at_ms, sees_ms = times
    return Cleaning(
        at_ms=at_ms,
        sees_ms=sees_ms,
        first_offset=plan.first_dirty_offset,
        end_offset=plan.first_uncleanable_offset,
        rule=rule,
    )


def _times(log: PartitionLog, config: TopicConfig, from_ms: int) -> list[int]:
    """Return the times at which the decision about a roll or a cleaning can change."""
    times = {from_ms}
    roll = plan_roll(log, config, now_ms=TimestampMs(from_ms), like_kafka=False)
    if roll.due_at_ms is not None:
        times.add(roll.due_at_ms)
    lag_ms, least_ms = config.max_compaction_lag_ms, config.min_compaction_lag_ms
    for segment in log.segments:
        largest = segment.largest_timestamp_ms
        times.add(largest + least_ms)
        if lag_ms < INT64_MAX:
            first = segment.first_batch_max_timestamp_ms
            starts = (largest, largest - config.max_segment_ms, largest if first is None else first)
            times.update(start + max(lag_ms, 0) + 1 for start in starts)
    return sorted(at_ms for at_ms in times if from_ms <= at_ms <= INT64_MAX)
