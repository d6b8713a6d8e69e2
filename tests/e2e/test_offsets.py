"""``logwright offsets`` on a real broker: its cleaner does not clean, and a client without KIP-890
left a transaction open in ``__consumer_offsets``. What the command names is done, and the log is
small, with all committed offsets.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Committed

from logwright.format.batch import walk_batches
from tests.e2e.broker_life import broker
from tests.e2e.command import Answer, call, free_port, tree
from tests.e2e.kafka_tools import SERVER, SMALLEST_SEGMENT_BYTES, WAIT_SECONDS
from tests.e2e.test_decoded_internal_topics import (
    GROUP_TOOL,
    TOPIC,
    TRANSACTION_TOOL,
    make_topic,
    table,
    tool,
)

pytestmark = [pytest.mark.e2e, pytest.mark.oracle]

OFFSETS = "__consumer_offsets-0"
COMMITS = 300
METADATA = "m" * 4000
GROUPS = ("busy", "calm")
HANGING_ID, HANGING_GROUP = "payments-1", "copied"
TXN_OFFSET_COMMIT, OLD_VERSION = 28, 2
"""The request's key, and a version without the verification of KIP-890."""
LATE = ("--late", "1s")


@contextmanager
def life(work: Path, name: str, port: int, *settings: str) -> Iterator[str]:
    """A life of a broker which verifies no transaction; its cleaner is off, unless it is set."""
    more = (
        *settings,
        f"offsets.topic.segment.bytes={SMALLEST_SEGMENT_BYTES}",
        "transaction.partition.verification.enable=false",
    )
    with broker(work, name, "--server-config", *SERVER, *more, port=port) as (running, bootstrap):
        yield bootstrap
        (work / f"{name}.stop").touch()
        assert 0 == running.wait(WAIT_SECONDS)


def commit_often(bootstrap: str, first: int) -> None:
    """Each group commits the same partitions again and again."""
    for group in GROUPS:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
        for number in range(COMMITS):
            places = [Committed(TOPIC, one, first + number, metadata=METADATA) for one in range(3)]
            consumer.commit(offsets=places, asynchronous=False)
        consumer.close()


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def commit_late(bootstrap: str, producer_id: int, epoch: int) -> None:
    """Commit an offset in a transaction that has ended, as a delayed request of an old client."""
    body = (
        text(HANGING_ID)
        + text(HANGING_GROUP)
        + struct.pack(">qh", producer_id, epoch)
        + struct.pack(">i", 1)
        + text(TOPIC)
        + struct.pack(">iiqi", 1, 0, 5, -1)
        + text("")
    )
    header = struct.pack(">hhi", TXN_OFFSET_COMMIT, OLD_VERSION, 1) + text("old")
    host, port = bootstrap.split(":")
    with socket.create_connection((host, int(port)), WAIT_SECONDS) as connection:
        connection.sendall(struct.pack(">i", len(header + body)) + header + body)
        answer = connection.recv(4096)
    (error,) = struct.unpack(">h", answer[-2:])
    assert 0 == error


def transact(bootstrap: str) -> None:
    """A transaction that ends, and what its producer sends too late."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": HANGING_ID})
    producer.init_transactions(WAIT_SECONDS)
    producer.begin_transaction()
    producer.produce(TOPIC, "k", "v", partition=0)
    producer.commit_transaction(WAIT_SECONDS)
    (row,) = table(tool(TRANSACTION_TOOL, bootstrap, "describe", "--transactional-id", HANGING_ID))
    assert "CompleteCommit" == row["TransactionState"]
    commit_late(bootstrap, int(row["ProducerId"]), int(row["ProducerEpoch"]))


def described(bootstrap: str) -> dict[tuple[str, int], int]:
    """What Kafka's own tool says that the groups have committed."""
    until = time.monotonic() + WAIT_SECONDS
    while True:
        rows = table(tool(GROUP_TOOL, bootstrap, "--describe", "--all-groups", "--offsets"))
        committed = {
            (row["GROUP"], int(row["PARTITION"])): int(row["CURRENT-OFFSET"])
            for row in rows
            if row["CURRENT-OFFSET"] != "-"
        }
        if {group for group, _ in committed} >= set(GROUPS) or time.monotonic() > until:
            return committed


def offsets(log_dir: Path, *words: str) -> Answer:
    return call("offsets", log_dir, *LATE, "--output", "json", *words)


