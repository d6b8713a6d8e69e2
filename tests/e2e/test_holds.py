"""Paused and quarantined logs in Dagster: skipped, said so, and not forgotten."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from logwright.assets.fleet.inventory import fleet_inventory
from logwright.format.names import TopicPartition
from logwright.pipelines.retention.purge import purge, purge_due
from logwright.pipelines.segments.pauses import FLAG_AGAIN_MS, pauses
from logwright.pipelines.segments.sensors import due_logs
from logwright.state.model import Pause
from logwright.state.store import change_state, read_state
from logwright.units import TimestampMs
from tests.e2e.faults import bit_flipped
from tests.e2e.harness import MARKS, POLICY, Platform, make_platform, tree
from tests.shown import values

pytestmark = MARKS

LOGS = {"orders-0": "basic-none", "orders-1": "basic-none", "users-0": "basic-none"}
PAUSED, BROKEN, WELL = LOGS
HOUR_MS = 3_600_000
LIMIT_MS = 10 * HOUR_MS


def pause(platform: Platform, key: str, *, hours: int) -> None:
    partition = TopicPartition.parse(key)
    assert partition is not None
    wanted = Pause(
        owner="ops",
        reason="a disk is replaced",
        since_ms=TimestampMs(platform.now_ms),
        expires_at_ms=TimestampMs(platform.now_ms + hours * HOUR_MS),
    )
    change_state(platform.log_dir, partition, lambda now: now.with_pause(wanted))


def tick(
    sensor: dg.SensorDefinition, platform: Platform, cursor: str | None = None
) -> dg.SensorExecutionData:
    with dg.build_sensor_context(
        instance=platform.instance, cursor=cursor, resources=platform.resources()
    ) as context:
        return sensor.evaluate_tick(context)


def output_metadata(run: dg.ExecuteInProcessResult, step: str) -> dict[str, Any]:
    (metadata,) = [
        event.step_output_data.metadata
        for event in run.all_events
        if event.event_type is dg.DagsterEventType.STEP_OUTPUT and event.step_key == step
    ]
    return values(metadata)


def observations(run: dg.ExecuteInProcessResult) -> dict[str, dict[str, Any]]:
    return {
        str(event.partition): values(event.asset_observation_data.asset_observation.metadata)
        for event in run.all_events
        if event.event_type is dg.DagsterEventType.ASSET_OBSERVATION
    }


@pytest.fixture
def platform(tmp_path: Path) -> Platform:
    return make_platform(tmp_path, LOGS, POLICY + f"sweep:\n  flag_after_ms: {LIMIT_MS}\n")


@pytest.mark.rotates(2)
def test_sweep_leaves_alone_and_quarantines(platform: Platform) -> None:
    """One log is paused, one fails permanently, one is cleaned; from then on both are skipped, by
    the sweep, the sensor and in the inventory, each with its reason.
    """
    pause(platform, PAUSED, hours=2)
    bit_flipped(min(platform.partition(BROKEN).glob("*.log")))
    before = tree(platform.partition(PAUSED))
    assert not platform.sweep([]).success
    assert {WELL} == platform.materialized()
    assert before == tree(platform.partition(PAUSED))
    state = read_state(platform.log_dir)[TopicPartition("orders", 1)]
    assert state.quarantine is not None
    assert ("CorruptBatch", 1) == (state.quarantine.cause, state.quarantine.failures)
    assert state.quarantine.file is not None

    again = platform.sweep([])
    assert again.success
    metadata = output_metadata(again, "swap_sweep")
    assert 1 == metadata["uncleanable-partitions-count"]
    assert 0 < metadata["uncleanable-bytes"]
    seen = observations(again)
    assert "skipped" == seen[PAUSED]["outcome"]
    assert seen[PAUSED]["why"].startswith("paused by ops until ")
    assert seen[BROKEN]["why"].startswith("quarantined since ")

    skipped = str(tick(due_logs, platform).skip_message)
    assert f"{PAUSED}: paused by ops until " in skipped
    assert "a disk is replaced" in skipped
    assert f"{BROKEN}: quarantined since " in skipped

    run = dg.materialize(
        [fleet_inventory], instance=platform.instance, resources=platform.resources()
    )
    rows = {row["log"]: row for row in run.output_for_node("kafka_logs__fleet_inventory")}
    assert rows[PAUSED]["paused"].startswith("paused by ops")
    assert rows[BROKEN]["quarantined"].startswith("quarantined since")
    assert ("", "") == (rows[WELL]["paused"], rows[WELL]["quarantined"])


@pytest.mark.rotates(4)
def test_purge_leaves_what_is_paused(platform: Platform) -> None:
    """The sensor asks for the others only, and the job keeps the paused log's way back."""
    assert platform.sweep([PAUSED, WELL]).success
    pause(platform, PAUSED, hours=2)
    later = platform.at(platform.now_ms + 60_000)
    (request,) = tick(purge_due, later).run_requests
    assert {"logs": [WELL]} == request.run_config["ops"]["purge_logs"]["config"]
    before = tree(platform.partition(PAUSED))
    run = purge.execute_in_process(instance=platform.instance, resources=later.resources())
    assert run.success
    assert before == tree(platform.partition(PAUSED))
    assert not list(platform.partition(WELL).glob("*.deleted"))


def test_after_the_retry_time_it_is_tried_again(platform: Platform) -> None:
    """And fails again, with a longer delay."""
    bit_flipped(min(platform.partition(BROKEN).glob("*.log")))
    assert not platform.sweep([BROKEN]).success
    later = platform.at(platform.now_ms + 15 * 60_000)
    assert not later.sweep([BROKEN]).success
    state = read_state(platform.log_dir)[TopicPartition("orders", 1)]
    assert state.quarantine is not None
    assert 2 == state.quarantine.failures
    assert later.now_ms + 30 * 60_000 == state.quarantine.retry_at_ms


def test_expired_pause_is_lifted_and_told(platform: Platform) -> None:
    """Nobody has to remember it."""
    pause(platform, PAUSED, hours=2)
    first = tick(pauses, platform)
    assert not first.asset_events
    assert f"{PAUSED} is paused by ops" in str(first.skip_message)
    second = tick(pauses, platform.at(platform.now_ms + 2 * HOUR_MS), first.cursor)
    (event,) = second.asset_events
    assert isinstance(event, dg.AssetObservation)
    assert PAUSED == event.partition
    assert "a disk is replaced" in str(event.description)
    assert {} == read_state(platform.log_dir)


@pytest.mark.rotates(4)
def test_log_that_nobody_cleans_is_told_of(platform: Platform) -> None:
    """When it was due for longer than the policy allows; with the cause; once a day."""
    pause(platform, PAUSED, hours=1_000)
    data = tick(pauses, platform)
    within = tick(pauses, platform.at(platform.now_ms + LIMIT_MS), data.cursor)
    assert not within.asset_events
    late = platform.at(platform.now_ms + LIMIT_MS + 1)
    told = tick(pauses, late, within.cursor)
    causes = {event.partition: str(event.description) for event in told.asset_events}
    assert set(LOGS) == set(causes)
    assert causes[PAUSED].startswith("Unmaintained: due since ")
    assert "paused by ops" in causes[PAUSED]
    assert not tick(pauses, late, told.cursor).asset_events
    next_day = late.at(late.now_ms + FLAG_AGAIN_MS)
    assert 3 == len(tick(pauses, next_day, told.cursor).asset_events)
    assert platform.sweep([WELL]).success
    left = tick(pauses, next_day, told.cursor).asset_events
    assert {PAUSED, BROKEN} == {event.partition for event in left}
