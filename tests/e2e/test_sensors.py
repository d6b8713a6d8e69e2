"""Sensors, ticked by hand on real log directories."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from logwright.assets.lib.partitions import LOGS_NAME, SEGMENT_SET
from logwright.pipelines.definitions import defs
from logwright.pipelines.failures import LEDGER, failed_runs
from logwright.pipelines.lib.kept import kept
from logwright.pipelines.lib.skipped import RETRY_AFTER_MS
from logwright.pipelines.retention.purge import purge_due
from logwright.pipelines.segments import sensors
from logwright.pipelines.segments.due import load_readings
from logwright.pipelines.segments.sensors import discovered, discovery, due_logs
from logwright.pipelines.segments.sweep import sweep, sweep_run_config
from logwright.sweep.model import SweepState
from logwright.sweep.prepare import plan_by_policies
from tests.e2e.harness import MARKS, POLICY, QUIET, Platform, make_platform
from tests.shown import values

pytestmark = MARKS

LOGS = {"orders-0": "basic-none", "orders-1": "basic-zstd"}


def tick(
    sensor: dg.SensorDefinition, platform: Platform, cursor: str | None = None
) -> dg.SensorExecutionData:
    """One evaluation, as the daemon makes it."""
    with dg.build_sensor_context(
        instance=platform.instance, cursor=cursor, resources=platform.resources()
    ) as context:
        return sensor.evaluate_tick(context)


def asked_logs(data: dg.SensorExecutionData) -> list[str]:
    return [
        log
        for request in data.run_requests
        for log in request.run_config["ops"]["plan_sweep"]["config"]["logs"]
    ]


def test_discovery_adds_new_and_removes_vanished_logs(tmp_path: Path) -> None:
    """Partitions follow the directory."""
    platform = make_platform(tmp_path, LOGS)
    platform.instance.delete_dynamic_partition(LOGS_NAME, "orders-1")
    platform.instance.add_dynamic_partitions(LOGS_NAME, ["gone-0"])
    data = tick(discovery, platform)
    requests = {
        type(request).__name__: list(request.partition_keys)
        for request in data.dynamic_partitions_requests
    }
    assert {
        "AddDynamicPartitionsRequest": ["orders-1"],
        "DeleteDynamicPartitionsRequest": ["gone-0"],
    } == requests


def test_discovery_adds_in_the_order_of_topics_and_numbers(tmp_path: Path) -> None:
    """Ranges of a backfill follow the order of insertion."""
    platform = make_platform(tmp_path, {"b-0": "basic-none"})
    for name in ("b-10", "b-2", "a-1"):
        (platform.log_dir / name).mkdir()
    result = discovered(platform.resources()["log_dirs"].listing(), [])
    (request,) = result.dynamic_partitions_requests or []
    assert ["a-1", "b-0", "b-2", "b-10"] == list(request.partition_keys)
    assert result.skip_reason is not None
    assert "4 logs, 4 added." == result.skip_reason.skip_message


def test_discovery_forgets_nothing_while_a_directory_is_away(tmp_path: Path) -> None:
    """The partitions of a disk that is not mounted are not removed."""
    platform = make_platform(tmp_path, LOGS)
    platform.log_dir.rename(tmp_path / "elsewhere")
    data = tick(discovery, platform)
    assert not data.dynamic_partitions_requests
    assert "kafka-logs" in str(data.skip_message)


def test_due_logs_are_asked_for_once(tmp_path: Path) -> None:
    """One sweep for all of them; while it is in flight there is no second one."""
    platform = make_platform(tmp_path, LOGS)
    first = tick(due_logs, platform)
    assert ["orders-0", "orders-1"] == sorted(asked_logs(first))
    platform.instance.create_run_for_job(
        defs.get_job_def("sweep"),
        run_config=sweep_run_config(asked_logs(first)),
        status=dg.DagsterRunStatus.STARTED,
    )
    second = tick(due_logs, platform, None)
    assert not second.run_requests
    assert "orders-0: a run is working on it" in str(second.skip_message)


def test_log_that_stays_as_it_was_is_asked_for_again_later(tmp_path: Path) -> None:
    """The sweep was asked for and changed nothing: it waits, and is not forgotten."""
    platform = make_platform(tmp_path, LOGS)
    first = tick(due_logs, platform)
    second = tick(due_logs, platform, first.cursor)
    assert not second.run_requests
    assert "unchanged since its last sweep" in str(second.skip_message)
    third = tick(due_logs, platform.at(platform.now_ms + RETRY_AFTER_MS), second.cursor)
    assert 2 == len(asked_logs(third))


@pytest.mark.rotates(4)
def test_swept_log_is_skipped_with_its_reason(tmp_path: Path) -> None:
    """After the sweep the files are others, so it is read again, and found in order."""
    platform = make_platform(tmp_path, LOGS)
    first = tick(due_logs, platform)
    assert platform.sweep(asked_logs(first)).success
    second = tick(due_logs, platform, first.cursor)
    assert not second.run_requests
    assert "orders-0: " in str(second.skip_message)
    assert "dirty ratio" in str(second.skip_message)


@pytest.mark.rotates(4)
def test_swap_shows_the_error_of_the_forecast(tmp_path: Path) -> None:
    """The tick forecasts what it requests; the swap compares it with what was freed. These logs are
    small, so all keys were read.
    """
    platform = make_platform(tmp_path, LOGS)
    (request,) = tick(due_logs, platform).run_requests
    run = sweep.execute_in_process(
        run_config=request.run_config | QUIET,
        instance=platform.instance,
        resources=platform.resources(),
    )
    shown = [
        event.step_materialization_data.materialization.metadata
        for event in run.all_events
        if event.is_step_materialization and event.asset_key == SEGMENT_SET
    ]
    assert len(shown) == len(LOGS)
    for metadata in shown:
        forecast, freed = (values(metadata)[name] for name in ("forecast bytes", "freed bytes"))
        assert forecast == pytest.approx(freed, rel=0.05)
        assert metadata["forecast error"].value == f"{(forecast - freed) / freed:.2%}"


def test_budget_and_windows_hold_logs_back(tmp_path: Path) -> None:
    """One log goes in this hour; the tick says when the other does, and what it frees."""
    policy = POLICY + "sweep:\n  max_gb_per_hour: 0.00005\n"
    platform = make_platform(tmp_path, {"orders-0": "basic-none", "orders-1": "basic-none"}, policy)
    first = tick(due_logs, platform)
    assert len(asked_logs(first)) == 1
    second = tick(due_logs, platform, first.cursor)
    assert not second.run_requests
    assert "the budget of this hour is used" in str(second.skip_message)
    assert "; goes about " in str(second.skip_message)
    assert re.search(r"; frees about [0-9.]+ (B|KiB)\.", str(second.skip_message))
    later = tick(due_logs, platform.at(platform.now_ms + 3_600_000), second.cursor)
    assert len(asked_logs(later)) > 0


def test_tick_reads_only_what_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cursor keeps the rest."""
    platform = make_platform(tmp_path, LOGS)
    read: list[str] = []

    def counting(state: SweepState, *rest: Any, **more: Any) -> SweepState:  # noqa: ANN401
        read.extend(work.key for work in state.works)
        return plan_by_policies(state, *rest, **more)

    monkeypatch.setattr(sensors, "plan_by_policies", counting)
    first = tick(due_logs, platform)
    assert ["orders-0", "orders-1"] == read
    second = tick(due_logs, platform, first.cursor)
    assert ["orders-0", "orders-1"] == read
    log = max(platform.partition("orders-1").glob("*.log"))
    os.utime(log, ns=(0, 1_700_000_000_000_000_000))
    tick(due_logs, platform, second.cursor)
    assert ["orders-0", "orders-1", "orders-1"] == read


