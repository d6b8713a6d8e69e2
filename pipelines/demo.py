"""The demo's child process: runs the jobs `sweep` and `retention`, then makes the fleet inventory
and the table of a topic.

    DAGSTER_HOME=… python -m logwright.pipelines.demo REPORT

writes the results to the file REPORT, as JSON, and Dagster's log to stderr.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

import dagster as dg

from logwright.assets.archive.archived import ARCHIVED
from logwright.assets.lib.partitions import (
    FLEET_INVENTORY,
    FLEET_PAGE,
    MAINTENANCE_HISTORY,
    SEGMENT_SET,
)
from logwright.assets.segments.report import REMOVED
from logwright.assets.tables.topic_logs import table_key
from logwright.config.table import tables_of
from logwright.pipelines.definitions import defs
from logwright.pipelines.lib.runs import SWEEP
from logwright.pipelines.retention.retain import RETENTION
from logwright.resources.page import page_path
from logwright.resources.policies import PolicyDirectory
from logwright.resources.spark import EVENTS_DIRECTORY
from logwright.spark.session import end_session

RUN_TAGS: Final = {".dagster/repository": "__repository__@logwright"}
"""Tags by which Dagster's web UI finds a job's runs."""

EVENTS: Final = {"loggers": {"console": {"config": {"log_level": "DEBUG"}}}}
"""Prints the start and success of each step, which the demo shows."""

_EVENTS: Final = (
    dg.DagsterEventType.ASSET_MATERIALIZATION,
    dg.DagsterEventType.ASSET_OBSERVATION,
)


def main(report: Path) -> int:
    """Run the demo's jobs. Effects: compacts the demo's logs and deletes old segments, records the
    runs in the instance, writes the report.

    Returns:
        exit status: 1 if a run failed.
    """
    policies = PolicyDirectory().load()
    tables = tables_of(policies)
    with dg.DagsterInstance.get() as instance:
        swept = defs.get_job_def(SWEEP).execute_in_process(
            run_config=EVENTS, instance=instance, tags=RUN_TAGS, raise_on_error=False
        )
        if not swept.success:
            return 1
        retained = defs.get_job_def(RETENTION).execute_in_process(
            run_config=EVENTS, instance=instance, tags=RUN_TAGS, raise_on_error=False
        )
        if not retained.success:
            return 1
        if policies.archives and not _archived(instance):
            return 1
        assets = defs.resolve_implicit_global_asset_job_def()
        listed = assets.execute_in_process(
            run_config=EVENTS,
            instance=instance,
            tags=RUN_TAGS,
            asset_selection=[
                *(FLEET_INVENTORY, MAINTENANCE_HISTORY, FLEET_PAGE),
                *map(table_key, tables),
            ],
            raise_on_error=False,
        )
        end_session()
        events = Path(instance.storage_directory()) / EVENTS_DIRECTORY
        page = page_path(instance.storage_directory())
    logs = {
        str(event.partition): _row({name: one.value for name, one in _metadata(event).items()})
        for event in (*swept.all_events, *retained.all_events)
        if event.event_type in _EVENTS and event.asset_key == SEGMENT_SET
    }
    steps = {
        str(event.step_key): event.step_success_data.duration_ms / 1000
        for event in (*swept.all_events, *retained.all_events, *listed.all_events)
        if event.event_type is dg.DagsterEventType.STEP_SUCCESS
    }
    spark_events = [str(path) for path in sorted(events.iterdir())]
    document = {
        "steps": steps,
        "logs": logs,
        "spark_events": spark_events,
        "page": str(page),
        "tables": {topic: table.path for topic, table in tables.items()},
    }
    report.write_text(json.dumps(document, indent=1) + "\n")
    return 0 if listed.success else 1


def _archived(instance: dg.DagsterInstance) -> bool:
    """Write the logs into the bucket of the policies; return whether it succeeded. Effects: as
    said.
    """
    return (
        defs.get_job_def(ARCHIVED)
        .execute_in_process(
            run_config=EVENTS, instance=instance, tags=RUN_TAGS, raise_on_error=False
        )
        .success
    )


def _metadata(event: dg.DagsterEvent) -> dict[str, Any]:
    if event.event_type is dg.DagsterEventType.ASSET_OBSERVATION:
        return dict(event.asset_observation_data.asset_observation.metadata)
    return dict(event.step_materialization_data.materialization.metadata)


def _row(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the demo's table row of one log, without its size on disk."""
    if "segments deleted" in metadata or "dirty ratio" not in metadata:
        why = "retention"
    elif "max-compaction-delay" in metadata:
        why = "compaction lag"
    else:
        why = f"dirty ratio {float(metadata['dirty ratio']):.2f}"
    return {
        "why": why,
        "records": _count(metadata, "records before"),
        "removed": {
            cause: _count(metadata, name.replace("_", " ")) for name, cause in REMOVED.items()
        },
    }


def _count(metadata: dict[str, Any], name: str) -> int:
    return int(str(metadata.get(name, 0)).replace(",", ""))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
