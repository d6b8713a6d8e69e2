"""History from the files of a running broker, then the rest from the broker, by Spark's own source:
nothing is missing or there twice.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.e2e.broker_life import broker
from tests.tidy.trees import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.oracle, pytest.mark.e2e, pytest.mark.nightly]

CONFIG = ("--server-config", "replica.high.watermark.checkpoint.interval.ms=500")
TOPIC = "orders"


def produce(bootstrap: str, count: int, *, abort: bool) -> None:
    """A transaction with this number of records in each of two partitions."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "t"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(count):
        for partition in range(2):
            producer.produce(TOPIC, key=f"k{number}", value="v" * 100, partition=partition)
    producer.flush(30)
    if abort:
        producer.abort_transaction(30)
    else:
        producer.commit_transaction(30)


@contextmanager
def hand_over(bootstrap: str, work: Path) -> Iterator[subprocess.Popen[str]]:
    """A process with a Spark session that waits for its lines."""
    log_dir = work / "broker/logs"
    words = [bootstrap, str(log_dir), str(work / "spark"), TOPIC]
    with (
        (work / "hand-over.txt").open("w") as output,
        subprocess.Popen(
            [sys.executable, "-m", "tests.spark.hand_over", *words],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def answer_of(process: subprocess.Popen[str]) -> Any:  # noqa: ANN401 -- JSON
    """What it prints when it gets a line."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


@pytest.mark.timeout(600)
def test_sparks_kafka_source_continues_at_the_next_offset(tmp_path: Path) -> None:
    """Both from the same checkpoint, of which only the format changes, and from startingOffsets."""
    create = ("--create", TOPIC, "--partitions", "2")
    with broker(tmp_path, "broker", *create, *CONFIG) as (_, bootstrap):
        produce(bootstrap, 50, abort=False)
        produce(bootstrap, 20, abort=True)
        produce(bootstrap, 30, abort=False)
        with hand_over(bootstrap, tmp_path) as process:
            end = answer_of(process)["end"]
            produce(bootstrap, 7, abort=True)
            produce(bootstrap, 40, abort=False)
            rows = answer_of(process)
        (tmp_path / "broker.stop").touch()
    # Each transaction has a marker after it; those of 20 and 7 records were aborted.
    expected = [*range(50), *range(72, 102), *range(111, 151)]
    assert {"0": 103, "1": 103} == end[TOPIC]
    assert [[n, offset] for n in range(2) for offset in expected] == rows["same"]
    assert rows["same"] == rows["other"]
    assert [f"{TOPIC}#"] == [name[: len(TOPIC) + 1] for name in end if name != TOPIC]
