"""The sensor of free space, on a real file system: limits move, since the space does not."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from logwright.assets.fleet.inventory import FREE_SPACE, fleet_inventory
from logwright.assets.fleet.page import fleet_page
from logwright.assets.fleet.will_start import WILL_START
from logwright.assets.history import maintenance_history
from logwright.config.policy_models import DiskLimits
from logwright.fleet.model import DirectorySpace
from logwright.pipelines.retention.disk import disk_space, find_crossings
from logwright.pipelines.retention.purge import PURGE_LOGS, purge
from tests.e2e.harness import MARKS, POLICY, Platform, make_platform
from tests.property.accidents import META

pytestmark = MARKS

MUCH = 2**62
LOW = f"{POLICY}disk:\n  min_free_bytes: {MUCH}\n"
ENOUGH = f"{POLICY}disk:\n  min_free_bytes: 0\n  min_free_share: 0\n"
HOUR_MS = 3_600_000


def tick(platform: Platform, cursor: str | None = None) -> dg.SensorExecutionData:
    """One evaluation, as the daemon makes it."""
    with dg.build_sensor_context(
        instance=platform.instance, cursor=cursor, resources=platform.resources()
    ) as context:
        return disk_space.evaluate_tick(context)


def use(platform: Platform, policy: str) -> None:
    """Change the policies."""
    (platform.policies / "policies.yml").write_text(policy)


def said(data: dg.SensorExecutionData) -> list[tuple[bool, str]]:
    """The observations: whether it is low, and the directory."""
    return [
        (bool(event.metadata["low on space"].value), str(event.metadata["log directory"].value))
        for event in data.asset_events
        if isinstance(event, dg.AssetObservation)
    ]


def test_a_crossing_is_reported_once(tmp_path: Path) -> None:
    """When it falls below the limit and when it rises above; in between a tick only says so."""
    platform = make_platform(tmp_path, {"a-0": "basic-none"}, ENOUGH)
    first = tick(platform)
    assert [] == said(first)
    assert "are free" in str(first.skip_message)
    use(platform, LOW)
    fell = tick(platform, first.cursor)
    assert [(True, str(platform.log_dir))] == said(fell)
    again = tick(platform, fell.cursor)
    assert [] == said(again)
    assert "low since an earlier tick" in str(again.skip_message)
    use(platform, ENOUGH)
    rose = tick(platform, again.cursor)
    assert [(False, str(platform.log_dir))] == said(rose)
    assert "[]" == rose.cursor


@pytest.mark.parametrize("cursor", ["", "{", '{"a": 1}', "7", json.dumps([1, None])])
def test_a_foreign_cursor_is_empty(tmp_path: Path, cursor: str) -> None:
    """It neither fails nor hides a directory that is low."""
    platform = make_platform(tmp_path, {"a-0": "basic-none"}, LOW)
    assert [(True, str(platform.log_dir))] == said(tick(platform, cursor))


@pytest.mark.rotates(4)
def test_a_purge_is_requested_when_files_are_due(tmp_path: Path) -> None:
    """Not before their delay, not with enough space, and not when they are purged."""
    platform = make_platform(tmp_path, {"a-0": "basic-none", "b-0": "delete-size"}, LOW)
    assert platform.sweep(["a-0"]).success
    assert [] == list(tick(platform).run_requests)
    later = platform.at(platform.now_ms + HOUR_MS)
    (request,) = tick(later).run_requests
    assert ["a-0"] == request.run_config["ops"][PURGE_LOGS]["config"]["logs"]
    use(platform, ENOUGH)
    assert [] == list(tick(later).run_requests)
    use(platform, LOW)
    done = purge.execute_in_process(
        run_config=request.run_config, instance=later.instance, resources=later.resources()
    )
    assert done.success
    assert [] == list(tick(later).run_requests)


@pytest.mark.parametrize(("policy", "passed"), [(LOW, False), (ENOUGH, True)])
def test_inventory_has_the_check(tmp_path: Path, policy: str, passed: bool) -> None:
    """A warning with the limits; the run is green."""
    platform = make_platform(tmp_path, {"a-0": "basic-none"}, policy)
    done = dg.materialize(
        [fleet_inventory], instance=platform.instance, resources=platform.resources()
    )
    checks = {one.check_name: one for one in done.get_asset_check_evaluations()}
    assert {FREE_SPACE, WILL_START} == set(checks)
    check = checks[FREE_SPACE]
    assert passed == check.passed
    assert dg.AssetCheckSeverity.WARN is check.severity
    (listed,) = done.asset_materializations_for_node("kafka_logs__fleet_inventory")
    assert (not passed) == listed.metadata["log directories low on space"].value


def test_limits() -> None:
    """The larger of bytes and share counts; a directory that cannot be read changes nothing."""
    space = DirectorySpace(name="d", log_dir=Path("/d"), total_bytes=1000, free_bytes=100)
    for limits, low in (
        (DiskLimits(min_free_share=0.1), False),
        (DiskLimits(min_free_share=0.11), True),
        (DiskLimits(min_free_share=0.0, min_free_bytes=101), True),
        (DiskLimits(min_free_share=0.0, min_free_bytes=100), False),
    ):
        assert low == bool(find_crossings([space], limits, frozenset()).low)
    gone = replace(space, total_bytes=-1, free_bytes=-1, problem="it is gone")
    crossings = find_crossings([gone], DiskLimits(min_free_share=1.0), frozenset({"/d"}))
    assert ((), (), ()) == (crossings.low, crossings.fell, crossings.rose)


@pytest.mark.rotates(4)
def test_inventory_judges_the_next_start(tmp_path: Path) -> None:
    """A copy of logs is not formatted, so no broker starts on it; with its ids one does. The page
    shows the same.
    """
    platform = make_platform(tmp_path, {"a-0": "delete-size"}, ENOUGH)

    def checked() -> tuple[bool, dg.AssetCheckSeverity, str]:
        done = dg.materialize(
            [fleet_inventory, maintenance_history, fleet_page],
            instance=platform.instance,
            resources=platform.resources(),
        )
        checks = {one.check_name: one for one in done.get_asset_check_evaluations()}
        check = checks[WILL_START]
        return check.passed, check.severity, str(check.description)

    page = platform.home / "storage" / "fleet_page" / "index.html"
    passed, severity, why = checked()
    assert (False, dg.AssetCheckSeverity.ERROR) == (passed, severity)
    assert f"{platform.log_dir}: does not start: {platform.log_dir}/meta.properties: " in why
    assert "does not start" in page.read_text()
    (platform.log_dir / "meta.properties").write_text(META)
    topic_id = "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAA_-\n"
    (platform.log_dir / "a-0/partition.metadata").write_text(topic_id)
    assert checked()[0]
    shown = page.read_text()
    assert "does not start" not in shown
    assert re.search(r"KiB at most: compaction [0-9.]+ KiB", shown)
