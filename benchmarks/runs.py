"""Single runs of either cleaner, each in a new process that has cleaned the log once before."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.logs import BenchLog
from tests.oracle_runner import OracleFailed, java, oracle_classpath

ROOT: Final = Path(__file__).parent.parent
JVM_OPTIONS: Final = (
    *("-server", "-Xms1G", "-Xmx1G", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
)
"""A broker's, as kafka-run-class.sh and kafka-server-start.sh set them."""
_SAMPLE_SECONDS: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One cleaning of one log.

    Attributes:
        cpu_seconds: Kafka's: of the cleaner's thread, without the JVM's compiler and collector;
            ours: of the process.
        build_wall_seconds, build_cpu_seconds: ours without the checks and the commit; Kafka has no
            such part, it is the same as the whole.
        peak_bytes: largest resident set. Ours holds the log mapped: pages of the system's cache.
        anonymous_bytes: largest part of it that is memory of the process's own.
        read_bytes, build_read_bytes: log read, each pass counted. written_bytes: log written.
    """

    wall_seconds: float
    cpu_seconds: float
    build_wall_seconds: float
    build_cpu_seconds: float
    peak_bytes: int
    anonymous_bytes: int
    read_bytes: int
    build_read_bytes: int
    written_bytes: int


def run_kafka(log: BenchLog, work: Path) -> Run:
    """Kafka's Cleaner on one thread, after one round to warm up. Effects: works below `work`."""
    (answer,), peak, anonymous = measured_kafka(log, work)
    (log_line,) = answer["logs"]
    return Run(
        wall_seconds=answer["wallSeconds"],
        cpu_seconds=answer["threadCpuSeconds"],
        build_wall_seconds=answer["wallSeconds"],
        build_cpu_seconds=answer["threadCpuSeconds"],
        peak_bytes=peak,
        anonymous_bytes=anonymous,
        read_bytes=log_line["mapBytesRead"] + log_line["bytesRead"],
        build_read_bytes=log_line["mapBytesRead"] + log_line["bytesRead"],
        written_bytes=log_line["bytesWritten"],
    )


def measured_kafka(
    log: BenchLog, work: Path, *, threads: int = 1, warmup: int = 1, rounds: int = 1
) -> tuple[list[dict[str, Any]], int, int]:
    """(what Kafka's Cleaner says of each round, its peak resident bytes, of these anonymous), with
    as many threads as copies of the log. Effects: works below `work`.
    """
    options = ["--log-dir", log.directory, "--topic-partition", log.partition, "--work", work]
    options += ["--dedupe-buffer", log.dedupe_buffer_bytes]
    counts = ["--threads", threads, "--warmup", warmup, "--rounds", rounds]
    words = ["oracle.Main", "bench", *options, *counts]
    command = [java(), *JVM_OPTIONS, "-cp", oracle_classpath(), *words]
    return measured([str(word) for word in command])


def run_ours(log: BenchLog, work: Path) -> Run:
    """Ours with its checks, after one cleaning to warm up. Effects: works below `work`."""
    copy = work / "ours"
    command = [sys.executable, "-m", "benchmarks.worker", str(log.directory), str(copy)]
    (answer,), peak, anonymous = measured(command)
    return Run(
        wall_seconds=answer["wall"],
        cpu_seconds=answer["cpu"],
        build_wall_seconds=answer["build_wall"],
        build_cpu_seconds=answer["build_cpu"],
        peak_bytes=peak,
        anonymous_bytes=anonymous,
        read_bytes=answer["read"],
        build_read_bytes=answer["build_read"],
        written_bytes=answer["written"],
    )


def measured(command: list[str]) -> tuple[list[dict[str, Any]], int, int]:
    """(the JSON objects that a program prints, its peak resident bytes, of these anonymous)."""
    peak = anonymous = 0
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        with subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=err) as process:
            try:
                while process.poll() is None:
                    sizes = _sizes(process.pid)
                    peak = max(peak, sizes.get("VmHWM", 0))
                    anonymous = max(anonymous, sizes.get("RssAnon", 0))
                    time.sleep(_SAMPLE_SECONDS)
            finally:
                process.kill()
        out.seek(0)
        err.seek(0)
        lines = [json.loads(line) for line in out if line.startswith("{")]
        if process.returncode != 0 or not lines:
            raise OracleFailed(command, process.returncode, lines, err.read())
    return lines, peak, anonymous


def _sizes(process_id: int) -> dict[str, int]:
    """Memory figures of a process in bytes; none once it has ended."""
    try:
        status = Path(f"/proc/{process_id}/status").read_text()
    except OSError:
        return {}
    pairs = (line.split(":") for line in status.splitlines() if line.endswith(" kB"))
    return {name: int(value.split()[0]) * 1024 for name, value in pairs}
