"""The maintained logs in the form that the engine's sweep takes, and queries of a tick or a run."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from logwright.config.sources import DirectorySettings
from logwright.errors import LogwrightError
from logwright.place.model import Place
from logwright.resources.log_dirs import MaintainedLog
from logwright.state.model import Hold
from logwright.state.uncleanable import uncleanable_metrics
from logwright.sweep.holds import hold, quarantine, stray
from logwright.sweep.model import LogWork, SweepState
from logwright.units import TimestampMs

_LOG = logging.getLogger(__name__)


def state_of(logs: Iterable[MaintainedLog], now_ms: TimestampMs) -> SweepState[Place]:
    """Return the state with which a sweep of these logs begins."""
    return SweepState(works=tuple(map(_work, logs)), now_ms=now_ms)


def _work(log: MaintainedLog) -> LogWork[Place]:
    return LogWork(key=log.key, log_dir=log.log_dir, partition=log.partition)


def holds_of(
    logs: Iterable[MaintainedLog],
    *,
    now_ms: TimestampMs,
    force: bool = False,
    settings: DirectorySettings | None = None,
) -> dict[str, Hold | LogwrightError]:
    """Return why logs are skipped, by key, or the error where that is not known. Effects and
    arguments: as `logwright.sweep.holds.hold`.
    """
    return held(hold(state_of(logs, now_ms), settings, force=force))


def held(state: SweepState[Place]) -> dict[str, Hold | LogwrightError]:
    """Return why logs are held or failed, by key."""
    reasons = {work.key: work.failure or work.held for work in state.works}
    return {key: one for key, one in reasons.items() if one is not None}


def strays(works: Iterable[LogWork[Place]], settings: DirectorySettings) -> dict[str, str]:
    """Return why a broker would not serve logs from their directories, or why that is not known, by
    key. Effects: may read the metadata; reads each log's topic id.
    """
    reasons = {}
    for work in works:
        try:
            reason = stray(work, settings)
        except LogwrightError as error:
            reasons[work.key] = f"it is not known whether it is stray: {error}"
        else:
            if reason is not None:
                reasons[work.key] = reason.sentence
    return reasons


def quarantine_failed(state: SweepState[Place]) -> None:
    """Quarantine the logs that failed permanently. Effects: the states of the log directories; a
    warning where that fails.
    """
    for key, outcome in quarantine(state).items():
        if isinstance(outcome, LogwrightError):
            _LOG.warning("log=%s cannot be put into quarantine: %s", key, outcome)


def uncleanable(log_dirs: Iterable[Place]) -> dict[str, int]:
    """Return Kafka's metrics of what cannot be cleaned; a directory whose state cannot be read
    counts for nothing. Effects: reads.
    """
    total: dict[str, int] = {}
    for log_dir in sorted(set(log_dirs), key=str):
        try:
            metrics = uncleanable_metrics([log_dir])
        except LogwrightError as error:
            _LOG.warning("log_dir=%s state cannot be read: %s", log_dir, error)
            metrics = uncleanable_metrics([])
        total = {name: total.get(name, 0) + count for name, count in metrics.items()}
    return total or uncleanable_metrics([])
