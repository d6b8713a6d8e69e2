"""Remove expired pauses, and report logs that stay due without being cleaned (KAFKA-9087).

A log that stays due for too long is reported as unmaintained with the cause: a pause, a quarantine,
a stopped sensor, sweeps that fail.
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from typing import Final

import dagster as dg

from logwright.assets.lib.holds import holds_of
from logwright.assets.lib.partitions import SEGMENT_SET
from logwright.config.sources import DirectorySettings
from logwright.errors import LogwrightError
from logwright.garbage import rare_collections
from logwright.pipelines.lib.kept import keep, kept
from logwright.pipelines.lib.skipped import shortened
from logwright.pipelines.segments.due import Reading, dump_readings, load_readings
from logwright.pipelines.segments.markers import read_markers
from logwright.pipelines.segments.sensors import read_changed
from logwright.place.model import Place
from logwright.resources.clock import Clock
from logwright.resources.log_dirs import LogDirs, MaintainedLog
from logwright.resources.policies import PolicyDirectory
from logwright.state.model import Hold, Pause
from logwright.state.store import change_state, read_state
from logwright.times import duration
from logwright.units import TimestampMs

PAUSES_SECONDS: Final = 300
FLAG_AGAIN_MS: Final = 24 * 60 * 60 * 1000
"""Interval between reports of the same unmaintained log."""

NEVER_MS: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A log that is due.

    Attributes:
        since_ms: when a tick first found it due, or when its lag was exceeded.
        flagged_ms: when it was last reported as unmaintained, -1 if never.
    """

    since_ms: int
    flagged_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmaintained:
    """A log that has been due for too long.

    Attributes:
        limit_ms: the allowed time: the smaller of `max.compaction.lag.ms` and the policy's
            ``sweep.flag_after_ms``.
        cause: why it was not cleaned, if known.
    """

    key: str
    since_ms: int
    limit_ms: int
    cause: str


def lift_expired(
    log_dirs: Iterable[Place], now_ms: TimestampMs
) -> dict[tuple[Place, str], list[Pause]]:
    """Remove expired pauses and return them by log directory and partition. Ignores directories
    whose state cannot be read, which the fleet inventory shows. Effects: changes the states.
    """
    lifted: dict[tuple[Place, str], list[Pause]] = {}
    for log_dir in sorted(set(log_dirs), key=str):
        try:
            for partition, state in read_state(log_dir).items():
                over = [pause for pause in state.pauses if not pause.holds(now_ms)]
                if over:
                    change_state(log_dir, partition, lambda now: now.without_expired(now_ms))
                    lifted[log_dir, str(partition)] = over
        except LogwrightError:
            continue
    return lifted


def find_unmaintained(
    readings: Mapping[str, Reading],
    before: Mapping[str, Waiting],
    causes: Mapping[str, str],
    limits_ms: Mapping[str, int],
    *,
    now_ms: int,
) -> tuple[tuple[Unmaintained, ...], dict[str, Waiting]]:
    """Return the logs to report now, and the state for the next tick. Pure.

    Args:
        readings: key → reading of every log. A log that could not be planned is treated as due.
        before: key → state from the last tick.
        causes: key → why a log is skipped.
        limits_ms: key → how long it may be due.
        now_ms: the time.
    """
    told: list[Unmaintained] = []
    waiting: dict[str, Waiting] = {}
    for key, reading in readings.items():
        refused = reading.reason.startswith("refused: ")
        if not (reading.due or refused):
            continue
        known = before.get(key, Waiting(since_ms=now_ms, flagged_ms=NEVER_MS))
        since_ms = known.since_ms
        if NEVER_MS < reading.deadline_ms < since_ms:
            since_ms = reading.deadline_ms
        flagged_ms = known.flagged_ms
        over = now_ms - since_ms > limits_ms[key]
        if over and (flagged_ms == NEVER_MS or now_ms - flagged_ms >= FLAG_AGAIN_MS):
            flagged_ms = now_ms
            cause = causes.get(key) or reading.reason
            told.append(
                Unmaintained(key=key, since_ms=since_ms, limit_ms=limits_ms[key], cause=cause)
            )
        waiting[key] = Waiting(since_ms=since_ms, flagged_ms=flagged_ms)
    return tuple(told), waiting


