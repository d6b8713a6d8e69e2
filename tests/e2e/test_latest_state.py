"""The assets `latest_state/<topic>`: after sweeps, appends, retention, undo and recovery the table
is what a plain dictionary over the log's records holds.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import dagster as dg
import pytest

from logwright.pipelines.platform import platform_definitions
from tests.e2e.harness import MARKS, POLICY, Platform, make_platform
from tests.ingested import append, random_rows
from tests.table_rows import FORMATS, expected_rows, table_rows, version_of

pytestmark = MARKS

TABLE = "topics:\n  - name: t\n    table: {{format: {form}, path: {path}{more}}}\n"
KEY = dg.AssetKey(["latest_state", "t"])


def platform_with_table(
    tmp_path: Path, form: str, logs: dict[str, str] | None = None, more: str = ""
) -> tuple[Platform, Path]:
    """Logs of the topic t whose policy has a table, and the table's path."""
    path = tmp_path / "table"
    policy = POLICY + TABLE.format(form=form, path=path, more=more)
    return make_platform(tmp_path, logs or {"t-0": "basic-none", "t-1": "txn-1-mixed"}, policy), path


def update(platform: Platform, *, checks: bool = False) -> dg.ExecuteInProcessResult:
    """Materialize the table; with its daily check if asked for."""
    definitions = platform_definitions(platform.resources())
    job = definitions.resolve_implicit_global_asset_job_def()
    return job.execute_in_process(
        instance=platform.instance,
        asset_selection=[KEY],
        raise_on_error=False,
    )


def metadata_of(done: dg.ExecuteInProcessResult) -> dict[str, Any]:
    """The metadata of the table's materialization."""
    assert done.success
    (event,) = [
        one
        for one in done.all_events
        if one.event_type is dg.DagsterEventType.ASSET_MATERIALIZATION and one.asset_key == KEY
    ]
    found = event.step_materialization_data.materialization.metadata
    return {name: value.value for name, value in found.items()}


def results(done: dg.ExecuteInProcessResult) -> dict[str, bool]:
    """Check → passed."""
    return {
        one.asset_check_evaluation_data.check_name: one.asset_check_evaluation_data.passed
        for one in done.all_events
        if one.event_type is dg.DagsterEventType.ASSET_CHECK_EVALUATION
    }


def step_of(metadata: dict[str, Any], partition: int) -> dict[str, Any]:
    """A partition's row in the metadata."""
    rows = [dict(one.data) for one in metadata["partitions"].records]
    (found,) = [row for row in rows if row["partition"] == partition]
    return found


@pytest.mark.parametrize("form", FORMATS)
def test_after_a_sweep(tmp_path: Path, form: str) -> None:
    """Made, up to date after the sweep, without a new version when nothing is new."""
    platform, path = platform_with_table(tmp_path, form)
    done = update(platform)
    made = metadata_of(done)
    expected = expected_rows(platform.log_dir, "t")
    assert expected == table_rows(form, path)
    assert (len(expected), 2) == (made["dagster/row_count"], made["partitions rebuilt"])
    assert {
        "held_below_last_stable_offset": True,
        "table_contract": True,
        "rows_equal_live_keys": True,
    } == results(done)
    before = version_of(form, path)
    again = metadata_of(update(platform))
    assert (before, False) == (version_of(form, path), again["new version"])
    assert platform.sweep([]).success
    swept = metadata_of(update(platform))
    assert expected == table_rows(form, path) == expected_rows(platform.log_dir, "t")
    assert (before, 0) == (version_of(form, path), swept["bytes read"])
