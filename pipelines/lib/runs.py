"""Find the logs that runs of the instance work on."""

from typing import Any, Final

import dagster as dg

from logwright.assets.lib.partitions import LOGS_NAME

SWEEP: Final = "sweep"
PLAN_SWEEP: Final = "plan_sweep"
"""The op of a sweep whose config has its logs."""

ROLLING: Final = "rolling_maintenance"
"""The job whose partitions are brokers, not logs."""

PARTITION_TAG: Final = "dagster/partition"
RANGE_START_TAG: Final = "dagster/asset_partition_range_start"
RANGE_END_TAG: Final = "dagster/asset_partition_range_end"

RUNS_IN_FLIGHT: Final = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


def logs_in_flight(instance: dg.DagsterInstance) -> frozenset[str]:
    """Return the keys of the logs of queued and started runs, of sweeps and of the asset."""
    known = list(instance.get_dynamic_partitions(LOGS_NAME))
    runs = instance.get_runs(filters=dg.RunsFilter(statuses=RUNS_IN_FLIGHT))
    return frozenset(key for run in runs for key in run_logs(run, known))


def runs_in_flight(instance: dg.DagsterInstance, job: str) -> int:
    """Return the number of queued and started runs of a job."""
    return instance.get_runs_count(dg.RunsFilter(job_name=job, statuses=RUNS_IN_FLIGHT))


def run_logs(run: dg.DagsterRun, known: list[str]) -> list[str]:
    """Return the keys of the logs of a run.

    Args:
        run: any run.
        known: all keys, in the order used by partition ranges.
    """
    if run.job_name == SWEEP:
        config: Any = run.run_config
        logs = config.get("ops", {}).get(PLAN_SWEEP, {}).get("config", {}).get("logs")
        return list(logs or known)
    if run.job_name == ROLLING:
        return []
    if PARTITION_TAG in run.tags:
        return [run.tags[PARTITION_TAG]]
    start, end = run.tags.get(RANGE_START_TAG), run.tags.get(RANGE_END_TAG)
    if start in known and end in known:
        return known[known.index(start) : known.index(end) + 1]
    return []
