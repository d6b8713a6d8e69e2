"""The sweep: maintain any set of logs in one run and one Spark session.

A backfill of scattered dynamic partitions becomes one run per contiguous range, and each run takes
seconds to start; so sensors request this job. Its steps are those of the asset, but the logs come
from the run's configuration, and it records materializations only for the logs that it changed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import dagster as dg
from pydantic import Field

from logwright.assets.history import record_history
from logwright.assets.lib.boundary import (
    RETRIES,
    after_failed_swap,
    boundary,
    checked,
    dagster_failure,
)
from logwright.assets.lib.events import in_batches, many_events
from logwright.assets.lib.holds import uncleanable
from logwright.assets.lib.maintained import maintained
from logwright.assets.lib.partitions import LOGS_NAME, SEGMENT_SET
from logwright.assets.retention import (
    retention_evaluations,
    retention_materializations,
    retention_observation,
)
from logwright.assets.segments.report import (
    failure_observations,
    materialization,
    run_line,
    run_metadata,
    swap_metadata,
    unchanged_observations,
)
from logwright.assets.segments.restored import NEEDED, restored
from logwright.assets.segments.segment_set import (
    POOL,
    SWEEP_IN,
    SWEEP_OUT,
    CleaningConfig,
    dedupe,
    quality,
    recovered_plan,
    roll,
    segment_set,
)
from logwright.config.sources import DirectorySettings
from logwright.errors import LogwrightError
from logwright.history.model import sweep_rows
from logwright.maintenance.retain import retain_anywhere
from logwright.pipelines.lib.runs import PLAN_SWEEP, SWEEP
from logwright.place.model import Place, is_local
from logwright.resources.clock import Clock
from logwright.resources.log_dirs import Listing, LogDirs
from logwright.resources.policies import PolicyDirectory
from logwright.sweep.model import LogWork, SweepState, local_part, with_forecast_bytes
from logwright.sweep.retain import compacted
from logwright.sweep.stages import commit_each

SWAP_SWEEP = "swap_sweep"


class SweepConfig(CleaningConfig):
    """The logs to sweep, and options.

    Attributes:
        logs: partition keys; empty: all logs of the log directories.
        forecasts: partition key → bytes that its cleaning is expected to free.
    """

    logs: list[str] = Field(default_factory=list)
    forecasts: dict[str, int] = Field(default_factory=dict)


@dg.op(out=SWEEP_OUT)
def plan_sweep(
    context: dg.OpExecutionContext,
    config: SweepConfig,
    log_dirs: LogDirs,
    policies: PolicyDirectory,
    clock: Clock,
) -> SweepState[Place]:
    """Plan each requested log: decide what is due by its topic's policy."""
    with boundary(PLAN_SWEEP):
        listing = log_dirs.listing()
        logs = listing.find_those(config.logs or listing.logs)
        # A sweep may include logs that discovery has not seen yet; their events need the partition.
        context.instance.add_dynamic_partitions(LOGS_NAME, [log.key for log in logs])
        state = recovered_plan(
            context, logs, policies.settings(), now_ms=clock.now_ms(), options=config.options()
        )
        state = with_forecast_bytes(state, config.forecasts)
    return checked(state, context)


def _not_listed(
    context: dg.OpExecutionContext, state: SweepState[Place]
) -> Mapping[str, LogwrightError]:
    """Return why logs of the sweep were not there; if it was to be of all logs, why log directories
    could not be listed. Effects: lists them, unless it had all that it was to be of.
    """
    ops: Any = context.run.run_config.get("ops", {})
    logs = ops.get(PLAN_SWEEP, {}).get("config", {}).get("logs")
    if logs and len(set(logs)) <= len(state.works):
        return {}
    listing: Listing = context.resources.log_dirs.listing()
    return listing.missing(logs) if logs else listing.unreadable


