"""``buckets``: logs in a bucket on the loopback interface, next to reading the same objects by the
client alone, and to the same logs in a directory of this machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from threading import Event, Thread
from typing import Final

from benchmarks.bucket_costs import settings
from benchmarks.buckets_network import network_section
from benchmarks.logs import BenchLog, fresh_copy, prepare
from benchmarks.runs import ROOT, measured
from benchmarks.scale import grown
from benchmarks.sweeps import processes
from benchmarks.table import table
from benchmarks.tables import waited_for
from tests.bucket.minio import minio, requests, use
from tests.bucket.servers import NAME
from tests.e2e.command import PROGRAM
from tests.e2e.servers import cluster

CASES: Final = ("u100", "zstd")
PASSES: Final = {"plain": "the client alone", "records": "all records", "find": "find"}
CLEAN: Final = "clean"
MIB: Final = 1 << 20
SEGMENT_BYTES: Final = 16 * MIB
"""Small ones, so that one log is divided among workers."""
_LEFT_SECONDS: Final = 2.0
_LOOK_SECONDS: Final = 0.2
WORKERS_SCALE: Final = 5
"""What starts a worker costs some seconds of CPU: the logs are larger here."""
SMALL_SCALE: Final = 0.001
"""Of logs that take hardly more than a start."""
LOGS: Final = 8
"""As many as are cleaned at a time by workers."""

Say = Callable[[str], None]


@dataclass(slots=True)
class _Taken:
    """Seconds of each round, and how many requests one round sent."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    requests: float = 0.0


def bucket_sections(
    *,
    scale: float,
    cases: Sequence[str],
    growth: Sequence[float],
    workers: Sequence[int],
    network: Sequence[float],
    rounds: int,
    work: Path,
    say: Say,
) -> str:
    """The tables. Effects: writes logs below `work`; runs a server there, and Spark's."""
    parts = []
    with _server(work) as port:
        parts.append(
            _speeds(
                [prepare(each, scale=scale, work=work) for each in cases], rounds, port, work, say
            )
        )
        if growth:
            parts.append(_growth(growth, work, say))
        if workers:
            parts.append(_workers(workers, scale * WORKERS_SCALE, work, say))
    if network:
        log = prepare(cases[0], scale=scale, work=work)
        parts.append(
            network_section(network, log, PASSES, _call, rounds=rounds, work=work, say=say)
        )
    return "\n\n".join(parts)


@contextmanager
def _server(work: Path) -> Iterator[int]:
    directory = work / "minio"
    shutil.rmtree(directory, ignore_errors=True)
    with minio(directory) as port:
        use(port)
        yield port
    shutil.rmtree(directory)


def _speeds(logs: Sequence[BenchLog], rounds: int, port: int, work: Path, say: Say) -> str:
    """GB/s, and CPU seconds and requests of each GB."""
    rows = []
    for log in logs:
        url = f"s3://{NAME}/{log.name}"
        _call("upload", log.directory, "--to", url)
        there, here = (
            _passes(log, url, rounds, port),
            _passes(log, str(log.directory), rounds, None),
        )
        there[CLEAN], here[CLEAN] = _cleanings(log, rounds, port, work)
        for what, taken in there.items():
            rows.append(_row(log, what, taken, there["plain"], here.get(what)))
            say(" | ".join(rows[-1]))
    head = ("log", "what", "GB/s", "CPU s/GB", "requests/GB", "of the client's GB/s")
    more = ("here: GB/s", "CPU s/GB", "of the GB/s here")
    return table((*head, *more), rows)


def _row(log: BenchLog, what: str, taken: _Taken, plain: _Taken, here: _Taken | None) -> list[str]:
    size, wall = log.log_bytes / 1e9, median(taken.wall)
    row = [
        log.name,
        PASSES.get(what, "clean: download, clean, check, upload"),
        f"{size / wall:.2f}",
        f"{median(taken.cpu) / size:.2f}",
        f"{taken.requests / size:.0f}",
        f"{median(plain.wall) / wall:.2f}",
    ]
    if here is None:
        return [*row, "-", "-", "-"]
    own = median(here.wall)
    return [*row, f"{size / own:.2f}", f"{median(here.cpu) / size:.2f}", f"{own / wall:.2f}"]


