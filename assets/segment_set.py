"""The segment set of each log, made by plan → roll → dedupe → quality → swap.

The checks are evaluated by `quality` on the staged output, before anything live changes. A log that
fails one goes no further and its staged files are removed. If no log is left, the step fails there
and `swap` never starts; in a run over several logs the others are swapped, and then the run fails
and names those that were not (docs/adr/0003).
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import dagster as dg

from logwright.assets.boundary import after_failed_swap, boundary, checked
from logwright.assets.cleaning import (
    dedupe_wave,
    discard_failed,
    examine_wave,
    plan_wave,
    recover_logs,
    swap_wave,
    unstaged_on_error,
    with_failures,
)
from logwright.assets.holds import holds_of
from logwright.assets.partitions import LOGS, SEGMENT_SET
from logwright.assets.quality import judge
from logwright.assets.report import (
    by_key,
    check_evaluations,
    decision_metadata,
    materialization,
    metadata_in_use,
    recovery_metadata,
    run_line,
    staged_metadata,
    swap_metadata,
)
from logwright.assets.verdict import CHECKS
from logwright.assets.wave import Wave
from logwright.compaction.model import CleaningOptions
from logwright.config.sources import DirectorySettings
from logwright.resources.catalogue import WAVES
from logwright.resources.clock import Clock
from logwright.resources.log_dirs import LogDirs, MaintainedLog
from logwright.resources.policies import PolicyDirectory
from logwright.resources.spark import Spark
from logwright.units import TimestampMs

POOL: Final = "log_cleaner"
"""Its limit is how many runs clean at once: `log.cleaner.threads`."""

WAVE_OUT: Final = dg.Out(Wave, io_manager_key=WAVES)
"""Waves stay in the memory of the run: a plan is stale once its run is over, so it is not kept."""

CHECK_SPECS: Final = [
    dg.AssetCheckSpec(name, asset=SEGMENT_SET, description=description, blocking=True)
    for name, description in CHECKS.items()
]


class CleaningConfig(dg.Config):
    """How to clean.

    Attributes:
        force: whatever the ratio and the lags say.
        like_kafka: without our declared differences to Kafka's cleaner.
    """

    force: bool = False
    like_kafka: bool = False

    def options(self) -> CleaningOptions:
        """As the engine wants them."""
        return CleaningOptions(force=self.force, like_kafka=self.like_kafka)


def recovered_plan(
    context: dg.OpExecutionContext,
    logs: Sequence[MaintainedLog],
    settings: DirectorySettings,
    asked: tuple[TimestampMs, CleaningOptions],
) -> Wave:
    """Recover what is unclean and not held, say so, then plan. `asked`: clock, how to clean."""
    now_ms, options = asked
    held = holds_of(logs, now_ms=now_ms, force=options.force, settings=settings)
    free = [log for log in logs if log.key not in held]
    recovered = recover_logs(free, settings, now_ms=now_ms)
    if recovered.findings:
        context.add_output_metadata(recovery_metadata(recovered.findings))
    context.add_output_metadata(metadata_in_use(settings, logs))
    return plan_wave(
        logs, settings, now_ms=now_ms, options=options, held={**held, **recovered.failures}
    )


@dg.op(out=WAVE_OUT)
def plan(
    context: dg.AssetExecutionContext,
    config: CleaningConfig,
    log_dirs: LogDirs,
    policies: PolicyDirectory,
    clock: Clock,
) -> Wave:
    """Look at each log of the run and decide what is due, by its topic's policy."""
    with boundary("plan"):
        logs = log_dirs.listing().find_all(context.partition_keys)
        wave = recovered_plan(
            context.op_execution_context,
            logs,
            policies.settings(),
            (clock.now_ms(), config.options()),
        )
    return checked(wave, context.op_execution_context)


@dg.op(out=WAVE_OUT)
def roll(context: dg.OpExecutionContext, planned: Wave) -> Wave:
    """Show what is rolled and cleaned. A roll is done with the swap: nothing live changes before
    the checks.
    """
    context.add_output_metadata(decision_metadata(planned))
    return planned


@dg.op(out=WAVE_OUT, pool=POOL)
def dedupe(context: dg.OpExecutionContext, rolled: Wave, spark: Spark) -> Wave:
    """Build the compacted segments of all logs in one Spark job, beside the live ones."""
    with unstaged_on_error(rolled):
        wave = dedupe_wave(rolled, lambda: spark.session)
    discard_failed(wave)
    context.add_output_metadata(staged_metadata(wave))
    return checked(wave, context)


@dg.op(out={"validated": WAVE_OUT, **{check: dg.Out(dg.Nothing) for check in CHECKS}})
def quality(
    context: dg.OpExecutionContext,
    deduped: Wave,
    policies: PolicyDirectory,
    spark: Spark,
) -> Iterator[dg.AssetCheckEvaluation | dg.Output[Wave] | dg.Output[None]]:
    """Read the staged segments back; only logs that pass every check go on."""
    with unstaged_on_error(deduped):
        wave = examine_wave(deduped, lambda: spark.session)
        storage = Path(context.instance.storage_directory())
        judgement = judge(wave, policies.load(), storage=storage, run_name=context.run_id)
    wave = with_failures(wave, judgement.failures)
    discard_failed(wave)
    yield from check_evaluations(wave, judgement)
    checked(wave, context)
    yield from (dg.Output(None, check) for check in CHECKS)
    yield dg.Output(wave, "validated")


@dg.op(pool=POOL)
def swap(
    context: dg.AssetExecutionContext, validated: Wave
) -> Iterator[dg.AssetMaterialization | dg.MaterializeResult[None]]:
    """Put the checked segments in place of the live ones, group by group, each swap durable by
    itself.
    """
    wave, swapped = swap_wave(validated)
    done = by_key(swapped)
    context.log.info(run_line(swapped))
    if wave.failures:
        yield from (materialization(work, done.get(work.key)) for work in wave.going_on)
        raise after_failed_swap(wave, context.op_execution_context)
    for work in wave.works:
        context.add_asset_metadata(swap_metadata(work, done.get(work.key)), partition_key=work.key)
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
    checks_and_wave = quality(dedupe(roll(plan())))
    prefix = SEGMENT_SET.to_python_identifier()
    checks = {f"{prefix}_{check}": getattr(checks_and_wave, check) for check in CHECKS}
    return {"result": swap(checks_and_wave.validated), **checks}