@dg.sensor(
    description="Removes expired pauses and reports logs that stay due without being cleaned.",
    minimum_interval_seconds=PAUSES_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
)
@rare_collections()
def pauses(
    context: dg.SensorEvaluationContext,
    log_dirs: LogDirs,
    policies: PolicyDirectory,
    clock: Clock,
) -> dg.SensorResult:
    """Remove expired pauses and record an observation for each log that is due for too long."""
    now_ms = clock.now_ms()
    settings = policies.settings()
    listing = log_dirs.listing()
    logs = listing.logs
    lifted = lift_expired((log.log_dir for log in logs.values()), now_ms)
    known, before = _load(kept(context)[0])
    markers = read_markers(log.log_dir for log in logs.values())
    readings = read_changed(logs, settings, known, markers=markers, now_ms=now_ms)
    causes = {
        key: _sentence(hold)
        for key, hold in holds_of(logs.values(), now_ms=now_ms, settings=settings).items()
        if logs[key].log_dir not in markers.running
    }
    told, waiting = find_unmaintained(
        readings, before, causes, _limits(logs, settings), now_ms=now_ms
    )
    keys: dict[tuple[Place, str], str] = {
        (log.log_dir, str(log.partition)): key for key, log in logs.items()
    }
    events = [
        *(_lifted(keys[where], over) for where, over in lifted.items() if where in keys),
        *map(_unmaintained, told),
    ]
    for event in events:
        context.log.warning("%s: %s", event.partition, event.description)
    message = "; ".join(f"{key} is {shortened(cause)}" for key, cause in causes.items())
    message = message or "Nothing is paused, no log is due for too long."
    return dg.SensorResult(
        asset_events=events,
        skip_reason=None if events else listing.sentence(message),
        cursor=keep(
            context, _dump(readings, waiting), {"logs": len(readings), "waiting": len(waiting)}
        ),
    )


def _limits(logs: Mapping[str, MaintainedLog], settings: DirectorySettings) -> dict[str, int]:
    """Return key → limit in ms; the policies' limit for a log whose settings cannot be read."""
    flag_after_ms = settings.policies.sweep.flag_after_ms
    limits: dict[str, int] = {}
    for key, log in logs.items():
        limits[key] = flag_after_ms
        with suppress(LogwrightError):
            config, _ = settings.of(log.log_dir, log.partition.topic)
            limits[key] = min(config.max_compaction_lag_ms, flag_after_ms)
    return limits


def _lifted(key: str, over: list[Pause]) -> dg.AssetObservation:
    return dg.AssetObservation(
        asset_key=SEGMENT_SET,
        partition=key,
        description="Removed expired pauses: " + "; ".join(pause.sentence for pause in over),
        metadata={"pauses lifted": str(len(over))},
    )


def _unmaintained(log: Unmaintained) -> dg.AssetObservation:
    since = datetime.fromtimestamp(log.since_ms / 1000, tz=UTC)
    return dg.AssetObservation(
        asset_key=SEGMENT_SET,
        partition=log.key,
        description=f"Unmaintained: due since {since:%F %T}Z and not cleaned. {log.cause}",
        metadata={
            "unmaintained": True,
            "due since": dg.MetadataValue.timestamp(since),
            "limit": duration(log.limit_ms),
            "why": log.cause,
        },
    )


def _sentence(hold: Hold | LogwrightError) -> str:
    return hold.sentence if isinstance(hold, Hold) else str(hold)


def _dump(readings: Mapping[str, Reading], waiting: Mapping[str, Waiting]) -> str:
    rows = {key: astuple(one) for key, one in waiting.items()}
    return json.dumps([dump_readings(readings), rows])


def _load(document: str) -> tuple[dict[str, Reading], dict[str, Waiting]]:
    """Parse what `_dump` wrote; a document of another version is empty."""
    try:
        readings, rows = json.loads(document)
        waiting = {
            key: Waiting(since_ms=since_ms, flagged_ms=flagged_ms)
            for key, (since_ms, flagged_ms) in rows.items()
        }
    except (ValueError, TypeError, AttributeError):
        return {}, {}
    return load_readings(readings), waiting
