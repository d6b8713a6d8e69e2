"""Which logs are left alone, and which are from now on since their cleaning failed for good."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

from logwright import maintain
from logwright.assets.wave import Wave
from logwright.config.sources import DirectorySettings
from logwright.errors import LogwrightError
from logwright.format.names import TopicPartition
from logwright.resources.log_dirs import MaintainedLog
from logwright.state.model import NOTHING, Hold, LogDirState
from logwright.state.store import read_state
from logwright.state.uncleanable import uncleanable_metrics
from logwright.units import TimestampMs

_LOG = logging.getLogger(__name__)


def holds_of(
    logs: Iterable[MaintainedLog],
    *,
    now_ms: TimestampMs,
    force: bool = False,
    settings: DirectorySettings | None = None,
) -> dict[str, Hold | LogwrightError]:
    """Why logs are left alone, by key; the error where that cannot be told. Effects: reads each
    directory's state file once, and each log's topic id.

    Args:
        logs: to look at.
        now_ms: the clock.
        force: only those that are paused.
        settings: by whose metadata stray logs are known; without it none is.
    """
    read: dict[Path, Mapping[TopicPartition, Hold] | LogwrightError] = {}
    found: dict[str, Hold | LogwrightError] = {}
    for log in logs:
        if log.log_dir not in read:
            read[log.log_dir] = _holds(log.log_dir, now_ms, force=force)
        holds = read[log.log_dir]
        if isinstance(holds, LogwrightError):
            found[log.key] = holds
        elif log.partition in holds:
            found[log.key] = holds[log.partition]
        elif settings is not None and not force:
            stray = _stray(log, settings)
            if stray is not None:
                found[log.key] = stray
    return found


def retention_holds(
    logs: Iterable[MaintainedLog],
    settings: DirectorySettings,
    *,
    now_ms: TimestampMs,
    force: bool = False,
) -> dict[str, Hold | LogwrightError]:
    """Why retention leaves logs alone, by key; the error where that cannot be told. Effects: as
    `holds_of`.

    `force`: only those that are paused or whose ``cleanup.policy`` nothing says.
    """
    states: dict[Path, LogDirState] = {}
    found: dict[str, Hold | LogwrightError] = {}
    for log in logs:
        hold: Hold | LogwrightError | None
        try:
            if log.log_dir not in states:
                states[log.log_dir] = read_state(log.log_dir)
            config, cleaner = settings.of(log.log_dir, log.partition.topic)
            state = states[log.log_dir].get(log.partition, NOTHING)
            hold = maintain.retention_hold(config, cleaner, state, now_ms=now_ms, force=force)
            hold = hold or (None if force else _stray(log, settings))
        except LogwrightError as error:
            hold = error
        if hold is not None:
            found[log.key] = hold
    return found


def strays(logs: Iterable[MaintainedLog], settings: DirectorySettings) -> dict[str, str]:
    """Why a broker would not serve logs from their directories, or why that is not known, by key.
    Effects: may read the metadata; reads each log's topic id.
    """
    found = {log.key: _stray(log, settings) for log in logs}
    return {
        key: one.sentence
        if isinstance(one, Hold)
        else f"it is not known whether it is stray: {one}"
        for key, one in found.items()
        if one is not None
    }


def _stray(log: MaintainedLog, settings: DirectorySettings) -> Hold | LogwrightError | None:
    try:
        reason = settings.stray(log.log_dir, log.partition)
    except LogwrightError as error:
        return error
    return None if reason is None else Hold(kind="stray", sentence=f"it is stray: {reason}")


def quarantine_failed(wave: Wave) -> dict[str, str]:
    """Put the logs that failed for good into quarantine; what is said of each, by key. Effects: the
    state files.
    """
    said = {}
    for work in wave.works:
        if work.failure is None or work.log is None:
            continue
        try:
            quarantine = maintain.quarantine_failure(
                work.log.log_dir, work.log.partition, work.failure, TimestampMs(work.now_ms)
            )
        except LogwrightError as error:
            _LOG.warning("log=%s cannot be put into quarantine: %s", work.key, error)
            continue
        if quarantine is not None:
            said[work.key] = quarantine.sentence
    return said


def uncleanable(log_dirs: Iterable[Path]) -> dict[str, int]:
    """Kafka's metrics of what cannot be cleaned; a directory whose state cannot be read counts for
    nothing. Effects: reads.
    """
    total: dict[str, int] = {}
    for log_dir in sorted(set(log_dirs)):
        try:
            found = uncleanable_metrics([log_dir])
        except LogwrightError as error:
            _LOG.warning("log_dir=%s state cannot be read: %s", log_dir, error)
            found = uncleanable_metrics([])
        total = {name: total.get(name, 0) + count for name, count in found.items()}
    return total or uncleanable_metrics([])


def _holds(
    log_dir: Path, now_ms: TimestampMs, *, force: bool
) -> Mapping[TopicPartition, Hold] | LogwrightError:
    try:
        return maintain.holds(log_dir, now_ms, force=force)
    except LogwrightError as error:
        return error