def _passes(log: BenchLog, where: str, rounds: int, port: int | None) -> dict[str, _Taken]:
    """What only reads; of a directory of this machine without the client alone."""
    passes = {}
    for what in PASSES:
        if port is None and what == "plain":
            continue
        before = 0 if port is None else requests(port)
        line, _, _ = _worker(what, where, log, rounds)
        sent = 0 if port is None else requests(port) - before
        walls, cpus = zip(*line["seconds"], strict=True)
        passes[what] = _Taken(list(walls), list(cpus), sent / (rounds + 1))
    return passes


def _worker(what: str, where: str, log: BenchLog, rounds: int) -> tuple[dict, int, int]:
    words = [sys.executable, "-m", "benchmarks.buckets_worker", what, where]
    (line,), peak, anonymous = measured([*words, log.partition.topic, str(rounds)])
    return line, peak, anonymous


def _cleanings(log: BenchLog, rounds: int, port: int, work: Path) -> tuple[_Taken, _Taken]:
    """The command, in the bucket and here, in turn."""
    there, here = _Taken(), _Taken()
    for number in range(rounds):
        url = f"s3://{NAME}/{log.name}-{number}"
        _call("upload", log.directory, "--to", url)
        before = requests(port)
        _timed(there, "clean", url, *_settings(log), "--scratch", work / "scratch")
        there.requests = requests(port) - before
        copy = fresh_copy(log, work / "copy")
        _timed(here, "clean", copy, *_settings(log))
        shutil.rmtree(copy)
    return there, here


def _settings(log: BenchLog) -> list[str]:
    return ["--yes", "--force", *settings(log)]


def _timed(taken: _Taken, *words: object) -> None:
    wall, cpu = time.perf_counter(), waited_for()
    _call(*words)
    taken.wall.append(time.perf_counter() - wall)
    taken.cpu.append(waited_for() - cpu)


