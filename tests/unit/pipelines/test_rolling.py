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


def test_brokers_are_no_logs() -> None:
    """The partition of such a run is not taken for a log that is being worked on."""
    run = dg.DagsterRun(job_name=ROLLING, tags={PARTITION_TAG: "7"})
    assert [] == run_logs(run, ["7"])
