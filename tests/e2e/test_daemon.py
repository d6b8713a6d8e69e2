"""Dagster's own daemon launches what a sensor and a schedule ask for, once an operator has switched
them on.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest

import logwright
from tests.fixtures import copy_before

BIN = Path(sys.executable).parent
WORKSPACE = """\
load_from:
  - python_module: {module_name: logwright.pipelines.definitions, location_name: logwright}
"""
POLICY = """\
version: 1
high_watermark: end
defaults: {log.retention.check.interval.ms: 60000}
topics:
  - {name: t, cleanup.policy: "compact,delete", retention.ms: -1}
  - {name: u, cleanup.policy: delete, retention.ms: 1, segment.ms: 9000000000000}
  - name: v
    cleanup.policy: delete
    retention.ms: -1
    file.delete.delay.ms: 1
    segment.ms: 9000000000000
"""
SECONDS = 240


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """T is due for a compaction; all of u is past its retention; v has a file to purge. No log is
    due for two of the runs, which may be at the same time: one would find its plan stale.
    """
    log_dir = copy_before("basic-none", tmp_path)
    for name in ("u-0", "v-0"):
        shutil.copytree(log_dir / "t-0", log_dir / name, copy_function=shutil.copy2)
    first = min((log_dir / "v-0").glob("*.log"))
    shutil.copy2(first, first.with_name(f"{first.name}.deleted"))
    return log_dir


@contextmanager
def daemon(environment: dict[str, str], home: Path) -> Iterator[None]:
    """It runs until the block ends."""
    with (home / "said").open("wb") as output:
        words = [BIN / "dagster-daemon", "run", "-w", home / "workspace.yaml"]
        running = subprocess.Popen(words, env=environment, cwd=home, stdout=output, stderr=output)
        try:
            yield
            assert running.poll() is None, (home / "said").read_text()
        finally:
            running.terminate()
            running.wait(timeout=60)


def segments(log_dir: Path, partition: str) -> list[str]:
    return sorted(path.name for path in (log_dir / partition).glob("*.log"))


def finished(home: Path, job: str, tag: str, value: str) -> dg.DagsterRun | None:
    """The first run of a job that was launched because of this, if it is over."""
    with dg.DagsterInstance.from_config(str(home)) as instance:
        filters = dg.RunsFilter(job_name=job, tags={tag: value})
        runs = [run for run in instance.get_runs(filters) if run.is_finished]
    return runs[-1] if runs else None


def failures(home: Path, run: dg.DagsterRun) -> list[str]:
    """What a run says of the steps that failed."""
    with dg.DagsterInstance.from_config(str(home)) as instance:
        return [
            f"{run.job_name}: {event.step_key}: {event.step_failure_data}"
            for entry in instance.all_logs(run.run_id, dg.DagsterEventType.STEP_FAILURE)
            if (event := entry.dagster_event) is not None
        ]


@pytest.mark.rotates(6)
@pytest.mark.spark
def test_the_daemon_launches_a_sensors_and_a_schedules_run(log_dir: Path, tmp_path: Path) -> None:
    """`due_logs` has a sweep launched, `purge_due` a purge, `retention_check` a retention; each
    does its work.
    """
    home, policies = tmp_path / "home", tmp_path / "policies"
    home.mkdir()
    policies.mkdir()
    (policies / "all.yml").write_text(POLICY)
    (home / "workspace.yaml").write_text(WORKSPACE)
    shutil.copyfile(
        Path(logwright.__file__).parent / "pipelines" / "dagster.yaml", home / "dagster.yaml"
    )
    environment = {
        **os.environ,
        "DAGSTER_HOME": str(home),
        "LOGWRIGHT_LOG_DIRS": str(log_dir),
        "LOGWRIGHT_POLICIES": str(policies),
        "PYSPARK_PYTHON": sys.executable,
    }
    before = {name: segments(log_dir, name) for name in ("t-0", "u-0", "v-0")}
    for kind, name in (
        ("sensor", "due_logs"),
        ("sensor", "purge_due"),
        ("schedule", "retention_check"),
    ):
        words = [BIN / "dagster", kind, "start", name, "-w", home / "workspace.yaml"]
        done = subprocess.run(words, env=environment, cwd=home, capture_output=True, check=False)
        assert 0 == done.returncode, done.stderr.decode()
    wanted = {
        "sweep": ("dagster/sensor_name", "due_logs"),
        "purge": ("dagster/sensor_name", "purge_due"),
        "retention": ("dagster/schedule_name", "retention_check"),
    }
    runs: dict[str, dg.DagsterRun] = {}
    deadline = time.monotonic() + SECONDS
    with daemon(environment, home):
        while runs.keys() != wanted.keys():
            assert time.monotonic() < deadline, (home / "said").read_text()[-5000:]
            for job in wanted.keys() - runs.keys():
                run = finished(home, job, *wanted[job])
                runs |= {} if run is None else {job: run}
            time.sleep(0.5)
    assert [] == [line for run in runs.values() for line in failures(home, run)]
    assert wanted.keys() == {job for job, run in runs.items() if run.is_success}
    assert before["t-0"] != segments(log_dir, "t-0")
    assert list((log_dir / "t-0").glob("*.deleted"))
    assert len(before["u-0"]) > len(segments(log_dir, "u-0")) == 1
    assert not list((log_dir / "v-0").glob("*.deleted"))
    assert before["v-0"] == segments(log_dir, "v-0")
