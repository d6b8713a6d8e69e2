"""Dagster maintains logs in a bucket by the jobs that maintain those of a log directory, and does
the same to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from logwright.assets.fleet.inventory import FREE_SPACE, fleet_inventory
from logwright.assets.fleet.will_start import WILL_START
from logwright.assets.lib.partitions import FLEET_INVENTORY, LOGS_NAME, SEGMENT_SET
from logwright.assets.lib.verdict import CHECKS, VALUE_CONTRACT
from logwright.batches.runtime import Runtime
from logwright.bucket.store import Bucket
from logwright.errors import LogwrightError
from logwright.format.names import TopicPartition
from logwright.maintenance.maintain import Maintenance
from logwright.pipelines.retention.disk import disk_space
from logwright.pipelines.retention.purge import purge, purge_due
from logwright.pipelines.retention.retain import retention
from logwright.pipelines.segments.pauses import pauses
from logwright.pipelines.segments.sensors import discovery, due_logs
from logwright.pipelines.segments.sweep import sweep
from logwright.place.named import place_of
from logwright.state.store import read_state
from logwright.sweep.executor import LocalExecutor
from tests.bucket.servers import NAME, environment, served
from tests.bucket_maintenance.copies import differences, made_old, probed, put, version
from tests.e2e.harness import (
    MARKS,
    POLICY,
    QUIET,
    Platform,
    evaluations,
    failed_checks,
    make_platform,
)
from tests.fixtures import description

pytestmark = MARKS

LOGS = {"orders-0": "basic-none", "orders-1": "basic-zstd"}
PARTITIONS = [TopicPartition("orders", number) for number in range(2)]
HERE, THERE = "kafka-logs", "archive"
CONTRACT = """\
topics:
  - name: orders
    tests:
      - values: {{format: string, columns: {{value: {{type: string, regex: '{regex}'}}}}}}
"""


@pytest.fixture(scope="session", name="agreement")
def _agreement(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return probed(tmp_path_factory.mktemp("probed"))


def with_bucket(platform: Platform, bucket: Bucket, agreement: bytes | None = None) -> Platform:
    """The platform with all of its logs in a bucket, too."""
    put(platform.log_dir, bucket, agreement)
    both = replace(platform, more=(f"{THERE}={bucket.url}",))
    known = platform.instance.get_dynamic_partitions(LOGS_NAME)
    for key in known:
        platform.instance.delete_dynamic_partition(LOGS_NAME, key)
    keys = [f"{name}:{key}" for name in (HERE, THERE) for key in known]
    platform.instance.add_dynamic_partitions(LOGS_NAME, keys)
    return both


@pytest.fixture(name="bucket")
def _bucket(tmp_path: Path) -> Bucket:
    return Bucket.of(f"file://{tmp_path}/bucket")


@pytest.fixture(name="platform")
def _platform(tmp_path: Path, bucket: Bucket, agreement: bytes) -> Platform:
    """Two logs in a log directory and in a bucket."""
    return with_bucket(make_platform(tmp_path, LOGS), bucket, agreement)


def tick(
    sensor: dg.SensorDefinition, platform: Platform, cursor: str | None = None
) -> dg.SensorExecutionData:
    """One evaluation, as the daemon makes it."""
    with dg.build_sensor_context(
        instance=platform.instance, cursor=cursor, resources=platform.resources()
    ) as context:
        return sensor.evaluate_tick(context)


def run(job: dg.JobDefinition, platform: Platform) -> dg.ExecuteInProcessResult:
    """A job about all logs."""
    return job.execute_in_process(
        run_config=QUIET,
        instance=platform.instance,
        resources=platform.resources(),
        raise_on_error=False,
    )


def shown(done: dg.ExecuteInProcessResult, key: str) -> dict[str, Any]:
    """What a run recorded of a log's segment set."""
    events = [
        event.step_materialization_data.materialization
        for event in done.all_events
        if event.is_step_materialization and event.partition == key
    ]
    (own,) = [event for event in events if event.asset_key == SEGMENT_SET]
    return {name: value.value for name, value in own.metadata.items()}


class HereOnly(LocalExecutor):
    """An executor of this process."""

    def __init__(self, _: object) -> None:
        super().__init__(threads=1)

    def call_planned(
        self, function: Callable[..., Any], calls: Iterable[tuple[Any, ...]], plans: object
    ) -> Iterator[list[Any]]:
        """As that of Spark: an error is of its call."""
        del plans
        for call in calls:
            try:
                yield [function(*call, runtime=Runtime())]
            except LogwrightError as error:
                yield [error]


def wrong(platform: Platform, bucket: Bucket) -> list[str]:
    """What is not the same here and there."""
    scratch = platform.home / "compared"
    return [
        fault
        for each in PARTITIONS
        for fault in differences(platform.log_dir, bucket, scratch, each)
    ]


