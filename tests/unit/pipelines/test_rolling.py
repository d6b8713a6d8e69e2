"""The rolling maintenance is part of the platform once a cluster's file is named."""

from __future__ import annotations

import json
from pathlib import Path

import dagster as dg
import pytest

from logwright.pipelines.component import LogwrightComponent
from logwright.pipelines.lib.runs import PARTITION_TAG, ROLLING, run_logs
from logwright.pipelines.platform import platform_definitions
from logwright.resources.catalogue import platform_resources
from logwright.resources.cluster import CLUSTER_VARIABLE

pytestmark = pytest.mark.filterwarnings("ignore::dagster.BetaWarning")

CONTENT = {
    "version": 1,
    "bootstrap_servers": ["localhost:1"],
    "state": "state",
    "stop": "stop",
    "start": "start",
    "maintain": ["clean"],
    "brokers": [{"id": 7, "log_dirs": ["/a"]}, {"id": 4, "log_dirs": ["/b"]}],
}


def jobs(definitions: dg.Definitions) -> set[str]:
    return {job.name for job in definitions.get_repository_def().get_all_jobs()}


def test_a_partition_for_each_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of the file; without a file, or with an invalid one, there is not a job."""
    path = tmp_path / "cluster.yml"
    path.write_text(json.dumps(CONTENT))
    assert ROLLING not in jobs(platform_definitions(platform_resources()))
    monkeypatch.setenv(CLUSTER_VARIABLE, str(path))
    definitions = platform_definitions(platform_resources())
    partitions = definitions.resolve_job_def(ROLLING).partitions_def
    assert partitions is not None
    assert ["7", "4"] == list(partitions.get_partition_keys())
    path.write_text(json.dumps(CONTENT | {"brokers": []}))
    assert ROLLING not in jobs(platform_definitions(platform_resources()))


def test_a_component_names_the_file(tmp_path: Path) -> None:
    """Relative to its directory."""
    (tmp_path / "cluster.yml").write_text(json.dumps(CONTENT))
    component = LogwrightComponent(cluster="cluster.yml")
    assert ROLLING in jobs(component.definitions_in(tmp_path))


def test_the_active_controllers_run_goes_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its priority in the queue, as the nodes have noted it when the run is asked for."""
    metadata = tmp_path / "logs-4" / "__cluster_metadata-0"
    metadata.mkdir(parents=True)
    brokers = [{"id": 7, "log_dirs": ["logs-7"]}, {"id": 4, "log_dirs": ["logs-4"]}]
    path = tmp_path / "cluster.yml"
    path.write_text(json.dumps(CONTENT | {"brokers": brokers}))
    monkeypatch.setenv(CLUSTER_VARIABLE, str(path))
    definitions = platform_definitions(platform_resources())
    job = definitions.resolve_job_def(ROLLING)
    assert [None, None] == [priority(job, broker) for broker in ("7", "4")]
    for leader, expected in ((4, [None, "-1"]), (7, ["-1", None]), (5, [None, None])):
        text = json.dumps({"leaderEpoch": 3, "leaderId": leader})
        (metadata / "quorum-state").write_text(text)
        assert expected == [priority(job, broker) for broker in ("7", "4")]


def priority(job: dg.JobDefinition, broker: str) -> str | None:
    """Of the run of a broker that is asked for now."""
    return job.get_tags_for_partition_key(broker, selected_asset_keys=None).get("dagster/priority")


def test_brokers_are_no_logs() -> None:
    """The partition of such a run is not taken for a log that is being worked on."""
    run = dg.DagsterRun(job_name=ROLLING, tags={PARTITION_TAG: "7"})
    assert [] == run_logs(run, ["7"])
