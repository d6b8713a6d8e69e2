"""Commands that read, next to a real broker that has the log directory open."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from logwright.format.names import TopicPartition
from logwright.running.watermark import read_watermarks
from tests.e2e.broker_life import broker
from tests.e2e.command import PROGRAM, call

pytestmark = pytest.mark.oracle

SETTINGS = (
    "--server-config",
    "replica.high.watermark.checkpoint.interval.ms=200",
    "log.preallocate=true",
)
RECORDS = 5
T0 = TopicPartition("t", 0)


@dataclass(frozen=True)
class Running:
    """A broker, and where it keeps its logs.

    Attributes:
        stop: the file that ends it.
    """

    bootstrap: str
    log_dir: Path
    stop: Path
    process: subprocess.Popen[str]

    def produce(self, start: int) -> None:
        """Append some records; the broker has recorded that they are committed."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all"})
        for number in range(start, start + RECORDS):
            producer.produce("t", key=f"k{number}", value=f"v{number}")
        assert 0 == producer.flush(30)
        deadline = time.monotonic() + 30
        while read_watermarks(self.log_dir).offsets.get(T0) != start + RECORDS:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    """With a topic of five records; its files are preallocated."""
    with broker(tmp_path, "broker", *SETTINGS) as (process, bootstrap):
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for made in admin.create_topics([NewTopic("t", 1, 1)]).values():
            made.result(30)
        alive = Running(bootstrap, tmp_path / "broker/logs", tmp_path / "broker.stop", process)
        alive.produce(0)
        yield alive
        alive.stop.touch()
        assert 0 == process.wait(60)


def names(log_dir: Path) -> set[str]:
    return {str(path) for path in log_dir.rglob("*") if ".logwright" in path.name}


def test_commands_read_next_to_a_running_broker(running: Running) -> None:
    """What the broker has committed, with what bounds it; nothing is written, no lock is taken.
    Then records are followed until the broker ends, and those that change a log have refused.
    """
    directory, log = call("inspect", running.log_dir, "--output", "json").lines[:2]
    assert (True, None) == (directory["running"], directory["cleanShutdown"])
    assert (RECORDS, None) == (log["highWatermark"], log["problem"])
    verified = call("verify", running.log_dir)
    assert (0, True) == (verified.status, "no problems found" in verified.out)
    assert "a broker has it open: read t-0 up to offset 5" in verified.err
    assert 0 == call("config", running.log_dir, "t").status
    refused = call("clean", running.log_dir, "--yes")
    assert (5, True) == (refused.status, "holds this lock" in refused.err)
    words = [sys.executable, "-c", PROGRAM, "dump", str(running.log_dir), "t-0"]
    with subprocess.Popen(
        [*words, "--follow", "--decode", "{key: string}"], stdout=subprocess.PIPE, text=True
    ) as followed:
        assert followed.stdout is not None
        first = [json.loads(followed.stdout.readline()) for _ in range(RECORDS)]
        running.produce(RECORDS)
        more = [json.loads(followed.stdout.readline()) for _ in range(RECORDS)]
        running.stop.touch()
        assert "" == followed.stdout.read()
        assert 0 == followed.wait(60)
    assert list(range(2 * RECORDS)) == [line["offset"] for line in first + more]
    assert [f"k{number}" for number in range(2 * RECORDS)] == [line["key"] for line in first + more]
    assert set() == names(running.log_dir)
    refused = call("dump", running.log_dir, "t-0", "--follow")
    assert (2, True) == (refused.status, "no broker has the log directory open" in refused.err)
