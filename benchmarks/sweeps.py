"""``spark``: sweeps of whole logs by Spark on all cores, compared with as many threads of Kafka's
Cleaner.

Kafka cleans one log on one thread, so with one log it has one core.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.compare import Figure
from benchmarks.logs import BenchLog, prepare
from benchmarks.runs import ROOT, measured_kafka, run_ours
from benchmarks.table import seconds, table

COLD_LOGS: Final = 10
SMALL: Final = 0.001
_NO_BYTE_CODE: Final = "PYTHONDONTWRITEBYTECODE"
MARKER: Final = '{"version":0,"brokerEpoch":-1}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """One measurement: Kafka's and our seconds of each round."""

    name: str
    kafka: tuple[float, ...]
    ours: tuple[float, ...]

    @property
    def row(self) -> list[str]:
        """Of the table: name, Kafka, ours, ratio."""
        kafka, ours = Figure.of(self.kafka), Figure.of(self.ours)
        return [self.name, seconds(kafka), seconds(ours), f"**{kafka.median / ours.median:.2f}**"]


def sweeps(*, scale: float, rounds: int, work: Path, say: Callable[[str], None]) -> str:
    """The table. Effects: writes logs and copies below `work`."""
    log = prepare("u100", scale=scale, work=work)
    two: tuple[list[float], list[float]] = ([], [])
    times: tuple[list[float], list[float]] = ([], [])
    overhead: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds):
        two[0].append(_kafka(log, work, threads=2))
        ours = _warm_sweep(log, work, logs=2)
        two[1].append(ours["wall"])
        overhead[0].append(2 * run_ours(log, work).cpu_seconds)
        overhead[1].append(ours["cpu"])
        times[0].append(_kafka(log, work, threads=1))
        times[1].append(_warm_sweep(log, work, logs=1)["wall"])
        say(f"spark {number + 1}/{rounds}: wall s: {two[0][-1]:.2f} and {two[1][-1]:.2f}")
    cold = _cold(log, work, rounds=rounds, say=say)
    measured = [
        Swept(name="two logs, two cores, warm session: wall s", kafka=_f(two[0]), ours=_f(two[1])),
        Swept(
            name="one log, two cores, warm session: wall s", kafka=_f(times[0]), ours=_f(times[1])
        ),
        Swept(name=f"{COLD_LOGS} logs, the whole command: wall s", kafka=cold[0], ours=cold[1]),
    ]
    rows = [each.row for each in measured]
    inside, spark = Figure.of(overhead[0]), Figure.of(overhead[1])
    rows.append(
        [
            "two logs: CPU s in one process, and by Spark (all its processes)",
            seconds(inside),
            seconds(spark),
            f"**{inside.median / spark.median:.2f}**",
        ]
    )
    return table(("what", "Kafka, or in process", "by Spark", "ratio"), rows)


def _cold(
    log: BenchLog, work: Path, *, rounds: int, say: Callable[[str], None]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """(Kafka's, our) seconds for `COLD_LOGS` logs, in turn."""
    times: list[tuple[float, float]] = []
    with installed(work) as environment:
        for number in range(rounds):
            ours = command_seconds(log, work / "cold", environment, logs=COLD_LOGS, engine="spark")
            times.append((_cold_kafka(log, work), ours))
            say(f"cold {number + 1}/{rounds}: wall s: {times[-1][0]:.2f} and {times[-1][1]:.2f}")
    kafka, ours = zip(*times, strict=True)
    return kafka, ours


def _f(values: list[float]) -> tuple[float, ...]:
    return tuple(values)


def _kafka(log: BenchLog, work: Path, *, threads: int) -> float:
    """Wall seconds of Kafka's Cleaner, after one round to warm up."""
    (answer,), _, _ = measured_kafka(log, work, threads=threads)
    seconds_taken: float = answer["wallSeconds"]
    return seconds_taken


def _warm_sweep(log: BenchLog, work: Path, *, logs: int) -> dict[str, float]:
    """Wall and CPU seconds of a sweep in a session that has swept once before."""
    target = work / "swept"
    words = ["-m", "benchmarks.sweep_worker", log.directory, target, logs]
    done = subprocess.run(
        [sys.executable, *map(str, words)], cwd=ROOT, check=True, capture_output=True, text=True
    )
    line: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return line


def _cold_kafka(log: BenchLog, work: Path) -> float:
    """Wall seconds of two threads of Kafka for `COLD_LOGS` logs, two after two, in a JVM that has
    not cleaned before. Its start and the loading of the logs do not count: a broker runs anyway.
    """
    answers, _, _ = measured_kafka(log, work, threads=2, warmup=0, rounds=COLD_LOGS // 2)
    seconds_taken: float = sum(each["wallSeconds"] for each in answers)
    return seconds_taken


def command_seconds(
    log: BenchLog, target: Path, environment: Mapping[str, str], *, logs: int, engine: str
) -> float:
    """Return wall seconds of `logwright clean` from its start to its end, for copies of a log.

    They were just written, as Kafka's: both read what the system has in memory.
    """
    copies(log, target, logs)
    options = [word for pair in log.settings.items() for word in ("--config", "=".join(pair))]
    command = Path(sys.executable).with_name("logwright")
    words = [command, "clean", target, "--engine", engine, "--yes", "--now", log.now_ms, *options]
    start = time.perf_counter()
    subprocess.run(
        [str(word) for word in words], cwd=ROOT, check=True, capture_output=True, env=environment
    )
    taken = time.perf_counter() - start
    shutil.rmtree(target)
    return taken


@contextmanager
def installed(work: Path) -> Iterator[dict[str, str]]:
    """The environment of a machine where the command has run before: byte code as pip compiles it,
    kernels and Spark's classes in the user's cache. Effects: a temporary directory; runs it.
    """
    kept = {name: value for name, value in os.environ.items() if name != _NO_BYTE_CODE}
    with TemporaryDirectory(prefix="logwright-bytecode-") as directory:
        environment = kept | {"PYTHONPYCACHEPREFIX": directory}
        small = prepare("u100", scale=SMALL, work=work)
        command_seconds(small, work / "cold", environment, logs=COLD_LOGS, engine="spark")
        yield environment


def copies(log: BenchLog, target: Path, number: int) -> Path:
    """A log directory with copies of a log, flushed. Effects: replaces `target`."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    (target / ".kafka_cleanshutdown").write_text(MARKER)
    for each in range(number):
        shutil.copytree(log.partition_directory, target / f"{log.partition.topic}-{each}")
    os.sync()
    return target


@contextmanager
def cpu_of_all() -> Iterator[list[float]]:
    """CPU seconds of this process and all that it started and that still live, JVM and workers too;
    the one figure is in the list on leaving.
    """
    used: list[float] = []
    before = cpu_of_tree(os.getpid())
    yield used
    used.append(cpu_of_tree(os.getpid()) - before)


def processes(*, waited: bool = False) -> tuple[dict[int, int], dict[int, int]]:
    """Process → its parent, and process → its CPU time in ticks of the kernel.

    Args:
        waited: with that of its children which ended, and for which it waited.
    """
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        process = int(path.parent.name)
        parents[process] = int(fields[1])
        ticks[process] = sum(map(int, fields[11 : 15 if waited else 13]))
    return parents, ticks


def cpu_of_tree(root: int) -> float:
    """CPU seconds of a process, of those that it started and that live, and of those that ended."""
    parents, ticks = processes(waited=True)
    tree = {root}
    while more := {child for child, parent in parents.items() if parent in tree} - tree:
        tree |= more
    return sum(ticks.get(process, 0) for process in tree) / os.sysconf("SC_CLK_TCK")
