"""Execute a roll."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np

from logwright.format.names import INDEX, LOG, TIMEINDEX, segment_file_name
from logwright.format.scan import scan_segment
from logwright.observe import observe_unlocked
from logwright.place.mapped import map_file
from logwright.roll.plan import force_roll, plan_roll
from logwright.roll.steps import ActiveIndexes, roll_steps
from logwright.steps.interpreter import execute
from logwright.steps.live import live_log
from logwright.units import Offset, TimestampMs

if TYPE_CHECKING:
    from logwright.config.topic import TopicConfig
    from logwright.format.names import TopicPartition
    from logwright.log.model import PartitionLog
    from logwright.place.model import AnyPlace
    from logwright.roll.plan import RollDecision
    from logwright.steps.step import FileStep

_LOG = logging.getLogger(__name__)


def plan_roll_of(
    log_dir: AnyPlace,
    partition: TopicPartition,
    config: TopicConfig,
    *,
    now_ms: TimestampMs,
    force: bool,
) -> tuple[PartitionLog[AnyPlace], RollDecision]:
    """Observe a partition and decide about its active segment. Effects: reads.

    Raises:
        LogwrightError: see `observe_unlocked`.
    """
    log = observe_unlocked(log_dir, partition, high_watermark="end")
    decision = plan_roll(log, config, now_ms=now_ms, like_kafka=False)
    if force and not decision.due:
        decision = force_roll(log, cause="forced")
    return log, decision


def roll_partition(log: PartitionLog, decision: RollDecision) -> None:
    """Roll the active segment if that was decided. Effects: changes the log, under the locks.

    Raises:
        LogDirLocked: a broker or another process works on it.
        StalePlan: the log is not as it was observed. Nothing was changed.
        CorruptBatch, UnsupportedFormatError: the active segment is refused. Nothing was changed.
        DiskFull, StepFailed: a step failed.
    """
    if not decision.due:
        return
    with live_log(log) as files:
        execute(sealing_steps(log, decision), files)
    _LOG.info("rolled topic_partition=%s cause=%s", log.partition, decision.cause)


def sealing_steps(log: PartitionLog, decision: RollDecision) -> tuple[FileStep, ...]:
    """Return the steps of a roll; none if it is not due. Effects: reads the active segment.

    Raises:
        CorruptBatch, UnsupportedFormatError: the active segment is refused.
    """
    if not decision.due:
        return ()
    path = log.directory / segment_file_name(log.active.base_offset, LOG)
    data = map_file(path, expected_bytes=log.active.log_bytes)
    batches = scan_segment(
        data,
        path,
        base_offset=log.active.base_offset,
        end_offset=log.log_end_offset,
        headers_only=True,
    )
    timestamps = batches["max_timestamp"]
    largest = int(np.argmax(timestamps))
    indexes = ActiveIndexes(
        index=_content(log, INDEX),
        timeindex=_content(log, TIMEINDEX),
        largest_timestamp_ms=TimestampMs(int(timestamps[largest])),
        offset_of_largest=Offset(int(batches["last_offset"][largest])),
    )
    return roll_steps(log, decision, indexes)


def _content(log: PartitionLog, suffix: str) -> bytes:
    return map_file(log.directory / segment_file_name(log.active.base_offset, suffix)).tobytes()
