"""The sensors that discover logs and request sweeps of logs that are due."""

from collections.abc import Mapping, Sequence
from typing import Final

import dagster as dg

from logwright.assets.lib.boundary import RETRIES, boundary, dagster_failure
from logwright.assets.lib.holds import holds_of, state_of
from logwright.assets.lib.partitions import LOGS, LOGS_NAME
from logwright.config.sources import DirectorySettings
from logwright.errors import LogwrightError, UncleanLogDir
from logwright.format.names import LOG
from logwright.garbage import rare_collections
from logwright.log.listing import stamp_files
from logwright.pipelines.lib.kept import keep, kept
from logwright.pipelines.lib.runs import SWEEP, logs_in_flight, runs_in_flight
from logwright.pipelines.lib.skipped import hold_reason, skip_message
from logwright.pipelines.segments.due import (
    Choice,
    Reading,
    carried,
    choose,
    dump_readings,
    load_readings,
    load_spent,
    reading_of,
    refused_reading,
    shown_cursor,
    unclean_reading,
    with_requests,
)
from logwright.pipelines.segments.forecasts import free_space, with_forecasts
from logwright.pipelines.segments.markers import Markers, read_markers
from logwright.pipelines.segments.signature import Signatures
from logwright.pipelines.segments.sweep import sweep, sweep_range, sweep_run_config
from logwright.pipelines.segments.tags import run_tags
from logwright.place.files import open_partition_dir
from logwright.place.model import Place
from logwright.resources.clock import Clock
from logwright.resources.log_dirs import Listing, LogDirs, MaintainedLog
from logwright.resources.policies import PolicyDirectory
from logwright.sweep.model import LogWork, planned
from logwright.sweep.prepare import plan_by_policies
from logwright.sweep.schedule import Occasion
from logwright.units import TimestampMs

DISCOVERY_SECONDS: Final = 60
DUE_SECONDS: Final = 60
"""Longer than the interval of Kafka's cleaner, `log.cleaner.backoff.ms` = 15 s, because starting a
run takes seconds."""

READS_PER_TICK: Final = 2_000
"""Maximum number of logs that one tick plans, because a tick may take a minute; later ticks read
the others.
"""

MARKER_TAKEN: Final = "an append or a recovery is running in its log directory"


@dg.sensor(
    description="Adds and removes partitions so that they match the log directories.",
    minimum_interval_seconds=DISCOVERY_SECONDS,
    default_status=dg.DefaultSensorStatus.RUNNING,
)
def discovery(context: dg.SensorEvaluationContext, log_dirs: LogDirs) -> dg.SensorResult:
    """Add and remove the assets' partitions so that they match the log directories."""
    listing = log_dirs.listing()
    return discovered(listing, context.instance.get_dynamic_partitions(LOGS_NAME))


def discovered(listing: Listing, known: Sequence[str]) -> dg.SensorResult:
    """Return the partitions to add and remove. Removes none while a directory cannot be read: its
    disk may only be unmounted.
    """
    new = sorted(listing.logs.keys() - set(known), key=_natural_order)
    gone = [] if listing.unreadable else sorted(set(known) - listing.logs.keys())
    requests: list[dg.AddDynamicPartitionsRequest | dg.DeleteDynamicPartitionsRequest] = []
    if new:
        requests.append(LOGS.build_add_request(new))
    if gone:
        requests.append(LOGS.build_delete_request(gone))
    changes = [f"{len(keys)} {what}" for keys, what in ((new, "added"), (gone, "removed")) if keys]
    message = f"{len(listing.logs)} logs, {', '.join(changes) or 'no changes'}."
    return dg.SensorResult(
        dynamic_partitions_requests=requests, skip_reason=listing.sentence(message)
    )


@dg.op(out=dg.Out(dg.Nothing))
def discover_logs(context: dg.OpExecutionContext, log_dirs: LogDirs) -> dg.Output[None]:
    """Add the assets' partitions of the logs that are in the log directories; none is removed."""
    with boundary("discover"):
        listing = log_dirs.listing()
    keys = sorted(listing.logs, key=_natural_order)
    context.instance.add_dynamic_partitions(LOGS_NAME, keys)
    if listing.unreadable:
        raise dagster_failure(listing.unreadable, logs=len(keys), retry_number=RETRIES)
    return dg.Output(None, metadata={"logs": len(keys)})


@dg.job(executor_def=dg.in_process_executor)
def discover() -> None:
    """Add the assets' partitions, as the sensor `discovery` does where Dagster's daemon runs."""
    discover_logs()


def _natural_order(key: str) -> tuple[str, int]:
    """Return a sort key of topic name and partition number: Dagster keeps the insertion order."""
    topic, _, number = key.rpartition("-")
    return topic, int(number)


