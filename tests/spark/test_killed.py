"""A cleaning by Spark that is killed, or whose workers are: run again, it is as if undisturbed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from logwright.format.batch import parse_batch, walk_batches
from tests.e2e.command import PROGRAM, REPOSITORY, call
from tests.fixtures import copy_before, description
from tests.oracle_runner import run_oracle

pytestmark = [pytest.mark.spark, pytest.mark.crash, pytest.mark.oracle]

CASES = {"a-0": "basic-none", "b-0": "basic-zstd", "c-0": "txn-1-mixed", "d-0": "basic-mixed"}
KILLS = 3
NIGHTLY_KILLS = 50
WAIT_SECONDS = 300
NOW = max(description(case)["now"] for case in CASES.values())
LATER = NOW + 60_000
Digest = dict[str, bytes]


def make(log_dir: Path) -> Path:
    """Several partitions, so that there is more than one task."""
    log_dir.mkdir(parents=True)
    (log_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    for name, case in CASES.items():
        copied = copy_before(case, log_dir.parent / f"copied-{log_dir.name}-{name}")
        (copied / "t-0").rename(log_dir / name)
    return log_dir


def words(log_dir: Path) -> list[str]:
    options = ("--now", str(NOW), "--force", "--yes", "--config", "cleanup.policy=compact")
    return ["clean", str(log_dir), *options, "--config", "internal.segment.bytes=8192"]


@contextmanager
def cleaning(log_dir: Path) -> Iterator[subprocess.Popen[bytes]]:
    """``clean --engine spark`` in a group of processes of its own, none of which is left."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words(log_dir), "--engine", "spark"],
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()
            while left := members(process.pid):
                for pid in left:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                time.sleep(0.01)


def members(session: int, *, python_workers: bool = False) -> list[int]:
    """Living processes of a session, or only Spark's Python workers among them."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            pid = int(entry.name)
            if os.getsid(pid) != session or pid == session:
                continue
            command = (entry / "cmdline").read_bytes()
            is_worker = b"pyspark" in command and b"java" not in command
            if command and (is_worker or not python_workers):
                found.append(pid)
    return found


def live(log_dir: Path) -> Digest:
    """What a broker would read: each batch, whatever segment it is in, and the checkpoint."""
    found = {"checkpoint": (log_dir / "cleaner-offset-checkpoint").read_bytes()}
    for name in CASES:
        for log in sorted((log_dir / name).glob("*.log")):
            content = log.read_bytes()
            for span in walk_batches(content):
                whole = content[span.position : span.position + span.bytes]
                found[f"{name}@{parse_batch(whole).base_offset}"] = whole
    return found


def assert_finished(log_dir: Path, wanted: Digest) -> None:
    """Run again, it ends as an undisturbed run; a purge leaves nothing that is not the log's."""
    again = call(*words(log_dir))
    if again.status == 5:  # killed inside a swap
        if call("purge", log_dir, "--now", NOW, "--yes").status == 5:  # that was committed
            for name in CASES:
                load_by_kafka(log_dir, name)
        again = call(*words(log_dir))
    assert again.status == 0, again.err
    assert wanted == live(log_dir)
    assert call("purge", log_dir, "--now", LATER, "--yes").status == 0
    left = [path.name for path in log_dir.rglob("*")]
    assert not [name for name in left if name.endswith((".cleaned", ".swap", ".deleted"))]
    assert "staging" not in left


def load_by_kafka(log_dir: Path, name: str) -> None:
    """Kafka's loader finishes a swap, and closes the log."""
    (log_dir / ".kafka_cleanshutdown").unlink()
    target = ("--log-dir", log_dir, "--topic-partition", name, "--now", str(NOW))
    run_oracle("retain", *target, "--config", "cleanup.policy=compact")


def wait_for_staged(log_dir: Path, process: subprocess.Popen[bytes]) -> None:
    """Until a task has begun to write, or the process has ended."""
    end = time.monotonic() + WAIT_SECONDS
    while process.poll() is None and not list(log_dir.glob("*/.logwright/staging/*/*.log")):
        assert time.monotonic() < end
        time.sleep(0.002)


def undisturbed(log_dir: Path) -> float:
    """Clean; seconds from the first staged file to the end."""
    with cleaning(log_dir) as process:
        wait_for_staged(log_dir, process)
        began = time.monotonic()
        assert process.wait(WAIT_SECONDS) == 0
        return time.monotonic() - began


def kill_one(log_dir: Path, after_seconds: float, *, worker: bool) -> bool:
    """Kill the driver, or Spark's Python workers, so long after the first staged file; whether it
    was still at work.
    """
    with cleaning(log_dir) as process:
        wait_for_staged(log_dir, process)
        time.sleep(after_seconds)
        if not worker:
            return process.poll() is None
        victims = members(process.pid, python_workers=True)
        for pid in victims:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait(WAIT_SECONDS)
        return bool(victims)


def kill_often(tmp_path: Path, seed: int, count: int) -> None:
    whole = make(tmp_path / "undisturbed")
    seconds = undisturbed(whole)
    wanted = live(whole)
    hit = 0
    for number in range(count):
        log_dir = make(tmp_path / str(number) / "logs")
        chosen = random.Random(f"{seed} {number}")
        worker = number % 3 == 1
        part = chosen.random() * 0.3 if worker else (number + chosen.random()) / count
        hit += kill_one(log_dir, part * seconds, worker=worker)
        assert_finished(log_dir, wanted)
        shutil.rmtree(log_dir.parent)
    assert hit > 0


@pytest.mark.timeout(900)
def test_killed_at_a_random_time(tmp_path: Path, seed: int) -> None:
    """The driver or its workers, at any time: the next run completes with the same bytes."""
    kill_often(tmp_path, seed, KILLS)


@pytest.mark.nightly
@pytest.mark.timeout(7200)
def test_killed_fifty_times(tmp_path: Path, seed: int) -> None:
    """The same, fifty times."""
    kill_often(tmp_path, seed, NIGHTLY_KILLS)
