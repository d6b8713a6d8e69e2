"""`clean` is killed at any time; run again, it completes, or says what is needed first."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from logwright.format.batch import parse_batch, walk_batches
from tests.e2e.command import PROGRAM, REPOSITORY, Answer, call
from tests.oracle_runner import run_oracle

pytestmark = [pytest.mark.e2e, pytest.mark.crash, pytest.mark.oracle]

PARTITION = "events-0"
SEGMENT_BYTES = 4 * 1024 * 1024
KILLS = 10
CATCHES = 10
"""Maximum number of cleanings until one is killed in the wanted phase."""
DELAY_MS = 60_000
STARTED = ".logwright/staging"
GUARD, SWAP = ".cleaned", ".swap"
IN_LOG_DIR = {
    ".kafka_cleanshutdown",
    ".lock",
    "case.json",
    "cleaner-offset-checkpoint",
    "log-start-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    PARTITION,
}
WAIT_SECONDS = 120
Batches = dict[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A log, and how it is cleaned without being disturbed.

    Attributes:
        before: the log directory; it is copied, never changed.
        now: the clock of all commands.
        old, new: base offset → digest of each batch before and after.
        groups: base offsets of the segments before: each is a group of its own.
        start_seconds, seconds: until the first file was staged, until the end.
    """

    before: Path
    now: int
    old: Batches
    new: Batches
    groups: list[int]
    start_seconds: float
    seconds: float


def words(log_dir: Path, now: int) -> list[str]:
    settings = ("cleanup.policy=compact", f"segment.bytes={SEGMENT_BYTES}")
    pairs = [word for pair in settings for word in ("--config", pair)]
    return [str(log_dir), *pairs, "--now", str(now), "--yes", "--output", "json"]


def clean(log_dir: Path, now: int) -> Answer:
    return call("clean", *words(log_dir, now), "--force", "--like-kafka")


def purge(log_dir: Path, now: int) -> Answer:
    return call("purge", *words(log_dir, now))


