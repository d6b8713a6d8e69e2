"""The job `rolling_maintenance`: the steps of a broker's maintenance (`logwright.rolling`) as ops,
partitioned by broker. Part of the platform if a cluster's file is named.

A backfill over all partitions is a round over the cluster. Its runs share a tag and a pool, so that
a second broker waits; and the engine's lock and journal keep it away, whatever the instance does.
The active controller's run has a lower priority in the queue: it goes last. Ops pass on only which
run has checked the broker, and whether all was looked at for the erasures: each looks at the
cluster and at the locks again, so that a run can be executed again from any of them.
"""

from collections.abc import Sequence
from typing import Final

import dagster as dg

from logwright.assets.lib.boundary import boundary
from logwright.assets.lib.human import human_bytes
from logwright.assets.lib.report import table
from logwright.pipelines.lib.runs import ROLLING
from logwright.resources.cluster import WAIT_SECONDS, ClusterFile
from logwright.rolling.broker import Maintained
from logwright.rolling.erasing import ClusterErasures
from logwright.rolling.model import Standing, Step
from logwright.rolling.run import do_step
from logwright.rolling.run import run as only_run
from logwright.rolling.tombstones import Lacking

POOL: Final = "rolling_maintenance"
"""One step at a time, also where runs are not queued: the limit of a pool is 1 in dagster.yaml."""
ONE_AT_A_TIME: Final = "logwright/rolling"
"""The tag of all its runs, of which dagster.yaml lets one leave the queue: with the pool alone the
first two of a new instance do so together, since Dagster sets its limit in that moment.
"""
PRIORITY_TAG: Final = "dagster/priority"
_LAST: Final = "-1"
"""The run of the active controller leaves the queue after those of all other brokers."""

Passed = dict[str, str]
"""What an op passes on: the run that has checked the broker, and, if not all was looked at for the
erasures, the step that says so.
"""
_CHECKED, _INCOMPLETE = "checked by", "incomplete at"
_NOT_ALL: Final = "Of the tombstones not all that may have the keys was looked at, or counts"


@dg.op(pool=POOL)
def check_broker(context: dg.OpExecutionContext, cluster: ClusterFile) -> dg.Output[Passed]:
    """See that every partition stays at min.insync.replicas without the broker; wait for what
    passes. Produce the tombstones of the file's erasures.
    """
    return _step(context, cluster, "check", before={})


@dg.op(pool=POOL)
def stop_broker(
    context: dg.OpExecutionContext, cluster: ClusterFile, before: Passed
) -> dg.Output[Passed]:
    """Call the stop hook and wait until the broker leads nothing and its locks are free."""
    return _step(context, cluster, "stop", before=before)


@dg.op(pool=POOL)
def maintain_broker(
    context: dg.OpExecutionContext, cluster: ClusterFile, before: Passed
) -> dg.Output[Passed]:
    """Roll, clean, retain, purge, erase at once: the commands of the cluster's file on each log
    directory.
    """
    return _step(context, cluster, "maintain", before=before)


@dg.op(pool=POOL)
def start_broker(
    context: dg.OpExecutionContext, cluster: ClusterFile, before: Passed
) -> dg.Output[Passed]:
    """Call the start hook and wait until the broker is in the cluster."""
    return _step(context, cluster, "start", before=before)


@dg.op(pool=POOL)
def verify_broker(
    context: dg.OpExecutionContext, cluster: ClusterFile, before: Passed
) -> dg.Output[Passed]:
    """Wait until the broker is in all ISRs where it should be; elect its preferred leaderships.
    Fail after that if not all that may have the keys of the erasures was looked at.
    """
    return _step(context, cluster, "verify", before=before)


@dg.graph
def _steps() -> None:
    verify_broker(start_broker(maintain_broker(stop_broker(check_broker()))))


