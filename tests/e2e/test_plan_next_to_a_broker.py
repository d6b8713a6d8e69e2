"""`plan` and `metrics`, next to a real broker that has the log directory open."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from logwright.format.names import TopicPartition
from logwright.running.watermark import read_watermarks
from tests.e2e.broker_life import broker
from tests.e2e.command import call

pytestmark = pytest.mark.oracle

SETTINGS = ("--server-config", "replica.high.watermark.checkpoint.interval.ms=200")
TOPIC = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "1.0",
}
"""The broker's own cleaner never acts: the ratio is not exceeded."""
DUE = ("--config", "min.cleanable.dirty.ratio=0.5", "--output", "json")
RECORDS, KEYS = 3_000, 10


def produce(bootstrap: str, log_dir: Path) -> None:
    """Make the topic, and append records of few keys, three segments of them, and wait until the
    broker has recorded that they are committed.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic("t", 1, 1, config=TOPIC)]).values():
        made.result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "compression.type": "none"})
    for number in range(RECORDS):
        producer.produce("t", key=f"k{number % KEYS}", value=os.urandom(1_000), partition=0)
        producer.poll(0)
    assert 0 == producer.flush(60)
    deadline = time.monotonic() + 60
    while read_watermarks(log_dir).offsets.get(TopicPartition("t", 0)) != RECORDS:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def planned(log_dir: Path, *words: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The plan of the log, and what is said of all."""
    answer = call("plan", log_dir, "t-0", *DUE, *words)
    assert 0 == answer.status, answer.err
    log, summary = [line for line in answer.lines if "segments" in line or "pickOrder" in line]
    return log, summary


def test_plan_and_metrics_next_to_a_running_broker(tmp_path: Path) -> None:
    """Up to the high watermark, with the settings of the cluster's metadata; a forecast has what a
    plan of the stopped broker forecasts.
    """
    log_dir = tmp_path / "broker/logs"
    with broker(tmp_path, "broker", *SETTINGS) as (process, bootstrap):
        produce(bootstrap, log_dir)
        plain, summary = planned(log_dir, "--no-forecast")
        exact, _ = planned(log_dir, "--forecast")
        metrics = call("metrics", log_dir)
        (tmp_path / "broker.stop").touch()
        assert 0 == process.wait(60)
    assert process.pid == summary["broker"]["process"]
    assert (True, True) == (plain["compact"], plain["clean"])
    assert RECORDS == exact["logEndOffset"] == exact["lastStableOffset"]
    below = exact["firstUncleanableOffset"]
    assert RECORDS / 2 < below < RECORDS
    assert below - KEYS == exact["forecast"]["causes"]["superseded"]["records"]
    assert 0 == metrics.status
    labels = f'logDirectory="{log_dir}",partition="0",topic="t"'
    assert f"kafka_log_log_logendoffset{{{labels}}} {RECORDS}.0" in metrics.out
    assert f'logwright_broker_running{{logDirectory="{log_dir}"}} 1.0' in metrics.out
    assert f'logwright_refused_logs{{logDirectory="{log_dir}"}} 0.0' in metrics.out
    stopped, summary = planned(log_dir, "--forecast")
    assert summary["broker"] is None
    assert exact["forecast"] == stopped["forecast"]
