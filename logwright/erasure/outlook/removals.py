"""What removes the records that were found, and by when, under the settings of today.

1. Maintenance runs at least every `run_interval_ms`, and does what is due: roll, clean, retain,
   purge. Nothing more is appended to the log, unless `appends_continue`: what is appended later can
   only bring a cleaning forward, or make the one due that removes a tombstone.
2. A cleaning of [first dirty, first uncleanable) removes a superseded record below its end if it
   maps the later record; an aborted one below its end; a tombstone below its end, once its delete
   horizon is reached: the first cleaning sets that, to its time + ``delete.retention.ms``
   (KIP-534). When there are cleanings says `logwright.erasure.outlook.cleanings`.
3. A log is swept for its deadlines if, without that, something that a cleaning can remove would be
   there after one. If its deadlines have different sweeps, which of them removes a record depends
   on what else is left by then: a sweep in time is then given as the record's own deadline. Where
   a record has none, nothing is counted on from the first sweep on.
4. Retention removes a segment ``retention.ms`` after its largest timestamp, and those before it
   (`logwright.retention.plan`). A cleaning may join a segment with younger ones, and makes the log
   smaller: where the log is compacted too, the largest timestamp of the whole log counts, and from
   the next cleaning on no other rule.
5. What a cleaning or retention removes stays in ``.deleted`` files for ``file.delete.delay.ms``,
   until the next purge.
6. Each of these waits up to `run_interval_ms` for a run. So a time is never too early; with an
   interval of 0 it is exact, where the dirty ratio (2) and a join (4) do not matter.
7. Any other file is removed as a whole, or nothing removes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from logwright.cleaner_rules import delete_horizon_ms
from logwright.erasure.find.kinds import ABORTED, SUPERSEDED, Judged
from logwright.erasure.outlook.cleanings import MAX_LAG, NO_TIME, RATIO, SWEEP, Cleaning, cleanings
from logwright.erasure.outlook.upkeep import SweepTimes, Upkeep, sweep_times
from logwright.format.batch import DELETE_HORIZON
from logwright.live_plans import plan_is_alive
from logwright.log.inventory import DELETE_DELAY, DELETED_LOG_DELAY, PURGE, UPKEEP, WRITE
from logwright.retention.plan import plan_retention
from logwright.units import INT64_MAX, TimestampMs

if TYPE_CHECKING:
    from logwright.config.topic import TopicConfig
    from logwright.erasure.find.result import LiveHits, Settings
    from logwright.log.model import PartitionLog
    from logwright.log.record_files import RecordFile
    from logwright.place.model import Place

DELETE_RETENTION: Final = "delete.retention.ms"
RETENTION_RULES: Final = {
    "time": "retention.ms",
    "size": "retention.bytes",
    "log start offset": "log start offset",
}
RULES: Final = ("", MAX_LAG, RATIO, SWEEP, DELETE_RETENTION, *RETENTION_RULES.values())
"""The rules that remove records of a live log; the first one: nothing will."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Records of one log.

    Attributes:
        offsets: int64[n].
        superseded, aborted, tombstones: bool[n]; an aborted record is nothing else.
        horizons: int64[n], the delete horizon of the record's batch, `NO_TIME` if it has none.
        deadlines: int64[n], of the first request for the record's key, INT64_MAX: none.
        superseded_within: which records are superseded by one in the offsets [first, end).
    """

    offsets: NDArray[np.int64]
    superseded: NDArray[np.bool_]
    aborted: NDArray[np.bool_]
    tombstones: NDArray[np.bool_]
    horizons: NDArray[np.int64]
    deadlines: NDArray[np.int64]
    superseded_within: Callable[[int, int], NDArray[np.bool_]]

    @classmethod
    def of(cls, live: LiveHits, judged: Judged) -> Records:
        """Return records that were found."""
        hits, batches = live.hits, live.batches[live.hits["row"]]
        has_horizon = (batches["attributes"] & DELETE_HORIZON) != 0
        return cls(
            offsets=hits["offset"],
            superseded=judged.kinds == SUPERSEDED,
            aborted=judged.kinds == ABORTED,
            tombstones=hits["is_tombstone"] & (hits["request"] >= 0) & (judged.kinds != ABORTED),
            horizons=np.where(has_horizon, batches["base_timestamp"], NO_TIME),
            deadlines=live.deadlines,
            superseded_within=judged.superseded_within,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Removals:
    """What removes some records.

    Attributes:
        rules: int8[n], indexes in `RULES`.
        times: int64[n], ms since the epoch, `NO_TIME`: never, or not known.
    """

    rules: NDArray[np.int8]
    times: NDArray[np.int64]

    def set(self, mask: NDArray[np.bool_], rule: str, at_ms: int) -> None:
        """Set rule and time of some records."""
        self.rules[mask] = RULES.index(rule)
        self.times[mask] = at_ms


def removal_of_records(
    live: LiveHits, judged: Judged, settings: Settings
) -> tuple[list[str], list[int | None]]:
    """Return rule and time of each record of a live log; time None: never, or not known."""
    config, _ = settings.of_topic(live.log.partition.topic)
    upkeep = upkeep_of(settings, live)
    removed = removals(
        Records.of(live, judged), live.log, config, now_ms=settings.now_ms, upkeep=upkeep
    )
    rules = [RULES[number] for number in removed.rules.tolist()]
    return rules, [None if at_ms == NO_TIME else at_ms for at_ms in removed.times.tolist()]


def upkeep_of(settings: Settings, live: LiveHits) -> Upkeep:
    """Return how a log is maintained: without a cleaner compacted ones are skipped, unless they are
    swept; one that is paused is not touched, and one in quarantine is not cleaned.
    """
    config, cleaner = settings.of_topic(live.log.partition.topic)
    hold = live.hold
    works = hold is None and (cleaner.off is None or not config.compact or settings.upkeep.forced)
    quarantined = hold is not None and hold.kind == "quarantined"
    return replace(
        settings.upkeep,
        cleans=works,
        retains=works or (quarantined and not config.compact),
        margin_ms=settings.upkeep.margin_ms if hold is None else None,
    )


def removal_of_file(
    file: RecordFile, settings: Settings | None, log_dir: Place
) -> tuple[str, int | None]:
    """Return what removes a file that is not part of a live log, and by when. Effects: looks
    whether the plan of a staged file is alive.

    Raises:
        LogwrightError: the settings of its topic cannot be read.
    """
    rule = file.place.rule
    if settings is None or rule == UPKEEP or file.is_kept:
        return "", None
    if file.place.kind == "staged" and plan_is_alive(log_dir, file.plan):
        return "", None
    due_ms = settings.now_ms if rule == PURGE else file.since_ms
    if due_ms is None:
        return rule if rule == WRITE else "", None
    if rule == DELETE_DELAY:
        due_ms += settings.of_topic(file.partition.topic)[0].file_delete_delay_ms
    elif rule == DELETED_LOG_DELAY:
        due_ms += settings.broker.file_delete_delay_ms
    due_ms = max(due_ms, file.not_before_ms)
    return rule, max(due_ms, settings.now_ms) + settings.upkeep.run_interval_ms


def removals(
    records: Records, log: PartitionLog, config: TopicConfig, *, now_ms: int, upkeep: Upkeep
) -> Removals:
    """Return which rule removes each record, and by when, see 3."""
    alone = _removals(records, log, config, now_ms, upkeep)
    late = (alone.times == NO_TIME) | (alone.times > records.deadlines)
    late |= now_ms >= records.deadlines
    late &= records.superseded | records.aborted | records.tombstones
    late &= records.deadlines < INT64_MAX
    if upkeep.margin_ms is None or not late.any():
        return alone
    known, of_record = np.unique(records.deadlines, return_inverse=True)
    first_of: dict[SweepTimes | None, int] = {}
    sweeps = [_sweeps_for(deadline_ms, config, upkeep.margin_ms) for deadline_ms in known.tolist()]
    for deadline_ms, times in zip(known.tolist(), sweeps, strict=True):
        first_of.setdefault(times, deadline_ms)
    if len(first_of) == 1:
        return _removals(records, log, config, now_ms, replace(upkeep, deadline_ms=int(known[0])))
    groups = np.array([list(first_of).index(times) for times in sweeps])[of_record]
    alone_until_ms = min(times.first_ms for times in first_of if times)
    rules, dates = alone.rules, alone.times
    for number, (times, deadline_ms) in enumerate(first_of.items()):
        swept = replace(
            upkeep, deadline_ms=deadline_ms if times else None, alone_until_ms=alone_until_ms
        )
        removed = _removals(records, log, config, now_ms, swept)
        by_sweep = (removed.rules == RULES.index(SWEEP)) & (removed.times != NO_TIME)
        latest = np.where(by_sweep, np.maximum(removed.times, records.deadlines), removed.times)
        rules = np.where(groups == number, removed.rules, rules)
        dates = np.where(groups == number, latest, dates)
    return Removals(rules=rules, times=dates)


def _sweeps_for(deadline_ms: int, config: TopicConfig, margin_ms: int) -> SweepTimes | None:
    return (
        None if deadline_ms == INT64_MAX else sweep_times(deadline_ms, config, margin_ms=margin_ms)
    )


def _removals(
    records: Records, log: PartitionLog, config: TopicConfig, now_ms: int, upkeep: Upkeep
) -> Removals:
    count = len(records.offsets)
    result = Removals(
        rules=np.zeros(count, dtype=np.int8), times=np.full(count, NO_TIME, dtype=np.int64)
    )
    is_cleaned = config.compact and (upkeep.cleans or upkeep.sweep_times(config) is not None)
    coming: Sequence[Cleaning] = ()
    soonest = coming
    if is_cleaned and config.policy_known:
        horizons = records.horizons[records.tombstones].tolist()
        coming = cleanings(log, config, now_ms=now_ms, upkeep=upkeep, horizons=horizons)
        _by_cleaning(result, records, coming, config, (now_ms, upkeep))
        soonest = cleanings(log, config, now_ms=now_ms, upkeep=upkeep, retains=False)
    bases = np.array([each.base_offset for each in log.segments], dtype=np.int64)
    segments = bases[np.searchsorted(bases, records.offsets, side="right") - 1]
    joined_ms = None
    if is_cleaned:
        firsts = (*coming[:1], *soonest[:1])
        joined_ms = min([upkeep.alone_until_ms, *(each.sees_ms for each in firsts)])
    retained = retention_times(log, config, now_ms, upkeep, joined_ms=joined_ms)
    for base, (rule, at_ms) in retained.items():
        gone_ms = purged_by(at_ms, config, upkeep)
        first = (segments == base) & ((result.times == NO_TIME) | (result.times > gone_ms))
        result.set(first, rule, gone_ms)
    return result


def _by_cleaning(
    result: Removals,
    records: Records,
    coming: Sequence[Cleaning],
    config: TopicConfig,
    maintained: tuple[int, Upkeep],
) -> None:
    """Set what cleanings remove, see 2. `maintained`: from when on, and how."""
    now_ms, upkeep = maintained
    tombstones, horizons = records.tombstones, records.horizons.copy()
    result.set(tombstones, DELETE_RETENTION, NO_TIME)
    result.set(records.superseded | records.aborted, RATIO, NO_TIME)
    for cleaning in coming:
        gone_ms = purged_by(cleaning.at_ms, config, upkeep)
        waiting = (result.times == NO_TIME) & (records.offsets < cleaning.end_offset)
        covered = records.superseded_within(cleaning.first_offset, cleaning.end_offset)
        covered &= records.superseded
        result.set(waiting & (covered | records.aborted), cleaning.rule, gone_ms)
        due = waiting & tombstones & (horizons != NO_TIME) & (horizons <= cleaning.sees_ms)
        result.set(due, SWEEP if cleaning.rule == SWEEP else DELETE_RETENTION, gone_ms)
        new = delete_horizon_ms(cleaning.at_ms + upkeep.run_interval_ms, config.delete_retention_ms)
        horizons[waiting & tombstones & (horizons == NO_TIME)] = new
    wait_ms = config.max_segment_ms if upkeep.forced else config.max_compaction_lag_ms
    if upkeep.appends_continue and upkeep.cleans and wait_ms < INT64_MAX:
        for horizon_ms in np.unique(horizons[tombstones & (horizons != NO_TIME)]).tolist():
            left = tombstones & (horizons == horizon_ms) & (result.times == NO_TIME)
            cleaned_ms = min(max(horizon_ms, now_ms) + wait_ms + 1, INT64_MAX)
            result.set(left, DELETE_RETENTION, purged_by(cleaned_ms, config, upkeep))


def retention_times(
    log: PartitionLog,
    config: TopicConfig,
    now_ms: int,
    upkeep: Upkeep,
    *,
    joined_ms: int | None = None,
) -> dict[int, tuple[str, int]]:
    """Return which rule of retention deletes each segment, by base offset, and when; segments that
    none does are left out.

    Args:
        joined_ms: when a cleaning may join segments next; None: none ever does.
    """
    if not (config.policy_known and upkeep.retains):
        return {}
    times = {now_ms}
    if config.delete and config.retention_ms >= 0:
        ends = [each.largest_timestamp_ms for each in log.segments]
        ends = ends if joined_ms is None else [max(ends)]
        times.update(end + config.retention_ms + 1 for end in ends)
    deleted: dict[int, tuple[str, int]] = {}
    for at_ms in sorted(time for time in times if now_ms <= time <= INT64_MAX):
        joined = joined_ms is not None and joined_ms <= at_ms + upkeep.run_interval_ms
        limits = config.model_copy(update={"retention_bytes": -1}) if joined else config
        plan = plan_retention(log, limits, now_ms=TimestampMs(at_ms))
        for verdict in plan.deleted:
            if verdict.cause is not None and (verdict.cause == "time" or not joined):
                rule = RETENTION_RULES[verdict.cause]
                deleted.setdefault(verdict.base_offset, (rule, at_ms))
    return deleted


def purged_by(at_ms: int, config: TopicConfig, upkeep: Upkeep) -> int:
    """Return when the files are purged that a run retires which is due at a time: it waits for that
    run, and for the purge.
    """
    return min(at_ms + config.file_delete_delay_ms + 2 * upkeep.run_interval_ms, INT64_MAX)
