"""The internal topics of a real broker, decoded from its segments while it is stopped, have what
Kafka's own tools said of it while it ran.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Committed
from confluent_kafka.admin import AdminClient, NewTopic

from logwright.config.decoding import default_decoding
from logwright.decode.dumped import batch_of
from logwright.decode.make import make_decoder
from logwright.format.names import TopicPartition
from logwright.log.dump import dump_partition
from tests.e2e.command import call, free_port
from tests.e2e.kafka_tools import WAIT_SECONDS, life, polled
from tests.oracle_runner import oracle_jvm

pytestmark = [pytest.mark.e2e, pytest.mark.oracle, pytest.mark.rotates(6, by="file")]

OFFSETS, STATES, SHARES = "__consumer_offsets", "__transaction_state", "__share_group_state"
TOPIC = "customers"
PARTITIONS = 3
RECORDS = 90
COMMITTED = {"orders-app": {0: 7, 1: 11, 2: 0}, "billing": {1: 3}}
"""Group → partition → the offset that it commits at last; without members."""
CLASSIC, MODERN = "classic-members", "modern-members"
"""Groups whose member is there when the broker stops: of the classic protocol, and of KIP-848."""
ENDS = ("commit", "abort", "leave open")
GROUP_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
TRANSACTION_TOOL = "org.apache.kafka.tools.TransactionsCommand"
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"
SHARE_CONSOLE = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
SHARE_GROUP = "workers"
FORMATTERS = "org.apache.kafka.tools.consumer"
PRINTED = {
    "OffsetsMessageFormatter": OFFSETS,
    "GroupMetadataMessageFormatter": OFFSETS,
    "TransactionLogMessageFormatter": STATES,
    "group.share.ShareGroupStateMessageFormatter": SHARES,
}
"""Kafka's message formatters, and the topic that each prints."""
COLUMNS = re.compile(r"\s+")