@dg.sensor(
    jobs=[sweep, sweep_range],
    description="Requests a sweep of the logs that exceed their dirty ratio or compaction lag, or"
    " that need recovery.",
    minimum_interval_seconds=DUE_SECONDS,
    default_status=dg.DefaultSensorStatus.STOPPED,
)
@rare_collections()
def due_logs(
    context: dg.SensorEvaluationContext,
    log_dirs: LogDirs,
    policies: PolicyDirectory,
    clock: Clock,
) -> dg.SensorResult:
    """Request a sweep of the logs that need recovery or exceed their dirty ratio or compaction lag:
    by deadline, then by bytes reclaimed per second, within the budget.
    """
    settings = policies.settings()
    now_ms = clock.now_ms()
    listing = log_dirs.listing()
    logs = listing.logs
    markers = read_markers(log.log_dir for log in logs.values())
    document, before = kept(context)
    known = load_readings(document)
    readings = read_changed(logs, settings, known, markers=markers, now_ms=now_ms)
    held = {
        key: hold_reason(hold)
        for key, hold in holds_of(logs.values(), now_ms=now_ms, settings=settings).items()
    }
    held |= {key: MARKER_TAKEN for key, log in logs.items() if log.log_dir in markers.taken}
    volumes, free = free_space(logs)
    occasion = Occasion(
        now_ms=now_ms,
        limits=settings.policies.sweep,
        spent=load_spent(before),
        free_bytes=free,
        runs=runs_in_flight(context.instance, SWEEP),
    )
    in_flight = markers.together(logs_in_flight(context.instance), logs)
    choice = choose(readings, occasion, in_flight=in_flight, held=held, volumes=volumes)
    urgent = (*choice.logs, *choice.next)
    forecast = with_forecasts(readings, urgent, logs, settings, now_ms=now_ms)
    if forecast != readings:
        readings = forecast
        choice = choose(readings, occasion, in_flight=in_flight, held=held, volumes=volumes)
    unread = {key: held.get(key, "not read yet") for key in logs if key not in readings}
    message = listing.sentence(skip_message({**choice.skipped, **unread}))
    requested = markers.together(choice.logs, logs)
    readings = with_requests(readings, requested, now_ms=now_ms)
    cursor = keep(context, dump_readings(readings), shown_cursor(readings, choice.spent))
    if not choice.logs:
        return dg.SensorResult(skip_reason=message, cursor=cursor)
    context.log.info("requested %s logs; skipped:\n%s", len(choice.logs), message)
    request = sweep_request(choice, readings, now_ms)
    return dg.SensorResult(run_requests=[request], cursor=cursor)


def sweep_request(choice: Choice, readings: Mapping[str, Reading], now_ms: int) -> dg.RunRequest:
    """Return a run request for a sweep of the chosen logs."""
    logs = choice.logs
    known = {key: readings[key].forecast_bytes for key in logs}
    forecasts = {key: forecast for key, forecast in known.items() if forecast >= 0}
    return dg.RunRequest(
        run_key=f"{now_ms}:{logs[0]}:{len(logs)}",
        job_name=SWEEP,
        run_config=sweep_run_config(list(logs), ahead_ms=choice.ahead_ms, forecasts=forecasts),
        tags=run_tags(logs, readings, now_ms=now_ms),
    )


def read_changed(
    logs: Mapping[str, MaintainedLog],
    settings: DirectorySettings,
    before: Mapping[str, Reading],
    *,
    markers: Markers,
    now_ms: TimestampMs,
) -> dict[str, Reading]:
    """Return the readings of all logs; plans only logs that changed or may be due by time. Effects:
    reads.

    Args:
        logs: key → log, all logs.
        settings: the settings of their topics.
        before: key → reading of earlier ticks.
        markers: the markers of all log directories; where one is taken, earlier readings are kept,
            because planning would wait for a lock. Logs of a running broker have no reading: it
            maintains them.
        now_ms: the time.
    """
    signatures = Signatures(settings, markers)
    readings: dict[str, Reading] = {}
    changed: dict[str, str] = {}
    for key, log in logs.items():
        known = before.get(key)
        if log.log_dir in markers.running:
            continue
        if log.log_dir in markers.taken:
            if known is not None:
                readings[key] = known
            continue
        signature = signatures.of(log)
        if known is not None and known.is_fresh(signature, now_ms):
            readings[key] = known
        elif len(changed) < READS_PER_TICK:
            changed[key] = signature
        # Otherwise it has no reading until the next tick: an old one might be wrong.
    state = plan_by_policies(state_of([logs[key] for key in changed], now_ms), settings)
    readings |= {
        work.key: _reading(work, changed[work.key], before.get(work.key), now_ms)
        for work in state.works
    }
    return readings


def _reading(
    work: LogWork[Place], signature: str, known: Reading | None, now_ms: TimestampMs
) -> Reading:
    """Return the reading of a log. Effects: lists a log that must be recovered."""
    if isinstance(work.failure, UncleanLogDir):
        reading = unclean_reading(work.failure, signature, total_bytes=_log_bytes(work))
    elif work.failure is not None:
        return refused_reading(work.failure, signature, now_ms=now_ms)
    else:
        reading = reading_of(planned(work), signature)
    return carried(reading, known)


def _log_bytes(log: LogWork[Place]) -> int:
    """Return the size of all ``.log`` files; 0 if the directory cannot be listed. Effects: lists
    it.
    """
    try:
        with open_partition_dir(log.log_dir, log.partition) as directory:
            stamps = stamp_files(directory)
    except LogwrightError:
        return 0
    return sum(one.bytes for name, one in stamps.items() if name.endswith(LOG))
