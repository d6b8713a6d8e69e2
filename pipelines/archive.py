"""When topics are archived in a bucket."""

from collections.abc import Collection, Sequence
from typing import Any

import dagster as dg

from logwright.assets.archive.archived import ARCHIVED, CURRENT, archive_key
from logwright.pipelines.lib.runs import runs_in_flight


def archive_job(topics: Sequence[str]) -> Any:  # noqa: ANN401 - Dagster does not export its type
    """Return the job that archives topics, with the check that is part of it."""
    keys = [archive_key(topic) for topic in topics]
    checks = [dg.AssetCheckKey(key, CURRENT) for key in keys]
    return dg.define_asset_job(
        ARCHIVED,
        selection=dg.AssetSelection.assets(*keys).without_checks()
        | dg.AssetSelection.checks(*checks),
        description="Write what is new of the topics' logs into their buckets.",
        executor_def=dg.in_process_executor,
    )


def archive_schedules(job: Any, topics: Collection[str]) -> list[dg.ScheduleDefinition]:  # noqa: ANN401 - as above
    """Return the schedule of the job: every ten minutes, unless a run is in progress; none without
    topics.
    """

    @dg.schedule(
        job=job,
        name="archive_logs",
        cron_schedule="*/10 * * * *",
        description="Writes what is new of the topics' logs into their buckets, every ten minutes.",
    )
    def archive_logs(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        if runs_in_flight(context.instance, ARCHIVED):
            return dg.SkipReason("A run is in progress.")
        return dg.RunRequest(run_key=f"{ARCHIVED}:{context.scheduled_execution_time.timestamp()}")

    return [archive_logs] if topics else []
