"""A platform with a table of the latest state, and what its asset says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg

from logwright.pipelines.platform import platform_definitions
from tests.e2e.harness import POLICY, QUIET, Platform, make_platform

TABLE = "topics:\n  - name: t\n    table: {{format: {form}, path: {path}{more}}}\n"
KEY = dg.AssetKey(["latest_state", "t"])


def platform_with_table(
    tmp_path: Path, form: str, logs: dict[str, str] | None = None, more: str = ""
) -> tuple[Platform, Path]:
    """Logs of the topic t whose policy has a table, and the table's path."""
    path = tmp_path / "table"
    return platform_with(tmp_path, form, str(path), logs, more), path


def platform_with(
    tmp_path: Path, form: str, path: str, logs: dict[str, str] | None = None, more: str = ""
) -> Platform:
    """The same, with a table at this path, or in a bucket."""
    policy = POLICY + TABLE.format(form=form, path=path, more=more)
    return make_platform(tmp_path, logs or {"t-0": "basic-none", "t-1": "txn-1-mixed"}, policy)


def update(platform: Platform, *topics: str) -> dg.ExecuteInProcessResult:
    """Materialize tables, with all their checks; by default that of the topic t."""
    definitions = platform_definitions(platform.resources())
    job = definitions.resolve_implicit_global_asset_job_def()
    return job.execute_in_process(
        instance=platform.instance,
        asset_selection=[dg.AssetKey(["latest_state", topic]) for topic in topics or ("t",)],
        run_config=QUIET,
        raise_on_error=False,
    )


def metadata_of(done: dg.ExecuteInProcessResult) -> dict[str, Any]:
    """The metadata of the table's materialization."""
    assert done.success
    (event,) = [
        event
        for event in done.all_events
        if event.event_type is dg.DagsterEventType.ASSET_MATERIALIZATION and event.asset_key == KEY
    ]
    metadata = event.step_materialization_data.materialization.metadata
    return {name: value.value for name, value in metadata.items()}


def results(done: dg.ExecuteInProcessResult) -> dict[str, bool]:
    """Check → passed."""
    return {
        event.asset_check_evaluation_data.check_name: event.asset_check_evaluation_data.passed
        for event in done.all_events
        if event.event_type is dg.DagsterEventType.ASSET_CHECK_EVALUATION
    }


def step_of(metadata: dict[str, Any], partition: int) -> dict[str, Any]:
    """A partition's row in the metadata."""
    rows = [dict(one.data) for one in metadata["partitions"].records]
    (row,) = [row for row in rows if row["partition"] == partition]
    return row