@pytest.mark.rotates(4)
def test_a_sweep_does_the_same_here_and_there(platform: Platform, bucket: Bucket) -> None:
    """One run of both: each check of each log, its materialization with the version, the same
    bytes; and the next run finds nothing due.
    """
    policies = platform.policies / "policies.yml"
    policies.write_text(POLICY + CONTRACT.format(regex=".*"))
    done = platform.sweep([])
    assert done.success
    for key in LOGS:
        assert CHECKS.keys() == evaluations(done, f"{THERE}:{key}").keys()
        assert not failed_checks(done, f"{THERE}:{key}")
        here, there = shown(done, f"{HERE}:{key}"), shown(done, f"{THERE}:{key}")
        for name in ("outcome", "records before", "records after", "bytes after", "why"):
            assert here[name] == there[name]
        assert "1" == there["version"]
        assert f"{bucket.url}" == there["log directory"]
    assert [] == wrong(platform, bucket)
    again = platform.sweep([])
    assert again.success
    assert [1, 1] == [version(bucket, each).version for each in PARTITIONS]
    rolled_or_not = tick(due_logs, platform)
    assert not rolled_or_not.run_requests


@pytest.mark.rotates(4)
def test_a_failed_check_leaves_the_bucket_as_it_was(platform: Platform, bucket: Bucket) -> None:
    """The contract of values, which the task checks before it commits, and the expectations of the
    policies; both are evaluated for the log, and the run fails.
    """
    policies = platform.policies / "policies.yml"
    policies.write_text(
        POLICY + CONTRACT.format(regex="nothing") + "expectations: {max_growth_share: 0.001}\n"
    )
    before = [version(bucket, each) for each in PARTITIONS]
    key = f"{THERE}:orders-0"
    done = platform.sweep([key])
    assert not done.success
    assert {VALUE_CONTRACT, "log_profile"} == failed_checks(done, key)
    assert before == [version(bucket, each) for each in PARTITIONS]
    assert [] == wrong(platform, bucket)
    assert not platform.materialized()
    held = read_state(place_of(bucket.url))[PARTITIONS[0]].quarantine
    assert held is not None
    assert ("QualityError", 1) == (held.cause, held.failures)
    skipped = tick(due_logs, platform)
    (wanted,) = skipped.run_requests
    assert key not in wanted.run_config["ops"]["plan_sweep"]["config"]["logs"]
    failure = done.failure_data_for_node("quality")
    assert failure is not None
    assert f"{platform.log_dir.parent}/bucket/orders-0" in str(failure.error)


@pytest.mark.rotates(4)
def test_a_backfill_of_both_places(platform: Platform, bucket: Bucket) -> None:
    """A run of the asset over a range of partitions that has logs of both."""
    keys = list(platform.instance.get_dynamic_partitions(LOGS_NAME))
    done = platform.materialize(keys)
    assert done.success
    assert set(keys) == platform.materialized()
    assert [] == wrong(platform, bucket)
    assert [1, 1] == [version(bucket, each).version for each in PARTITIONS]