@dg.op(
    ins={"validated": SWEEP_IN},
    out=dg.Out(dg.Nothing),
    pool=POOL,
    required_resource_keys={*NEEDED},
)
def swap_sweep(
    context: dg.OpExecutionContext, validated: SweepState[Place]
) -> Iterator[
    dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation | dg.Output[None]
]:
    """Swap each log and record its materialization; delete old segments if the policy is
    compact,delete, and check that; then fail if a swap or a retention failed, if a log is not there
    any more, or if a log directory could not be listed in a sweep of all logs.
    """
    with many_events(context):
        with boundary(SWAP_SWEEP):
            settings = context.resources.policies.settings()
            validated = restored(context, validated, before="swap")
            failures: dict[str, LogwrightError] = {**_not_listed(context, validated)}
        done: list[LogWork[Place]] = []
        yield from in_batches(context, _committed(validated, done))
        state = validated.with_works(done)
        context.log.info(run_line(state))
        yield from unchanged_observations(work for work in state.going_on if not work.changed)
        yield from failure_observations(state)
        in_order = {work.key: swap_metadata(work) for work in state.works if work.in_order}
        yield from in_batches(context, maintained(context, SEGMENT_SET, in_order))
        retained: list[LogWork[Place]] = []
        for work in _retained(state, settings):
            retained.append(work)
            if work.failure is not None:
                failures[work.key] = work.failure
            elif work.retained is not None and work.retained.deleted:
                yield retention_observation(work, work.retained, settings)
        yield from in_batches(context, retention_materializations(context, retained, settings))
        yield from retention_evaluations(replace(state, works=tuple(retained)), settings)
        record_history(context, sweep_rows(state.with_works(retained), run_id=context.run_id))
        for key, error in failures.items():
            context.log.error("%s: %s", key, error)
        if state.failures:
            raise after_failed_swap(state, context, failures)
        if failures:
            # Swaps are final: a retry of the step would only find stale plans.
            raise dagster_failure(failures, logs=len(state.works), retry_number=RETRIES)
        log_dirs = {work.log_dir for work in state.works}
        yield dg.Output(None, metadata=run_metadata(state) | uncleanable(log_dirs))


def _retained(state: SweepState[Place], settings: DirectorySettings) -> Iterator[LogWork[Place]]:
    """Yield the compacted logs after their retention, which Kafka's cleaner does after a
    compaction, too (`retain_compacted`). Effects: changes them.
    """
    force = any(work.plan is not None and work.plan.options.force for work in state.works)
    for work in compacted(state, settings, force=force):
        yield (
            work
            if work.failure is not None
            else retain_anywhere(
                work,
                settings,
                now_ms=state.now_ms,
                high_watermark=settings.policies.high_watermark,
                force=force,
            )
        )


def _committed(
    state: SweepState[Place], done: list[LogWork[Place]]
) -> Iterator[dg.AssetMaterialization]:
    """Commit each log that is due and return its materialization, then those of the logs that were
    only rolled, and of those in buckets, which are committed. The next logs are committed while
    Dagster stores the events of those before.

    Args:
        state: what was checked.
        done: gets all logs that were committed or failed.
    """
    here = local_part(state).going_on
    for work in commit_each([[work for work in here if work.due]]):
        done.append(work)
        if work.failure is None:
            yield materialization(work)
    for other in state.going_on:
        if other.changed and not (other.due and is_local(other.log_dir)):
            yield materialization(other)


@dg.job(
    name=SWEEP,
    executor_def=dg.in_process_executor,
    # A run that died is retried from scratch, which records all checks with one run.
    tags={"dagster/retry_strategy": "ALL_STEPS"},
)
def sweep() -> None:
    """Roll, compact, check and swap any set of logs, then delete old segments of those with
    compact,delete; a failing log does not stop the others.
    """
    swap_sweep(quality(dedupe(roll(plan_sweep()))).validated)


sweep_range = dg.define_asset_job(
    "sweep_range",
    selection=dg.AssetSelection.assets(segment_set),
    description="Sweep the partitions of a backfill: the steps of the job `sweep`, which sensors"
    " request for the logs that are due.",
)
"""A target of the sensors, by which Dagster shows them as the asset's automation."""


def sweep_run_config(
    logs: list[str], *, ahead_ms: int = 0, forecasts: Mapping[str, int] = MappingProxyType({})
) -> dict[str, object]:
    """Return the run configuration for these partition keys; `ahead_ms`, `forecasts`: of
    `SweepConfig`.
    """
    config: dict[str, object] = {"logs": logs}
    if ahead_ms:
        config["ahead_ms"] = ahead_ms
    if forecasts:
        config["forecasts"] = dict(forecasts)
    return {"ops": {PLAN_SWEEP: {"config": config}}}