def _call(*words: object) -> None:
    command = [sys.executable, "-c", PROGRAM, *map(str, words)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        message = f"{words[0]}: {done.stderr[-2000:]}"
        raise RuntimeError(message)


def _growth(growth: Sequence[float], work: Path, say: Say) -> str:
    """Memory that is the process's own, of logs with ever more records of the same keys."""
    log, rows = prepare("u100", scale=min(growth), work=work), []
    for size in growth:
        target = grown(log, work / "grown", round(size / min(growth)))
        url = f"s3://{NAME}/grown-{size:g}"
        _call("upload", target, "--to", url)
        shutil.rmtree(target)
        peaks = [_worker(what, url, log, 0)[2] for what in PASSES]
        words = [sys.executable, "-c", PROGRAM, "clean", url, *_settings(log), "--output", "json"]
        _, _, anonymous = measured([*words, "--scratch", str(work / "scratch")])
        rows.append([f"{size:g} GB", *(f"{each / MIB:.0f}" for each in (*peaks, anonymous))])
        say(" | ".join(rows[-1]))
    return table(("MiB at most", *PASSES.values(), "clean"), rows)


def _workers(numbers: Sequence[int], scale: float, work: Path, say: Say) -> str:
    """Some logs, whole and in parts, cleaned by a standalone cluster on these cores; and as many
    that have hardly a record, which take what it costs to start. Then as many commands at the same
    time clean them, which shows what these cores take for that.
    """
    small, large = (
        prepare("u100", scale=each, work=work, partitions=LOGS, segment_bytes=SEGMENT_BYTES)
        for each in (SMALL_SCALE, scale)
    )
    rows = []
    for split in (False, True):
        for number in numbers:
            started = _by_cluster(small, number, work, split=split)
            done = _by_cluster(large, number, work, split=split)
            rows.append(
                [
                    f"{LOGS} logs, {'in parts' if split else 'whole'}",
                    f"{number}",
                    f"{done.taken.wall[0]:.1f}",
                    f"{done.machines:.1f}",
                    f"{done.tasks:.1f}",
                    f"{started.tasks:.1f}",
                    f"{done.taken.cpu[0]:.1f}",
                ]
            )
            say(" | ".join(rows[-1]))
    for number in numbers:
        taken = _by_commands(large, number, work)
        rows.append(
            [
                f"{LOGS} logs, by as many commands, without Spark",
                f"{number}",
                f"{taken.wall[0]:.1f}",
                "-",
                f"{taken.cpu[0]:.1f}",
                "-",
                "-",
            ]
        )
        say(" | ".join(rows[-1]))
    head = ("cleaned by Spark", "workers of one core", "wall s", "CPU s of the workers' JVMs")
    return table((*head, "of the tasks", "of the tasks to start", "CPU s of the driver"), rows)


@dataclass(frozen=True, slots=True)
class _Cleaned:
    """What a cluster used: the command, and CPU seconds of the workers with all their children:
    of the JVMs, and of the Python processes that do the work.
    """

    taken: _Taken
    machines: float
    tasks: float


def _by_cluster(log: BenchLog, number: int, work: Path, *, split: bool) -> _Cleaned:
    """Clean some logs in a bucket by a cluster of its own. Effects: uploads them, cleans them."""
    name = f"{log.directory.name}-{number}-{split:d}"
    url = f"s3://{NAME}/workers-{name}"
    _call("upload", log.directory, "--to", url)
    words = ["--engine", "spark", "--scratch", "copies", *(["--split-bytes", "0"] * split)]
    with cluster(work / f"cluster-{name}", number) as (master, running):
        taken = _Taken()
        with cpu_of_all([each.pid for each in running]) as seconds:
            _timed(taken, "clean", url, *_settings(log), *words, "--spark-master", master)
            time.sleep(_LEFT_SECONDS)
    machines = sum(each for (_, name), each in seconds.items() if name == "java")
    return _Cleaned(taken, machines, sum(seconds.values()) - machines)


def _by_commands(log: BenchLog, number: int, work: Path) -> _Taken:
    """Clean some logs in a bucket by commands that run at the same time, each its share of the
    logs: what as many processes take on these cores. Effects: uploads them, cleans them.
    """
    url = f"s3://{NAME}/commands-{number}"
    _call("upload", log.directory, "--to", url)
    names = [f"{log.partition.topic}-{each}" for each in range(LOGS)]
    more = [*_settings(log), "--threads", 1, "--scratch"]
    taken, wall, cpu = _Taken(), time.perf_counter(), waited_for()
    with ThreadPoolExecutor(number) as pool:
        calls = [
            pool.submit(_call, "clean", url, *names[each::number], *more, work / f"copies-{each}")
            for each in range(number)
        ]
        for call in calls:
            call.result()
    taken.wall.append(time.perf_counter() - wall)
    taken.cpu.append(waited_for() - cpu)
    return taken


@contextmanager
def cpu_of_all(roots: Sequence[int]) -> Iterator[dict[tuple[int, str], float]]:
    """CPU seconds that some processes, and all that they start, use inside the block, by process
    id and name: an executor that is killed leaves its Python processes, which did the work, and
    nobody waits for these. Each may have used a fifth of a second more than is counted. Effects:
    looks at all processes all the time.
    """
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    names: dict[int, str] = {}
    seconds: dict[tuple[int, str], float] = {}
    ended = Event()

    def look() -> None:
        while not ended.wait(_LOOK_SECONDS):
            parents, ticks = processes()
            tree = {*roots, *last}
            while more := {child for child, parent in parents.items() if parent in tree} - tree:
                tree |= more
            for process in tree & ticks.keys():
                first.setdefault(process, ticks[process] if process in roots else 0)
                last[process] = ticks[process]
                with suppress(OSError):
                    names[process] = Path(f"/proc/{process}/comm").read_text().strip()

    thread = Thread(target=look)
    thread.start()
    try:
        yield seconds
    finally:
        ended.set()
        thread.join()
        ticks_each = os.sysconf("SC_CLK_TCK")
        seconds |= {
            (each, names.get(each, "")): (last[each] - first[each]) / ticks_each for each in last
        }
