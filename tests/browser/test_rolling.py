"""A backfill of `rolling_maintenance` by Dagster's own daemon, over three real brokers with load;
then its pages, and those of a running topic, in a real browser.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

import dagster as dg
import pytest
import yaml

from logwright.assets.tables.topic_logs import LATEST_STATE
from logwright.config.cluster import read_cluster
from logwright.pipelines.lib.runs import PARTITION_TAG, ROLLING
from logwright.resources.cluster import CLUSTER_VARIABLE
from logwright.rolling.controller import local_controller
from logwright.rolling.model import STEPS, Journal
from tests.browser.server import REPOSITORY, Server, dagster_dev, until
from tests.browser.site import BACKFILL_STATUS, Site, chromium
from tests.e2e.brokers import Brokers
from tests.e2e.rolling_cluster import check, journal, refill, three_brokers, whole, write_file
from tests.e2e.rolling_load import STATE, Load

pytestmark = [
    pytest.mark.browser,
    pytest.mark.e2e,
    pytest.mark.oracle,
    pytest.mark.nightly,
    pytest.mark.timeout(3600),
    pytest.mark.filterwarnings("ignore:::dagster.*"),
]

SECONDS = 900
OPS = [f"{step}_broker" for step in STEPS]
LAUNCH = """mutation ($selector: PartitionSetSelector!, $names: [String!]!) {
  launchPartitionBackfill(backfillParams: {selector: $selector, partitionNames: $names}) {
    __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }"""
RUN = """mutation ($selector: JobOrPipelineSelector!) { launchRun(executionParams: {
  selector: $selector, runConfigData: {}}) {
    __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""
RUN_STATUS = "query ($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Three brokers, whole, with something to clean."""
    with three_brokers(tmp_path_factory.mktemp("cluster")) as running:
        yield refill(running)


@pytest.fixture(scope="module")
def path(cluster: Brokers) -> Path:
    """The cluster's file."""
    return write_file(cluster, coordinate=True)


@pytest.fixture(scope="module")
def server(cluster: Brokers, path: Path) -> Iterator[Server]:
    """Dagster, with the cluster's file, and the log directory of a broker that has a table."""
    policies, work = cluster.work / "policies", cluster.work
    policies.mkdir()
    table = {"format": "parquet", "path": str(work / "table")}
    topic = {"name": STATE, "cleanup.policy": "compact", "table": table}
    (policies / "all.yml").write_text(yaml.safe_dump({"version": 1, "topics": [topic]}))
    environment = {
        CLUSTER_VARIABLE: str(path),
        "LOGWRIGHT_LOG_DIRS": str(cluster.log_dir(1)),
        "LOGWRIGHT_POLICIES": str(policies),
    }
    with dagster_dev(work / "dagster", environment) as running:
        yield running


@pytest.fixture(scope="module")
def backfill(server: Server, cluster: Brokers, path: Path) -> tuple[str, int]:
    """Its id, and the broker that was the active controller; nobody has noticed it."""
    controller = local_controller(read_cluster(path), path.parent).node
    assert controller is not None
    selector = {"partitionSetName": f"{ROLLING}_partition_set", "repositorySelector": REPOSITORY}
    names = [str(broker) for broker in cluster.ids]
    with Load(cluster.bootstrap) as load:
        launched = server.ask(LAUNCH, selector=selector, names=names)["launchPartitionBackfill"]
        assert "backfillId" in launched, launched
        wanted = launched["backfillId"]
        until("the backfill", SECONDS, partial(completed, server, wanted))
    check(load)
    return wanted, controller


def completed(server: Server, backfill: str) -> bool:
    status = server.ask(BACKFILL_STATUS, id=backfill)["partitionBackfillOrError"]["status"]
    return str(status).startswith(("COMPLETED", "FAILED"))


def test_one_broker_after_another(
    server: Server, cluster: Brokers, path: Path, backfill: tuple[str, int]
) -> None:
    """A run for each; they do not overlap; the active controller's is the last in the queue."""
    wanted, controller = backfill
    with dg.DagsterInstance.from_config(str(server.home)) as instance:
        records = instance.get_run_records(dg.RunsFilter(tags={"dagster/backfill": wanted}))
        dequeued = [queue_left(instance, each.dagster_run.run_id) for each in records]
    runs = sorted(records, key=lambda each: each.start_time or 0)
    assert {dg.DagsterRunStatus.SUCCESS} == {each.dagster_run.status for each in runs}
    brokers = [int(each.dagster_run.tags[PARTITION_TAG]) for each in runs]
    assert set(cluster.ids) == set(brokers)
    times = [(each.start_time or 0.0, each.end_time or 0.0) for each in runs]
    for (_, ended), (begun, _) in pairwise(times):
        assert ended <= begun
    last = {int(each.dagster_run.tags[PARTITION_TAG]) for each in runs if is_last(each.dagster_run)}
    assert {controller} == last
    if max(each.create_timestamp.timestamp() for each in records) < min(dequeued):
        assert controller == brokers[-1]  # all were in the queue when the first one left it
    assert whole(cluster)
    assert Journal() == journal(path)


def is_last(run: dg.DagsterRun) -> bool:
    return run.tags.get("dagster/priority") == "-1"


def queue_left(instance: dg.DagsterInstance, run_id: str) -> float:
    """When a run left the queue, s since the epoch."""
    (entry,) = instance.all_logs(run_id, dg.DagsterEventType.PIPELINE_STARTING)
    return entry.timestamp


def test_the_pages(server: Server, backfill: tuple[str, int], tmp_path: Path) -> None:
    """The run by broker with its steps and what they did; the job's partitions; the table of a
    running topic, up to where and how fresh.
    """
    wanted, _ = backfill
    with dg.DagsterInstance.from_config(str(server.home)) as instance:
        tags = {"dagster/backfill": wanted, PARTITION_TAG: "2"}
        (run,) = instance.get_runs(dg.RunsFilter(tags=tags))
    for job in (LATEST_STATE, "fleet"):
        launched(server, job)
    with chromium() as browser:
        site = Site(server, browser, Path(os.environ.get("SCREENSHOTS", tmp_path)))
        site.see(f"/runs/{run.run_id}", *OPS, "maintained", name="rolling-run")
        site.see(f"/locations/logwright/jobs/{ROLLING}", *OPS, name="rolling-job")
        site.see(
            f"/locations/logwright/jobs/{ROLLING}/partitions",
            *("Total partitions", "Failed partitions", "Show per-step status", wanted, "Succeeded"),
            name="rolling-partitions",
        )
        site.see(f"/runs/b/{wanted}?tab=runs", ROLLING, "Success", name="rolling-backfill")
        site.see(
            f"/assets/latest_state/{STATE}",
            *("as of", "at most seconds old", "high watermark"),
            name="running-table",
        )
        site.see("/assets/kafka_logs/fleet_inventory", "running broker", name="running-inventory")


def launched(server: Server, job: str) -> None:
    """Run a job, and wait until it has succeeded."""
    answer = server.ask(RUN, selector=REPOSITORY | {"pipelineName": job})["launchRun"]
    assert "run" in answer, answer
    run_id = answer["run"]["runId"]

    def status() -> str:
        return str(server.ask(RUN_STATUS, id=run_id)["runOrError"]["status"])

    until(job, SECONDS, lambda: status() in {"SUCCESS", "FAILURE"})
    assert "SUCCESS" == status()
