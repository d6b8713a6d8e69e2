"""Retention and purge as partitioned assets: a range of logs in one run, each with its figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from logwright.assets.fleet.inventory import FleetRow
from logwright.assets.lib.partitions import (
    FLEET_INVENTORY,
    LOGS_NAME,
    PURGE_ASSET,
    RETENTION_ASSET,
    SEGMENT_SET,
)
from logwright.pipelines.definitions import defs
from logwright.pipelines.retention.purge import purge_asset
from logwright.pipelines.retention.retain import retention_asset
from tests.e2e.harness import MARKS, Platform, make_platform, tree
from tests.e2e.test_retention import LOGS, POLICY
from tests.shown import values

pytestmark = [pytest.mark.e2e, *(mark for mark in MARKS if mark.name == "filterwarnings")]

DELAY_MS = 60_000


@pytest.fixture
def platform(tmp_path: Path) -> Platform:
    """Two logs with segments past their retention, and one with none."""
    return make_platform(tmp_path, LOGS, POLICY)


def recorded(run: dg.ExecuteInProcessResult, asset: dg.AssetKey) -> dict[str, dict[str, Any]]:
    """Metadata of each partition's materialization."""
    return {
        str(event.partition): values(event.materialization.metadata)
        for event in run.all_events
        if event.is_step_materialization and event.asset_key == asset
    }


def run(
    platform: Platform, asset: dg.AssetsDefinition, keys: Sequence[str]
) -> dict[str, dict[str, Any]]:
    done = platform.materialize(keys, asset)
    assert done.success
    return recorded(done, asset.key)


@pytest.mark.rotates(4)
def test_a_range_of_logs_is_one_run_with_the_figures_of_each(platform: Platform) -> None:
    """Retention, then purge when the delay has passed; another run finds nothing to do."""
    keys = list(platform.instance.get_dynamic_partitions(LOGS_NAME))
    done = run(platform, retention_asset, keys)
    assert done.keys() == set(LOGS)
    outcomes = {key: one["outcome"] for key, one in done.items()}
    assert outcomes == {
        "size-0": "segments deleted",
        "time-0": "segments deleted",
        "compacted-0": "nothing was due",
    }
    for key in ("size-0", "time-0"):
        deleted = list(platform.partition(key).glob("*.log.deleted"))
        assert len(deleted) == done[key]["segments deleted"] > 0
    again = run(platform, retention_asset, keys)
    assert {one["outcome"] for one in again.values()} == {"nothing was due"}
    later = platform.at(platform.now_ms + DELAY_MS * 10_000)
    purged = run(later, purge_asset, keys)
    assert purged.keys() == set(LOGS)
    assert purged["size-0"]["outcome"] == "purged"
    assert purged["size-0"]["bytes freed"] > 0
    assert purged["compacted-0"] == {"outcome": "nothing was due"}
    assert not list(platform.log_dir.rglob("*.log.deleted"))
    seen = platform.instance.get_materialized_partitions
    assert seen(RETENTION_ASSET) == seen(PURGE_ASSET) == set(LOGS)
    assert not seen(SEGMENT_SET)


@pytest.mark.rotates(4)
def test_a_log_that_fails_is_not_recorded_and_the_others_are(platform: Platform) -> None:
    """Its files stay as they are."""
    bad = next(platform.partition("time-0").glob("*.log"))
    with bad.open("r+b") as file:
        file.seek(8)
        file.write(b"\xff" * 4)
    before = tree(platform.partition("time-0"))
    keys = list(platform.instance.get_dynamic_partitions(LOGS_NAME))
    done = platform.materialize(keys, retention_asset)
    assert not done.success
    assert recorded(done, RETENTION_ASSET).keys() == {"size-0", "compacted-0"}
    assert tree(platform.partition("time-0")) == before


@pytest.mark.rotates(4)
def test_a_single_log_is_a_run_of_its_own(platform: Platform) -> None:
    """As the dialog of one partition launches it."""
    done = run(platform, retention_asset, ["size-0"])
    assert done.keys() == {"size-0"}


def test_the_inventory_says_when_it_is_fresh_and_what_its_columns_are() -> None:
    """One column of the schema for each of a row."""
    spec = defs.resolve_asset_graph().get(FLEET_INVENTORY)
    schema = spec.metadata["dagster/column_schema"]
    assert [one.name for one in schema.columns] == [one.name for one in fields(FleetRow)]
    assert spec.freshness_policy is not None


def test_the_inventory_is_made_after_a_log_was(platform: Platform) -> None:
    """Once for each change of a log, although other logs have no materialization; as the daemon
    evaluates the condition.
    """

    def requested(cursor: Any = None) -> Any:  # noqa: ANN401 - the cursor is opaque
        return dg.evaluate_automation_conditions(defs, platform.instance, cursor=cursor)

    first = requested()
    assert first.total_requested == 0
    run(platform, retention_asset, ["size-0"])
    idle = requested(first.cursor)
    assert idle.total_requested == 0
    platform.instance.report_runless_asset_event(
        dg.AssetMaterialization(SEGMENT_SET, partition="size-0")
    )
    changed = requested(idle.cursor)
    assert changed.get_num_requested(FLEET_INVENTORY) == 1
    assert requested(changed.cursor).total_requested == 0


def test_lineage_is_sweep_then_retention_then_purge() -> None:
    """In the graph of assets."""
    graph = defs.resolve_asset_graph()
    assert graph.get(RETENTION_ASSET).parent_keys == {SEGMENT_SET}
    assert graph.get(PURGE_ASSET).parent_keys == {RETENTION_ASSET}
