"""The segment set of each log, made by plan → roll → dedupe → quality → swap.

`roll` rolls the active segments that are due, as a broker does independently of its cleaner. The
checks are evaluated by `quality` on the staged output, before any record goes. A log that
fails one goes no further and its staged files are removed. If no log is left, the step fails there
and `swap` never starts; in a run over several logs the others are swapped, and then the run fails
and names those that were not (docs/adr/0003).
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import dagster as dg

from logwright.assets.history import record_history
from logwright.assets.lib.boundary import after_failed_swap, boundary, checked
from logwright.assets.lib.events import many_events
from logwright.assets.lib.holds import state_of
from logwright.assets.lib.partitions import LOGS, SEGMENT_SET
from logwright.assets.lib.report import metadata_in_use, recovery_metadata, unplotted
from logwright.assets.lib.verdict import CHECKS
from logwright.assets.segments.expectations import import_in_background
from logwright.assets.segments.in_bucket import sweep_those_in_buckets
from logwright.assets.segments.quality import check_evaluations, examine_and_judge
from logwright.assets.segments.report import (
    decision_metadata,
    failure_observations,
    materialization,
    roll_metadata,
    run_line,
    staged_metadata,
    swap_metadata,
)
from logwright.assets.segments.restored import NEEDED, first_run, restored
from logwright.compaction.model import CleaningOptions
from logwright.config.sources import DirectorySettings
from logwright.errors import LogwrightError
from logwright.history.model import roll_rows, sweep_rows
from logwright.place.model import Place
from logwright.resources.catalogue import SWEEP_STATES
from logwright.resources.clock import Clock
from logwright.resources.log_dirs import LogDirs, MaintainedLog
from logwright.resources.policies import PolicyDirectory
from logwright.spark.sweep import SparkExecutor
from logwright.sweep.model import SweepState, local_part
from logwright.sweep.prepare import prepare
from logwright.sweep.stages import (
    build_all,
    commit_all,
    discard_failed,
    roll_all,
    to_clean,
    unstaged_on_error,
)
from logwright.units import TimestampMs

PLAN: Final = "plan"
POOL: Final = "log_cleaner"
"""Its limit is how many runs clean at once: `log.cleaner.threads`."""

SWEEP_OUT: Final = dg.Out(SweepState, io_manager_key=SWEEP_STATES)
"""States stay in the memory of the run; another process gets the logs alone (`restored`)."""
SWEEP_IN: Final = dg.In(SweepState)

CHECK_SPECS: Final = [
    dg.AssetCheckSpec(name, asset=SEGMENT_SET, description=description, blocking=True)
    for name, description in CHECKS.items()
]


class CleaningConfig(dg.Config):
    """How to clean.

    Attributes:
        force: clean even if not due.
        like_kafka: without logwright's declared differences to Kafka's cleaner.
        ahead_ms: clean also what max.compaction.lag.ms will make due within this time.
        roll_active: roll the active segments of compacted logs before, due or not; a log with
            nothing dirty then is cleaned from its start.
    """

    force: bool = False
    like_kafka: bool = False
    ahead_ms: int = 0
    roll_active: bool = False

    def options(self) -> CleaningOptions:
        """Return the options as the engine takes them."""
        return CleaningOptions(
            force=self.force,
            like_kafka=self.like_kafka,
            ahead_ms=self.ahead_ms,
            roll=self.roll_active,
        )


def recovered_plan(
    context: dg.OpExecutionContext,
    logs: Sequence[MaintainedLog],
    settings: DirectorySettings,
    *,
    now_ms: TimestampMs,
    options: CleaningOptions,
) -> SweepState[Place]:
    """Recover unclean logs that are not held, report it, then plan."""
    state = prepare(state_of(logs, now_ms), settings, options)
    context.add_output_metadata(
        recovery_metadata(state) | metadata_in_use(settings, logs) | decision_metadata(state)
    )
    return state


@dg.op(name=PLAN, out=SWEEP_OUT)
def plan_partitions(
    context: dg.AssetExecutionContext,
    config: CleaningConfig,
    log_dirs: LogDirs,
    policies: PolicyDirectory,
    clock: Clock,
) -> SweepState[Place]:
    """Decide for each log of the run what is due, by its topic's policy."""
    with boundary(PLAN):
        logs = log_dirs.listing().find_those(context.partition_keys)
        state = recovered_plan(
            context.op_execution_context,
            logs,
            policies.settings(),
            now_ms=clock.now_ms(),
            options=config.options(),
        )
    return checked(state, context.op_execution_context)


