"""A log that was uploaded next to its running broker, is lost, and is restored from the bucket."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.e2e.broker_life import broker
from tests.e2e.command import call

pytestmark = [pytest.mark.e2e, pytest.mark.oracle]

SETTINGS = ("--server-config", "replica.high.watermark.checkpoint.interval.ms=200")
SEGMENTS = {"internal.segment.bytes": "4096", "index.interval.bytes": "512"}
TOPICS = {"plain": {}, "compacted": {"cleanup.policy": "compact"}}
RECORDS = 200
LEVELS = ("read_uncommitted", "read_committed")

Row = tuple[int, bytes | None, bytes | None, int]


@contextmanager
def a_broker(work: Path, name: str) -> Iterator[str]:
    """One life of the broker; where it listens."""
    with broker(work, name, *SETTINGS) as (process, bootstrap):
        yield bootstrap
        (work / f"{name}.stop").touch()
        assert 0 == process.wait(60)


def produce(bootstrap: str, start: int) -> None:
    """Records of both topics, alone and in transactions that are committed or aborted."""
    alone = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0})
    within = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"from-{start}"})
    within.init_transactions(30)
    for part in range(start, start + RECORDS, 20):
        within.begin_transaction()
        for number in range(part, part + 20):
            for topic in TOPICS:
                producer = alone if number % 2 else within
                producer.produce(topic, key=f"k{number % 70}", value=f"v{number}" * 8)
        assert 0 == alone.flush(30) == within.flush(30)
        if part % 40:
            within.abort_transaction(30)
        else:
            within.commit_transaction(30)


def read(bootstrap: str, topic: str, level: str) -> list[Row]:
    """All records of a topic, as a consumer gets them."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "g", "isolation.level": level}
    consumer = Consumer({**settings, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    rows: list[Row] = []
    while (message := consumer.poll(30)) is not None and message.error() is None:
        rows.append((message.offset(), message.key(), message.value(), message.timestamp()[1]))
    assert message is not None, "a consumer comes to the end"
    consumer.close()
    return rows


def read_all(bootstrap: str) -> dict[tuple[str, str], list[Row]]:
    return {(topic, level): read(bootstrap, topic, level) for topic in TOPICS for level in LEVELS}


@pytest.mark.rotates(4)
def test_a_broker_opens_what_was_restored(tmp_path: Path) -> None:
    """Its consumers get the same records at both levels; new ones follow; nothing was repaired."""
    log_dir, url = tmp_path / "broker/logs", f"file://{tmp_path}/bucket"
    with a_broker(tmp_path, "first") as bootstrap:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        topics = [NewTopic(name, 1, 1, config=SEGMENTS | own) for name, own in TOPICS.items()]
        for made in admin.create_topics(topics).values():
            made.result(30)
        for start in (0, RECORDS):
            produce(bootstrap, start)
            uploaded = call("upload", log_dir, "plain-0", "compacted-0", "--to", url)
            assert 0 == uploaded.status, uploaded.err
        before = read_all(bootstrap)
    assert all(before.values())
    last = call("upload", log_dir, "plain-0", "compacted-0", "--to", url, "--output", "json")
    assert 0 == last.status, last.err
    for line in last.lines:
        files = (log_dir / line["topicPartition"]).glob("0*")
        assert sum(path.stat().st_size for path in files) == line["bytes"]
    for topic in TOPICS:
        shutil.rmtree(log_dir / f"{topic}-0")
    restored = call("download", url, "--to", log_dir)
    assert 0 == restored.status, restored.err
    assert 0 == call("verify", log_dir).status
    with a_broker(tmp_path, "second") as bootstrap:
        assert before == read_all(bootstrap)
        produce(bootstrap, 2 * RECORDS)
        after = read_all(bootstrap)
        for key, rows in before.items():
            assert rows == after[key][: len(rows)]
            assert len(rows) < len(after[key])
    output = (tmp_path / "second.txt").read_text().splitlines()
    lines = [line for line in output if any(f"{topic}-0" in line for topic in TOPICS)]
    assert lines
    assert not [line for line in lines if "stray" in line.lower() or "unflushed segment" in line]
