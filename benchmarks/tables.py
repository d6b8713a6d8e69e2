"""``tables``: reading a topic from its segments, against consumers of a live broker that has the
same segments; and its latest state.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from benchmarks.compare import Figure
from benchmarks.live import Live, directories, live_broker
from benchmarks.logs import BenchLog, prepare
from benchmarks.runs import JVM_OPTIONS, ROOT, measured
from benchmarks.sweeps import cpu_of_tree
from benchmarks.table import seconds, table
from benchmarks.tables_grow import growth_rows, key_rows, update_rows
from tests.oracle_runner import java, oracle_classpath

CASES: Final = {
    "u100": "100 B",
    "lz4": "100 B, lz4",
    "zstd": "100 B, zstd",
    "u1k": "1 KB",
    "lz4-1k": "1 KB, lz4",
    "zstd-1k": "1 KB, zstd",
}
"""What values the logs have, and how they are compressed."""
PARTITIONS: Final = 2
"""As many as cores: Spark's Kafka source reads each by one task."""
WALL: Final = 0
CPU: Final = 1
_PERF_TEST: Final = "org.apache.kafka.tools.ConsumerPerformance"
_FETCH_MS: Final = 7
_MILLISECONDS: Final = 1000

Say = Callable[[str], None]


@dataclass(slots=True, kw_only=True)
class ReadCase:
    """(wall, CPU) seconds of each round, by what was done, and what was said of the kernel."""

    log: BenchLog
    seconds: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    kernel: dict[str, float] = field(default_factory=dict)

    def add(self, what: str, taken: tuple[float, float]) -> None:
        """Note a round."""
        self.seconds.setdefault(what, []).append(taken)

    def figure(self, what: str, measure: int) -> Figure:
        """Of the rounds; `measure` is `WALL` or `CPU`."""
        return Figure.of([taken[measure] for taken in self.seconds[what]])

    def ratio(self, other: str, ours: str, measure: int) -> str:
        """By how many times the median of another is larger."""
        medians = [self.figure(what, measure).median for what in (other, ours)]
        return f"**{medians[0] / medians[1]:.1f}**"


def table_sections(
    *,
    scale: float,
    cases: Sequence[str],
    growth: Sequence[float],
    keys: int,
    update: float,
    rounds: int,
    work: Path,
    say: Say,
) -> str:
    """All tables, as Markdown. Effects: writes logs and copies below `work`; processes, among them
    a broker.

    Args:
        scale: 1 is a topic with 1 GB of records.
        growth: sizes of one log, in GB; its keys are those of the smallest.
        keys: unique keys, or more, that are found within 1 GiB.
        update: GB of a topic whose last segment, a hundredth, is new to a table; 0: none.
    """
    logs = [prepare(name, scale=scale, work=work, partitions=PARTITIONS) for name in cases]
    reads = [ReadCase(log=log) for log in logs]
    for case in reads:
        case.kernel = worker("kernel", case.log.directory)
        say(f"{case.log.name}: {_kernel_row(case)}")
    with live_broker(logs, work / "live") as live:
        for case in reads:
            _measure(case, live, work, rounds, say)
    parts = []
    for measure, name in ((WALL, "Wall seconds"), (CPU, "CPU seconds, the broker's included")):
        parts += [f"{name}:", _reading(reads, measure), _latest(reads, measure)]
    parts.append(_kernels(reads))
    rows = [*growth_rows(growth, work, say), *key_rows(keys, work, say)]
    if update:
        rows += update_rows(update, work, say)
    parts.append(table(("what", "figures"), rows))
    return "\n\n".join(parts)


def _measure(case: ReadCase, live: Live, work: Path, rounds: int, say: Say) -> None:
    log = case.log
    partitions = len(directories(log))
    for _ in range(rounds):
        case.add("perf-test", _perf_test(live, log))
        words = (live.bootstrap, live.process, log.name, partitions, log.records)
        case.add("librdkafka", worker("librdkafka", *words)["seconds"])
        case.add("command", _command(log, work / "table"))
    times = worker("spark", log.directory, live.bootstrap, live.process, work / "out", rounds)
    case.seconds |= times["seconds"]
    rows = times["rows"]
    if any(rows[f"kafka {what}"] != rows[f"ours {what}"] for what in ("parquet", "latest")):
        message = f"{log.name}: Spark's source and ours have other numbers of rows: {rows}"
        raise RuntimeError(message)
    medians = {what: round(case.figure(what, WALL).median, 2) for what in case.seconds}
    used = {what: round(case.figure(what, CPU).median, 2) for what in case.seconds}
    say(f"{log.name}: wall s: {medians}; CPU s: {used}")


