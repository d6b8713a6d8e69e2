"""A sweep that is cancelled from the web page, and executed again from its failure: real processes,
by the requests that the page sends.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from logwright.assets.lib.partitions import LOGS_NAME, SEGMENT_SET
from tests.browser.server import REPOSITORY, until
from tests.e2e.command import free_port
from tests.e2e.harness import POLICY, Platform, make_platform, staged_files, tree

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(600)]

BIN = Path(sys.executable).parent
SECONDS = 180
LOGS = {f"t-{number}": "basic-none" for number in range(6)}
SLOW = "  log.cleaner.io.max.bytes.per.second: 4000\n"
"""A build of one log takes many seconds then, so that it can be met."""
WORKSPACE = """\
load_from:
  - python_module: {module_name: logwright.pipelines.definitions, location_name: logwright}
"""
INSTANCE = """\
telemetry: {enabled: false}
nux: {enabled: false}
run_coordinator: {module: dagster._core.run_coordinator, class: DefaultRunCoordinator}
"""
LAUNCH = """mutation ($params: ExecutionParams!) { launchRun(executionParams: $params) {
  __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""
TERMINATE = """mutation ($id: String!) { terminateRun(runId: $id) { __typename } }"""
AGAIN = """mutation ($params: ReexecutionParams!) {
  launchRunReexecution(reexecutionParams: $params) {
    __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""
SWEEP: dict[str, Any] = {
    "selector": REPOSITORY | {"pipelineName": "sweep"},
    "runConfigData": {
        "ops": {"plan_sweep": {"config": {"logs": ["t-0", "t-2", "t-4", "t-5"]}}},
    },
    "mode": "default",
}
ASSET: dict[str, Any] = {
    "selector": REPOSITORY
    | {"pipelineName": "__ASSET_JOB", "assetSelection": [{"path": list(SEGMENT_SET.path)}]},
    "runConfigData": {},
    "mode": "default",
    "executionMetadata": {"tags": [{"key": "dagster/partition", "value": "t-1"}]},
}


def ask(address: str, query: str, **variables: object) -> dict[str, Any]:
    """What the web server answers to a request of its page."""
    body = json.dumps({"query": query, "variables": variables}).encode()
    request = urllib.request.Request(  # noqa: S310 - our own server
        f"{address}/graphql", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as response:  # noqa: S310
        answer: dict[str, Any] = json.load(response)
    assert "errors" not in answer, answer
    return answer["data"]


@contextmanager
def webserver(platform: Platform) -> Iterator[str]:
    """Its address, while it runs."""
    home = platform.home
    (home / "dagster.yaml").write_text(INSTANCE)
    (home / "workspace.yaml").write_text(WORKSPACE)
    environment = {
        **os.environ,
        "DAGSTER_HOME": str(home),
        "LOGWRIGHT_LOG_DIRS": str(platform.log_dir),
        "LOGWRIGHT_POLICIES": str(platform.policies),
        "LOGWRIGHT_NOW_MS": str(platform.now_ms),
        "PYSPARK_PYTHON": sys.executable,
    }
    port = free_port()
    words = [BIN / "dagster-webserver", "-p", str(port), "-w", home / "workspace.yaml"]
    with (home / "said").open("wb") as output:
        running = subprocess.Popen(words, env=environment, cwd=home, stdout=output, stderr=output)
    address = f"http://127.0.0.1:{port}"

    def ready() -> bool:
        assert running.poll() is None, (home / "said").read_text()
        try:
            return bool(ask(address, "query { version }"))
        except OSError:
            return False

    try:
        until("the web server", SECONDS, ready)
        yield address
    finally:
        running.terminate()
        running.wait(timeout=60)


def launched(answer: dict[str, Any]) -> str:
    """The id of the run that a mutation launched."""
    (answered,) = answer.values()
    assert answered["__typename"] == "LaunchRunSuccess", answered
    return str(answered["run"]["runId"])


def finished(platform: Platform, run_id: str) -> dg.DagsterRun:
    """A run once it is over."""

    def over() -> dg.DagsterRun | None:
        run = platform.instance.get_run_by_id(run_id)
        return run if run is not None and run.is_finished else None

    return until(f"the end of run {run_id}", SECONDS, over)


def steps(platform: Platform, run_id: str) -> list[str]:
    """The last names of the steps that a run started."""
    records = platform.instance.all_logs(run_id, of_type=dg.DagsterEventType.STEP_START)
    events = [one.dagster_event for one in records]
    return [str(one.step_key).rpartition(".")[2] for one in events if one is not None]


def evaluated(platform: Platform, run_id: str) -> set[str | None]:
    """The partitions whose checks a run evaluated, all passed."""
    kind = dg.DagsterEventType.ASSET_CHECK_EVALUATION
    events = [one.dagster_event for one in platform.instance.all_logs(run_id, of_type=kind)]
    checks = [one.asset_check_evaluation_data for one in events if one is not None]
    assert all(one.passed for one in checks)
    return {one.partition for one in checks}


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Platform:
    """Six logs that are due."""
    return make_platform(tmp_path_factory.mktemp("cancelled"), LOGS, POLICY)


@pytest.fixture(scope="module")
def address(platform: Platform) -> Iterator[str]:
    """Of one web server for all tests."""
    with webserver(platform) as server:
        yield server


def set_speed(platform: Platform, settings: str) -> None:
    (platform.policies / "policies.yml").write_text(POLICY + settings)


def cancelled(platform: Platform, address: str, params: dict[str, Any]) -> str:
    """Launch a run, and cancel it while it builds."""
    set_speed(platform, SLOW)
    run_id = launched(ask(address, LAUNCH, params=params))

    def building() -> bool:
        run = platform.instance.get_run_by_id(run_id)
        assert run is None or not run.is_finished, run
        return bool(staged_files(platform.log_dir))

    until("a staged file", SECONDS, building)
    assert ask(address, TERMINATE, id=run_id)["terminateRun"]["__typename"] == "TerminateRunSuccess"
    assert finished(platform, run_id).status is dg.DagsterRunStatus.CANCELED
    return run_id


@pytest.mark.rotates(6)
@pytest.mark.parametrize(
    ("params", "keys"),
    [
        pytest.param(SWEEP, {"t-0", "t-2", "t-4", "t-5"}, id="sweep", marks=pytest.mark.nightly),
        pytest.param(ASSET, {"t-1"}, id="asset"),
    ],
)
def test_cancelled_then_executed_again_from_the_failure(
    platform: Platform, address: str, params: dict[str, Any], keys: set[str]
) -> None:
    """A cancelled run leaves every log as it was and nothing staged. The next one starts at the
    step that was cancelled, in a new process: it plans again, builds, checks and swaps.
    """
    assert set(platform.instance.get_dynamic_partitions(LOGS_NAME)) == LOGS.keys()
    before = tree(platform.log_dir)
    run_id = cancelled(platform, address, params)
    assert tree(platform.log_dir) == before
    until("an empty staging", 30, lambda: not staged_files(platform.log_dir))
    set_speed(platform, "")
    again = launched(
        ask(address, AGAIN, params={"parentRunId": run_id, "strategy": "FROM_FAILURE"})
    )
    run = finished(platform, again)
    assert run.is_success, (platform.home / "said").read_text()[-3000:]
    names = {name.removesuffix("_sweep") for name in steps(platform, again)}
    assert "plan" not in names
    assert {"dedupe", "quality", "swap"} <= names
    # The logs of a run share an evaluation, unless there is one log.
    assert evaluated(platform, again) == (keys if len(keys) == 1 else {None})
    assert platform.materialized() >= keys
    for key in LOGS:
        swapped = bool(list(platform.partition(key).glob("*.log.deleted")))
        assert swapped == (key in platform.materialized())
    assert not staged_files(platform.log_dir)