def rolling_maintenance(brokers: Sequence[int], cluster: ClusterFile) -> dg.JobDefinition:
    """Return the job for the brokers with these ids.

    Args:
        cluster: is asked for the active controller when a backfill or a run of a broker is
            requested.
    """

    def tags(broker: str) -> dict[str, str]:
        return {PRIORITY_TAG: _LAST} if int(broker) == cluster.active_controller() else {}

    return _steps.to_job(
        name=ROLLING,
        config=dg.PartitionedConfig(
            partitions_def=dg.StaticPartitionsDefinition([str(broker) for broker in brokers]),
            run_config_for_partition_key_fn=lambda _: {},
            tags_for_partition_key_fn=tags,
        ),
        tags={ONE_AT_A_TIME: "true"},
        executor_def=dg.in_process_executor,
        description="Maintain a broker of the running cluster: check, stop, maintain, start,"
        " verify. A backfill of all partitions is a round over the cluster, one at a time.",
    )


def _step(
    context: dg.OpExecutionContext, cluster: ClusterFile, step: Step, *, before: Passed
) -> dg.Output[Passed]:
    """Do a step. Effects: as `logwright.rolling.run.do_step`; log lines of the run.

    Raises:
        dagster.Failure: the last step is done, and an erasure is not.
    """
    broker = int(context.partition_key)
    lines: list[str] = []

    def say(line: str) -> None:
        lines.append(line)
        context.log.info(line)

    with boundary(f"broker {broker}, {step}"):
        work = cluster.work(broker, say)
        with only_run(work.site, wait_seconds=WAIT_SECONDS):
            cluster.stopped(None)
            erasures = ClusterErasures(
                work.site, [broker], report=lambda each: say(f"tombstones: {_lacking(each)}")
            )
            checked = before.get(_CHECKED) == context.run_id
            done = do_step(work, step, erasures, checked=checked)
        if step in {"stop", "maintain"}:
            cluster.stopped(work)
        standing = work.standing()
    passed = ({} if erasures.has_looked else before) | {_CHECKED: context.run_id}
    if not erasures.complete:
        passed[_INCOMPLETE] = step
    shown = {"broker": str(broker), **_done(done), **_stands(standing), **_said(lines, broker)}
    if not erasures.complete:
        context.log.warning("%s.", _NOT_ALL)
        shown["tombstones"] = f"{_NOT_ALL}: see progress"
    if step == "verify" and _INCOMPLETE in passed:
        raise dg.Failure(
            f"Broker {broker} is maintained and in sync. {_NOT_ALL}: see the progress of the step"
            f" {passed[_INCOMPLETE]}. A new run of the broker looks again.",
            metadata=shown,
            allow_retries=False,
        )
    return dg.Output(passed, metadata=shown)


def _lacking(lacking: Lacking) -> str:
    """Return how many tombstones a partition lacked."""
    return f"{len(lacking.keys)} in {lacking.partition}"


def _said(lines: Sequence[str], broker: int) -> dict[str, str]:
    """Return what a step has said as metadata, without the broker's id that begins most lines."""
    return {"progress": "; ".join(line.removeprefix(f"broker {broker}: ") for line in lines)}


def _stands(standing: Standing | None) -> dict[str, str]:
    """Return how the broker stands in its cluster after a step as metadata: in two lines, since a
    run's page hides what is longer.
    """
    if standing is None:
        return {}
    return {
        "replicas": f"{standing.in_sync} of {standing.replicas} in sync; leads {standing.leads}",
        "cluster": f"brokers {', '.join(map(str, standing.brokers))};"
        f" {standing.below_min_isr} partitions below min.insync.replicas",
    }


def _done(done: Sequence[Maintained]) -> dict[str, dg.MetadataValue | str]:
    """Return what was done to each log directory as metadata."""
    if not done:
        return {}
    rows = [
        (
            each.command,
            each.log_dir,
            each.logs,
            human_bytes(each.freed_bytes),
            round(each.seconds, 1),
        )
        for each in done
    ]
    return {
        "freed": human_bytes(sum(each.freed_bytes for each in done)),
        "maintained": table(("command", "log directory", "logs", "freed", "seconds"), rows),
    }
