"""A live broker that serves the segments of benchmark logs; the jars of Spark's Kafka source."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.logs import BenchLog
from benchmarks.runs import JVM_OPTIONS
from tests.e2e.command import free_port
from tests.oracle_runner import java, oracle_classpath

CONNECTOR: Final = Path(__file__).parent / "connector"
SERVER: Final = (
    *("log.cleaner.enable=false", "log.retention.ms=-1", "log.roll.ms=9000000000000000"),
    *("log.segment.delete.delay.ms=3600000", "num.network.threads=2", "num.io.threads=4"),
)
"""Nothing is cleaned, deleted or rolled: what is served stays what it is."""
SECONDS: Final = 4 * 3600
_JMX_TOOL: Final = "org.apache.kafka.tools.JmxTool"


def connector_jars() -> list[Path]:
    """Spark's own Kafka source and what it needs. Effects: Maven fetches it if it is not there."""
    jars = CONNECTOR / "target/lib"
    if not jars.is_dir():
        subprocess.run(
            ["mvn", "-q", "-B", "package"],  # noqa: S607 -- as the oracle is built
            cwd=CONNECTOR,
            check=True,
            capture_output=True,
        )
    return sorted(jars.glob("*.jar"))


class Live(NamedTuple):
    """A live broker: where it listens, its process id, its log directory, and its port for JMX."""

    bootstrap: str
    process: int
    log_dir: Path
    jmx: int


class Served(NamedTuple):
    """What a broker did for its clients since it started, by its own metrics: bytes that it sent,
    connections that were made to it.
    """

    sent: int
    connections: int


def served(jmx: int) -> Served:
    """Effects: asks by Kafka's own tool, not by the clients' listener."""
    beans = "kafka.server:type=socket-server-metrics,listener=PLAINTEXT,networkProcessor=*"
    names = ("outgoing-byte-total", "connection-creation-total")
    words = ["--jmx-url", f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{jmx}/jmxrmi"]
    words += ["--object-name", beans, "--attributes", ",".join(names), "--one-time"]
    printed = subprocess.run(
        [java(), "-XX:TieredStopAtLevel=1", "-cp", oracle_classpath(), _JMX_TOOL, *words],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    heads, values = csv.reader(line for line in printed.splitlines() if "," in line)
    totals = [0, 0]
    for head, value in zip(heads[1:], values[1:], strict=True):
        totals[names.index(head.rpartition(":")[2])] += int(float(value))
    return Served(*totals)


def _jmx_options(port: int) -> list[str]:
    words = (
        f"port={port}",
        f"rmi.port={port}",
        "host=127.0.0.1",
        "authenticate=false",
        "ssl=false",
    )
    flags = [f"-Dcom.sun.management.jmxremote.{word}" for word in words]
    return [*flags, "-Djava.rmi.server.hostname=127.0.0.1"]


@contextmanager
def live_broker(logs: Sequence[BenchLog], work: Path) -> Iterator[Live]:
    """A broker with a topic for each log, of its name. Effects: a process; files below `work`, the
    segments as links.
    """
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    port = free_port()
    partitions = {log.name: len(directories(log)) for log in logs}
    for number in sorted(set(partitions.values())):
        names = [name for name, count in partitions.items() if count == number]
        with _broker(work, port, "--create", *names, "--partitions", str(number)):
            pass
    for log in logs:
        for directory in directories(log):
            place = work / "broker/logs" / f"{log.name}-{directory.name.rpartition('-')[2]}"
            _put(directory, place)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (work / "broker/logs" / name).unlink(missing_ok=True)
    with _broker(work, port) as live:
        yield live


def directories(log: BenchLog) -> list[Path]:
    """The partitions' directories of a log."""
    return sorted(log.directory.glob(f"{log.partition.topic}-[0-9]*"))


def _put(source: Path, place: Path) -> None:
    """A stopped broker's partition with other files; what is read only is linked."""
    for path in place.iterdir():
        if path.name != "partition.metadata":
            path.unlink()
    for path in source.iterdir():
        if path.name == "partition.metadata" or not path.is_file():
            continue
        if path.suffix == ".log" and path.stat().st_size:
            os.link(path, place / path.name)
        else:
            shutil.copy2(path, place / path.name)


@contextmanager
def _broker(work: Path, port: int, *words: str) -> Iterator[Live]:
    stop, jmx = work / "stop", free_port()
    stop.unlink(missing_ok=True)
    command = [
        java(),
        *JVM_OPTIONS,
        *_jmx_options(jmx),
        "-cp",
        oracle_classpath(),
        "oracle.Main",
        "broker",
    ]
    place = ["--dir", str(work / "broker"), "--port", str(port), "--seconds", str(SECONDS)]
    more = ["--until-file", str(stop), "--server-config", *SERVER]
    with (
        (work / "said.txt").open("a") as output,
        subprocess.Popen(
            [*command, *place, *more, *words], stdout=subprocess.PIPE, stderr=output, text=True
        ) as process,
    ):
        try:
            said_first = process.stdout.readline() if process.stdout else ""
            bootstrap = json.loads(said_first)["bootstrap"]
            yield Live(bootstrap, process.pid, work / "broker/logs", jmx)
        finally:
            stop.touch()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
