"""When the sensor requests updates of tables, and what such an update says of itself."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from logwright.assets.tables.topic_logs import table_key
from logwright.bucket.store import Bucket
from logwright.pipelines.lib.skipped import RETRY_AFTER_MS
from logwright.pipelines.platform import platform_definitions
from logwright.pipelines.tables.running import IDLE_MS, TOPIC_TAG
from logwright.resources.catalogue import platform_resources
from logwright.resources.clock import Clock
from logwright.resources.policies import PolicyDirectory
from tests.bucket_maintenance.copies import put
from tests.running_dirs import record, running
from tests.table_rows import table_rows
from tests.table_world import write_logs

pytestmark = pytest.mark.filterwarnings("ignore:::dagster.*", "ignore::dagster.BetaWarning")

NOW_MS = 1_760_000_000_000
POLICY = """\
version: 1
topics:
  - name: t
    table: {{format: parquet, path: {path}}}
"""
NOTHING_NEW = "t: nothing is new since the last request."


class Ticks:
    """A platform with a table of the topic t, and a sensor that remembers its cursor."""

    def __init__(self, tmp_path: Path, instance: dg.DagsterInstance) -> None:
        self.log_dir = write_logs(tmp_path / "logs", {0: [(f"k{at}", "v") for at in range(40)]})
        self.table = tmp_path / "table"
        (tmp_path / "policies").mkdir()
        self.policies = tmp_path / "policies"
        (self.policies / "p.yml").write_text(POLICY.format(path=self.table))
        self.instance = instance
        self.directory = str(self.log_dir)
        self.cursor: str | None = None
        self.now_ms = NOW_MS

    @property
    def resources(self) -> dict[str, Any]:
        """As a code location has them, but for the fixed clock."""
        return platform_resources(
            directories=[self.directory],
            policies=PolicyDirectory(directory=str(self.policies)),
            clock=Clock(fixed_now_ms=self.now_ms),
        )

    def tick(self) -> dg.SensorExecutionData:
        """One evaluation, as the daemon makes it."""
        definitions = platform_definitions(self.resources)
        sensor = definitions.get_sensor_def("running_tables")
        resources = {name: self.resources[name] for name in ("log_dirs", "policies", "clock")}
        with dg.build_sensor_context(
            instance=self.instance, cursor=self.cursor, resources=resources
        ) as context:
            data = sensor.evaluate_tick(context)
        self.cursor = data.cursor
        return data

    def run(self, request: dg.RunRequest) -> dg.ExecuteInProcessResult:
        """The run that a tick requests, with what the daemon selects of its job."""
        job = platform_definitions(self.resources).resolve_job_def("latest_state")
        part = job.get_subset(
            asset_selection=frozenset(request.asset_selection or ()),
            asset_check_selection=frozenset(request.asset_check_keys or ()),
        )
        return part.execute_in_process(
            instance=self.instance, tags=dict(request.tags), raise_on_error=False
        )


@pytest.fixture
def ticks(tmp_path: Path) -> Any:  # noqa: ANN401 - an iterator
    with dg.DagsterInstance.ephemeral() as instance:
        yield Ticks(tmp_path, instance)


def test_requests_follow_what_the_broker_records(ticks: Ticks) -> None:
    """One for each change of a high watermark, one a day without; none of a stopped broker, nor
    while an update is in progress.
    """
    assert "t: no broker has its logs open." == ticks.tick().skip_message
    with running(ticks.log_dir, {"t-0": 20}):
        (request,) = ticks.tick().run_requests
        assert [table_key("t")] == request.asset_selection
        assert NOTHING_NEW == ticks.tick().skip_message
        record(ticks.log_dir, {"t-0": 20, "u-0": 5})
        assert NOTHING_NEW == ticks.tick().skip_message
        record(ticks.log_dir, {"t-0": 30})
        run = dg.DagsterRun(
            job_name="latest_state", status=dg.DagsterRunStatus.STARTED, tags={TOPIC_TAG: "t"}
        )
        ticks.instance.add_run(run)
        assert "t: an update is in progress." == ticks.tick().skip_message
        ticks.instance.delete_run(run.run_id)
        assert 1 == len(ticks.tick().run_requests)
        assert NOTHING_NEW == ticks.tick().skip_message
        ticks.now_ms += IDLE_MS
        assert 1 == len(ticks.tick().run_requests)


def test_requests_keep_a_table_fresh(ticks: Ticks) -> None:
    """Also of a topic without new records; the asset has the freshness policy."""
    policy = ticks.policies / "p.yml"
    policy.write_text(policy.read_text().replace("}", ", fresh_within_ms: 120000}"))
    with running(ticks.log_dir, {"t-0": 20}):
        assert 1 == len(ticks.tick().run_requests)
        ticks.now_ms += 59_999
        assert NOTHING_NEW == ticks.tick().skip_message
        ticks.now_ms += 1
        assert 1 == len(ticks.tick().run_requests)
    specs = platform_definitions(ticks.resources).resolve_all_asset_specs()
    (spec,) = [one for one in specs if one.key == table_key("t")]
    assert dg.FreshnessPolicy.time_window(timedelta(minutes=2)) == spec.freshness_policy


def test_a_failed_update_is_requested_again(ticks: Ticks) -> None:
    """After a quarter of an hour, also if nothing is new."""
    with running(ticks.log_dir, {"t-0": 20}):
        ticks.tick()
        ticks.instance.add_run(
            dg.DagsterRun(
                job_name="latest_state", status=dg.DagsterRunStatus.FAILURE, tags={TOPIC_TAG: "t"}
            )
        )
        assert NOTHING_NEW == ticks.tick().skip_message
        ticks.now_ms += RETRY_AFTER_MS
        assert 1 == len(ticks.tick().run_requests)


def test_an_update_says_what_bounds_it(ticks: Ticks) -> None:
    """The table ends at the high watermark, and the metadata have its time; the checks that read
    the whole topic are not part of it.
    """
    with running(ticks.log_dir, {"t-0": 20}):
        (request,) = ticks.tick().run_requests
        ticks.now_ms = (ticks.log_dir / "replication-offset-checkpoint").stat().st_mtime_ns // 10**6
        ticks.now_ms += 7000
        done = ticks.run(request)
    assert done.success
    (made,) = done.get_asset_materialization_events()
    metadata = {
        name: value.value
        for name, value in made.step_materialization_data.materialization.metadata.items()
    }
    assert 7.0 == metadata["at most seconds old"]
    (row,) = [dict(one.data) for one in metadata["partitions"].records]
    assert (20, metadata["as of"]) == (row["held offset"], row["as of"])
    assert 20 == len(table_rows("parquet", ticks.table))
    names = {check.check_name for check in done.get_asset_check_evaluations()}
    assert {"held_below_last_stable_offset", "records_decoded"} == names


def test_requests_follow_the_versions_in_a_bucket(ticks: Ticks, tmp_path: Path) -> None:
    """One for each version; the table has what the bucket has."""
    bucket = Bucket.of(f"file://{tmp_path}/bucket")
    record(ticks.log_dir, {"t-0": 40})
    put(ticks.log_dir, bucket)
    ticks.directory = bucket.url
    (request,) = ticks.tick().run_requests
    assert ticks.run(request).success
    rows = table_rows("parquet", ticks.table)
    assert 40 == len(rows)
    assert NOTHING_NEW == ticks.tick().skip_message
    shutil.rmtree(ticks.log_dir)
    content = [(f"k{at}", "v") for at in range(40)]
    write_logs(ticks.log_dir, {0: [*content, ("new", "v")]})
    record(ticks.log_dir, {"t-0": 41})
    put(ticks.log_dir, bucket)
    (request,) = ticks.tick().run_requests
    assert ticks.run(request).success
    assert 41 == len(table_rows("parquet", ticks.table))
