"""Plan the cleaning of one log, or of many. What is planned of a `Path` can be committed: no broker
works on it.

Planning is much Python and little waiting. Processes for the cores would not help: to send a plan
takes a third of the time in which it is made, and more to pickle it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

from logwright.compaction.model import CleaningOptions, CleanPlan, CompactionPlan
from logwright.compaction.plan import plan_compaction
from logwright.config.topic import CleanerConfig, TopicConfig
from logwright.errors import LogwrightError
from logwright.format.names import TopicPartition
from logwright.garbage import rare_collections
from logwright.live_plans import new_plan_id
from logwright.log.checkpoints import read_checkpoints
from logwright.log.committed import HighWatermark
from logwright.log.load import Shared, observe_one, share
from logwright.log.model import PartitionLog, ReadableLog
from logwright.observe import observe_unlocked
from logwright.place.files import open_log_dir
from logwright.place.model import AnyPlace, Place, is_local, is_versioned
from logwright.reading import reading
from logwright.roll.plan import force_roll, not_rolled, plan_roll
from logwright.steps.live import look_twice
from logwright.steps.marker import wait_for_marker
from logwright.units import TimestampMs

Settings = tuple[TopicConfig, CleanerConfig]
Outcome = CleanPlan[AnyPlace] | LogwrightError

_AT_ONCE: Final = 16
"""Logs of a bucket that are looked at."""
POLICY_UNKNOWN: Final = "its cleanup.policy is unknown"

CLEANER_OFF: Final = "a broker leaves compacted logs alone; not forced"


WITHOUT_ROLL: Final = CleaningOptions(force=True, like_kafka=True)
"""Due or not, and without a roll, which would need room."""


def plan_cleaning(
    log_dir: Path,
    partition: TopicPartition,
    settings: Settings,
    *,
    now_ms: TimestampMs,
    options: CleaningOptions,
    high_watermark: HighWatermark,
) -> CleanPlan:
    """Observe a partition and decide about its active segment and its cleaning. Effects: reads.

    Raises:
        LogDirLocked: a broker works on the directory.
        NotALogDir, UnreadableFile, UncleanLogDir, CorruptLogError, UnsupportedFormatError: see
        `logwright.log.load.observe`.
        PreconditionError: see `logwright.sweep.replicas.removal_bound`.
    """
    log = observe_unlocked(log_dir, partition, high_watermark=high_watermark)
    others = _as_they_run(options)
    return _coordinated(_decide(log, settings, now_ms, options), others, high_watermark)


@rare_collections()
def plan_cleanings(
    log_dir: AnyPlace,
    partitions: Sequence[TopicPartition],
    settings: Callable[[str], Settings],
    *,
    now_ms: TimestampMs,
    options: CleaningOptions,
    high_watermark: HighWatermark,
) -> list[Outcome[AnyPlace]]:
    """Plan the cleaning of many partitions: the plan of each, in their order, or why there is none.

    Effects: reads.

    Args:
        settings: of a topic; asked once for each.

    Raises:
        LogDirLocked: a broker works on the directory.
        NotALogDir, UnreadableFile, CorruptCheckpoint, UnsupportedFormatError: the directory, or
        what all of its partitions share, cannot be read.
    """
    known = {topic: _settled(settings, topic) for topic in {one.topic for one in partitions}}
    with reading(log_dir), open_log_dir(log_dir) as directory:
        if is_local(log_dir):
            wait_for_marker(log_dir)
        shared = share(log_dir, directory, high_watermark, read_checkpoints(log_dir))
        look = partial(_look, shared)
        if is_versioned(log_dir):
            with ThreadPoolExecutor(_AT_ONCE) as pool:  # they wait for the bucket
                logs = list(pool.map(look, partitions))
        else:
            logs = list(map(look, partitions))
    outcomes = [
        _outcome(log, known[partition.topic], now_ms, options)
        for partition, log in zip(partitions, logs, strict=True)
    ]
    if not options.replicas:
        return outcomes
    others = _as_they_run(options)
    return [_bounded(outcome, others, high_watermark) for outcome in outcomes]


def _as_they_run(options: CleaningOptions) -> list[Place]:
    """Return the log directories of the other replicas as they are read: those that brokers have
    open each in one session. Effects: asks for the brokers' locks.
    """
    if not options.replicas:
        return []
    from logwright.running.place import as_it_runs  # noqa: PLC0415 -- only coordinated cleanings

    return [as_it_runs(directory) for directory in options.replicas]


def _bounded(
    outcome: Outcome[AnyPlace], others: Sequence[Place], high_watermark: HighWatermark
) -> Outcome[AnyPlace]:
    if isinstance(outcome, LogwrightError):
        return outcome
    try:
        return _coordinated(outcome, others, high_watermark)
    except LogwrightError as error:
        return error.as_value()


def _coordinated(
    plan: CleanPlan[AnyPlace], others: Sequence[Place], high_watermark: HighWatermark
) -> CleanPlan[AnyPlace]:
    """Return the plan with what other replicas allow it to remove, if it is coordinated with them.
    Effects: reads their headers.
    """
    if not others or not plan.clean:
        return plan
    from logwright.sweep.replicas import removal_bound  # noqa: PLC0415 -- compiled kernels

    bound = removal_bound(plan.log, others, high_watermark=high_watermark)
    reason = f"tombstones and markers stay from the lowest clean offset {bound.end} of all replicas"
    reasons = (*plan.compaction.reasons, reason)
    return plan._replace(removal=bound, compaction=plan.compaction._replace(reasons=reasons))


def plan_from_start(
    log: ReadableLog, config: TopicConfig, *, now_ms: TimestampMs
) -> CompactionPlan:
    """Return the plan of a broker that has lost the log's cleaner checkpoint: tombstones whose
    delete horizon has passed go, although nothing is dirty.
    """
    return plan_compaction(
        log._replace(cleaner_checkpoint=None), config, now_ms=now_ms, like_kafka=False
    )


def _look(
    shared: Shared[AnyPlace], partition: TopicPartition
) -> PartitionLog[AnyPlace] | LogwrightError:
    look, log_dir = partial(observe_one, shared), shared.log_dir
    try:
        return look_twice(look, log_dir, partition) if is_local(log_dir) else look(partition)
    except LogwrightError as error:
        return error.as_value()


def _outcome(
    log: PartitionLog[AnyPlace] | LogwrightError,
    settings: Settings | LogwrightError,
    now_ms: TimestampMs,
    options: CleaningOptions,
) -> Outcome[AnyPlace]:
    if isinstance(settings, LogwrightError):
        return settings
    if isinstance(log, LogwrightError):
        return log
    return _decide(log, settings, now_ms, options)


def _settled(settings: Callable[[str], Settings], topic: str) -> Settings | LogwrightError:
    try:
        return settings(topic)
    except LogwrightError as error:
        return error.as_value()


def _left_alone(
    config: TopicConfig, cleaner: CleanerConfig, options: CleaningOptions
) -> str | None:
    """Return why a log is neither compacted nor rolled, independently of its content; None if it
    may be.
    """
    if not config.policy_known:
        return POLICY_UNKNOWN
    if config.compact and cleaner.off is not None and not options.force:
        return f"{cleaner.off}: {CLEANER_OFF}"
    return None


def _decide(
    log: PartitionLog[AnyPlace], settings: Settings, now_ms: TimestampMs, options: CleaningOptions
) -> CleanPlan[AnyPlace]:
    config, cleaner = settings
    why = _left_alone(config, cleaner, options)
    roll = plan_roll(log, config, now_ms=now_ms, like_kafka=options.like_kafka)
    if options.roll and config.compact and not roll.due:
        roll = force_roll(log, cause="forced")
    if why is not None:
        roll = not_rolled(why)
    rolled = roll.applied_to(log)
    compaction = plan_compaction(rolled, config, now_ms=now_ms, like_kafka=options.like_kafka)
    if options.roll and not compaction.cleanable_bytes:
        compaction = plan_from_start(rolled, config, now_ms=now_ms)
    if why is not None:
        compaction = compaction._replace(
            force_update_checkpoint=False,
            eligible=False,
            due_at_ms=None,
            reasons=(why, *compaction.reasons),
        )
    due_at_ms = compaction.due_at_ms
    early = due_at_ms is not None and due_at_ms - now_ms < options.ahead_ms
    wanted = compaction.eligible or early or (options.force and config.compact)
    return CleanPlan(
        plan_id=new_plan_id(now_ms),
        now_ms=now_ms,
        log=log,
        config=config,
        cleaner=cleaner,
        options=options,
        roll=roll,
        compaction=compaction,
        clean=wanted and compaction.cleanable_bytes > 0,
        planned_ns=time.time_ns(),
    )
