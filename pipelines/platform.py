"""All definitions of the platform, with resources that the caller chooses."""

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import dagster as dg

from logwright.assets.archive.archived import archived_assets, whole_check
from logwright.assets.erasure.deadlines import (
    deletion_deadline,
    deletion_deadlines,
    erasure_requests,
)
from logwright.assets.fleet.inventory import fleet_inventory
from logwright.assets.fleet.page import fleet_page
from logwright.assets.history import maintenance_history
from logwright.assets.ingest import ingested
from logwright.assets.segments.segment_set import segment_set
from logwright.assets.tables.checks import equal_check, one_partition_check
from logwright.assets.tables.decoded_keys import one_decoded_key_check
from logwright.assets.tables.latest_state import latest_state_assets, owner_of
from logwright.config.policies import Policies
from logwright.config.table import TopicTable, tables_of
from logwright.errors import PolicyError
from logwright.pipelines.archive import archive_job, archive_schedules
from logwright.pipelines.described import described
from logwright.pipelines.erasure.deadlines import erasure, erasure_deadlines
from logwright.pipelines.erasure.erase import erase
from logwright.pipelines.failures import failed_runs
from logwright.pipelines.fleet import fleet, fleet_report
from logwright.pipelines.ingest import ingest, landing
from logwright.pipelines.retention.disk import disk_space
from logwright.pipelines.retention.purge import purge, purge_asset, purge_due, purge_range
from logwright.pipelines.retention.rescue import rescue
from logwright.pipelines.retention.retain import retention, retention_asset, retention_check
from logwright.pipelines.rolling.maintenance import rolling_maintenance
from logwright.pipelines.segments.pauses import pauses
from logwright.pipelines.segments.sensors import discover, discovery, due_logs
from logwright.pipelines.segments.sweep import sweep, sweep_range
from logwright.pipelines.tables.running import running_tables_sensor, tables_job
from logwright.resources.cluster import ClusterFile
from logwright.resources.policies import PolicyDirectory

# Dagster gives the parameter itself, to every sensor that has several jobs.
warnings.filterwarnings("ignore", "Parameter `owners` .*SensorDefinition", dg.BetaWarning)


def platform_definitions(resources: Mapping[str, Any]) -> dg.Definitions:
    """Return the assets, jobs, sensors and schedules.

    Args:
        resources: see `logwright.resources.catalogue.platform_resources`. Its policies say which
            topics have a table or an archive, and whether there are erasure requests; its cluster's
            file has the brokers of the rolling maintenance.
    """
    policies = _loaded(resources["policies"])
    tables = tables_of(policies)
    archives = policies.archives
    archive = archive_job(tuple(archives))
    erases = policies.erasure.store is not None
    update = tables_job(tuple(tables))
    cluster_file: ClusterFile = resources["cluster"]
    cluster = cluster_file.load()
    brokers = [] if cluster is None else [broker.id for broker in cluster.brokers]
    return dg.Definitions(
        assets=dg.map_asset_specs(
            described,
            [
                segment_set,
                retention_asset,
                purge_asset,
                fleet_inventory,
                maintenance_history,
                fleet_page,
                ingested,
                *latest_state_assets(tables, policies),
                *archived_assets(archives, policies),
                *(_erasure_assets(policies.erasure.owner) if erases else ()),
            ],
        ),
        asset_checks=[
            *_table_checks(tables),
            *(whole_check(topic) for topic in archives),
        ],
        jobs=[
            *(discover, sweep, sweep_range, retention, purge, purge_range, rescue, ingest, fleet),
            *((erasure, erase) if erases else ()),
            *((update,) if tables else ()),
            *((archive,) if archives else ()),
            *([rolling_maintenance(brokers, cluster_file)] if brokers else []),
        ],
        sensors=[
            *(discovery, due_logs, purge_due, disk_space, pauses, landing, failed_runs),
            *([erasure_deadlines] if erases else []),
            *([running_tables_sensor(update)] if tables else []),
        ],
        schedules=[fleet_report, retention_check, *archive_schedules(archive, archives)],
        resources=resources,
        # Backfills always run with this executor; one process per step would mean one Spark session
        # per step.
        executor=dg.in_process_executor,
    )


def _table_checks(tables: Mapping[str, TopicTable]) -> Iterable[dg.AssetChecksDefinition]:
    """Yield the checks that are not part of an update."""
    for topic, table in tables.items():
        yield equal_check(topic)
        if table.unique == "partition":
            yield one_partition_check(topic)
        if table.key_has_ways:
            yield one_decoded_key_check(topic)


def _erasure_assets(owner: str | None) -> Iterable[dg.AssetsDefinition | dg.AssetSpec]:
    """Return the assets of erasure requests with the owner of the policies."""
    return dg.map_asset_specs(
        lambda spec: spec.replace_attributes(owners=[owner_of(owner)] if owner else []),
        [erasure_requests, deletion_deadlines, deletion_deadline],
    )


def _loaded(policies: PolicyDirectory) -> Policies:
    """Return the policies; none if they are invalid: the code location loads all the same, without
    the assets of tables (docs/adr/0019). Effects: reads them.
    """
    try:
        return policies.load()
    except PolicyError:
        return Policies()
