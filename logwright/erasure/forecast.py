"""When a record is gone under the settings of today. Pure.

1. Maintenance runs at least every `run_interval_ms`, and does what is due: roll, clean, retain,
   purge. Nothing more is appended to the log, unless `appends_continue`: what is appended later can
   only bring a cleaning forward, or make the one due that removes a tombstone.
2. Whether a run rolls and cleans is asked of the rules themselves (`logwright.roll.plan`,
   `logwright.compaction.plan`), at each time at which their answer can change. After a cleaning up
   to an offset that is the first dirty offset. Its output is taken to be as large as its input: so
   the dirty ratio is estimated too low, and a cleaning not too early.
3. A cleaning of [first dirty, first uncleanable) removes a superseded record below its end if it
   maps the later record; an aborted one below its end; a tombstone below its end, once its delete
   horizon is reached: the first cleaning sets that, to its time + ``delete.retention.ms``
   (KIP-534).
4. Retention removes a segment ``retention.ms`` after its largest timestamp, and those before it
   (`logwright.retention.plan`). A cleaning may join a segment with younger ones: where the log is
   compacted too, the largest timestamp of the whole log counts.
5. What a cleaning or retention removes stays in ``.deleted`` files for ``file.delete.delay.ms``,
   until the next purge.
6. Each of these waits up to `run_interval_ms` for a run. So a time is never too early; with an
   interval of 0 it is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from logwright.cleaner_rules import delete_horizon_ms
from logwright.compaction.plan import first_dirty_offset, plan_compaction
from logwright.config.topic import TopicConfig
from logwright.format.batch import HEADER_BYTES
from logwright.format.record import SMALLEST_RECORD_BYTES
from logwright.log.model import PartitionLog
from logwright.retention.plan import plan_retention
from logwright.roll.plan import plan_roll
from logwright.units import INT64_MAX, ByteCount, Offset, TimestampMs

MAX_LAG: Final = "max.compaction.lag.ms"
RATIO: Final = "min.cleanable.dirty.ratio"
DELETE_RETENTION: Final = "delete.retention.ms"
DELETE_DELAY: Final = "file.delete.delay.ms"
RETENTION_RULES: Final = {
    "time": "retention.ms",
    "size": "retention.bytes",
    "log start offset": "log start offset",
}
RULES: Final = ("", MAX_LAG, RATIO, DELETE_RETENTION, *RETENTION_RULES.values())
"""The rules that remove records of a live log; the first one: nothing will."""
NO_TIME: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """How a log is maintained.

    Attributes:
        run_interval_ms: the longest time between two runs.
        forced: runs clean whatever the ratio and the lag say (``clean --force``).
        cleans: the log is compacted, and nothing holds its cleanings back.
        retains: retention works on it.
        appends_continue: records of other keys are appended all the time. After its last foreseen
            cleaning a log is then cleaned again ``max.compaction.lag.ms`` after any time, or, with
            `forced` runs, once its active segment is rolled.
    """

    run_interval_ms: int = 0
    forced: bool = False
    cleans: bool = True
    retains: bool = True
    appends_continue: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaning:
    """A cleaning that will be due.

    Attributes:
        at_ms: when, with an interval of 0.
        first_offset, end_offset: what its map covers.
        rule: the setting that makes it due.
    """

    at_ms: int
    first_offset: int
    end_offset: int
    rule: str


def cleanings(
    log: PartitionLog, config: TopicConfig, *, now_ms: int, upkeep: Upkeep
) -> tuple[Cleaning, ...]:
    """Return all cleanings that will be due if nothing more is appended, in their order; each
    covers more than the one before.
    """
    found: list[Cleaning] = []
    if not (config.compact and upkeep.cleans):
        return ()
    state, from_ms = log, now_ms
    while (one := _next_cleaning(state, config, from_ms, forced=upkeep.forced)) is not None:
        found.append(one)
        state = state._replace(cleaner_checkpoint=Offset(one.end_offset))
        from_ms = one.at_ms + upkeep.run_interval_ms
    return tuple(found)


def _next_cleaning(
    log: PartitionLog, config: TopicConfig, from_ms: int, *, forced: bool
) -> Cleaning | None:
    for at_ms in _times(log, config, from_ms):
        now_ms = TimestampMs(at_ms)
        roll = plan_roll(log, config, now_ms=now_ms, like_kafka=False)
        rolled = roll.applied_to(log)
        plan = plan_compaction(rolled, config, now_ms=now_ms, like_kafka=False)
        if plan.cleanable_bytes > 0 and (forced or plan.eligible):
            first, _ = first_dirty_offset(log)
            rule = MAX_LAG if plan.compaction_delay_ms > 0 else RATIO
            return Cleaning(
                at_ms=at_ms,
                first_offset=first,
                end_offset=plan.first_uncleanable_offset,
                rule=rule,
            )
    return None


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
    return sorted(one for one in times if from_ms <= one <= INT64_MAX)


def retention_times(
    log: PartitionLog, config: TopicConfig, *, now_ms: int, upkeep: Upkeep
) -> dict[int, tuple[str, int]]:
    """Return which rule of retention deletes each segment, by base offset, and when; segments that
    none does are left out.
    """
    if not (config.policy_known and upkeep.retains):
        return {}
    times = {now_ms}
    if config.delete and config.retention_ms >= 0:
        ends = [each.largest_timestamp_ms for each in log.segments]
        ends = [max(ends)] if config.compact and upkeep.cleans else ends
        times.update(end + config.retention_ms + 1 for end in ends)
    found: dict[int, tuple[str, int]] = {}
    for at_ms in sorted(one for one in times if now_ms <= one <= INT64_MAX):
        plan = plan_retention(log, config, now_ms=TimestampMs(at_ms))
        for verdict in plan.deleted:
            if verdict.cause is not None:
                found.setdefault(verdict.base_offset, (RETENTION_RULES[verdict.cause], at_ms))
    return found


def purged_by(at_ms: int, config: TopicConfig, upkeep: Upkeep) -> int:
    """Return when the files are purged that a run retires which is due at a time: it waits for that
    run, and for the purge.
    """
    return min(at_ms + config.file_delete_delay_ms + 2 * upkeep.run_interval_ms, INT64_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Records of one log.

    Attributes:
        offsets: int64[n].
        superseded, aborted, tombstones: bool[n]; an aborted record is nothing else.
        horizons: int64[n], the delete horizon of the record's batch, `NO_TIME` if it has none.
        superseded_within: which records are superseded by one in the offsets [first, end).
    """

    offsets: NDArray[np.int64]
    superseded: NDArray[np.bool_]
    aborted: NDArray[np.bool_]
    tombstones: NDArray[np.bool_]
    horizons: NDArray[np.int64]
    superseded_within: Callable[[int, int], NDArray[np.bool_]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Removals:
    """What removes some records.

    Attributes:
        rules: int8[n], indexes in `RULES`.
        times: int64[n], ms since the epoch, `NO_TIME`: never, or not known.
    """

    rules: NDArray[np.int8]
    times: NDArray[np.int64]


def removals(
    records: Records, log: PartitionLog, config: TopicConfig, *, now_ms: int, upkeep: Upkeep
) -> Removals:
    """Return which rule removes each record, and by when."""
    count = len(records.offsets)
    result = Removals(
        rules=np.zeros(count, dtype=np.int8), times=np.full(count, NO_TIME, dtype=np.int64)
    )
    if config.compact and config.policy_known and upkeep.cleans:
        _by_cleaning(result, records, (log, config), now_ms=now_ms, upkeep=upkeep)
    bases = np.array([each.base_offset for each in log.segments], dtype=np.int64)
    segments = bases[np.searchsorted(bases, records.offsets, side="right") - 1]
    for base, (rule, at_ms) in retention_times(log, config, now_ms=now_ms, upkeep=upkeep).items():
        gone_ms = purged_by(at_ms, config, upkeep)
        first = (segments == base) & ((result.times == NO_TIME) | (result.times > gone_ms))
        _set(result, first, rule, gone_ms)
    return result


def _by_cleaning(
    result: Removals,
    records: Records,
    observed: tuple[PartitionLog, TopicConfig],
    *,
    now_ms: int,
    upkeep: Upkeep,
) -> None:
    """Set what cleanings remove, see 3."""
    log, config = observed
    horizons = records.horizons.copy()
    for mask, rule in (
        (records.tombstones, DELETE_RETENTION),
        (records.superseded | records.aborted, RATIO),
    ):
        _set(result, mask, rule, NO_TIME)
    for one in cleanings(log, config, now_ms=now_ms, upkeep=upkeep):
        gone_ms = purged_by(one.at_ms, config, upkeep)
        waiting = (result.times == NO_TIME) & (records.offsets < one.end_offset)
        covered = records.superseded & records.superseded_within(one.first_offset, one.end_offset)
        _set(result, waiting & (covered | records.aborted), one.rule, gone_ms)
        due = records.tombstones & (horizons != NO_TIME) & (horizons <= one.at_ms)
        _set(result, waiting & due, DELETE_RETENTION, gone_ms)
        cleaned_ms = one.at_ms + upkeep.run_interval_ms
        new = delete_horizon_ms(cleaned_ms, config.delete_retention_ms)
        horizons[waiting & records.tombstones & (horizons == NO_TIME)] = new
    wait_ms = config.max_segment_ms if upkeep.forced else config.max_compaction_lag_ms
    if upkeep.appends_continue and wait_ms < INT64_MAX:
        for horizon_ms in np.unique(horizons[records.tombstones & (horizons != NO_TIME)]).tolist():
            left = records.tombstones & (horizons == horizon_ms) & (result.times == NO_TIME)
            cleaned_ms = min(max(horizon_ms, now_ms) + wait_ms + 1, INT64_MAX)
            _set(result, left, DELETE_RETENTION, purged_by(cleaned_ms, config, upkeep))


def _set(result: Removals, mask: NDArray[np.bool_], rule: str, at_ms: int) -> None:
    result.rules[mask] = RULES.index(rule)
    result.times[mask] = at_ms


def with_tombstones(log: PartitionLog, count: int, *, now_ms: int) -> PartitionLog:
    """Return the log as if tombstones had just been appended, in one batch of the active segment,
    and committed.
    """
    active = log.active
    first = active.first_batch_max_timestamp_ms
    end = Offset(log.log_end_offset + count)
    whole = log.last_stable_offset == log.log_end_offset
    grown = active._replace(
        log_bytes=ByteCount(active.log_bytes + HEADER_BYTES + count * SMALLEST_RECORD_BYTES),
        largest_timestamp_ms=TimestampMs(
            now_ms if active.log_bytes == 0 else max(active.largest_timestamp_ms, now_ms)
        ),
        first_batch_max_timestamp_ms=TimestampMs(now_ms) if first is None else first,
    )
    return log._replace(
        segments=(*log.sealed, grown),
        log_end_offset=end,
        high_watermark=end,
        last_stable_offset=end if whole else log.last_stable_offset,
    )
