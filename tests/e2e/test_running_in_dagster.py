"""Dagster next to a running broker: it shows the logs, and leaves them to the broker."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from logwright.assets.fleet.inventory import fleet_inventory
from logwright.assets.fleet.page import fleet_page
from logwright.pipelines.retention.purge import purge, purge_asset, purge_due
from logwright.pipelines.retention.retain import retention, retention_asset
from logwright.pipelines.segments.pauses import pauses
from logwright.pipelines.segments.sensors import due_logs
from tests.e2e.harness import MARKS, QUIET, Platform, make_platform
from tests.e2e.test_holds import observations, tick
from tests.e2e.test_partitions_of_retention import recorded
from tests.running_dirs import running
from tests.shown import values

pytestmark = MARKS

LOGS = {"orders-0": "basic-none", "users-0": "basic-none"}
WHY = "a broker (process "


@pytest.fixture
def platform(tmp_path: Path) -> Platform:
    """Two logs that are due, and a file that a broker has retired."""
    made = make_platform(tmp_path, LOGS)
    (made.partition("users-0") / "00000000000000000000.log.deleted").write_bytes(b"x" * 99)
    return made


@pytest.fixture
def watermarks(platform: Platform) -> dict[str, int]:
    """All of each log is committed."""
    rows = inventory(platform).output_for_node("kafka_logs__fleet_inventory")
    return {row["log"]: row["log_end_offset"] for row in rows}


def inventory(platform: Platform) -> dg.ExecuteInProcessResult:
    return dg.materialize(
        [fleet_inventory], instance=platform.instance, resources=platform.resources()
    )


def files(platform: Platform) -> dict[str, int]:
    """Every file below the log directory, also logwright's own, and when it was written."""
    paths = platform.log_dir.rglob("*")
    return {str(path): path.stat().st_mtime_ns for path in paths if path.is_file()}


def test_jobs_and_sensors_skip_it(platform: Platform, watermarks: dict[str, int]) -> None:
    """Each names the broker; nothing is written, nothing fails. When it has died, its logs are
    due.
    """
    with running(platform.log_dir, watermarks):
        before = files(platform)
        for sensor in (due_logs, purge_due):
            data = tick(sensor, platform)
            assert not data.run_requests
            for key in LOGS:
                assert f"{key}: {WHY}" in str(data.skip_message)
        assert "Nothing is paused" in str(tick(pauses, platform).skip_message)
        swept = platform.sweep([])
        assert swept.success
        seen = observations(swept)
        for key in LOGS:
            assert "skipped" == seen[key]["outcome"]
            assert seen[key]["why"].startswith(WHY)
        for job in (retention, purge):
            assert job.execute_in_process(
                run_config=QUIET, instance=platform.instance, resources=platform.resources()
            ).success
        assert before == files(platform)
        assert set() == platform.materialized()
    (request,) = tick(due_logs, platform).run_requests
    assert set(LOGS) == set(request.run_config["ops"]["plan_sweep"]["config"]["logs"])


@pytest.mark.rotates(4)
def test_partitions_of_assets_are_skipped(platform: Platform, watermarks: dict[str, int]) -> None:
    """A backfill of a running broker's logs does nothing, and says why."""
    with running(platform.log_dir, watermarks):
        for asset in (retention_asset, purge_asset):
            done = platform.materialize(["users-0"], asset)
            assert done.success
            outcome = recorded(done, asset.key)["users-0"]
            assert "skipped" == outcome["outcome"]
            assert outcome["why"].startswith(WHY)


@pytest.mark.rotates(4)
def test_the_inventory_and_the_page_show_it(platform: Platform, watermarks: dict[str, int]) -> None:
    """The directory as running, with the age of its high watermark; its logs up to there."""
    with running(platform.log_dir, watermarks | {"orders-0": 1}):
        run = inventory(platform)
        page = dg.materialize(
            [fleet_inventory, fleet_page],
            instance=platform.instance,
            resources=platform.resources(),
            selection=dg.AssetSelection.assets(fleet_page),
        )
    rows = {row["log"]: row for row in run.output_for_node("kafka_logs__fleet_inventory")}
    assert {"refused"}.isdisjoint(row["state"] for row in rows.values())
    assert ("due", watermarks["users-0"]) == (
        rows["users-0"]["state"],
        rows["users-0"]["log_end_offset"],
    )
    assert rows["orders-0"]["log_end_offset"] < watermarks["orders-0"]
    assert rows["users-0"]["why"].startswith("a broker runs: its own cleaner may act first; ")
    (made,) = run.asset_materializations_for_node("kafka_logs__fleet_inventory")
    shown = values(made.metadata)
    assert 1 == shown["log directories with a running broker"]
    assert 0 == shown["bytes that wait for a purge"]
    (written,) = page.asset_materializations_for_node("kafka_logs__fleet_page")
    html = Path(values(written.metadata)["page"]).read_text()
    assert '<span class="pill">running, high watermark 0 ms old</span>' in html
