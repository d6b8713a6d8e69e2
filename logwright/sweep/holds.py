"""Which logs a sweep skips, and which it quarantines because they failed permanently."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from logwright.errors import LogwrightError
from logwright.place.model import is_local
from logwright.retention.plan import retention_hold
from logwright.running.broker import broker_process
from logwright.state.hold import quarantine_failure
from logwright.state.model import NOTHING, Hold
from logwright.state.store import read_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from logwright.place.model import AnyPlace, Place
    from logwright.state.model import LogDirState, PartitionState, Quarantine
    from logwright.sweep.model import LogSettings, LogWork, SweepState


def hold(
    state: SweepState[AnyPlace], settings: LogSettings | None, *, force: bool = False
) -> SweepState[AnyPlace]:
    """Mark the logs that are skipped: paused, in quarantine or stray, or on a log directory that
    could be changed if no broker ran on it. A log fails if its state cannot be read. Effects: reads
    each directory's state once, and each log's topic id; asks for the brokers' locks.

    Args:
        state: the logs.
        settings: their metadata shows which logs are stray; None: no log is taken for stray.
        force: mark only those that are paused, or where a broker runs.
    """

    def decide(work: LogWork[AnyPlace], known: PartitionState) -> Hold | None:
        reason = known.hold(state.now_ms, force=force) or by_broker(work.log_dir)
        if reason is None and settings is not None and not force:
            reason = stray(work, settings)
        return reason

    by_broker = _brokers()
    return _held(state, decide)


def hold_from_retention(
    state: SweepState[AnyPlace], settings: LogSettings, *, force: bool = False
) -> SweepState[AnyPlace]:
    """Mark the logs that retention skips. Effects: as `hold`.

    `force`: only those that are paused, whose ``cleanup.policy`` is unknown, or where a broker
    runs.
    """
    by_broker = _brokers()

    def decide(work: LogWork[AnyPlace], known: PartitionState) -> Hold | None:
        config, cleaner = settings.of(work.log_dir, work.partition.topic)
        reason = retention_hold(config, cleaner, known, now_ms=state.now_ms, force=force)
        return reason or by_broker(work.log_dir) or (None if force else stray(work, settings))

    return _held(state, decide)


def hold_from_erasure(
    state: SweepState[AnyPlace], settings: LogSettings, *, at_once: bool
) -> SweepState[AnyPlace]:
    """Mark the logs that an erasure skips: those that are paused, and unless it is at once those
    that are stray or whose ``cleanup.policy`` is unknown. Effects: as `hold`.
    """

    def decide(work: LogWork[AnyPlace], known: PartitionState) -> Hold | None:
        paused = known.hold(state.now_ms, force=True)
        if paused is not None or at_once:
            return paused
        config, _ = settings.of(work.log_dir, work.partition.topic)
        if not config.policy_known:
            return Hold(kind="unknown", sentence="its cleanup.policy is unknown")
        return stray(work, settings)

    return _held(state, decide)


def stray(work: LogWork[AnyPlace], settings: LogSettings) -> Hold | None:
    """Return why a broker would not serve a log from its directory. Effects: may read the metadata;
    reads the log's topic id.

    Raises:
        LogwrightError: that cannot be found out.
    """
    reason = settings.stray(work.log_dir, work.partition)
    return None if reason is None else Hold(kind="stray", sentence=f"it is stray: {reason}")


def _brokers() -> Callable[[Place], Hold | None]:
    """Return what finds out, once for each log directory, whether a broker runs on it, so that
    nothing of it can be changed; a place that is only read holds no log back. Effects: asks for the
    brokers' locks.
    """

    @cache
    def running(log_dir: Place) -> Hold | None:
        process = broker_process(log_dir) if is_local(log_dir) else None
        if process is None:
            return None
        named = f" (process {process})" if process else ""
        return Hold(kind="running", sentence=f"a broker{named} runs on its log directory")

    return running


def _held(
    state: SweepState[AnyPlace],
    decide: Callable[[LogWork[AnyPlace], PartitionState], Hold | None],
) -> SweepState[AnyPlace]:
    @cache
    def known(log_dir: Place) -> LogDirState | LogwrightError:
        try:
            return read_state(log_dir)
        except LogwrightError as error:
            return error.as_value()

    def marked(work: LogWork[AnyPlace]) -> LogWork[AnyPlace]:
        states = known(work.log_dir)
        if isinstance(states, LogwrightError):
            return work.failed(states)
        try:
            return replace(work, held=decide(work, states.get(work.partition, NOTHING)))
        except LogwrightError as error:
            return work.failed(error)

    return state.with_works(map(marked, state.going_on))


def quarantine(state: SweepState[AnyPlace]) -> dict[str, Quarantine | LogwrightError]:
    """Quarantine the logs that failed permanently. Effects: the states of the log directories.

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
            outcomes[work.key] = error.as_value()
        else:
            if quarantined is not None:
                outcomes[work.key] = quarantined
    return outcomes
