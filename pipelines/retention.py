"""Retention: delete old segments by `retention.bytes`, `retention.ms` and log start offset, at the
interval of a broker.
"""

from collections.abc import Iterator
from typing import Final

import dagster as dg
from pydantic import Field

from logwright.assets.boundary import boundary, dagster_failure
from logwright.assets.history import record_history
from logwright.assets.holds import state_of
from logwright.assets.report import metadata_in_use, recovery_metadata
from logwright.assets.retention import retention_observation
from logwright.assets.segment_set import POOL
from logwright.config.topic import broker_settings
from logwright.history.model import sweep_rows
from logwright.pipelines.runs import RUNS_IN_FLIGHT
from logwright.resources.clock import Clock
from logwright.resources.log_dirs import LogDirs
from logwright.resources.policies import PolicyDirectory
from logwright.sweep.holds import hold_from_retention
from logwright.sweep.model import LogWork
from logwright.sweep.recover import recover
from logwright.sweep.retain import retain_log

RETENTION: Final = "retention"
RETAIN_LOGS: Final = "retain_logs"
TICK_MS: Final = 60_000


class RetentionConfig(dg.Config):
    """The logs to apply retention to.

    Attributes:
        logs: partition keys; empty: all logs of the log directories.
        force: include stray logs, and compacted ones in quarantine or with the cleaner disabled.
    """

    logs: list[str] = Field(default_factory=list)
    force: bool = False


@dg.op(out=dg.Out(dg.Nothing), pool=POOL)
def retain_logs(
    context: dg.OpExecutionContext,
    config: RetentionConfig,
    log_dirs: LogDirs,
    policies: PolicyDirectory,
    clock: Clock,
) -> Iterator[dg.AssetObservation | dg.Output[None]]:
    """Recover unclean logs, then delete old segments by each log's policy and record why; a failing
    log does not stop the others.
    """
    with boundary(RETAIN_LOGS):
        listing = log_dirs.listing()
        logs = listing.find_all(config.logs or listing.logs)
        settings = policies.settings()
    now_ms = clock.now_ms()
    state = hold_from_retention(state_of(logs, now_ms), settings, force=config.force)
    left = [(work.key, work.held) for work in state.works if work.held is not None]
    for key, hold in left:
        context.log.info("log=%s skipped: %s", key, hold.sentence)
    state = recover(state, settings)
    high_watermark = settings.policies.high_watermark
    segments = freed = 0
    changed: list[LogWork] = []
    for work in state.going_on:
        if work.held is not None:
            continue
        done = retain_log(
            work, settings, now_ms=now_ms, high_watermark=high_watermark, force=config.force
        )
        changed.append(done)
        if done.retained is not None:
            segments += len(done.retained.deleted)
            freed += done.retained.freed_bytes
            if done.retained.deleted:
                yield retention_observation(done, done.retained, settings)
    state = state.with_works(changed)
    record_history(context, sweep_rows(state, run_id=context.run_id, ended_ms=clock.now_ms()))
    if state.failures:
        raise dagster_failure(state.failures, logs=len(logs), retry_number=context.retry_number)
    totals = {
        "logs": len(logs),
        "skipped": len(left),
        "segments deleted": segments,
        "bytes to be freed": freed,
    }
    said = recovery_metadata(state) | metadata_in_use(settings, logs)
    yield dg.Output(None, metadata=totals | said)


@dg.job(name=RETENTION, executor_def=dg.in_process_executor)
def retention() -> None:
    """Delete old segments of all maintained logs; a later purge removes the files."""
    retain_logs()


def is_due(scheduled_ms: int, interval_ms: int) -> bool:
    """Return whether a multiple of the interval is in the minute that ends at this tick."""
    return scheduled_ms // interval_ms != (scheduled_ms - TICK_MS) // interval_ms


@dg.schedule(
    job=retention,
    cron_schedule="* * * * *",
    description="Retention every log.retention.check.interval.ms of the policies' defaults, to the"
    " minute.",
)
def retention_check(
    context: dg.ScheduleEvaluationContext, policies: PolicyDirectory
) -> dg.RunRequest | dg.SkipReason:
    """Request a retention when the interval has passed. Reads the policies at each tick."""
    scheduled_ms = int(context.scheduled_execution_time.timestamp() * 1000)
    interval_ms = broker_settings(policies.load().defaults).retention_check_interval_ms
    if not is_due(scheduled_ms, interval_ms):
        return dg.SkipReason(f"log.retention.check.interval.ms={interval_ms} has not passed.")
    running = context.instance.get_runs_count(
        dg.RunsFilter(job_name=RETENTION, statuses=RUNS_IN_FLIGHT)
    )
    if running:
        return dg.SkipReason("A retention is running.")
    return dg.RunRequest(run_key=f"{RETENTION}:{scheduled_ms}")
