"""Logs in a bucket are cleaned by Spark's tasks, which read and write the bucket themselves."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from logwright.bucket.store import Bucket
from logwright.format.names import TopicPartition
from logwright.maintenance.scrub import scrub
from tests.bucket.servers import NAME, environment, served
from tests.bucket_maintenance.copies import differences, put, run, version
from tests.bucket_maintenance.random_logs import a_log
from tests.e2e.command import REPOSITORY, process
from tests.e2e.servers import cluster
from tests.log_builder import START_MS
from tests.spark.bucket_program import CONFIGS, COPIES

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

LOGS = tuple(TopicPartition("t", number) for number in range(6))
NOW = START_MS + 1_000
GIVEN = ("--yes", "--force", "--now", NOW, "--high-watermark", "checkpoint")
COMPACT = tuple(word for name, value in CONFIGS.items() for word in ("--config", f"{name}={value}"))
CLEAN = ("clean", *GIVEN, *COMPACT, "--engine", "spark", "--output", "json")
SLOW = 20_000
"""Bytes per second of all tasks together: some seconds for each log."""
SECONDS = 240
LARGEST_RESULT = 50_000
"""Bytes that come to the driver for a log, whose records it does not see."""


@pytest.fixture(name="server", scope="module")
def _server() -> Iterator[None]:
    """A server, which is all that driver and tasks have together."""
    with served() as port, pytest.MonkeyPatch.context() as patch:
        for name, value in environment(port).items():
            patch.setenv(name, value)
        yield


@pytest.fixture(name="bucket")
def _bucket(server: None, tmp_path: Path) -> Bucket:
    """A log directory of its own there."""
    del server
    return Bucket.of(f"s3://{NAME}/{tmp_path.name}")


@pytest.fixture(name="log_dirs")
def _log_dirs(tmp_path: Path, bucket: Bucket, seed: int) -> dict[TopicPartition, Path]:
    """Random logs, each in a directory of its own here, and all of them in the bucket."""
    log_dirs = {}
    for partition in LOGS:
        log_dirs[partition] = tmp_path / f"logs-{partition}"
        a_log(log_dirs[partition], random.Random(f"{seed} {partition}"), str(partition))
        put(log_dirs[partition], bucket)
    return log_dirs


def as_here(
    log_dirs: dict[TopicPartition, Path], bucket: Bucket, scratch: Path
) -> dict[str, list[str]]:
    """Clean the logs here, too; what is different in the bucket, by log."""
    for log_dir in log_dirs.values():
        run("clean", log_dir, *GIVEN, *COMPACT)
    wrong = {
        str(partition): differences(log_dir, bucket, scratch, partition)
        for partition, log_dir in log_dirs.items()
    }
    return {name: faults for name, faults in wrong.items() if faults}


@contextmanager
def driver(
    master: str, url: str, rate: float, directory: Path, how: str
) -> Iterator[subprocess.Popen[str]]:
    """A driver at work. Its own directory is not that of a task."""
    directory.mkdir()
    program = [sys.executable, "-m", "tests.spark.bucket_program"]
    words = [*program, master, url, str(NOW), str(rate), how]
    root = str(Path(__file__).parents[2])
    paths = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    with (directory / "said").open("w") as errors:
        running = subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=directory,
            env=os.environ | {"PYTHONPATH": paths},
            text=True,
        )
    try:
        yield running
    finally:
        running.kill()
        running.wait()


def ended(running: subprocess.Popen[str], directory: Path) -> list[dict[str, Any]]:
    """What the driver says of each log."""
    out, _ = running.communicate(timeout=SECONDS)
    assert 0 == running.returncode, (directory / "said").read_text()[-4000:]
    return [json.loads(line) for line in out.splitlines()]


def test_the_command_with_spark(
    log_dirs: dict[TopicPartition, Path], bucket: Bucket, tmp_path: Path
) -> None:
    """The same bytes as here, and no working copy is left."""
    answer = process(*CLEAN, bucket.url, "--scratch", tmp_path / "scratch")
    assert 0 == answer.status, answer.err
    assert [str(each) for each in LOGS] == sorted(line["topicPartition"] for line in answer.lines)
    assert {} == as_here(log_dirs, bucket, tmp_path / "there")
    assert [] == [each.name for each in (tmp_path / "scratch").iterdir()]


@pytest.mark.rotates(4)
def test_a_cluster_without_a_shared_directory(
    log_dirs: dict[TopicPartition, Path], bucket: Bucket, tmp_path: Path
) -> None:
    """Executors have working copies in their own directories, and remove them; the command makes
    none.
    """
    words = ("clean", bucket.url, "--engine", "spark", "--scratch", COPIES, "--output", "json")
    with cluster(tmp_path / "cluster") as (master, _):
        answer = process(*words, *GIVEN, *COMPACT, "--spark-master", master)
        copies = list((tmp_path / "cluster" / "work").glob(f"app-*/*/{COPIES}"))
    assert 0 == answer.status, answer.err
    assert [str(each) for each in LOGS] == sorted(line["topicPartition"] for line in answer.lines)
    assert copies
    assert [[]] * len(copies) == [list(each.iterdir()) for each in copies]
    assert not (REPOSITORY / COPIES).exists()
    assert {} == as_here(log_dirs, bucket, tmp_path / "there")


@pytest.mark.rotates(4)
def test_the_command_with_spark_cleans_parts(
    log_dirs: dict[TopicPartition, Path], bucket: Bucket, tmp_path: Path
) -> None:
    """The same bytes as here; no part is left, here or in the bucket."""
    answer = process(*CLEAN, bucket.url, "--split-bytes", 0, "--scratch", tmp_path / "scratch")
    assert 0 == answer.status, answer.err
    assert [str(each) for each in LOGS] == sorted(line["topicPartition"] for line in answer.lines)
    assert {} == as_here(log_dirs, bucket, tmp_path / "there")
    assert [] == [each.name for each in (tmp_path / "scratch").iterdir()]
    unnamed = [scrub(bucket.below(str(partition))).unnamed for partition in LOGS]
    assert [[]] * len(LOGS) == list(map(list, unnamed))


def test_a_master_without_spark_is_refused(bucket: Bucket) -> None:
    """It would not be used."""
    answer = process("clean", bucket.url, *GIVEN, "--spark-master", "spark://127.0.0.1:1")
    assert 2 == answer.status
    assert "--spark-master is for --engine spark" in answer.err


@pytest.mark.nightly
def test_a_master_that_does_not_answer(
    log_dirs: dict[TopicPartition, Path], bucket: Bucket
) -> None:
    """Spark waits a minute for it. The error names it; nothing was changed."""
    answer = process(*CLEAN, bucket.url, "--spark-master", "spark://127.0.0.1:1")
    assert 7 == answer.status
    assert "spark://127.0.0.1:1" in answer.err
    assert {0} == {version(bucket, each).version for each in log_dirs}


@pytest.mark.rotates(4)
@pytest.mark.parametrize("how", [pytest.param("whole", marks=pytest.mark.nightly), "split"])
def test_an_executor_is_killed(
    how: str, log_dirs: dict[TopicPartition, Path], bucket: Bucket, tmp_path: Path
) -> None:
    """While it has a working copy, of a log or of a part of one: another one does it again, and
    each log is changed once. The driver gets no records.
    """
    work = tmp_path / "driver"
    with (
        cluster(tmp_path / "cluster") as (master, workers),
        driver(master, bucket.url, SLOW, work, how) as running,
    ):
        deadline = time.monotonic() + SECONDS
        while not list((tmp_path / "cluster" / "work").glob(f"app-*/*/{COPIES}/*/logs")):
            assert running.poll() is None, (work / "said").read_text()[-4000:]
            assert time.monotonic() < deadline
            time.sleep(0.02)
        for pid in executors_of(workers[0].pid):
            os.kill(pid, signal.SIGKILL)
        rows = ended(running, work)
    assert [str(each) for each in LOGS] == [row["log"] for row in rows]
    assert [None] * len(LOGS) == [row["error"] for row in rows]
    assert max(row["bytes"] for row in rows) < LARGEST_RESULT
    assert not any(row["values"] for row in rows)
    assert 1 == max(version(bucket, each).version for each in LOGS)
    assert {} == as_here(log_dirs, bucket, tmp_path / "there")


def executors_of(worker: int) -> list[int]:
    """The processes of a worker's executors."""
    running = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == worker:
            running.append(int(path.parent.name))
    assert running
    return running