@contextmanager
def cleaning(log_dir: Path, now: int) -> Iterator[subprocess.Popen[bytes]]:
    """`logwright clean` in a process of its own, which is dead afterwards."""
    command = [sys.executable, "-c", PROGRAM, "clean", *words(log_dir, now)]
    with subprocess.Popen(
        [*command, "--force", "--like-kafka"],
        cwd=REPOSITORY,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def batches(log_dir: Path) -> Batches:
    """What the live segments hold, whatever segment it is in."""
    batches_of: Batches = {}
    for log in sorted((log_dir / PARTITION).glob("*.log")):
        content = log.read_bytes()
        for span in walk_batches(content):
            whole = content[span.position : span.position + span.bytes]
            base = parse_batch(whole).base_offset
            assert base not in batches_of
            batches_of[base] = hashlib.sha256(whole).hexdigest()
    return batches_of


def bases(log_dir: Path) -> list[int]:
    return sorted(int(path.stem) for path in (log_dir / PARTITION).glob("*.log"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, seed: int) -> Run:
    """50 MB in 13 segments, cleaned once to its end."""
    before = tmp_path_factory.mktemp("generated") / "logs"
    sizes = ("--scale", "0.05", "--segment-bytes", str(SEGMENT_BYTES), "--seed", str(seed))
    run_oracle("generate", "--case", "u100", *sizes, "--out", before)
    now = json.loads((before / "case.json").read_text())["now"]
    after = copied(before, tmp_path_factory.mktemp("undisturbed"))
    began = time.monotonic()
    with cleaning(after, now) as process:
        wait_for(process, (after / PARTITION / STARTED).exists)
        start_seconds = time.monotonic() - began
        assert 0 == process.wait(WAIT_SECONDS)
    run_of = Run(
        before=before,
        now=now,
        old=batches(before),
        new=batches(after),
        groups=bases(before),
        start_seconds=start_seconds,
        seconds=time.monotonic() - began,
    )
    assert run_of.old != run_of.new
    assert len(run_of.groups) > KILLS
    return run_of


def copied(log_dir: Path, directory: Path) -> Path:
    shutil.copytree(log_dir, directory / "logs", copy_function=shutil.copy2)
    return directory / "logs"


def wait_for(process: subprocess.Popen[bytes], seen: Callable[[], bool]) -> None:
    """Until something is to be seen, or the process has ended."""
    end = time.monotonic() + WAIT_SECONDS
    while not seen() and process.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.0005)


def endings(log_dir: Path) -> set[str]:
    """Which kinds of leftovers are in the partition."""
    names = [path.name for path in (log_dir / PARTITION).iterdir()]
    return {end for end in (GUARD, SWAP) for name in names if name.endswith(end)}


def assert_whole(log_dir: Path, run: Run) -> None:
    """The log is as an undisturbed cleaning leaves it; a purge leaves nothing else."""
    assert run.new == batches(log_dir)
    later = purge(log_dir, run.now + DELAY_MS)
    assert 0 == later.status, later.err
    left = {path.name for path in (log_dir / PARTITION).iterdir()}
    live = {f"{base:020d}" for base in bases(log_dir)}
    assert live == {name.partition(".")[0] for name in left if name[0].isdigit()}
    allowed = {".log", ".index", ".timeindex", ".snapshot"}
    assert {name for name in left if name[0].isdigit()} == {
        name for name in left if name.partition(".")[0] in live and name[20:] in allowed
    }
    assert {name for name in left if not name[0].isdigit()} <= {
        "leader-epoch-checkpoint",
        "partition.metadata",
    }
    assert {path.name for path in log_dir.iterdir()} <= IN_LOG_DIR


def finish(log_dir: Path, run: Run) -> str:
    """Run it again after a kill; how it continued, and what of the other ways out is right too."""
    endings_of = endings(log_dir)
    if endings_of:
        copy = copied(log_dir, log_dir.parent / "other-way")
        if GUARD not in endings_of:
            kafkas = copied(log_dir, log_dir.parent / "kafkas-way")
            load_by_kafka(kafkas, run.now)
            assert_old_or_new(kafkas, run)
        purged = purge(copy, run.now)
        assert 0 == purged.status, purged.err
        assert (GUARD not in endings_of) == ("Recovered 1 partitions first." in purged.err)
        assert not endings(copy)
        assert_old_or_new(copy, run)
    again = clean(log_dir, run.now)
    assert 0 == again.status, again.err
    assert bool(endings_of) == ("Recovered 1 partitions first." in again.err)
    if not endings_of:
        return "resumed"
    return "rolled back" if GUARD in endings_of else "finished"


def load_by_kafka(log_dir: Path, now: int) -> None:
    """Kafka's loader recovers the log in place, and closes it. Effects: changes the log."""
    (log_dir / ".kafka_cleanshutdown").unlink()
    keep = ("cleanup.policy=compact", f"segment.bytes={SEGMENT_BYTES}")
    target = ("--log-dir", log_dir, "--topic-partition", PARTITION, "--now", str(now))
    run_oracle("retain", *target, "--config", *keep)
    assert not endings(log_dir)
    assert (log_dir / ".kafka_cleanshutdown").exists()


def assert_old_or_new(log_dir: Path, run: Run) -> None:
    """Group by group, first come new ones, then old ones; none is something else or a mixture."""
    batches_left = batches(log_dir)
    states = []
    for first, last in zip(run.groups, [*run.groups[1:], 2**63], strict=True):
        seen, old, new = (
            {base: digest for base, digest in each.items() if first <= base < last}
            for each in (batches_left, run.old, run.new)
        )
        assert seen in (old, new)
        if old != new:
            states.append("new" if seen == new else "old")
    assert sorted(states) == states


@pytest.mark.rotates(5)
@pytest.mark.parametrize("number", range(KILLS))
def test_killed_at_a_random_time(number: int, run: Run, seed: int, tmp_path: Path) -> None:
    """From before the first staged file until after the last swap."""
    log_dir = copied(run.before, tmp_path)
    chosen = random.Random(f"{seed} {number}")
    # The kills are spread: each has its own tenth of the time in which files are made.
    part = (number + chosen.random()) / KILLS
    after_seconds = part * (run.seconds - run.start_seconds)
    with cleaning(log_dir, run.now) as process:
        wait_for(process, (log_dir / PARTITION / STARTED).exists)
        if number > 0:
            time.sleep(after_seconds)
        process.kill()
        process.wait()
    finish(log_dir, run)
    assert_whole(log_dir, run)


@pytest.mark.rotates(2)
@pytest.mark.parametrize(("wanted", "how"), [({GUARD}, "rolled back"), ({SWAP}, "finished")])
def test_killed_inside_a_swap(
    wanted: set[str], how: str, run: Run, seed: int, tmp_path: Path
) -> None:
    """Before its commit the next cleaning takes it back, after it it finishes it: as a purge and
    Kafka's loader do.
    """
    chosen = random.Random(f"{seed} {how}")
    attempts = (tmp_path / str(number) for number in range(CATCHES))
    scratch = next(one for one in attempts if killed_in_swap(one, wanted, run, chosen))
    log_dir = scratch / "logs"
    assert how == finish(log_dir, run)
    assert_whole(log_dir, run)


def killed_in_swap(scratch: Path, wanted: set[str], run: Run, chosen: random.Random) -> bool:
    """Whether the cleaning of a fresh copy, in `scratch`, was killed while these files were there:
    a swap takes milliseconds, and may be missed.
    """
    scratch.mkdir()
    log_dir = copied(run.before, scratch)
    with cleaning(log_dir, run.now) as process:
        skipped = chosen.randrange(len(run.groups) // 2)
        retired = log_dir / PARTITION / f"{run.groups[skipped]:020d}.log.deleted"
        wait_for(process, retired.exists)
        while True:
            wait_for(process, lambda: endings(log_dir) == wanted)
            if process.poll() is not None:
                return False
            process.send_signal(signal.SIGSTOP)
            with suppress(ChildProcessError):  # it has just ended
                os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            if endings(log_dir) == wanted:
                break
            process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()
    return True
