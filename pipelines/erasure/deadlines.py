"""The job of erasure requests, and the sensor that meets their deadlines."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import dagster as dg

from logwright.assets.erasure.deadlines import DELETION_DEADLINES, ERASURE_REQUESTS
from logwright.assets.lib.holds import holds_of
from logwright.config.policies import Policies
from logwright.config.sources import DirectorySettings
from logwright.erasure.outlook.countdown import Countdown, LogCountdown, read_countdown
from logwright.erasure.outlook.upkeep import SweepTimes, sweep_times
from logwright.errors import LogwrightError
from logwright.pipelines.erasure.due import (
    choose_erasures,
    dump_requested,
    load_requested,
)
from logwright.pipelines.lib.runs import PLAN_SWEEP, SWEEP, logs_in_flight, runs_in_flight
from logwright.pipelines.lib.skipped import RETRY_AFTER_MS, hold_reason, skip_message
from logwright.pipelines.segments.sweep import sweep, sweep_range
from logwright.resources.clock import Clock
from logwright.resources.erasure import countdown_path
from logwright.resources.log_dirs import LogDirs, MaintainedLog
from logwright.resources.policies import PolicyDirectory

ERASURE: Final = "erasure"
DEADLINE_SECONDS: Final = 60

erasure = dg.define_asset_job(
    ERASURE,
    selection=dg.AssetSelection.assets(ERASURE_REQUESTS, DELETION_DEADLINES),
    executor_def=dg.in_process_executor,
    description="Store the erasure requests that have landed, and search the logs for what"
    " remains.",
)


@dg.sensor(
    jobs=[erasure, sweep, sweep_range],
    description="Searches the logs for what remains of erasure requests, and requests sweeps in"
    " time for their deadlines.",
    minimum_interval_seconds=DEADLINE_SECONDS,
    default_status=dg.DefaultSensorStatus.STOPPED,
)
def erasure_deadlines(
    context: dg.SensorEvaluationContext,
    log_dirs: LogDirs,
    policies: PolicyDirectory,
    clock: Clock,
) -> dg.SensorResult:
    """Request a search if the last one is old or requests have landed since, and a sweep of the
    logs that must be cleaned now for a deadline. Effects: lists the landing directory; reads the
    countdown.
    """
    settings = policies.settings()
    now_ms = clock.now_ms()
    countdown = read_countdown(countdown_path(context.instance.storage_directory()))
    requested, look_ms = load_requested(context.cursor)
    runs: list[dg.RunRequest] = []
    reason = _why_look(context, countdown, settings.policies, now_ms, look_ms)
    if reason is not None:
        runs.append(
            dg.RunRequest(
                run_key=f"look:{now_ms}", job_name=ERASURE, tags={"logwright/reason": reason}
            )
        )
        look_ms = now_ms
    listing = log_dirs.listing().logs
    rows = tuple(_rows(countdown, log_dirs, listing, settings))
    logs = [listing[key] for key, _, _ in rows]
    held = {
        key: hold_reason(hold)
        for key, hold in holds_of(logs, now_ms=now_ms, settings=settings).items()
    }
    choice = choose_erasures(
        rows,
        requested,
        now_ms=now_ms,
        in_flight=logs_in_flight(context.instance),
        held=held,
    )
    kept = {key: at_ms for key, at_ms in requested.items() if key in {row[0] for row in rows}}
    if choice.logs:
        runs.append(_sweep_request(choice.logs, now_ms))
        kept |= dict.fromkeys(choice.logs, now_ms)
    message = skip_message(choice.skipped) if choice.skipped else _nothing(countdown, len(rows))
    cursor = dump_requested(kept, look_ms)
    if runs:
        return dg.SensorResult(run_requests=runs, cursor=cursor)
    return dg.SensorResult(skip_reason=message, cursor=cursor)


def _nothing(countdown: Countdown | None, known: int) -> str:
    """Return why nothing is requested, by what was looked at.

    Args:
        known: of the logs with records, those that are there with valid settings.
    """
    if countdown is None:
        return "No search was made yet."
    if countdown.not_read:
        return f"Nothing is due; {countdown.not_read} places were not searched."
    if known < len(countdown.logs):
        return f"{len(countdown.logs) - known} logs or tables with records cannot be swept here."
    return "Nothing is due in a log." if countdown.records else "Nothing remains in a log."


def _why_look(
    context: dg.SensorEvaluationContext,
    countdown: Countdown | None,
    policies: Policies,
    now_ms: int,
    look_ms: int,
) -> str | None:
    """Return why a search is requested, None if it is not. Effects: lists the landing directory."""
    if runs_in_flight(context.instance, ERASURE):
        return None
    looked_ms = -1 if countdown is None else countdown.looked_ms
    if look_ms > looked_ms and now_ms < look_ms + RETRY_AFTER_MS:
        return None
    if countdown is None:
        return "the first search"
    landing = policies.erasure.landing
    reasons = {
        "the last search is old": now_ms >= looked_ms + policies.erasure.look_every_ms,
        "a deadline has passed": any(
            looked_ms < row.next_deadline_ms <= now_ms for row in countdown.topics
        ),
        "requests have landed": landing is not None and _newest_ms(Path(landing)) > looked_ms,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def _newest_ms(landing: Path) -> int:
    """Return the time of the newest file, ms; -1 without files. Effects: lists the directory."""
    try:
        times = [
            path.lstat().st_mtime_ns // 1_000_000
            for path in landing.iterdir()
            if not path.name.startswith((".", "_"))
        ]
    except OSError:
        return -1
    return max(times, default=-1)


def _rows(
    countdown: Countdown | None,
    log_dirs: LogDirs,
    listing: Mapping[str, MaintainedLog],
    settings: DirectorySettings,
) -> Iterator[tuple[str, LogCountdown, frozenset[SweepTimes]]]:
    """Generate key, what remains and when it must be cleaned, of each log that is there; its
    settings must be valid: a sweep would fail as well. Effects: reads settings.
    """
    if countdown is None:
        return
    named = log_dirs.named()
    keys = {(log.log_dir, *log.partition): key for key, log in listing.items()}
    for row in countdown.logs:
        log_dir = named.get(row.directory)
        key = None if log_dir is None else keys.get((log_dir, row.topic, row.partition))
        if log_dir is None or key is None:
            continue
        try:
            config, _ = settings.of(log_dir, row.topic)
        except LogwrightError:
            continue
        margin_ms = settings.policies.erasure.margin_ms
        deadlines = (row.deadline_ms, *row.later_deadlines_ms)
        times = (sweep_times(each, config, margin_ms=margin_ms) for each in deadlines)
        yield key, row, frozenset(times)


def _sweep_request(logs: tuple[str, ...], now_ms: int) -> dg.RunRequest:
    """Return the request of a sweep that cleans these logs, due or not."""
    config = {"logs": list(logs), "force": True, "roll_active": True}
    return dg.RunRequest(
        run_key=f"erasure:{now_ms}:{logs[0]}:{len(logs)}",
        job_name=SWEEP,
        run_config={"ops": {PLAN_SWEEP: {"config": config}}},
        tags={
            "logwright/logs": str(len(logs)),
            "logwright/most_urgent": logs[0],
            "logwright/reason": "erasure deadline",
        },
    )