def kinds(answer: Answer, partition: str = OFFSETS) -> dict[str, dict[str, Any]]:
    """The findings of a log."""
    return {
        line["kind"]: line
        for line in answer.lines
        if "kind" in line and line["topicPartition"] == partition
    }


@pytest.mark.rotates(6)
def test_why_offsets_grow(tmp_path: Path) -> None:
    """It is named by the stopped and by the running broker's files, and what is named helps."""
    log_dir, port = tmp_path / "broker" / "logs", free_port()
    with life(tmp_path, "first", port) as bootstrap:
        make_topic(bootstrap)
        commit_often(bootstrap, 0)
        transact(bootstrap)
        commit_often(bootstrap, COMMITS)
        time.sleep(2)
        committed = described(bootstrap)
    before = tree(log_dir)
    stopped = offsets(log_dir)
    assert 5 == stopped.status, stopped.err
    assert before == tree(log_dir)
    findings = kinds(stopped)
    assert {"hanging transaction", "cleaner late"} == set(findings)
    hanging = findings["hanging transaction"]
    assert "CompleteCommit" == hanging["transaction"]["state"]
    assert hanging["bytes"] > 2 * SMALLEST_SEGMENT_BYTES
    assert HANGING_ID not in stopped.out
    assert not any(group in stopped.out for group in (*GROUPS, HANGING_GROUP))
    assert f"`logwright clean {log_dir} {OFFSETS} --yes`" in findings["cleaner late"]["remedy"]
    named = offsets(log_dir, "--names")
    owners = [line for line in named.lines if "rank" in line]
    assert set(GROUPS) == {line["name"] for line in owners[:2]}
    assert HANGING_ID == kinds(named)["hanging transaction"]["transaction"]["transactionalId"]

    with life(tmp_path, "second", port) as bootstrap:
        described(bootstrap)
        running = kinds(offsets(log_dir))["hanging transaction"]
        assert hanging["transaction"]["firstOffset"] == running["transaction"]["firstOffset"]
        words = running["remedy"].split()
        assert "kafka-transactions.sh" == words[0]
        tool(TRANSACTION_TOOL, bootstrap, *words[3:])
    aborted = offsets(log_dir)
    assert {"cleaner late"} == set(kinds(aborted))
    cleaned = call("clean", log_dir, OFFSETS, "--yes")
    assert 0 == cleaned.status, cleaned.err
    after = offsets(log_dir)
    assert {} == kinds(after)
    sizes = [
        next(line["bytes"] for line in answer.lines if line.get("topicPartition") == OFFSETS)
        for answer in (stopped, after)
    ]
    assert sizes[0] > 6 * SMALLEST_SEGMENT_BYTES
    assert sizes[1] < 2 * SMALLEST_SEGMENT_BYTES

    with life(tmp_path, "third", port) as bootstrap:
        assert committed == described(bootstrap)
        assert {group for group, _ in committed} >= set(GROUPS)


@pytest.mark.rotates(6)
def test_a_batch_that_stops_the_cleaner(tmp_path: Path) -> None:
    """Kafka's own cleaner stops at the batch that is named, and cleans nothing."""
    log_dir, port = tmp_path / "broker" / "logs", free_port()
    with life(tmp_path, "first", port) as bootstrap:
        make_topic(bootstrap)
        commit_often(bootstrap, 0)
    path = log_dir / OFFSETS / f"{0:020}.log"
    content = bytearray(path.read_bytes())
    spans = list(walk_batches(content))
    position = spans[len(spans) // 2].position
    content[position + 8 : position + 12] = bytes(4)
    path.write_bytes(content)
    with life(tmp_path, "second", port, "log.cleaner.enable=true", "log.cleaner.backoff.ms=500"):
        until = time.monotonic() + WAIT_SECONDS
        while "Marking its partition" not in (tmp_path / "second.txt").read_text():
            assert time.monotonic() < until, (tmp_path / "second.txt").read_text()[-3000:]
            time.sleep(0.2)
    answer = offsets(log_dir)
    assert 3 == answer.status
    findings = kinds(answer)
    assert {"corrupt batch", "cleaner late"} == set(findings)
    assert f"{path} at byte {position}, " in findings["corrupt batch"]["problem"]
    assert "cleans nothing of this log" in findings["corrupt batch"]["problem"]
