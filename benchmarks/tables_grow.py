"""Memory of reading, and the work of an update, as logs grow: parts of ``tables``."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.logs import DEDUPE_BUFFER_BYTES, prepare
from benchmarks.runs import ROOT, measured
from benchmarks.scale import KEYS_PER_SCALE, grown

MAP_BYTES: Final = (1 << 30, 800 << 20)
"""All keys at once; and so that the whole process stays within 1 GiB."""
MIB: Final = 1 << 20
SHARE: Final = 100
"""Segments of the topic whose table is updated; the last one may be shorter."""
UPDATES: Final = 3
"""Number of the last segments that are new to the table, one after the other."""
FORMATS: Final = ("delta", "iceberg", "parquet")
_SUFFIXES: Final = (".log", ".index", ".timeindex")

Say = Callable[[str], None]
Rows = list[list[str]]


def growth_rows(growth: Sequence[float], work: Path, say: Say) -> Rows:
    """Memory of reading a log with ever more records of the same keys, and the time for each GB.
    Effects: writes logs below `work`.
    """
    rows: Rows = []
    if not growth:
        return rows
    log = prepare("u100", scale=min(growth), work=work)
    for size in growth:
        target = grown(log, work / "grown", round(size / min(growth)))
        for what, more in (("rows", ()), ("latest", (DEDUPE_BUFFER_BYTES,))):
            lines, _, anonymous = _worker(what, target, log.partition.topic, *more)
            name = {"rows": "all records", "latest": "the latest state, map of 128 MiB"}[what]
            rows.append(
                [
                    f"{size:g} GB of the same keys: {name}",
                    f"anonymous memory {anonymous / MIB:.0f} MiB at most; CPU {lines['cpu']:.2f} s",
                ]
            )
            say(": ".join(rows[-1]))
        shutil.rmtree(target)
    return rows


def key_rows(keys: int, work: Path, say: Say) -> Rows:
    """The latest state of a log of nearly unique keys. Effects: writes the log below `work`."""
    if not keys:
        return []
    log = prepare("unique", scale=keys / KEYS_PER_SCALE, work=work)
    rows: Rows = []
    for size in MAP_BYTES:
        lines, _, anonymous = _worker("latest", log.directory, log.partition.topic, size)
        memory = (
            f"map {lines['mapBytes'] / MIB:.0f} MiB, anonymous memory {anonymous / MIB:.0f} MiB"
        )
        rows.append(
            [
                f"{lines['keys']} distinct keys, map of {size / MIB:.0f} MiB at most",
                f"{lines['reads']} reads of the keys; {memory} at most; CPU {lines['cpu']:.0f} s",
            ]
        )
        say(": ".join(rows[-1]))
    return rows


def update_rows(size: float, work: Path, say: Say) -> Rows:
    """A table of a topic in each format, and its updates after each of its last segments, a
    hundredth of it at most. Effects: writes the log and the tables below `work`.

    Args:
        size: of the topic, in GB.
    """
    segment_bytes = round(size * 1e9 / SHARE)
    log = prepare("u100", scale=size, work=work, segment_bytes=segment_bytes)
    logs = sorted(path for path in log.partition_directory.glob("*.log") if path.stat().st_size)
    stems = [path.stem for path in logs]
    rows: Rows = []
    for form in FORMATS:
        target, to = work / "updated", work / "updated-table"
        for directory in (target, to):
            shutil.rmtree(directory, ignore_errors=True)
        place = target / str(log.partition)
        place.mkdir(parents=True)
        (target / ".kafka_cleanshutdown").touch()
        for known, stem in enumerate([*stems[-UPDATES:], f"{log.records:020d}", None]):
            for earlier in stems[: len(stems) - UPDATES + known]:
                _put(log.partition_directory, place, earlier)
            if stem is not None:
                for suffix in _SUFFIXES:
                    (place / f"{stem}{suffix}").touch()
            start = time.perf_counter()
            lines = list(_latest_command(target, log.partition.topic, to, form))
            taken = time.perf_counter() - start
            what = "made" if not known else f"update {known}" if stem else "updated by nothing"
            rows.append([f"{form} table of {size:g} GB, {what}", _updated(lines, taken)])
            say(": ".join(rows[-1]))
        shutil.rmtree(target)
        shutil.rmtree(to)
    return rows


def _put(source: Path, place: Path, stem: str) -> None:
    if (place / f"{stem}.log").exists() and (place / f"{stem}.log").stat().st_size:
        return
    for suffix in _SUFFIXES:
        (place / f"{stem}{suffix}").unlink(missing_ok=True)
        (place / f"{stem}{suffix}").hardlink_to(source / f"{stem}{suffix}")


def _updated(lines: Sequence[dict[str, Any]], taken: float) -> str:
    read, records, files = (
        sum(line[name] for line in lines) for name in ("bytesRead", "records", "filesWritten")
    )
    return (
        f"{taken:.1f} s; {read / 1e6:.0f} MB of log read, {records} records; {files} files of the"
        f" table written, of {lines[0]['rows']} rows"
    )


def _latest_command(log_dir: Path, topic: str, to: Path, form: str) -> Iterator[dict[str, Any]]:
    program = "from logwright.cli.main import main; main(prog_name='logwright')"
    words = ["latest", log_dir, topic, "--to", to, "--format", form, "--output", "json"]
    command = [sys.executable, "-c", program, *map(str, words)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    yield from map(json.loads, done.stdout.splitlines())


def _worker(what: str, *arguments: object) -> tuple[dict[str, Any], int, int]:
    words = [sys.executable, "-m", "benchmarks.tables_worker", what, *map(str, arguments)]
    (line,), peak, anonymous = measured(words)
    return line, peak, anonymous
