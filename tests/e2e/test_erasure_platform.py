"""Erasure requests in Dagster: stored, counted down, and swept for in time."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import dagster as dg
import pytest

from logwright.assets.erasure.deadlines import (
    DELETION_DEADLINE,
    DELETION_DEADLINES,
    ERASURE_REQUESTS,
    TOPICS,
)
from logwright.assets.erasure.report import CONTRACT, IN_TIME, MET
from logwright.config.topic import parse_settings
from logwright.erasure.outlook.countdown import Countdown, read_countdown
from logwright.erasure.outlook.upkeep import SWEEP_AGAIN_MS, sweep_times
from logwright.pipelines.erasure.deadlines import ERASURE, erasure_deadlines
from logwright.pipelines.platform import platform_definitions
from logwright.resources.erasure import countdown_path
from tests.e2e.harness import MARKS, QUIET, Platform, new_instance
from tests.e2e.test_erasure_secrets import secret_file
from tests.log_builder import START_MS, LogBuilder

pytestmark = MARKS

DAY_MS, HOUR_MS, DELAY_MS = 86_400_000, 3_600_000, 60_000
NOW_MS = START_MS + DAY_MS
DEADLINE_MS = NOW_MS + 10 * DAY_MS
CONFIG, _ = parse_settings(
    {"delete.retention.ms": str(DAY_MS), "file.delete.delay.ms": str(DELAY_MS)}
)
TIMES = sweep_times(DEADLINE_MS, CONFIG, margin_ms=HOUR_MS)
KEYS = [f"person-{number}" for number in range(5)]


@pytest.fixture(name="platform")
def _platform(tmp_path: Path) -> Platform:
    """A log with five persons; three of them have a tombstone. Nothing in its settings would clean
    it.
    """
    log_dir = tmp_path / "kafka-logs"
    log = LogBuilder(log_dir)
    log.segment(0).batch(0, [*((key, "v") for key in KEYS), ("other", "1")])
    log.segment(6).batch(6, [(key, None) for key in KEYS[:3]])
    log.segment(9).batch(9, [("other", "2")])
    log.write()
    (log_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    (tmp_path / "landing").mkdir()
    land(tmp_path, "first", KEYS)
    policies = tmp_path / "policies"
    policies.mkdir()
    (policies / "p.yml").write_text(f"""\
version: 1
high_watermark: end
defaults:
  cleanup.policy: compact
  min.cleanable.dirty.ratio: 1
  segment.ms: 9000000000000
  delete.retention.ms: {DAY_MS}
  file.delete.delay.ms: {DELAY_MS}
erasure:
  landing: {tmp_path / "landing"}
  store: {tmp_path / "store"}
  secret_file: {secret_file(tmp_path / "secret")}
""")
    home = tmp_path / "dagster"
    return Platform(
        log_dir=log_dir, policies=policies, home=home, instance=new_instance(home), now_ms=NOW_MS
    )


def land(
    tmp_path: Path, name: str, keys: list[str], *, landed_ms: int = NOW_MS - 1, **changed: object
) -> None:
    """A file of requests, with the time of the platform's clock."""
    rows = [
        {"id": f"{name}-{number}", "topics": "t", "key": key, "received_at": 0}
        | {"deadline": DEADLINE_MS}
        | changed
        for number, key in enumerate(keys)
    ]
    path = tmp_path / f"landing/{name}.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    os.utime(path, (0, landed_ms / 1000))


def run(
    platform: Platform, name: str, config: Mapping[str, object] | None = None
) -> dg.ExecuteInProcessResult:
    """Run a job of the code location."""
    job = platform_definitions(platform.resources()).get_job_def(name)
    return job.execute_in_process(
        run_config={**(config or {}), **QUIET}, instance=platform.instance, raise_on_error=False
    )


def tick(platform: Platform, cursor: str | None = None) -> dg.SensorExecutionData:
    with dg.build_sensor_context(
        instance=platform.instance, cursor=cursor, resources=platform.resources()
    ) as context:
        return erasure_deadlines.evaluate_tick(context)