def _perf_test(live: Live, log: BenchLog) -> tuple[float, float]:
    """Seconds that kafka-consumer-perf-test says it fetched, without joining its group; CPU seconds
    of all that it did.
    """
    words = ["--bootstrap-server", live.bootstrap, "--topic", log.name, "--hide-header"]
    words += ["--num-records", str(log.records), "--timeout", "60000"]
    cpu = cpu_of_tree(live.process) + waited_for()
    done = subprocess.run(
        [java(), *JVM_OPTIONS, "-cp", oracle_classpath(), _PERF_TEST, *words],
        check=True,
        capture_output=True,
        text=True,
    )
    line = next(line for line in done.stdout.splitlines() if line.count(",") > _FETCH_MS)
    used = cpu_of_tree(live.process) + waited_for() - cpu
    return float(line.split(",")[_FETCH_MS]) / _MILLISECONDS, used


def waited_for() -> float:
    """CPU seconds of the children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _command(log: BenchLog, target: Path) -> tuple[float, float]:
    """Seconds of ``logwright latest`` to Parquet files, from its start to its end."""
    shutil.rmtree(target, ignore_errors=True)
    program = "from logwright.cli.main import main; main(prog_name='logwright')"
    columns = "key,value,topic,partition,offset,timestamp,timestampType"
    words = ["latest", log.directory, log.partition.topic, "--to", target, "--columns", columns]
    start, cpu = time.perf_counter(), waited_for()
    subprocess.run(
        [sys.executable, "-c", program, *map(str, words)], cwd=ROOT, check=True, capture_output=True
    )
    taken = (time.perf_counter() - start, waited_for() - cpu)
    shutil.rmtree(target)
    return taken


def worker(what: str, *arguments: object) -> dict[str, Any]:
    """What `benchmarks.tables_worker` prints."""
    words = [sys.executable, "-m", "benchmarks.tables_worker", what, *map(str, arguments)]
    (line,), _, _ = measured(words)
    return line


def _reading(cases: Sequence[ReadCase], measure: int) -> str:
    head = ("values", "MB", "Spark's source → noop", "kafka-log → noop", "ratio")
    more = ("Spark's source → Parquet", "kafka-log → Parquet", "ratio")
    clients = ("consumer-perf-test", "librdkafka", "ratio of the faster one to kafka-log → noop")
    rows = []
    for case in cases:
        medians = {each: case.figure(each, measure).median for each in ("perf-test", "librdkafka")}
        faster = min(medians, key=medians.__getitem__)
        row = [CASES[case.log.name], f"{case.log.log_bytes / 1e6:.0f}"]
        for what in ("noop", "parquet"):
            row += [seconds(case.figure(f"{side} {what}", measure)) for side in ("kafka", "ours")]
            row.append(case.ratio(f"kafka {what}", f"ours {what}", measure))
        row += [seconds(case.figure(what, measure)) for what in ("perf-test", "librdkafka")]
        rows.append([*row, case.ratio(faster, "ours noop", measure)])
    return table((*head, *more, *clients), rows)


def _latest(cases: Sequence[ReadCase], measure: int) -> str:
    head = ("values", "Spark's source, row_number → Parquet", "kafka-log, view=latest → Parquet")
    rows = [
        [
            CASES[case.log.name],
            *(seconds(case.figure(f"{side} latest", measure)) for side in ("kafka", "ours")),
            case.ratio("kafka latest", "ours latest", measure),
            seconds(case.figure("command", measure)),
            case.ratio("kafka latest", "command", measure),
        ]
        for case in cases
    ]
    return table((*head, "ratio", "logwright latest, the whole command", "ratio"), rows)


def _kernels(cases: Sequence[ReadCase]) -> str:
    head = ("values", "GB of segments/s", "M records/s", "share of a copy's speed")
    return table(head, [[CASES[case.log.name], *_kernel_row(case)] for case in cases])


def _kernel_row(case: ReadCase) -> list[str]:
    cpu, copied = case.kernel["cpu"], case.kernel["copyPerByte"]
    speed = case.log.log_bytes / cpu
    share = 100 * speed * copied
    return [f"{speed / 1e9:.2f}", f"{case.log.records / cpu / 1e6:.1f}", f"{share:.0f} %"]
