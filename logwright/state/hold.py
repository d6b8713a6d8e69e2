"""Which partitions are skipped and why; start and end of a quarantine."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from logwright.errors import LogwrightError, Paused, PreconditionError
from logwright.state.model import (
    FOR_GOOD,
    NOTHING,
    Hold,
    LogDirState,
    PartitionState,
    Quarantine,
)
from logwright.state.store import change_state, read_state

if TYPE_CHECKING:
    from logwright.format.names import TopicPartition
    from logwright.place.model import Place
    from logwright.units import TimestampMs

_LOG = logging.getLogger(__name__)


def holds(
    log_dir: Place, now_ms: TimestampMs, *, force: bool = False
) -> dict[TopicPartition, Hold]:
    """Return the partitions to leave alone now, each with the reason. Effects: reads.

    `force`: only those that are paused.

    Raises:
        NotALogDir, UnreadableFile: as `logwright.state.store.read_state`.
    """
    state = read_state(log_dir)
    by_partition = {partition: one.hold(now_ms, force=force) for partition, one in state.items()}
    return {partition: hold for partition, hold in by_partition.items() if hold is not None}


def refuse_held(
    log_dir: Place,
    partition: TopicPartition,
    now_ms: TimestampMs,
    *,
    force: bool,
    state: LogDirState | None = None,
) -> None:
    """Refuse a plan that was made before the partition was paused. Effects: reads.

    `state`: of the log directory, if it was read already.

    Raises:
        Paused: it is paused or in quarantine.
    """
    states = read_state(log_dir) if state is None else state
    hold = states.get(partition, NOTHING).hold(now_ms, force=force)
    if hold is not None:
        raise Paused(
            f"{partition} is {hold.sentence}.",
            path=log_dir / partition.directory_name,
            remedy="Nothing was changed. `logwright resume` lifts a pause, `logwright quarantine"
            " --clear` a quarantine.",
        )


def refuse_moved(log_dir: Place, partition: TopicPartition) -> None:
    """Refuse to create a log whose name a move has open: a log that is being moved has no directory
    of its name for a moment, and no other log must get the name then. Effects: reads.

    Raises:
        PreconditionError: a move of it is open.
    """
    move = read_state(log_dir).get(partition, NOTHING).move
    if move is not None:
        raise PreconditionError(
            f"there is {move.sentence}.",
            path=log_dir / partition.directory_name,
            remedy="Nothing was changed. Finish the move first: `logwright move`.",
        )


def quarantine_failure(
    log_dir: Place, partition: TopicPartition, error: LogwrightError, now_ms: TimestampMs
) -> Quarantine | None:
    """Quarantine a partition if a retry would fail again, else do nothing. Effects: the
    state file.

    Raises:
        LogwrightError: as `logwright.state.store.change_state`.
    """
    if not isinstance(error, FOR_GOOD):
        return None
    state = change_state(log_dir, partition, lambda now: now.with_failure(error, now_ms))
    if state.quarantine is not None:
        _LOG.info("topic_partition=%s %s", partition, state.quarantine.sentence)
    return state.quarantine


def end_quarantine(
    log_dir: Place, partition: TopicPartition, state: LogDirState | None = None
) -> None:
    """End the quarantine of a partition that was cleaned. Effects: the state file, if it has one.

    `state`: of the log directory, if it was read since.

    Raises:
        LogwrightError: as `logwright.state.store.change_state`.
    """
    states = read_state(log_dir) if state is None else state
    if states.get(partition, NOTHING).quarantine is not None:
        change_state(log_dir, partition, _without_quarantine)


def _without_quarantine(state: PartitionState) -> PartitionState:
    return replace(state, quarantine=None)
