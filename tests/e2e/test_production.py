"""An instance on PostgreSQL; Spark on a standalone cluster, and through a Connect server."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import dagster as dg
import pytest

import logwright
from logwright.assets.lib.partitions import LOGS as LOGS_DEFINITION
from logwright.assets.lib.partitions import SEGMENT_SET
from tests.e2e.command import call
from tests.e2e.harness import MARKS, POLICY, Platform, make_platform, staged_files, tree
from tests.e2e.servers import DATABASE_USER, cluster, connect_server, postgres

pytestmark = [*MARKS, pytest.mark.nightly]

LOGS = {
    f"orders-{number}": case
    for number, case in enumerate(["basic-none", "basic-lz4", "basic-zstd", "basic-mixed"] * 3)
}
SLOWLY = "  log.cleaner.io.max.bytes.per.second: 60000\n"
"""In the policy's defaults: a log takes a second, so that there is a middle."""
SOME_FILES = 4
SHIPPED = Path(logwright.__file__).parent / "pipelines" / "dagster-postgres.yaml"
SWEEP = ["job", "execute", "-m", "logwright.pipelines.definitions", "-j", "sweep"]


@pytest.fixture
def platform(tmp_path: Path) -> Platform:
    return make_platform(tmp_path, LOGS)


def swept(platform: Platform, home: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """The job as a command, in a process of its own."""
    environment = os.environ | {
        "DAGSTER_HOME": str(home),
        "LOGWRIGHT_LOG_DIRS": str(platform.log_dir),
        "LOGWRIGHT_POLICIES": str(platform.policies),
        "LOGWRIGHT_NOW_MS": str(platform.now_ms),
        **more,
    }
    return subprocess.run(
        [Path(sys.executable).with_name("dagster"), *SWEEP],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def as_by_a_local_session(platform: Platform, tmp_path: Path) -> None:
    """Each log is as a sweep in this process leaves it."""
    (tmp_path / "local").mkdir()
    local = make_platform(tmp_path / "local", LOGS)
    assert local.sweep(list(LOGS)).success
    for key in LOGS:
        assert tree(local.partition(key)) == tree(platform.partition(key))
    assert [] == staged_files(platform.log_dir)


@pytest.mark.parametrize("batch", ["0", "5"])
def test_an_instance_on_postgresql(
    platform: Platform, tmp_path: Path, batch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shipped configuration, with and without batches of events: every log has its
    materialization, and a log that fails is seen.
    """
    home = tmp_path / "home"
    home.mkdir()
    shutil.copyfile(SHIPPED, home / "dagster.yaml")
    with postgres(tmp_path / "postgres") as port:
        text = (home / "dagster.yaml").read_text().replace("port: 5432", f"port: {port}")
        (home / "dagster.yaml").write_text(text)
        monkeypatch.setenv("LOGWRIGHT_PG_HOST", "127.0.0.1")
        monkeypatch.setenv("LOGWRIGHT_PG_USER", DATABASE_USER)
        monkeypatch.setenv("LOGWRIGHT_PG_PASSWORD", "none is asked for")
        monkeypatch.setenv("LOGWRIGHT_PG_DATABASE", "postgres")
        segment = platform.partition("orders-7") / "00000000000000000000.log"
        sound = segment.read_bytes()
        segment.write_bytes(sound[:80] + bytes([sound[80] ^ 1]) + sound[81:])
        failed = swept(platform, home, DAGSTER_EVENT_BATCH_SIZE=batch)
        assert failed.returncode != 0
        with dg.DagsterInstance.from_config(str(home)) as instance:
            assert "Postgres" in type(instance.event_log_storage).__name__
            statuses = instance.get_status_by_partition(SEGMENT_SET, list(LOGS), LOGS_DEFINITION)
            assert statuses is not None
            shown = {key: str(one and one.value) for key, one in statuses.items()}
        assert dict.fromkeys(LOGS, "MATERIALIZED") | {"orders-7": "FAILED"} == shown


def test_a_cluster_of_two_workers(platform: Platform, tmp_path: Path) -> None:
    """By its master's address; both workers take part."""
    home = tmp_path / "home"
    home.mkdir()
    with cluster(tmp_path / "cluster") as (master, workers):
        done = swept(platform, home, LOGWRIGHT_SPARK_MASTER=master)
        assert done.returncode == 0, done.stderr[-4000:]
        applications = list((tmp_path / "cluster" / "work").glob("app-*/*"))
        assert len(workers) == len(applications)
    as_by_a_local_session(platform, tmp_path)


def test_a_worker_of_the_cluster_is_killed(tmp_path: Path) -> None:
    """While it builds: the other one does its logs again, and the sweep ends as if nothing had
    happened. A purge removes what the killed one has staged.
    """
    platform = make_platform(tmp_path, LOGS, POLICY + SLOWLY)
    home = tmp_path / "home"
    home.mkdir()
    with cluster(tmp_path / "cluster") as (master, workers), ThreadPoolExecutor(1) as pool:
        ending = pool.submit(swept, platform, home, LOGWRIGHT_SPARK_MASTER=master)
        while not ending.done() and len(staged_files(platform.log_dir)) < SOME_FILES:
            time.sleep(0.01)
        assert not ending.done(), ending.result().stderr[-4000:]
        (executor,) = executors(tmp_path / "cluster", workers[0].pid)
        for pid in (workers[0].pid, executor):
            os.kill(pid, signal.SIGKILL)
        done = ending.result()
    assert done.returncode == 0, done.stderr[-4000:]
    for key in LOGS:
        purged = call("purge", platform.log_dir, key, "--yes", "--now", platform.now_ms)
        assert purged.status == 0, purged.err
    as_by_a_local_session(platform, tmp_path)


def executors(directory: Path, worker: int) -> list[int]:
    """Processes of the executors that a worker has started."""
    running = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            command = (path.parent / "cmdline").read_bytes()
            if int(fields[1]) == worker and b"CoarseGrainedExecutorBackend" in command:
                running.append(int(path.parent.name))
    assert running, list((directory / "work").glob("app-*/*"))
    return running


def test_a_connect_server(platform: Platform, tmp_path: Path) -> None:
    """By its address; this process has no JVM."""
    home = tmp_path / "home"
    home.mkdir()
    with connect_server(tmp_path / "connect") as remote:
        done = swept(platform, home, LOGWRIGHT_SPARK_REMOTE=remote)
        assert done.returncode == 0, done.stderr[-4000:]
    as_by_a_local_session(platform, tmp_path)
