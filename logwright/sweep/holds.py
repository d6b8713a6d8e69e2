"""Which logs a sweep skips, and which it quarantines because they failed permanently."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from logwright.errors import LogwrightError
from logwright.retention.plan import retention_hold
from logwright.state.hold import quarantine_failure
from logwright.state.model import NOTHING, Hold
from logwright.state.store import read_state

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from logwright.state.model import LogDirState, PartitionState, Quarantine
    from logwright.sweep.model import LogSettings, LogWork, SweepState


def hold(state: SweepState, settings: LogSettings | None, *, force: bool = False) -> SweepState:
    """Mark the logs that are skipped: paused, in quarantine or stray. A log fails
    if its state cannot be read. Effects: reads each directory's state file once, and each
    log's topic id.

    Args:
        state: the logs.
        settings: their metadata shows which logs are stray; None: no log is taken for stray.
        force: mark only those that are paused.
    """

    def decide(work: LogWork, known: PartitionState) -> Hold | None:
        reason = known.hold(state.now_ms, force=force)
        if reason is None and settings is not None and not force:
            reason = stray(work, settings)
        return reason

    return _held(state, decide)


def hold_from_retention(
    state: SweepState, settings: LogSettings, *, force: bool = False
) -> SweepState:
    """Mark the logs that retention skips. Effects: as `hold`.

    `force`: only those that are paused or whose ``cleanup.policy`` is unknown.
    """

    def decide(work: LogWork, known: PartitionState) -> Hold | None:
        config, cleaner = settings.of(work.log_dir, work.partition.topic)
        reason = retention_hold(config, cleaner, known, now_ms=state.now_ms, force=force)
        return reason or (None if force else stray(work, settings))

    return _held(state, decide)


def hold_from_erasure(state: SweepState, settings: LogSettings, *, at_once: bool) -> SweepState:
    """Mark the logs that an erasure skips: those that are paused, and unless it is at once those
    that are stray or whose ``cleanup.policy`` is unknown. Effects: as `hold`.
    """

    def decide(work: LogWork, known: PartitionState) -> Hold | None:
        paused = known.hold(state.now_ms, force=True)
        if paused is not None or at_once:
            return paused
        config, _ = settings.of(work.log_dir, work.partition.topic)
        if not config.policy_known:
            return Hold(kind="unknown", sentence="its cleanup.policy is unknown")
        return stray(work, settings)

    return _held(state, decide)


def stray(work: LogWork, settings: LogSettings) -> Hold | None:
    """Return why a broker would not serve a log from its directory. Effects: may read the metadata;
    reads the log's topic id.

    Raises:
        LogwrightError: that cannot be found out.
    """
    reason = settings.stray(work.log_dir, work.partition)
    return None if reason is None else Hold(kind="stray", sentence=f"it is stray: {reason}")


def _held(
    state: SweepState, decide: Callable[[LogWork, PartitionState], Hold | None]
) -> SweepState:
    @cache
    def known(log_dir: Path) -> LogDirState | LogwrightError:
        try:
            return read_state(log_dir)
        except LogwrightError as error:
            return error

    def marked(work: LogWork) -> LogWork:
        states = known(work.log_dir)
        if isinstance(states, LogwrightError):
            return work.failed(states)
        try:
            return replace(work, held=decide(work, states.get(work.partition, NOTHING)))
        except LogwrightError as error:
            return work.failed(error)

    return state.with_works(map(marked, state.going_on))


def quarantine(state: SweepState) -> dict[str, Quarantine | LogwrightError]:
    """Quarantine the logs that failed permanently. Effects: the state files.

    Returns:
        by key, each quarantine that begins or lasts, or why it could not be recorded.
    """
    outcomes: dict[str, Quarantine | LogwrightError] = {}
    for work in state.works:
        if work.failure is None:
            continue
        try:
            quarantined = quarantine_failure(
                work.log_dir, work.partition, work.failure, state.now_ms
            )
        except LogwrightError as error:
            outcomes[work.key] = error
        else:
            if quarantined is not None:
                outcomes[work.key] = quarantined
    return outcomes
