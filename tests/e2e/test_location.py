"""The code location: it loads, and what it offers is what we think."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import dagster as dg
import yaml

from logwright.assets.ingest import INGESTED
from logwright.assets.lib.partitions import (
    FLEET_INVENTORY,
    FLEET_PAGE,
    MAINTENANCE_HISTORY,
    PURGE_ASSET,
    RETENTION_ASSET,
    SEGMENT_SET,
)
from logwright.assets.lib.verdict import CHECKS
from logwright.pipelines.definitions import defs
from tests.e2e.harness import MARKS

pytestmark = MARKS

ROOT = Path(__file__).parents[2]


def test_definitions_are_complete() -> None:
    """Every asset, job, sensor and schedule resolves, with its resources."""
    dg.Definitions.validate_loadable(defs)
    repository = defs.get_repository_def()
    assert {
        SEGMENT_SET,
        RETENTION_ASSET,
        PURGE_ASSET,
        FLEET_INVENTORY,
        MAINTENANCE_HISTORY,
        FLEET_PAGE,
        INGESTED,
    } == set(repository.assets_defs_by_key)
    assert {"sweep", "retention", "purge", "ingest"} <= {
        job.name for job in repository.get_all_jobs()
    }
    assert {
        "discovery",
        "due_logs",
        "purge_due",
        "disk_space",
        "pauses",
        "landing",
        "failed_runs",
        "default_automation_condition_sensor",
    } == {sensor.name for sensor in repository.sensor_defs}
    schedules = {schedule.name for schedule in repository.schedule_defs}
    assert {"fleet_report", "retention_check"} == schedules


def test_checks_block_and_backfills_are_one_run() -> None:
    """What the gate and the single Spark session of a backfill rest on."""
    repository = defs.get_repository_def()
    segment_set = repository.assets_defs_by_key[SEGMENT_SET]
    assert CHECKS.keys() == {spec.name for spec in segment_set.check_specs}
    assert all(spec.blocking for spec in segment_set.check_specs)
    assert dg.BackfillPolicy.single_run() == segment_set.backfill_policy
    graph = segment_set.node_def
    assert isinstance(graph, dg.GraphDefinition)
    steps = [node.name for node in graph.nodes]
    assert {"plan", "roll", "dedupe", "quality", "swap"} == set(steps)


def test_backfills_run_in_one_process() -> None:
    """A process for each step would start a Spark session each."""
    assert defs.executor is dg.in_process_executor


def test_workspace_loads_from_a_checkout() -> None:
    """As `dagster dev` loads it, from the root of the repository."""
    done = subprocess.run(
        [sys.executable, "-m", "dagster", "definitions", "validate", "-w", "workspace.yaml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_instance_template_is_one_that_dagster_takes(tmp_path: Path) -> None:
    """`pipelines/dagster.yaml` makes an instance."""
    (tmp_path / "dagster.yaml").write_text((ROOT / "pipelines" / "dagster.yaml").read_text())
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        assert not instance.telemetry_enabled
        settings = yaml.safe_load((tmp_path / "dagster.yaml").read_text())
        assert settings["retention"] == instance.get_settings("retention")
