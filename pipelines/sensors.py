"""Discovery of logs, and requests of what is due."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import dagster as dg

from logwright.assets.holds import holds_of, state_of
from logwright.assets.partitions import LOGS, LOGS_NAME
from logwright.compaction.model import CleaningOptions
from logwright.config.sources import DirectorySettings
from logwright.errors import LogwrightError, UncleanLogDir
from logwright.format.names import LOG
from logwright.log.files import open_partition_dir
from logwright.log.listing import stamp_files
from logwright.pipelines.due import (
    NEVER_MS,
    Reading,
    choose,
    dump_cursor,
    load_cursor,
    reading_of,
    refused_reading,
    skip_message,
    unclean_reading,
    with_requests,
)
from logwright.pipelines.markers import Markers, read_markers
from logwright.pipelines.runs import logs_in_flight
from logwright.pipelines.signature import Signatures
from logwright.pipelines.sweep import sweep, sweep_run_config
from logwright.resources.clock import Clock
from logwright.resources.log_dirs import Listing, LogDirs, MaintainedLog
from logwright.resources.policies import PolicyDirectory
from logwright.state.model import Hold
from logwright.sweep.model import LogWork, planned
from logwright.sweep.stages import plan
from logwright.units import TimestampMs

DISCOVERY_SECONDS: Final = 60
DUE_SECONDS: Final = 60
"""Kafka's cleaner looks every `log.cleaner.backoff.ms` = 15 s; a run costs seconds to start, so
less often."""

READS_PER_TICK: Final = 2_000
"""Logs that one tick plans anew at most: a tick has a minute. The others are read by the next
ones."""

MARKER_TAKEN: Final = "an append or a recovery works on its log directory"


@dg.sensor(
    description="Keeps the partitions as the log directories are: adds new ones, removes others.",
    minimum_interval_seconds=DISCOVERY_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def discovery(context: dg.SensorEvaluationContext, log_dirs: LogDirs) -> dg.SensorResult:
    """Keep the partitions of the assets as the log directories are: add what is new, remove what
    has gone.
    """
    listing = log_dirs.listing()
    return discovered(listing, context.instance.get_dynamic_partitions(LOGS_NAME))


def discovered(listing: Listing, known: Sequence[str]) -> dg.SensorResult:
    """What to add and remove. While a directory cannot be read, nothing is removed: a disk that is
    not mounted is no reason to forget its logs.
    """
    new = sorted(listing.logs.keys() - set(known), key=_natural_order)
    gone = [] if listing.unreadable else sorted(set(known) - listing.logs.keys())
    requests: list[dg.AddDynamicPartitionsRequest | dg.DeleteDynamicPartitionsRequest] = []
    if new:
        requests.append(LOGS.build_add_request(new))
    if gone:
        requests.append(LOGS.build_delete_request(gone))
    unreadable = " ".join(f"{name}: {error}" for name, error in listing.unreadable.items())
    said = f"{len(listing.logs)} logs, nothing new. {unreadable}".strip()
    return dg.SensorResult(
        dynamic_partitions_requests=requests, skip_reason=None if requests else said
    )


def _natural_order(key: str) -> tuple[str, int]:
    """Topics by name, their partitions by number: Dagster keeps the order of insertion."""
    topic, _, number = key.rpartition("-")
    return topic, int(number)


@dg.sensor(
    job=sweep,
    description="Asks for a sweep of the logs whose dirty ratio or compaction lag is breached, or"
    " that must be recovered.",
    minimum_interval_seconds=DUE_SECONDS,
    default_status=dg.DefaultSensorStatus.STOPPED,
)
def due_logs(
    context: dg.SensorEvaluationContext,
    log_dirs: LogDirs,
    policies: PolicyDirectory,
    clock: Clock,
) -> dg.SensorResult:
    """Ask for a sweep of the logs that must be recovered, or whose dirty ratio or compaction lag is
    breached: by deadline, then the filthiest.
    """
    settings = policies.settings()
    now_ms = clock.now_ms()
    logs = log_dirs.listing().logs
    markers = read_markers(log.log_dir for log in logs.values())
    known = load_cursor(context.cursor)
    readings = read_changed(logs, settings, known, markers=markers, now_ms=now_ms)
    held = {
        key: _said(hold)
        for key, hold in holds_of(logs.values(), now_ms=now_ms, settings=settings).items()
    }
    held |= {key: MARKER_TAKEN for key, log in logs.items() if log.log_dir in markers.taken}
    choice = choose(
        readings,
        held=held,
        in_flight=markers.together(logs_in_flight(context.instance), logs),
        limits=settings.policies.sweep,
        now_ms=now_ms,
    )
    unread = dict.fromkeys(logs.keys() - readings.keys(), "not read yet")
    message = skip_message({**choice.skipped, **unread})
    asked = markers.together(choice.logs, logs)
    cursor = dump_cursor(with_requests(readings, asked, now_ms=now_ms))
    if not choice.logs:
        return dg.SensorResult(skip_reason=message, cursor=cursor)
    context.log.info("asked for %s logs; left alone:\n%s", len(choice.logs), message)
    return dg.SensorResult(run_requests=[sweep_request(choice.logs, now_ms)], cursor=cursor)


def _said(hold: Hold | LogwrightError) -> str:
    return hold.sentence if isinstance(hold, Hold) else f"refused: {hold}"


def sweep_request(logs: Sequence[str], now_ms: int) -> dg.RunRequest:
    """A run of the sweep over these logs."""
    return dg.RunRequest(
        run_key=f"{now_ms}:{logs[0]}:{len(logs)}",
        run_config=sweep_run_config(list(logs)),
        tags={"logwright/logs": str(len(logs)), "logwright/most_urgent": logs[0]},
    )


def read_changed(
    logs: Mapping[str, MaintainedLog],
    settings: DirectorySettings,
    before: Mapping[str, Reading],
    *,
    markers: Markers,
    now_ms: TimestampMs,
) -> dict[str, Reading]:
    """Readings of all logs, of which only those are planned anew that changed or whose time has
    come. Effects: reads.

    Args:
        logs: all, by key.
        settings: of their topics.
        before: what earlier ticks read, by key.
        markers: of all log directories; where one is taken, what earlier ticks read is kept: to
            plan a log there means to wait.
        now_ms: the time.
    """
    signatures = Signatures(settings, markers)
    readings: dict[str, Reading] = {}
    changed: dict[str, str] = {}
    for key, log in logs.items():
        known = before.get(key)
        if log.log_dir in markers.taken:
            if known is not None:
                readings[key] = known
            continue
        signature = signatures.of(log)
        if known is not None and known.is_fresh(signature, now_ms):
            readings[key] = known
        elif len(changed) < READS_PER_TICK:
            changed[key] = signature
        # Else it has no reading until the next tick: an old one might be wrong.
    state = plan(
        state_of([logs[key] for key in changed], now_ms),
        settings,
        options=CleaningOptions(checks=settings.policies.checks),
        high_watermark=settings.policies.high_watermark,
    )
    readings |= {
        work.key: _reading(work, changed[work.key], before.get(work.key), now_ms)
        for work in state.works
    }
    return readings


def _reading(work: LogWork, signature: str, known: Reading | None, now_ms: TimestampMs) -> Reading:
    """Effects: lists a log that must be recovered."""
    if isinstance(work.failure, UncleanLogDir):
        reading = unclean_reading(work.failure, signature, total_bytes=_log_bytes(work))
    elif work.failure is not None:
        return refused_reading(work.failure, signature, now_ms=now_ms)
    else:
        reading = reading_of(planned(work), signature)
    same = known is not None and known.signature == signature
    asked_ms = known.requested_ms if known is not None and same else NEVER_MS
    return replace(reading, requested_ms=asked_ms)


def _log_bytes(log: LogWork) -> int:
    """Of all ``.log`` files; 0 if the directory cannot be listed. Effects: lists it."""
    try:
        with open_partition_dir(log.log_dir, log.partition) as directory:
            stamps = stamp_files(directory)
    except LogwrightError:
        return 0
    return sum(one.bytes for name, one in stamps.items() if name.endswith(LOG))
