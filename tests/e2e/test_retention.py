"""Retention as a Dagster job: what goes, what is recorded of each log, and when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from logwright.deletion.commit import delete_log
from logwright.errors import CorruptBatch
from logwright.format.names import TopicPartition
from logwright.pipelines.definitions import defs
from logwright.pipelines.retention.purge import purge, purge_due
from logwright.pipelines.retention.retain import RETENTION, is_due, retention, retention_check
from logwright.state.hold import quarantine_failure
from logwright.units import TimestampMs
from tests.e2e.harness import MARKS, Platform, make_platform, tree
from tests.fixtures import description
from tests.shown import values

pytestmark = [pytest.mark.e2e, *(mark for mark in MARKS if mark.name == "filterwarnings")]

POLICY = """\
version: 1
high_watermark: end
defaults:
  cleanup.policy: delete
  retention.ms: -1
  segment.ms: 9000000000000
  log.retention.check.interval.ms: 120000
  log.segment.delete.delay.ms: 30000
topics:
  - name: size
    retention.bytes: 12000
  - name: time
    retention.ms: 10800000
  - name: compacted
    cleanup.policy: compact
    retention.ms: 1
"""
WITHOUT_INTERVALS = POLICY.replace("  log.retention.check.interval.ms: 120000\n", "").replace(
    "  log.segment.delete.delay.ms: 30000\n", ""
)
LOGS = {"size-0": "delete-size", "time-0": "delete-time", "compacted-0": "delete-time-all"}


def run(
    platform: Platform,
    job: dg.JobDefinition = retention,
    config: Mapping[str, object] | None = None,
) -> dg.ExecuteInProcessResult:
    return job.execute_in_process(
        run_config=dict(config or {}),
        instance=platform.instance,
        resources=platform.resources(),
        raise_on_error=False,
    )


def tick(platform: Platform, minute: int) -> dg.ScheduleExecutionData:
    """One evaluation of the schedule, as the daemon makes it."""
    with dg.build_schedule_context(
        instance=platform.instance,
        scheduled_execution_time=datetime(2026, 1, 1, 0, minute, tzinfo=UTC),
        resources=platform.resources(),
    ) as context:
        return retention_check.evaluate_tick(context)


def observations(result: dg.ExecuteInProcessResult) -> dict[str, dict[str, Any]]:
    """Metadata of each log's observation, by its key."""
    events = [
        event.asset_observation_data.asset_observation
        for event in result.all_events
        if event.event_type is dg.DagsterEventType.ASSET_OBSERVATION
    ]
    return {str(event.partition): values(event.metadata) for event in events}


def failure_of(result: dg.ExecuteInProcessResult) -> str:
    """What the step said that failed."""
    event = next(event for event in result.all_events if event.is_step_failure)
    return str(event.step_failure_data.user_failure_data.description)


def quarantine(platform: Platform, partition: TopicPartition) -> None:
    """Quarantine the log, like a cleaning that fails permanently."""
    now_ms = TimestampMs(platform.now_ms)
    quarantine_failure(platform.log_dir, partition, CorruptBatch("its CRC is wrong."), now_ms)


def test_run_deletes_by_policy_and_says_why(tmp_path: Path) -> None:
    """By size, by time, and not at all of a compacted log; the same as Kafka deleted."""
    platform = make_platform(tmp_path, LOGS, POLICY)
    platform = platform.at(description("delete-time")["now"])
    untouched = tree(platform.partition("compacted-0"))
    done = run(platform)
    assert done.success
    metadata = observations(done)
    assert {"size-0", "time-0"} == metadata.keys()
    for key, case in (("size-0", "delete-size"), ("time-0", "delete-time")):
        (kafkas,) = description(case)["results"]
        assert (kafkas["deletedSegments"], kafkas["logStartOffset"]) == (
            metadata[key]["segments deleted"],
            metadata[key]["log start offset"],
        )
        bases = [int(path.stem) for path in platform.partition(key).glob("*.log")]
        assert kafkas["segmentsAfter"] == sorted(bases)
    assert "| 0 | 3897 | size | 28143 bytes are left" in metadata["size-0"]["reasons"]
    assert "retention.ms is 3 h" in metadata["time-0"]["reasons"]
    assert "in the future" not in metadata["size-0"]["reasons"]
    retired = list(platform.partition("size-0").glob("*.deleted"))
    freed = sum(path.stat().st_size for path in retired if "snapshot" not in path.name)
    assert freed == metadata["size-0"]["bytes to be freed"]
    assert (
        metadata["size-0"]["bytes after"] * 100 // 12_000
        == (metadata["size-0"]["retention size in percent"])
    )
    assert untouched == tree(platform.partition("compacted-0"))
    assert {} == observations(run(platform))


def test_failing_log_does_not_stop_the_others(tmp_path: Path) -> None:
    """The run is red and names it; the other logs are done."""
    platform = make_platform(tmp_path, LOGS, POLICY)
    (platform.partition("size-0") / "leader-epoch-checkpoint").write_text("no version\n")
    done = run(platform.at(description("delete-time")["now"]))
    assert not done.success
    assert {"time-0"} == observations(done).keys()
    assert "size-0: CorruptCheckpoint" in failure_of(done)