Row = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What Kafka's tools printed, and the log directory after the broker stopped.

    Attributes:
        started: seconds since the epoch, before the broker started.
        offsets: rows of ``kafka-consumer-groups --describe --offsets``.
        members: rows of ``--describe --members``.
        transactions: rows of ``kafka-transactions describe``.
        printed: by topic what Kafka's message formatters print of its records.
    """

    started: float
    log_dir: Path
    offsets: list[Row]
    members: list[Row]
    transactions: list[Row]
    printed: dict[str, list[dict[str, Any]]]


def tool(main_class: str, bootstrap: str, *arguments: str) -> str:
    """What one of Kafka's tools prints."""
    command = [*oracle_jvm(), main_class]
    done = subprocess.run(
        [*command, "--bootstrap-server", bootstrap, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert 0 == done.returncode, done.stdout + done.stderr[-4000:]
    return done.stdout


def table(text: str) -> list[Row]:
    """The rows of a tool's table; it prints one for each group, with its header."""
    rows: list[Row] = []
    header: list[str] = []
    for line in text.splitlines():
        cells = COLUMNS.split(line.strip())
        if cells[0] in {"GROUP", "CoordinatorId"}:
            header = cells
        elif header and line.strip():
            rows.append(dict(zip(header, cells, strict=False)))
    return rows


def make_topic(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
        future.result(WAIT_SECONDS)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        producer.produce(TOPIC, str(number), str(number), partition=number % PARTITIONS)
    assert 0 == producer.flush(WAIT_SECONDS)


def commit_offsets(bootstrap: str) -> None:
    """Each group commits 1, then its own offsets, with metadata."""
    for group, offsets in COMMITTED.items():
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
        for commit in (dict.fromkeys(offsets, 1), offsets):
            places = [
                Committed(TOPIC, partition, offset, metadata=f"of {group}")
                for partition, offset in commit.items()
            ]
            consumer.commit(offsets=places, asynchronous=False)
        consumer.close()


def join(bootstrap: str, group: str, protocol: str) -> Consumer:
    """A member of a group, which has read and committed something."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "client.id": f"client of {group}".replace(" ", "-"),
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([TOPIC])
    consumer.commit(polled(consumer), asynchronous=False)
    return consumer


def transact(bootstrap: str) -> list[Producer]:
    """Transactions with each end; their producers."""
    producers = []
    for number, end in enumerate(ENDS):
        settings = {"transactional.id": f"tx-{number}", "transaction.timeout.ms": 600_000 + number}
        producer = Producer({"bootstrap.servers": bootstrap, **settings})
        producer.init_transactions(WAIT_SECONDS)
        producer.begin_transaction()
        for partition in range(number + 1):
            producer.produce(TOPIC, "k", end, partition=partition)
        assert 0 == producer.flush(WAIT_SECONDS)
        if end == "commit":
            producer.commit_transaction(WAIT_SECONDS)
        elif end == "abort":
            producer.abort_transaction(WAIT_SECONDS)
        producers.append(producer)
    return producers


def share(bootstrap: str) -> None:
    """A member of a share group, which waits for records and leaves."""
    tool(
        SHARE_CONSOLE,
        bootstrap,
        *("--topic", TOPIC, "--group", SHARE_GROUP, "--timeout-ms", "10000"),
    )


def printed(bootstrap: str, formatter: str) -> list[dict[str, Any]]:
    """The records of an internal topic that one of Kafka's formatters is for, as it prints them."""
    text = tool(
        CONSOLE,
        bootstrap,
        *("--topic", PRINTED[formatter], "--from-beginning", "--timeout-ms", "10000"),
        *("--formatter", f"{FORMATTERS}.{formatter}"),
    )
    return list(objects(text))


def all_printed(bootstrap: str) -> dict[str, list[dict[str, Any]]]:
    """By topic, what all formatters print. They run at once: each waits for 10 s at the end."""
    records: dict[str, list[dict[str, Any]]] = {}
    with ThreadPoolExecutor(len(PRINTED)) as pool:
        printing = {name: pool.submit(printed, bootstrap, name) for name in PRINTED}
        for formatter, lines in printing.items():
            records.setdefault(PRINTED[formatter], []).extend(lines.result())
    return records


def objects(text: str) -> Iterator[dict[str, Any]]:
    """The objects of a text that has nothing between them."""
    decoder = json.JSONDecoder()
    position = 0
    while position < len(text):
        decoded, position = decoder.raw_decode(text, position)
        position += len(text[position:]) - len(text[position:].lstrip())
        yield decoded


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Said:
    """The whole story, once for all tests."""
    work = tmp_path_factory.mktemp("internal")
    started = time.time()
    with life(work, "only", free_port()) as bootstrap:
        make_topic(bootstrap)
        commit_offsets(bootstrap)
        members = [join(bootstrap, CLASSIC, "classic"), join(bootstrap, MODERN, "consumer")]
        producers = transact(bootstrap)
        share(bootstrap)
        describe = ("--describe", "--all-groups")
        offsets = table(tool(GROUP_TOOL, bootstrap, *describe, "--offsets"))
        rows = table(tool(GROUP_TOOL, bootstrap, *describe, "--members"))
        transactions = [
            row
            for number in range(len(ENDS))
            for row in table(
                tool(TRANSACTION_TOOL, bootstrap, "describe", "--transactional-id", f"tx-{number}")
            )
        ]
        records = all_printed(bootstrap)
    del members, producers
    return Said(
        started=started,
        log_dir=work / "broker" / "logs",
        offsets=offsets,
        members=rows,
        transactions=transactions,
        printed=records,
    )


def dumped(session: Said, topic: str) -> Iterator[dict[str, Any]]:
    """The records of an internal topic as ``dump --decode`` prints them."""
    answer = call("dump", session.log_dir, f"{topic}-0", "--decode")
    assert 0 == answer.status, answer.err
    for line in answer.lines:
        if line["type"] == "batch" and not line["control"]:
            yield from line["records"]


def rows_of(session: Said, topic: str) -> list[dict[str, Any]]:
    """The last row of each key, as a table has them."""
    lines = dump_partition(session.log_dir, TopicPartition(topic, 0))
    data = (line for line in lines if line["type"] == "batch" and not line["control"])
    batches = [batch_of(line["records"]) for line in data]
    decoder = make_decoder(default_decoding(topic), base=session.log_dir, topic=topic)
    last: dict[bytes, dict[str, Any]] = {}
    for batch in batches:
        decoded = decoder.decode(batch)
        assert 0 == decoded.refused.num_rows
        keys = batch.column("key").take(decoded.positions).to_pylist()
        for key, row, gone in zip(
            keys, decoded.rows.to_pylist(), decoded.deleted.to_pylist(), strict=True
        ):
            last.pop(key, None)
            if not gone:
                last[key] = row
    return list(last.values())


def test_offsets_are_those_that_kafka_describes(session: Said) -> None:
    """Every group, topic and partition with its committed offset, and no other."""
    described = {
        (row["GROUP"], row["TOPIC"], int(row["PARTITION"])): int(row["CURRENT-OFFSET"])
        for row in session.offsets
        if row["CURRENT-OFFSET"] != "-"
    }
    decoded = {
        (row["group_id"], row["committed_topic"], row["committed_partition"]): row[
            "committed_offset"
        ]
        for row in rows_of(session, OFFSETS)
        if row["type"] == "offset_commit"
    }
    assert described == decoded
    for group, offsets in COMMITTED.items():
        assert offsets == {place[2]: decoded[place] for place in decoded if place[0] == group}
    assert {CLASSIC, MODERN} <= {place[0] for place in decoded}


def test_metadata_of_commits_is_decoded(session: Said) -> None:
    """The metadata that a client gave, and when it committed."""
    commits = [row for row in rows_of(session, OFFSETS) if row["type"] == "offset_commit"]
    for row in commits:
        expected = f"of {row['group_id']}" if row["group_id"] in COMMITTED else ""
        assert expected == row["committed_metadata"].rstrip("\0")  # librdkafka sends the zero
        assert 0 <= row["commit_time"].timestamp() - session.started < 120


def test_members_are_those_that_kafka_describes(session: Said) -> None:
    """Of both protocols: id, client, host, and how many partitions are assigned."""
    described = {
        (row["GROUP"], row["CONSUMER-ID"], row["CLIENT-ID"], int(row["#PARTITIONS"]))
        for row in session.members
    }
    rows = rows_of(session, OFFSETS)
    classic = {
        (
            row["group_id"],
            member["member_id"],
            member["client_id"],
            sum(len(one["partitions"]) for one in member["assigned_partitions"]),
        )
        for row in rows
        if row["type"] == "group_metadata"
        for member in row["members"]
    }
    kinds = ("consumer_group_member_metadata", "consumer_group_current_member_assignment")
    metadata, assignment = (
        {row["member_id"]: row for row in rows if row["type"] == kind} for kind in kinds
    )
    modern = {
        (
            row["group_id"],
            member,
            json.loads(row["details"])["clientId"],
            sum(
                len(assigned["partitions"])
                for assigned in json.loads(assignment[member]["details"])["assignedPartitions"]
            ),
        )
        for member, row in metadata.items()
    }
    assert described == classic | modern
    assert 2 == len(described)


def test_transactions_are_those_that_kafka_describes(session: Said) -> None:
    """Producer id and epoch, state, timeout and the partitions of an open one."""
    rows = {row["transactional_id"]: row for row in rows_of(session, STATES)}
    assert len(ENDS) == len(session.transactions) == len(rows)
    for number, row in enumerate(session.transactions):
        decoded = rows[f"tx-{number}"]
        assert int(row["ProducerId"]) == decoded["producer_id"]
        assert int(row["ProducerEpoch"]) == decoded["producer_epoch"]
        assert row["TransactionState"] == decoded["state"]
        assert int(row["TransactionTimeoutMs"]) == decoded["timeout_ms"]
    assert ["CompleteCommit", "CompleteAbort", "Ongoing"] == [
        row["TransactionState"] for row in session.transactions
    ]
    opened = [
        (row["topic"], partition)
        for row in rows["tx-2"]["partitions"]
        for partition in row["partitions"]
    ]
    assert [(TOPIC, partition) for partition in range(PARTITIONS)] == sorted(opened)


def test_a_share_group_has_its_partitions(session: Said) -> None:
    """A snapshot of each partition that the group was assigned."""
    rows = rows_of(session, SHARES)
    snapshots = [row for row in rows if row["type"] == "share_snapshot"]
    assert {(SHARE_GROUP, number) for number in range(PARTITIONS)} == {
        (row["group_id"], row["share_partition"]) for row in snapshots
    }
    assert all(0 <= row["write_time"].timestamp() - session.started < 300 for row in snapshots)


@pytest.mark.parametrize("topic", [OFFSETS, STATES, SHARES])
def test_records_are_those_that_kafkas_formatters_print(topic: str, session: Said) -> None:
    """Type and data of the key, version and data of the value, field by field."""
    ours = [
        json.dumps([record["key"]["type"], record["key"]["data"], record["value"]], sort_keys=True)
        for record in dumped(session, topic)
    ]
    kafkas = [
        json.dumps(
            [int(record["key"]["type"]), record["key"]["data"], record["value"]],
            sort_keys=True,
        )
        for record in session.printed[topic]
    ]
    assert kafkas
    assert set(kafkas) <= set(ours)