def counted(platform: Platform) -> Countdown:
    countdown = read_countdown(countdown_path(platform.instance.storage_directory()))
    assert countdown is not None
    return countdown


def left(platform: Platform) -> tuple[int, int, int]:
    """Live, superseded and tombstones after a search."""
    assert run(platform, ERASURE).success
    (log,) = counted(platform).logs
    return log.live, log.superseded, log.tombstones


def checks(result: dg.ExecuteInProcessResult) -> dict[str, tuple[bool, str]]:
    return {
        evaluation.check_name: (evaluation.passed, evaluation.severity.value)
        for evaluation in result.get_asset_check_evaluations()
    }


def test_the_code_location_has_them(platform: Platform) -> None:
    """Only with a store in the policies."""
    defs = platform_definitions(platform.resources())
    dg.Definitions.validate_loadable(defs)
    repository = defs.get_repository_def()
    assert {ERASURE_REQUESTS, DELETION_DEADLINES} <= set(repository.assets_defs_by_key)
    assert "erasure_deadlines" in {one.name for one in repository.sensor_defs}
    (platform.policies / "p.yml").write_text("version: 1\n")
    repository = platform_definitions(platform.resources()).get_repository_def()
    assert ERASURE_REQUESTS not in repository.assets_defs_by_key
    assert "erasure_deadlines" not in {one.name for one in repository.sensor_defs}
    assert ERASURE not in {one.name for one in repository.get_all_jobs()}


def test_requests_are_counted_down(platform: Platform) -> None:
    """What remains, by topic; an observation with the deadline; a warning, since nothing is due."""
    result = run(platform, ERASURE)
    assert result.success
    assert {CONTRACT: (True, "ERROR"), MET: (True, "ERROR"), IN_TIME: (False, "WARN")} == checks(
        result
    )
    (topic,) = counted(platform).topics
    assert ("t", 5, 5, 8, DEADLINE_MS, "will be late") == (
        topic.topic,
        topic.requests,
        topic.open,
        topic.records,
        topic.next_deadline_ms,
        topic.state,
    )
    (seen,) = platform.instance.fetch_materializations(DELETION_DEADLINE, limit=5).records
    assert seen.asset_materialization is not None
    assert ("t", "will be late: 8 records remain.") == (
        seen.partition_key,
        seen.asset_materialization.description,
    )
    assert DEADLINE_MS / 1000 == seen.asset_materialization.metadata["next deadline"].value
    cases = seen.asset_materialization.metadata["open cases"]
    assert isinstance(cases, dg.TableMetadataValue)
    assert [f"first-{number}" for number in range(5)] == [
        row.data["request"] for row in cases.records
    ]
    assert all(Path(str(row.data["page"])).exists() for row in cases.records)
    spec = platform_definitions(platform.resources()).resolve_asset_graph().get(DELETION_DEADLINE)
    assert ("kafka_logs", TOPICS) == (spec.group_name, spec.partitions_def)
    assert "deadline" in (spec.description or "")


def test_a_refused_row_fails_the_check(platform: Platform, tmp_path: Path) -> None:
    """By file and line; the other rows are stored."""
    land(tmp_path, "wrong", ["x"], deadline="soon")
    result = run(platform, ERASURE)
    assert result.success
    assert not checks(result)[CONTRACT][0]
    (evaluation,) = (
        check for check in result.get_asset_check_evaluations() if check.check_name == CONTRACT
    )
    assert "wrong.jsonl:1: deadline is not a time" in evaluation.description
    assert 5 == counted(platform).requests