def test_changed_policy_is_a_change(tmp_path: Path) -> None:
    """A log that was due by the ratio is not when the policy asks for a higher one."""
    platform = make_platform(tmp_path, LOGS)
    first = tick(due_logs, platform)
    policies = platform.policies / "policies.yml"
    policies.write_text(policies.read_text().replace("compact\n", "delete\n"))
    second = tick(due_logs, platform, first.cursor)
    assert not second.run_requests
    assert "unchanged since its last sweep" not in str(second.skip_message)


def document_of(platform: Platform, data: dg.SensorExecutionData) -> str:
    """What the tick remembers."""
    with dg.build_sensor_context(instance=platform.instance, cursor=data.cursor) as context:
        return kept(context)[0]


def test_unreadable_log_is_skipped_with_its_reason(tmp_path: Path) -> None:
    """No recovery repairs a symbolic link; the other log is asked for."""
    platform = make_platform(tmp_path, LOGS)
    log = max(platform.partition("orders-0").glob("*.log"))
    log.symlink_to(log.rename(platform.log_dir / "elsewhere"))
    data = tick(due_logs, platform)
    assert ["orders-1"] == asked_logs(data)
    reading = load_readings(document_of(platform, data))["orders-0"]
    assert (False, False) == (reading.due, reading.unclean)
    assert reading.reason.startswith("refused: UnreadableFile: ")


def test_unreadable_directory_is_skipped_with_its_reason(tmp_path: Path) -> None:
    """A checkpoint of the log directory that cannot be parsed: all its logs wait."""
    platform = make_platform(tmp_path, LOGS)
    (platform.log_dir / "cleaner-offset-checkpoint").write_text("no version\n")
    data = tick(due_logs, platform)
    assert not data.run_requests
    for key in LOGS:
        assert f"{key}: refused: CorruptCheckpoint: " in str(data.skip_message)


@pytest.mark.rotates(4)
def test_purge_is_asked_for_when_the_delay_is_over(tmp_path: Path) -> None:
    """``file.delete.delay.ms`` is 60000 unless it is given; before, the tick says when it will be
    over.
    """
    platform = make_platform(tmp_path, LOGS)
    assert platform.sweep(list(LOGS)).success
    early = tick(purge_due, platform.at(platform.now_ms + 59_999))
    assert not early.run_requests
    assert "orders-0: " in str(early.skip_message)
    assert "the first is due at" in str(early.skip_message)
    late = tick(purge_due, platform.at(platform.now_ms + 60_000))
    (request,) = late.run_requests
    assert {"logs": ["orders-0", "orders-1"]} == request.run_config["ops"]["purge_logs"]["config"]


def test_failed_run_is_recorded(tmp_path: Path) -> None:
    """Run, logs, step and error, on a line of a file that outlives Dagster's event log."""
    platform = make_platform(tmp_path, LOGS)
    shutil.rmtree(platform.partition("orders-0"))
    run = platform.sweep(["orders-0"])
    assert not run.success
    event = next(
        event for event in run.all_events if event.event_type is dg.DagsterEventType.RUN_FAILURE
    )
    context = dg.build_run_status_sensor_context(
        sensor_name="failed_runs",
        dagster_instance=platform.instance,
        dagster_run=run.dagster_run,
        dagster_event=event,
    ).for_run_failure()
    failed_runs(context)
    ledger = Path(platform.instance.storage_directory()) / "logwright" / LEDGER
    (line,) = ledger.read_text().splitlines()
    entry = json.loads(line)
    assert (run.run_id, "sweep", ["orders-0"]) == (entry["run"], entry["job"], entry["logs"])
    assert "plan_sweep" == entry["steps"][0]["step"]
    assert "orders-0" in entry["steps"][0]["error"]