@dg.op(ins={"planned": SWEEP_IN}, out=SWEEP_OUT, pool=POOL, required_resource_keys={*NEEDED})
def roll(context: dg.OpExecutionContext, planned: SweepState[Place]) -> SweepState[Place]:
    """Roll the active segments that are full, or past segment.ms or max.compaction.lag.ms. No
    record goes, and a roll stays if a later step fails. A log in a bucket is rolled with its
    cleaning.
    """
    planned = restored(context, planned, before="roll")
    with boundary("roll"):
        settings = context.resources.policies.settings()
        here, high_watermark = local_part(planned), settings.policies.high_watermark
        rolled = roll_all(here, settings, high_watermark=high_watermark)
        state = planned.with_works(rolled.works)
    record_history(context, roll_rows(state, run_id=context.run_id))
    context.add_output_metadata(roll_metadata(state))
    return checked(state, context)


@dg.op(ins={"rolled": SWEEP_IN}, out=SWEEP_OUT, pool=POOL, required_resource_keys={*NEEDED})
def dedupe(context: dg.OpExecutionContext, rolled: SweepState[Place]) -> SweepState[Place]:
    """Build the compacted segments of all logs in one Spark job, next to the live ones. Logs in
    buckets are swept whole by one more: each is committed by its task, if it passes all checks.
    """
    resources = context.resources
    rolled = restored(context, rolled, before="dedupe")
    here = local_part(rolled)
    if to_clean(here):
        import_in_background()
    executor = SparkExecutor(lambda: resources.spark.session)
    with unstaged_on_error(here):
        built = build_all(here, executor)
        discard_failed(built)
        with boundary("dedupe"):
            policies = resources.policies.load()
        state = sweep_those_in_buckets(
            rolled.with_works(built.works), policies, executor, run=first_run(context)
        )
    context.add_output_metadata(staged_metadata(state))
    return checked(state, context)


@dg.op(
    ins={"deduped": SWEEP_IN},
    out={"validated": SWEEP_OUT, **{check: dg.Out(dg.Nothing) for check in CHECKS}},
    required_resource_keys={*NEEDED},
)
def quality(
    context: dg.OpExecutionContext, deduped: SweepState[Place]
) -> Iterator[
    dg.AssetCheckEvaluation | dg.AssetObservation | dg.Output[SweepState[Place]] | dg.Output[None]
]:
    """Read the staged segments back; only logs that pass every check continue. Those of logs in
    buckets were read back, and checked, before `dedupe` committed them.
    """
    spark, policies = context.resources.spark, context.resources.policies
    deduped = restored(context, deduped, before="quality")
    with unstaged_on_error(local_part(deduped)):
        executor = SparkExecutor(lambda: spark.session)
        storage = Path(context.instance.storage_directory())
        state, judgement = examine_and_judge(
            deduped, policies.load(), executor, storage=storage, run_name=context.run_id
        )
    state = judgement.applied_to(state)
    discard_failed(local_part(state))
    yield from check_evaluations(state, judgement)
    if not state.going_on:
        yield from failure_observations(state)
    checked(state, context)
    yield from (dg.Output(None, check) for check in CHECKS)
    yield dg.Output(state, "validated")


@dg.op(ins={"validated": SWEEP_IN}, pool=POOL, required_resource_keys={*NEEDED})
def swap(
    context: dg.AssetExecutionContext, validated: SweepState[Place]
) -> Iterator[dg.AssetMaterialization | dg.AssetObservation | dg.MaterializeResult[None]]:
    """Replace the live segments by the checked ones, group by group, each swap durable by
    itself.
    """
    with many_events(context.op_execution_context):
        state = restored(context.op_execution_context, validated, before="swap")
        state = state.with_works(commit_all(local_part(state)).works)
        context.log.info(run_line(state))
        record_history(context.op_execution_context, sweep_rows(state, run_id=context.run.run_id))
        missing: dict[str, LogwrightError] = {}
        if len(context.partition_keys) > len(state.works):
            missing = context.resources.log_dirs.listing().missing(context.partition_keys)
        if state.failures or missing:
            yield from map(materialization, state.going_on)
            yield from failure_observations(state)
            raise after_failed_swap(state, context.op_execution_context, missing)
        for work in state.works:
            context.add_asset_metadata(unplotted(swap_metadata(work)), partition_key=work.key)
        yield dg.MaterializeResult()


@dg.graph_asset(
    key=SEGMENT_SET,
    partitions_def=LOGS,
    backfill_policy=dg.BackfillPolicy.single_run(),
    check_specs=CHECK_SPECS,
    kinds={"kafka", "pyspark"},
    group_name="kafka_logs",
)
def segment_set() -> dict[str, Any]:
    """The segments of one Kafka log at rest: rolled, compacted, checked and swapped in when that is
    due.
    """
    checks_and_state = quality(dedupe(roll(plan_partitions())))
    prefix = SEGMENT_SET.to_python_identifier()
    checks = {f"{prefix}_{check}": getattr(checks_and_state, check) for check in CHECKS}
    return {"result": swap(checks_and_state.validated), **checks}
