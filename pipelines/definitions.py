"""The code location: merges the definitions of all modules."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from logwright.assets.fleet import fleet_inventory
from logwright.assets.ingest import ingested
from logwright.assets.segment_set import segment_set
from logwright.assets.specs import described
from logwright.pipelines.failures import failed_runs
from logwright.pipelines.ingest import ingest, landing
from logwright.pipelines.pauses import pauses
from logwright.pipelines.purge import purge, purge_asset, purge_due
from logwright.pipelines.retention import retention, retention_asset, retention_check
from logwright.pipelines.schedules import fleet_report
from logwright.pipelines.sensors import discovery, due_logs
from logwright.pipelines.sweep import sweep
from logwright.resources.catalogue import platform_resources


def definitions(resources: Mapping[str, Any]) -> dg.Definitions:
    """Return the code location with these resources, see `platform_resources`."""
    return dg.Definitions(
        assets=dg.map_asset_specs(
            described, [segment_set, retention_asset, purge_asset, fleet_inventory, ingested]
        ),
        jobs=[sweep, retention, purge, ingest],
        sensors=[discovery, due_logs, purge_due, pauses, landing, failed_runs],
        schedules=[fleet_report, retention_check],
        resources=resources,
        # Backfills always run with this executor; one process per step would mean one Spark session
        # per step.
        executor=dg.in_process_executor,
    )


defs = definitions(platform_resources())
