"""Retention: delete old segments by `retention.bytes`, `retention.ms` and log start offset, at the
interval of a broker.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import dagster as dg
from pydantic import Field

from logwright.assets.history import record_history
from logwright.assets.lib.boundary import boundary, dagster_failure, recorded
from logwright.assets.lib.check_outputs import asset_outputs, check_specs, checks_made, op_outputs
from logwright.assets.lib.events import in_batches, many_events
from logwright.assets.lib.holds import state_of
from logwright.assets.lib.human import human_bytes
from logwright.assets.lib.partitions import LOGS, LOGS_NAME, RETENTION_ASSET, SEGMENT_SET
from logwright.assets.lib.report import metadata_in_use, recovery_metadata
from logwright.assets.lib.verdict import RETENTION_CHECKS
from logwright.assets.retention import (
    retention_evaluations,
    retention_materializations,
    retention_observation,
    retention_outcome,
)
from logwright.assets.segments.segment_set import POOL
from logwright.config.sources import DirectorySettings
from logwright.config.topic import broker_settings
from logwright.history.model import sweep_rows
from logwright.maintenance.retain import retain_anywhere
from logwright.pipelines.lib.runs import runs_in_flight
from logwright.place.model import Place
from logwright.resources.clock import Clock
from logwright.resources.log_dirs import LogDirs, MaintainedLog
from logwright.resources.policies import PolicyDirectory
from logwright.sweep.holds import hold_from_retention
from logwright.sweep.model import SweepState, local_part
from logwright.sweep.recover import recover
from logwright.times import duration
from logwright.units import TimestampMs

RETENTION: Final = "retention"
RETAIN_LOGS: Final = "retain_logs"
TICK_MS: Final = 60_000
SWEPT: Final = "swept"
"""Input that only orders: segments are rolled and compacted before old ones are deleted."""


class RetentionConfig(dg.Config):
    """The logs to apply retention to.

    Attributes:
        logs: partition keys; empty: all logs of the log directories.
        force: include stray logs, and compacted ones in quarantine or with the cleaner disabled.
    """

    logs: list[str] = Field(default_factory=list)
    force: bool = False


def retained(
    context: dg.OpExecutionContext,
    logs: Sequence[MaintainedLog],
    settings: DirectorySettings,
    *,
    now_ms: TimestampMs,
    force: bool,
) -> SweepState[Place]:
    """Recover unclean logs, then delete old segments by each log's policy; in a bucket by a new
    version. A failing log does not stop the others. `force`: as in `RetentionConfig`.
    """
    state = hold_from_retention(state_of(logs, now_ms), settings, force=force)
    for work in state.works:
        if work.held is not None:
            context.log.info("log=%s skipped: %s", work.key, work.held.sentence)
    state = state.with_works(recover(local_part(state), settings).works)
    high_watermark = settings.policies.high_watermark
    return state.with_works(
        retain_anywhere(work, settings, now_ms=now_ms, high_watermark=high_watermark, force=force)
        for work in state.going_on
        if work.held is None
    )


def _events(
    state: SweepState[Place], settings: DirectorySettings
) -> Iterator[dg.AssetObservation | dg.AssetCheckEvaluation]:
    """Yield what the logs lost of which segments were deleted, whether or not a later step of their
    retention failed; then what the checks found.
    """
    for work in state.works:
        if work.retained is not None and work.retained.deleted:
            yield retention_observation(work, work.retained, settings)
    yield from retention_evaluations(state, settings)


@dg.op(out=dg.Out(dg.Nothing), pool=POOL)
def retain_logs(
    context: dg.OpExecutionContext,
    config: RetentionConfig,
    log_dirs: LogDirs,
    policies: PolicyDirectory,
    clock: Clock,
) -> Iterator[
    dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation | dg.Output[None]
]:
    """Recover unclean logs, then delete old segments by each log's policy and record why; a failing
    log does not stop the others. Then check what was deleted and what is left.
    """
    with boundary(RETAIN_LOGS):
        listing = log_dirs.listing()
        logs = listing.find_those(config.logs or listing.logs)
        settings = policies.settings()
        context.instance.add_dynamic_partitions(LOGS_NAME, [log.key for log in logs])
    state = retained(context, logs, settings, now_ms=clock.now_ms(), force=config.force)
    record_history(context, sweep_rows(state, run_id=context.run_id, ended_ms=clock.now_ms()))
    yield from _events(state, settings)
    with many_events(context):
        made = retention_materializations(context, state.works, settings)
        yield from in_batches(context, made)
    plans = [work.retained for work in state.works if work.retained is not None]
    totals = {
        "logs": len(logs),
        "skipped": sum(work.held is not None for work in state.works),
        "segments deleted": sum(len(plan.deleted) for plan in plans),
        "bytes to be freed": sum(plan.freed_bytes for plan in plans),
    }
    context.log.info(
        "%d of %d logs were looked at: %d segments deleted, %s to be freed by a purge.",
        *(len(plans), len(logs), totals["segments deleted"]),
        human_bytes(totals["bytes to be freed"]),
    )
    missing = listing.missing(config.logs) if config.logs else listing.unreadable
    failures = {**missing, **state.failures}
    if failures:
        raise dagster_failure(failures, logs=len(logs), retry_number=context.retry_number)
    more = recovery_metadata(state) | metadata_in_use(settings, logs)
    yield dg.Output(None, metadata=totals | more)


class ForceConfig(dg.Config):
    """How to apply retention to the partitions of a run.

    Attributes:
        force: as in `RetentionConfig`.
    """

    force: bool = False


@dg.op(ins={SWEPT: dg.In(dg.Nothing)}, out=op_outputs(RETENTION_CHECKS), pool=POOL)
def retain_partitions(
    context: dg.AssetExecutionContext,
    config: ForceConfig,
    log_dirs: LogDirs,
    policies: PolicyDirectory,
    clock: Clock,
) -> Iterator[
    dg.AssetObservation | dg.AssetCheckEvaluation | dg.AssetMaterialization | dg.Output[None]
]:
    """Apply retention to the partitions of the run, check it, and record each."""
    with boundary(RETENTION):
        listing = log_dirs.listing()
        logs = listing.find_those(context.partition_keys)
        settings = policies.settings()
    op_context = context.op_execution_context
    state = retained(op_context, logs, settings, now_ms=clock.now_ms(), force=config.force)
    ended_ms = clock.now_ms()
    record_history(op_context, sweep_rows(state, run_id=op_context.run_id, ended_ms=ended_ms))
    yield from _events(state, settings)
    yield from checks_made(RETENTION_CHECKS)
    yield from recorded(
        context,
        RETENTION_ASSET,
        {work.key: retention_outcome(work, settings) for work in state.going_on},
        {**listing.missing(context.partition_keys), **state.failures},
    )


@dg.graph_asset(
    key=RETENTION_ASSET,
    ins={SWEPT: dg.AssetIn(SEGMENT_SET, dagster_type=dg.Nothing)},
    partitions_def=LOGS,
    backfill_policy=dg.BackfillPolicy.single_run(),
    check_specs=check_specs(RETENTION_ASSET, RETENTION_CHECKS),
    group_name="kafka_logs",
    kinds={"kafka"},
)
def retention_asset(swept: Any) -> Any:  # noqa: ANN401 - of the composition
    """The segments that each log keeps by `retention.bytes`, `retention.ms` and its log start
    offset: older ones are deleted. The job `retention` does the same at the broker's interval.
    """
    return asset_outputs(RETENTION_ASSET, RETENTION_CHECKS, retain_partitions(swept))


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
        return dg.SkipReason(
            f"log.retention.check.interval.ms, {duration(interval_ms)}, has not passed."
        )
    running = runs_in_flight(context.instance, RETENTION)
    if running:
        return dg.SkipReason("A retention is running.")
    return dg.RunRequest(run_key=f"{RETENTION}:{scheduled_ms}")