@pytest.mark.rotates(6)
@pytest.mark.parametrize("declared", [False, True])
def test_the_sensor_sweeps_in_time(platform: Platform, *, declared: bool) -> None:
    """From the search to the deadline: nothing before it must be, then two sweeps; what a sweep
    cannot remove is said. If the policies say that the sensor runs, only that is late.
    """
    with (platform.policies / "p.yml").open("a") as file:
        file.write(f"  deadline_sweeps: {str(declared).lower()}\n")
    first = tick(platform)
    assert [ERASURE] == [one.job_name for one in first.run_requests]
    assert "the first search" == first.run_requests[0].tags["logwright/reason"]
    assert not tick(platform, first.cursor).run_requests
    assert (2, 3, 3) == left(platform)
    (row,) = counted(platform).logs
    assert (2 if declared else 8, 6) == (row.late, row.to_sweep)
    early = tick(platform, first.cursor)
    assert not early.run_requests
    assert "swept for a deadline from" in str(early.skip_message)

    due = platform.at(TIMES.first_ms)
    assert run(due, ERASURE).success
    ticked = tick(due, early.cursor)
    (request,) = ticked.run_requests
    assert ("sweep", "erasure deadline") == (request.job_name, request.tags["logwright/reason"])
    assert not tick(due, ticked.cursor).run_requests
    assert run(due, "sweep", request.run_config).success
    purged = platform.at(TIMES.first_ms + DELAY_MS + 1)
    assert run(purged, "purge").success
    assert (2, 0, 3) == left(purged)

    second = platform.at(TIMES.second_ms)
    assert run(second, ERASURE).success
    again = tick(second, ticked.cursor)
    assert ["sweep"] == [one.job_name for one in again.run_requests]
    assert run(second, "sweep", again.run_requests[0].run_config).success
    ended = platform.at(TIMES.second_ms + DELAY_MS + 1)
    assert run(ended, "purge").success
    assert (2, 0, 0) == left(ended)
    assert not tick(second.at(TIMES.second_ms + SWEEP_AGAIN_MS - 1), again.cursor).run_requests


@pytest.mark.rotates(4)
def test_a_missed_deadline_fails_the_check(platform: Platform) -> None:
    """An error from the ms of the deadline on, which names the requests and fails the run; a search
    is requested then.
    """
    before = platform.at(DEADLINE_MS - 1)
    assert checks(run(before, ERASURE))[MET][0]
    ticked = tick(platform.at(DEADLINE_MS))
    assert "a deadline has passed" in [
        request.tags["logwright/reason"]
        for request in ticked.run_requests
        if request.job_name == ERASURE
    ]
    result = run(platform.at(DEADLINE_MS), ERASURE)
    assert not result.success
    assert (False, "ERROR") == checks(result)[MET]
    assert "missed" == counted(platform).topics[0].state
    (evaluation,) = (one for one in result.get_asset_check_evaluations() if one.check_name == MET)
    assert all(f"first-{number} (" in str(evaluation.description) for number in range(5))
    assert "logwright erase --now-and-for-good" in str(evaluation.description)
    assert 5 == evaluation.metadata["requests overdue"].value
    overdue = evaluation.metadata["overdue"]
    assert isinstance(overdue, dg.TableMetadataValue)
    assert {"request", "deadline", "state", "records", "next step"} <= overdue.records[
        0
    ].data.keys()
    assert not any(key in str(evaluation) for key in KEYS)
    recorded = platform.instance.get_latest_materialization_event(DELETION_DEADLINES)
    assert recorded is not None
    assert recorded.run_id == result.run_id


@pytest.mark.rotates(4)
def test_requests_that_land_are_searched_for(platform: Platform, tmp_path: Path) -> None:
    """A new file is noticed by its time, an old search by its age; a search is not requested while
    one runs.
    """
    assert run(platform, ERASURE).success
    later = platform.at(NOW_MS + 1000)
    assert not tick(later).run_requests
    land(tmp_path, "second", ["x"], landed_ms=NOW_MS + 500)
    (request,) = tick(later).run_requests
    assert (ERASURE, "requests have landed") == (request.job_name, request.tags["logwright/reason"])
    assert run(later, ERASURE).success
    assert 6 == counted(later).requests
    assert not tick(later).run_requests
    old = platform.at(NOW_MS + 1000 + HOUR_MS)
    (request,) = tick(old).run_requests
    assert "the last search is old" == request.tags["logwright/reason"]
    platform.instance.create_run_for_job(
        platform_definitions(platform.resources()).get_job_def(ERASURE),
        status=dg.DagsterRunStatus.STARTED,
    )
    assert not tick(old).run_requests