def test_a_run_that_is_executed_again_finds_its_change(
    platform: Platform, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process of the first run ended after the commits, before it could say so."""
    key = f"{THERE}:orders-0"
    whole = Maintenance.run

    def lost(self: Maintenance, act: Any) -> Any:  # noqa: ANN401 -- of Maintenance.run
        whole(self, act)
        raise ConnectionError

    monkeypatch.setattr("logwright.assets.segments.segment_set.SparkExecutor", HereOnly)
    with monkeypatch.context() as patch:
        patch.setattr(Maintenance, "run", lost)
        first = platform.sweep([key])
    assert not first.success
    assert 1 == version(bucket, PARTITIONS[0]).version
    assert first.run_id in version(bucket, PARTITIONS[0]).operation
    again = sweep.execute_in_process(
        run_config=first.dagster_run.run_config,
        instance=platform.instance,
        resources=platform.resources(),
        tags={"dagster/root_run_id": first.run_id, "dagster/parent_run_id": first.run_id},
    )
    assert again.success
    assert "1" == shown(again, key)["version"]
    assert "earlier attempt" in shown(again, key)["outcome"]
    assert 1 == version(bucket, PARTITIONS[0]).version


@pytest.mark.rotates(4)
def test_sensors_ask_for_what_is_due_there(platform: Platform, bucket: Bucket) -> None:
    """Discovery has the partitions; the sweep is asked for once, and no more after it was done."""
    for key in LOGS:
        platform.instance.delete_dynamic_partition(LOGS_NAME, f"{THERE}:{key}")
    (request,) = tick(discovery, platform).dynamic_partitions_requests
    assert [f"{THERE}:{key}" for key in LOGS] == list(request.partition_keys)
    first = tick(due_logs, platform)
    (wanted,) = first.run_requests
    logs = wanted.run_config["ops"]["plan_sweep"]["config"]["logs"]
    assert {f"{name}:{key}" for name in (HERE, THERE) for key in LOGS} == set(logs)
    assert {*logs} == {*wanted.run_config["ops"]["plan_sweep"]["config"]["forecasts"]}
    waits = tick(due_logs, platform, first.cursor)
    assert not waits.run_requests
    assert platform.sweep(logs).success
    after = tick(due_logs, platform, waits.cursor)
    assert not after.run_requests
    assert f"{THERE}:orders-0: dirty ratio" in str(after.skip_message)
    assert not tick(pauses, platform).asset_events
    assert 1 == version(bucket, PARTITIONS[0]).version


def test_the_inventory_shows_a_bucket(platform: Platform, bucket: Bucket) -> None:
    """Its logs as those here; it has no disk that could be full."""
    policies = platform.policies / "policies.yml"
    policies.write_text(f"{POLICY}disk: {{min_free_share: 1.0}}\n")
    done = dg.materialize(
        [fleet_inventory], instance=platform.instance, resources=platform.resources()
    )
    rows = {row["log"]: row for row in done.output_for_node("kafka_logs__fleet_inventory")}
    for key in LOGS:
        here, there = rows[f"{HERE}:{key}"], rows[f"{THERE}:{key}"]
        assert bucket.url == there["log_dir"]
        own = {"log": "", "log_dir": "", "why": ""}
        assert here | own == there | own
    checks = {one.check_name: one for one in done.get_asset_check_evaluations()}
    assert not checks[FREE_SPACE].passed
    assert bucket.url not in str(checks[FREE_SPACE].description)
    why = str(checks[WILL_START].description)
    assert f"{bucket.url}: not judged: it is in a bucket, where no broker starts" in why
    ticked = tick(disk_space, platform)
    assert [str(platform.log_dir)] == [
        event.metadata["log directory"].value
        for event in ticked.asset_events
        if event.asset_key == FLEET_INVENTORY
    ]


def test_a_bucket_that_does_not_answer_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its partitions stay, the logs here are maintained, and the inventory says what was not looked
    at.
    """
    for name, value in environment(9).items():  # the port discards, and nothing listens
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("logwright.resources.log_dirs.ANSWER_SECONDS", 1)
    platform = make_platform(tmp_path, LOGS)
    platform = replace(platform, more=(f"{THERE}=s3://nobody/{tmp_path.name}",))
    platform.instance.add_dynamic_partitions(LOGS_NAME, [f"{THERE}:orders-0"])
    listing = platform.resources()["log_dirs"].listing()
    assert [*LOGS] == [*listing.logs]
    assert [THERE] == [*listing.unreadable]
    discovered = tick(discovery, platform)
    assert not discovered.dynamic_partitions_requests
    (request,) = tick(due_logs, platform).run_requests
    assert {*LOGS} == {*request.run_config["ops"]["plan_sweep"]["config"]["logs"]}
    done = run(retention, platform)
    assert not done.success
    failure = done.failure_data_for_node("retain_logs")
    assert failure is not None
    assert THERE in str(failure.error)


RETENTION = """\
version: 1
high_watermark: end
defaults: {cleanup.policy: delete, segment.ms: 9000000000000, retention.ms: 1}
"""


def test_retention_and_purge_there(tmp_path: Path, bucket: Bucket, agreement: bytes) -> None:
    """The same segments go as here, with the checks of the retention; what was replaced is purged
    once it is old by the server's clock, which a sensor asks for.
    """
    logs = {"orders-0": "delete-time", "orders-1": "delete-size"}
    made = make_platform(tmp_path, logs, RETENTION)
    platform = with_bucket(made, bucket, agreement).at(description("delete-time")["now"])
    done = run(retention, platform)
    assert done.success
    assert [] == wrong(platform, bucket)
    assert [1, 1] == [version(bucket, each).version for each in PARTITIONS]
    checked = [
        event.asset_check_evaluation_data
        for event in done.all_events
        if event.event_type is dg.DagsterEventType.ASSET_CHECK_EVALUATION
    ]
    assert checked
    assert all(each.passed for each in checked)
    assert all(each.metadata["logs checked"].value == 4 for each in checked)
    again = run(retention, platform)
    assert again.success
    assert 1 == version(bucket, PARTITIONS[0]).version
    waiting = tick(purge_due, platform)
    assert f"{THERE}:orders-0" in str(waiting.skip_message)
    newest = {each.operation for each in (version(bucket, one) for one in PARTITIONS)}
    assert 2 == len(newest)
    made_old(tmp_path / "bucket", days=8)
    (request,) = tick(purge_due, platform.at(platform.now_ms + 3_600_000)).run_requests
    assert f"{THERE}:orders-0" in request.run_config["ops"]["purge_logs"]["config"]["logs"]
    before = len(bucket.below("orders-0").listing("data/"))
    purged = run(purge, platform)
    assert purged.success
    assert before > len(bucket.below("orders-0").listing("data/"))
    assert [] == wrong(platform, bucket)


@pytest.mark.rotates(2)
def test_on_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By S3's protocol: the same bytes. The tests of Spark have its tasks with a server."""
    monkeypatch.setattr("logwright.assets.segments.segment_set.SparkExecutor", HereOnly)
    with served() as port:
        for name, value in environment(port).items():
            monkeypatch.setenv(name, value)
        bucket = Bucket.of(f"s3://{NAME}/{tmp_path.name}")
        platform = with_bucket(make_platform(tmp_path, LOGS), bucket)
        assert platform.sweep([]).success
        assert [] == wrong(platform, bucket)
        assert [1, 1] == [version(bucket, each).version for each in PARTITIONS]
