"""Cleanings by Spark, in processes of their own, that tests kill at a chosen time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from logwright.format.batch import parse_batch, walk_batches
from tests.e2e.command import PROGRAM, REPOSITORY
from tests.fixtures import copy_before, description

CASES = ("basic-none", "basic-zstd", "txn-1-mixed", "basic-mixed")
COPIES = 3
LOGS = {
    f"{topic}-{copy}": case
    for topic, case in zip("abcd", CASES, strict=True)
    for copy in range(COPIES)
}
NOW = max(description(case)["now"] for case in CASES)
WAIT_SECONDS = 300
DEAD_SECONDS = 60
"""How long a killed driver's JVM and workers may live on."""

POLICY = """\
version: 1
high_watermark: end
defaults: {cleanup.policy: compact, internal.segment.bytes: 8192, min.cleanable.dirty.ratio: 0}
"""

Way = Literal["clean", "sweep"]
"""The command line, or Dagster's job."""
Victim = Literal["driver", "workers", "executor"]
"""The Python process that plans and commits; Spark's Python processes; its JVM, which in local mode
is driver's and executor's.
"""
Phase = Literal["start", "build", "commit", "done"]
Digest = dict[str, bytes]


def make(log_dir: Path) -> Path:
    """Several partitions, so that there are several tasks and a commit takes its time."""
    log_dir.mkdir(parents=True)
    (log_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    for name, case in LOGS.items():
        copied = copy_before(case, log_dir.parent / f"copied-{log_dir.name}-{name}")
        (copied / "t-0").rename(log_dir / name)
    return log_dir


def words(log_dir: Path) -> list[str]:
    """The command line's."""
    options = ("--now", str(NOW), "--force", "--yes", "--config", "cleanup.policy=compact")
    return ["clean", str(log_dir), *options, "--config", "internal.segment.bytes=8192"]


def command(way: Way, log_dir: Path) -> tuple[list[str], dict[str, str]]:
    """What to start, and what to add to its environment. Effects: an instance of Dagster."""
    scratch = log_dir.parent / "scratch"
    scratch.mkdir(exist_ok=True)
    local = {"SPARK_LOCAL_DIRS": str(scratch), "TMPDIR": str(scratch)}
    if way == "clean":
        return [sys.executable, "-c", PROGRAM, *words(log_dir), "--engine", "spark"], local
    home, policies = log_dir.parent / "dagster", log_dir.parent / "policies"
    for directory in (home, policies):
        directory.mkdir(exist_ok=True)
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    (policies / "policies.yml").write_text(POLICY)
    variables = {
        "DAGSTER_HOME": home,
        "LOGWRIGHT_LOG_DIRS": log_dir,
        "LOGWRIGHT_POLICIES": policies,
        "LOGWRIGHT_NOW_MS": NOW,
    }
    job = ["job", "execute", "-m", "logwright.pipelines.definitions", "-j", "sweep"]
    return [sys.executable, "-m", "dagster", *job], local | {
        name: str(value) for name, value in variables.items()
    }


@contextmanager
def cleaning(way: Way, log_dir: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A cleaning in a session of processes of its own, none of which is left."""
    program, variables = command(way, log_dir)
    with (
        said_in(log_dir).open("ab") as output,
        subprocess.Popen(
            program,
            cwd=REPOSITORY,
            env=os.environ | variables,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()
            while left := members(process.pid):
                kill(left)
                time.sleep(0.01)


def said_in(log_dir: Path) -> Path:
    """Where the processes' words are."""
    return log_dir.parent / "said.txt"


def kill(pids: list[int]) -> None:
    """Effects: SIGKILL."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def members(session: int, victim: Victim | None = None) -> list[int]:
    """Living processes of a session but for its leader: all, Spark's Python processes, its JVM."""
    processes = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            pid = int(entry.name)
            if os.getsid(pid) != session or pid == session:
                continue
            program = (entry / "cmdline").read_bytes()
            is_java = b"java" in program.split(b"\0")[0]
            kind = "executor" if is_java else "workers" if b"pyspark" in program else "other"
            if program and victim in (None, kind):  # a zombie has none
                processes.append(pid)
    return processes


def names_in(log_dir: Path) -> set[str]:
    """Endings of the names that a cleaning gives, which live logs do not have."""
    names = [name for log in LOGS for name in os.listdir(log_dir / log)]  # noqa: PTH208  often
    return {name.rpartition(".")[2] for name in names} & {"cleaned", "swap", "deleted"}


def phase_of(log_dir: Path, wanted: Digest) -> Phase:
    """The phase of a cleaning, as far as the disk shows it."""
    checkpoint = log_dir / "cleaner-offset-checkpoint"
    if checkpoint.exists() and checkpoint.read_bytes() == wanted.get("checkpoint"):
        return "done"
    if names_in(log_dir):
        return "commit"
    return "build" if any(log_dir.glob("*/.logwright/staging/*/*")) else "start"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """How long an undisturbed cleaning takes for each phase, in seconds."""

    start: float
    build: float
    commit: float


def wait_for(process: subprocess.Popen[bytes], seen: Callable[[], bool]) -> float:
    """Until something is to be seen, or the process has ended; the time then."""
    end = time.monotonic() + WAIT_SECONDS
    while not seen() and process.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.002)
    return time.monotonic()


def undisturbed(way: Way, log_dir: Path) -> Timeline:
    """Clean to the end, and take the time."""
    began = time.monotonic()
    with cleaning(way, log_dir) as process:
        staged = wait_for(process, lambda: phase_of(log_dir, {}) != "start")
        changed = wait_for(process, lambda: phase_of(log_dir, {}) == "commit")
        done = wait_for(process, lambda: not any(log_dir.glob("*/.logwright/staging")))
        assert process.wait(WAIT_SECONDS) == 0, said_in(log_dir).read_text()[-4000:]
    return Timeline(start=staged - began, build=changed - staged, commit=done - changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """Who is killed, in which phase."""

    way: Way
    victim: Victim
    phase: Phase

    def do(
        self, log_dir: Path, timeline: Timeline, wanted: Digest, *, part: float
    ) -> tuple[Phase, int]:
        """The phase in which it really fell, and the driver's exit status. Effects: waits until
        none of the processes is left, without killing any other.

        Args:
            part: how far into the phase, as long as that took undisturbed; 0 to 1.
        """
        before: dict[Phase, tuple[Phase, ...]]
        before = {"start": (), "build": ("start",), "commit": ("start", "build")}
        with cleaning(self.way, log_dir) as process:
            wait_for(process, lambda: phase_of(log_dir, wanted) not in before[self.phase])
            time.sleep(part * float(getattr(timeline, self.phase)))
            phase: Phase = "done" if process.poll() is not None else phase_of(log_dir, wanted)
            if self.victim == "driver":
                process.kill()
            else:
                kill(members(process.pid, self.victim))
            status = process.wait(WAIT_SECONDS)
            wait_for_death(process.pid)
        return phase, status


def wait_for_death(session: int) -> None:
    """Nobody is left of a session, without a helping hand."""
    end = time.monotonic() + DEAD_SECONDS
    while left := members(session):
        assert time.monotonic() < end, list(map(command_of, left))
        time.sleep(0.05)


def command_of(pid: int) -> bytes:
    """What a process was started with; nothing if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()[:300]
    except OSError:
        return b""


def live(log_dir: Path) -> Digest:
    """What a broker would read: each batch, whatever segment it is in, and the checkpoint."""
    files = {"checkpoint": (log_dir / "cleaner-offset-checkpoint").read_bytes()}
    for name in LOGS:
        for log in sorted((log_dir / name).glob("*.log")):
            content = log.read_bytes()
            for span in walk_batches(content):
                whole = content[span.position : span.position + span.bytes]
                files[f"{name}@{parse_batch(whole).base_offset}"] = whole
    return files