@pytest.mark.rotates(4)
@pytest.mark.parametrize("why", ["quarantined", "disabled"])
def test_compacted_logs_are_left_alone(tmp_path: Path, why: str) -> None:
    """In quarantine, or without a cleaner: no segment goes, the run is green; by force they go."""
    policy = POLICY
    if why == "disabled":
        policy = POLICY.replace("defaults:\n", "defaults:\n  log.cleaner.enable: false\n")
    policy = policy.replace("policy: compact\n", "policy: compact,delete\n")
    platform = make_platform(tmp_path, LOGS, policy).at(description("delete-time")["now"])
    if why == "quarantined":
        for topic in ("compacted", "size"):
            quarantine(platform, TopicPartition(topic, 0))
    before = tree(platform.partition("compacted-0"))
    done = run(platform)
    assert done.success
    assert {"size-0", "time-0"} == observations(done).keys()
    (output,) = [event for event in done.all_events if event.is_successful_output]
    assert 1 == output.step_output_data.metadata["skipped"].value
    assert before == tree(platform.partition("compacted-0"))
    forced = run(platform, retention, {"ops": {"retain_logs": {"config": {"force": True}}}})
    assert forced.success
    assert {"compacted-0"} == observations(forced).keys()


@pytest.mark.rotates(4)
@pytest.mark.parametrize("lost", [".kafka_cleanshutdown", f"size-0/{0:020d}.index"])
def test_run_recovers_first(tmp_path: Path, lost: str) -> None:
    """After a crash of the whole directory, or of one log: as much goes as of a clean log."""
    platform = make_platform(tmp_path, LOGS, POLICY)
    (platform.log_dir / lost).unlink()
    done = run(platform.at(description("delete-time")["now"]))
    assert done.success
    assert {"size-0", "time-0"} == observations(done).keys()
    assert (platform.log_dir / ".kafka_cleanshutdown").exists()
    (output,) = [event for event in done.all_events if event.is_successful_output]
    metadata = output.step_output_data.metadata
    assert (3 if lost.startswith(".") else 1) == metadata["recovered"].value
    assert "size-0" in str(metadata["recoveries"].value)


@pytest.mark.parametrize(
    ("minute", "requested"), [(0, True), (1, False), (2, True), (3, False)], ids=str
)
def test_schedule_keeps_the_brokers_interval(tmp_path: Path, minute: int, requested: bool) -> None:
    """Every two minutes by this policy; one run at a time."""
    platform = make_platform(tmp_path, {"size-0": "delete-size"}, POLICY)
    ticked = tick(platform, minute)
    assert requested == bool(ticked.run_requests)
    assert requested or "ms, 2 min, has not passed" in str(ticked.skip_message)


@pytest.mark.parametrize(
    ("interval_ms", "runs"), [(1, 60), (60_000, 60), (300_000, 12), (3_600_000, 1), (7_200_000, 1)]
)
def test_interval_is_kept_to_the_minute(interval_ms: int, runs: int) -> None:
    """In one hour of ticks from midnight on."""
    assert runs == sum(is_due(minute * 60_000, interval_ms) for minute in range(1440, 1500))


@pytest.mark.parametrize(("minute", "requested"), [(0, True), (1, False), (4, False), (5, True)])
def test_schedule_keeps_kafkas_interval_if_none_is_given(
    tmp_path: Path, minute: int, requested: bool
) -> None:
    """``log.retention.check.interval.ms`` is 300000 then."""
    platform = make_platform(tmp_path, {"size-0": "delete-size"}, WITHOUT_INTERVALS)
    ticked = tick(platform, minute)
    assert requested == bool(ticked.run_requests)
    assert requested or "log.retention.check.interval.ms, 5 min, has not passed" in str(
        ticked.skip_message
    )


def test_schedule_waits_for_a_run_under_way(tmp_path: Path) -> None:
    """A second retention would only find locks."""
    platform = make_platform(tmp_path, {"size-0": "delete-size"}, POLICY)
    platform.instance.create_run_for_job(
        defs.get_job_def(RETENTION), status=dg.DagsterRunStatus.STARTED
    )
    assert "is running" in str(tick(platform, 0).skip_message)


@pytest.mark.rotates(4)
@pytest.mark.parametrize("policy", ["given", "default"])
def test_deleted_log_is_purged_after_the_brokers_delay(tmp_path: Path, policy: str) -> None:
    """The sensor asks, the job removes; neither before log.segment.delete.delay.ms is over, which
    is 60000 unless it is given.
    """
    text, delay_ms = (POLICY, 30_000) if policy == "given" else (WITHOUT_INTERVALS, 60_000)
    platform = make_platform(tmp_path, LOGS, text)
    delete_log(platform.log_dir, TopicPartition("size", 0), now_ms=TimestampMs(platform.now_ms))
    for later_ms, left in ((delay_ms - 1, 1), (delay_ms, 0)):
        later = platform.at(platform.now_ms + later_ms)
        with dg.build_sensor_context(
            instance=platform.instance, resources=later.resources()
        ) as context:
            assert (left == 0) == bool(purge_due.evaluate_tick(context).run_requests)
        assert run(later, purge).success
        assert left == len(list(platform.log_dir.glob("size-0.*-delete")))
    assert not (platform.log_dir / ".logwright-deleted-logs.jsonl").exists()
