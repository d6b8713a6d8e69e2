"""``scale``: many partitions, many keys, long logs, many segments. Kafka's figures are not asked
for: the goals are our own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.compare import Figure
from benchmarks.logs import BenchLog, prepare
from benchmarks.runs import ROOT, measured
from benchmarks.sweeps import command_seconds, copies, installed
from benchmarks.table import seconds, table
from logwright.format.scan import scan_segment
from logwright.units import INT64_MAX

BUDGET_BYTES: Final = 512 * 1024 * 1024
KEYS_PER_SCALE: Final = 7_500_000
"""Of the case ``unique`` at scale 1, rounded down."""
SMALL_SCALE: Final = 0.001
SMALL_SEGMENTS: Final = 13


def scale_rows(
    *,
    partitions: int,
    sweep: int,
    keys: int,
    growth: tuple[float, ...],
    segments: tuple[int, ...],
    rounds: int,
    work: Path,
    say: Callable[[str], None],
) -> str:
    """The table. Effects: writes logs and copies below `work`.

    Args:
        partitions: how many are planned.
        sweep: how many of 1 MB are swept.
        keys: unique keys that are cleaned within a budget of 512 MiB.
        growth: sizes of one log, in GB; the keys are those of the smallest.
        segments: numbers of segments of one log.
        rounds: how often each is measured, but for the keys.
    """
    rows: list[list[str]] = []

    def note(what: str, figures: str) -> None:
        rows.append([what, figures])
        say(f"{what}: {figures}")

    small = prepare("u100", scale=SMALL_SCALE, work=work)
    _note_fleet(copies(small, work / "fleet", partitions), small, partitions, rounds, note)
    _note_sweep(work, small, sweep, rounds, note)
    _note_small(work, small, sweep, rounds, note)
    # Not before: where files were deleted in the last minutes, ext4 takes long for a new one.
    shutil.rmtree(work / "fleet")
    for number in range(rounds):
        shutil.rmtree(work / f"swept-{number}")
    unique = prepare("unique", scale=keys / KEYS_PER_SCALE, work=work)
    target = copies(unique, work / "big", 1)
    cleaned, _, anonymous = _clean(unique, target, small, str(BUDGET_BYTES))
    note(
        f"{cleaned['distinctKeys']} distinct keys, budget 512 MiB, one round",
        f"{cleaned['mapReads']} reads of the keys, up to the first uncleanable offset: "
        f"{cleaned['complete']}; anonymous memory {anonymous / 2**20:.0f} MiB at most; "
        f"{cleaned['bytesPerKey']:.1f} bytes of map and bitmap for each key of a full shard; "
        f"{cleaned['wall']:.0f} s",
    )
    _note_growth(growth, small, work, rounds, note)
    _note_segments(segments, small, work, rounds, note)
    return table(("what", "figures"), rows)


_Note = Callable[[str, str], None]


def _note_fleet(log_dir: Path, log: BenchLog, number: int, rounds: int, note: _Note) -> None:
    times = [_worker("plan", log_dir, log) for _ in range(rounds)]
    first, wall = (Figure.of([each[name] for each in times]) for name in ("first", "wall"))
    what = f"plan {number} partitions of two segments: wall s"
    note(f"{what}, the first plan of a process", seconds(first))
    note(f"{what}, warm", seconds(wall))


def _note_sweep(work: Path, log: BenchLog, number: int, rounds: int, note: _Note) -> None:
    times = [_worker("sweep", work / f"swept-{each}", log, str(number)) for each in range(rounds)]
    figures = {
        name: Figure.of([each[name] for each in times])
        for name in ("wall", "plan", "build", "commit", "cpu")
    }
    parts = ", ".join(f"{name} {figures[name].median:.2f}" for name in ("plan", "build", "commit"))
    note(
        f"sweep {number} partitions of 1 MB, warm: wall s",
        f"{seconds(figures['wall'])}: {parts}; CPU s of all processes: {seconds(figures['cpu'])}",
    )


def _note_small(work: Path, log: BenchLog, number: int, rounds: int, note: _Note) -> None:
    """The whole command by either engine in turn, for logs of 200 KB in 13 segments."""
    directory = many_segments(log, work / "small", SMALL_SEGMENTS)
    small = replace(log, directory=directory)
    times: dict[str, list[float]] = {"local": [], "spark": []}
    with installed(work) as environment:
        for _ in range(rounds):
            for engine, taken in times.items():
                target = work / f"small-{engine}"
                taken.append(
                    command_seconds(small, target, environment, logs=number, engine=engine)
                )
    for engine, taken in times.items():
        what = f"clean {number} logs of 200 KB in {SMALL_SEGMENTS} segments, the whole command"
        note(f"{what}, --engine {engine}: wall s", seconds(Figure.of(taken)))


def _note_growth(
    growth: tuple[float, ...], small: BenchLog, work: Path, rounds: int, note: _Note
) -> None:
    log = prepare("u100", scale=min(growth), work=work)
    times = [round(size / min(growth)) for size in growth]
    measured_cpu = [
        [_clean(log, grown(log, work / "big", each), small)[0]["cpu"] for each in times]
        for _ in range(rounds)
    ]
    sizes = [each * log.log_bytes / 1e9 for each in times]
    names = [f"{size:.1f} GB" for size in sizes]
    _note_line(names, sizes, measured_cpu, note, what="of the same keys: CPU s", each="GB")


def _note_segments(
    segments: tuple[int, ...], small: BenchLog, work: Path, rounds: int, note: _Note
) -> None:
    def measure(number: int) -> float:
        log_dir = many_segments(small, work / "segments", number)
        cpu_ms: float = 1e3 * _worker("segments", log_dir, small, small.directory)["cpu"]
        shutil.rmtree(log_dir)
        return cpu_ms

    measured_cpu = [[measure(number) for number in segments] for _ in range(rounds)]
    names = [f"{number} segments" for number in segments]
    _note_line(names, segments, measured_cpu, note, what="of one batch: CPU ms", each="segment")


def _note_line(
    names: Sequence[str],
    sizes: Sequence[float],
    times: Sequence[Sequence[float]],
    note: _Note,
    *,
    what: str,
    each: str,
) -> None:
    """How what was found grows with the size: of each size, and from each to the next.

    Args:
        times: of each round, one value for each size.
    """
    for at, name in enumerate(names):
        values = [of_round[at] for of_round in times]
        note(f"{name} {what}", seconds(Figure.of(values)))
        if at:
            slopes = [
                (of_round[at] - of_round[at - 1]) / (sizes[at] - sizes[at - 1])
                for of_round in times
            ]
            note(
                f"from {names[at - 1]} to {name}, for each {each} more", seconds(Figure.of(slopes))
            )


def _worker(what: str, log_dir: Path, log: BenchLog, *options: object) -> dict[str, Any]:
    """What `benchmarks.scale_worker` prints."""
    words = ["-m", "benchmarks.scale_worker", what, log_dir, log.directory, *options]
    done = subprocess.run(
        [sys.executable, *map(str, words)], cwd=ROOT, check=True, capture_output=True, text=True
    )
    line: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return line


def _clean(
    log: BenchLog, target: Path, small: BenchLog, *budget: str
) -> tuple[dict[str, Any], int, int]:
    """(facts, peak resident bytes, anonymous ones) of a cleaning in a process of its own. Effects:
    removes the target.
    """
    words = ["clean", str(target), str(log.directory), str(small.directory), *budget]
    command = [sys.executable, "-m", "benchmarks.scale_worker", *words]
    (line,), peak, anonymous = measured(command)
    shutil.rmtree(target)
    return line, peak, anonymous


def grown(log: BenchLog, target: Path, times: int) -> Path:
    """A log with the records of another, repeated, flushed."""
    copies(log, target, 0)
    directory = target / str(log.partition)
    directory.mkdir()
    logs = sorted(log.partition_directory.glob("*.log"))
    end = int(logs[-1].stem)
    for path in [path for path in logs if path.stat().st_size]:
        content = np.fromfile(path, dtype=np.uint8)
        base = int(path.stem)
        batches = scan_segment(content, path, base_offset=base, end_offset=INT64_MAX)
        places = batches["position"][:, None] + np.arange(8)
        for each in range(times):
            # The CRC covers what comes after the base offset; the indexes are relative to it.
            shifted = (batches["base_offset"] + each * end).astype(">i8")
            content[places] = shifted.view(np.uint8).reshape(-1, 8)
            name = f"{base + each * end:020d}"
            content.tofile(directory / f"{name}.log")
            for suffix in (".index", ".timeindex"):
                shutil.copyfile(path.with_suffix(suffix), directory / f"{name}{suffix}")
    for suffix in (".log", ".index", ".timeindex"):
        (directory / f"{times * end:020d}{suffix}").touch()
    os.sync()
    return target


def many_segments(log: BenchLog, target: Path, number: int) -> Path:
    """A log of many segments with one batch each: the first batch of a log, at other offsets."""
    start = time.perf_counter()
    shutil.rmtree(target, ignore_errors=True)
    copies(log, target, 0)
    directory = target / str(log.partition)
    directory.mkdir()
    content = (log.partition_directory / f"{0:020d}.log").read_bytes()
    batch = content[: int.from_bytes(content[8:12], "big") + 12]
    offsets = int.from_bytes(batch[23:27], "big") + 1
    for each in range(number + 1):
        base = each * offsets
        # The CRC covers what comes after: offset and leader epoch may be set freely.
        whole = base.to_bytes(8, "big") + batch[8:] if each < number else b""
        (directory / f"{base:020d}.log").write_bytes(whole)
        for suffix in ("index", "timeindex"):
            (directory / f"{base:020d}.{suffix}").touch()
    print(f"{number} segments written in {time.perf_counter() - start:.0f} s", file=sys.stderr)
    return target
