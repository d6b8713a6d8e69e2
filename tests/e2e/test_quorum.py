"""A quorum is gone: two of three controllers are destroyed. What is left starts again."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from logwright.metadata.find import METADATA_DIRECTORY as METADATA
from logwright.metadata.read import read_metadata
from tests.e2e.brokers import Brokers
from tests.e2e.command import call, process, tree
from tests.e2e.quorum_cluster import BROKER, CLUSTER_ID, CONTROLLERS, QuorumCluster

pytestmark = [pytest.mark.e2e, pytest.mark.oracle]

GOAL_SECONDS = 60.0
"""From the command to serving; on a busy machine, four times as long as a start of the cluster."""
RECORDS = [f"before-{number}" for number in range(100)]


def filled(cluster: QuorumCluster) -> None:
    """Topics, configs and records."""
    cluster.make_topic("orders", 3, retention_ms="7654321")
    cluster.make_topic("users", cleanup_policy="compact", min_compaction_lag_ms="4321")
    cluster.produce("users", RECORDS)


def rescue(*words: str | Path | int) -> list[dict[str, Any]]:
    """What the command says; it must succeed."""
    answer = process("quorum", *words, "--output", "json")
    assert 0 == answer.status, answer.out + answer.err
    return answer.lines


def verdict(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """The object about all directories."""
    (line,) = [line for line in lines if "committedOffset" in line]
    return line


def serves_as_before(cluster: QuorumCluster) -> None:
    """All topics, settings and records are there, and it takes more."""
    cluster.wait_for_topics({"orders", "users"})
    assert "7654321" == cluster.config("orders", "retention.ms")
    assert "compact" == cluster.config("users", "cleanup.policy")
    assert "4321" == cluster.config("users", "min.compaction.lag.ms")
    cluster.produce("users", ["after"])
    assert [*RECORDS, "after"] == cluster.consume("users", len(RECORDS) + 1)
    cluster.make_topic("later")
    cluster.produce("later", ["x"])
    assert ["x"] == cluster.consume("later", 1)


def begin_again(cluster: QuorumCluster, node: int, directory: Path) -> None:
    """Start a controller from a new directory as the only voter, and the broker. Only with
    kraft.version 0 do the properties name the voters.
    """
    voters = CONTROLLERS if cluster.dynamic else (node,)
    cluster.configure(node, directory, voters=voters)
    cluster.configure(BROKER, cluster.log_dir(BROKER), voters=voters)
    cluster.start(node)
    cluster.start(BROKER)


@pytest.mark.rotates(8)
@pytest.mark.parametrize("dynamic", [True, False])
def test_one_controller_is_left(tmp_path: Path, dynamic: bool) -> None:
    """It becomes the only voter, serves within a minute, and gets company again."""
    with QuorumCluster(tmp_path, dynamic=dynamic) as cluster:
        filled(cluster)
        cluster.kill_all()
        for node in CONTROLLERS[1:]:
            shutil.rmtree(cluster.log_dir(node))
        survivor = cluster.log_dir(1)
        before, new = tree(survivor), tmp_path / "rescued-1"

        began = time.monotonic()
        *_, written = rescue(survivor, "--to", new, "--yes")
        begin_again(cluster, 1, new)
        cluster.wait_for_topics({"orders", "users"})
        seconds = time.monotonic() - began
        assert seconds < max(GOAL_SECONDS, 4 * cluster.start_seconds)

        assert (CLUSTER_ID, 1) == (written["clusterId"], written["nodeId"])
        assert before == tree(survivor)
        serves_as_before(cluster)
        status = cluster.quorum("describe", "--status")
        epoch = re.search(r"^LeaderEpoch:\s+(\d+)$", status, re.MULTILINE)
        assert epoch is not None
        assert int(epoch[1]) > written["epoch"]
        assert [1] == voters(status)
        if dynamic:
            add_controllers(cluster)
        else:
            copy_controllers(cluster, tmp_path)
        serves_on(cluster)


def voters(status: str) -> list[int]:
    """The ids in what ``kafka-metadata-quorum describe --status`` prints."""
    (line,) = re.findall(r"^CurrentVoters:\s+(.*)$", status, re.MULTILINE)
    return [one["id"] for one in json.loads(line)]


def add_controllers(cluster: QuorumCluster) -> None:
    """As the runbook says with kraft.version 1."""
    for node in CONTROLLERS[1:]:
        words = ["--cluster-id", CLUSTER_ID, "--config", str(cluster.properties(node))]
        cluster.tool("kafka.tools.StorageTool", "format", "--no-initial-controllers", *words)
        cluster.start(node)
        add_controller(cluster, node)
    assert list(CONTROLLERS) == sorted(voters(cluster.quorum("describe", "--status")))


def add_controller(cluster: QuorumCluster, node: int) -> None:
    """Add one, once it has caught up."""
    deadline = time.monotonic() + 120
    while True:
        try:
            cluster.quorum("add-controller", config=node)
        except AssertionError:
            assert time.monotonic() < deadline, cluster.output()
            time.sleep(1)
        else:
            return


def copy_controllers(cluster: QuorumCluster, work: Path) -> None:
    """As the runbook says with kraft.version 0: all get the same files, and an id of their own."""
    cluster.kill(1)
    cluster.kill(BROKER)
    for node in CONTROLLERS[1:]:
        new = work / f"rescued-{node}"
        shutil.copytree(work / "rescued-1", new)
        (new / "meta.properties").write_text(
            f"version=1\ncluster.id={CLUSTER_ID}\nnode.id={node}\n"
        )
        cluster.configure(node, new)
    cluster.configure(1, work / "rescued-1")
    cluster.configure(BROKER, cluster.log_dir(BROKER))
    for node in (*CONTROLLERS, BROKER):
        cluster.start(node)
    cluster.wait_for_topics({"later"})
    assert list(CONTROLLERS) == sorted(voters(cluster.quorum("describe", "--status")))


def serves_on(cluster: QuorumCluster) -> None:
    """Without the controller that was left, too."""
    cluster.kill(1)
    cluster.make_topic("last")
    cluster.produce("last", ["y"])
    assert ["y"] == cluster.consume("last", 1)


def kinds(lines: list[dict[str, Any]]) -> dict[str, int]:
    """Kind → records, of what is listed."""
    return {line["kind"]: line["records"] for line in lines}


def logged(directory: Path, start: int, end: int, cluster: QuorumCluster) -> Counter[str]:
    """The kinds of records in a range of offsets of a metadata log, by Kafka's own tool."""
    counts: Counter[str] = Counter()
    for path in sorted(directory.glob("*.log")):
        words = ("--cluster-metadata-decoder", "--files", str(path))
        printed = cluster.tool("org.apache.kafka.tools.DumpLogSegments", *words)
        for line in printed.splitlines():
            offset = re.match(r"\| offset: (\d+) ", line)
            if offset is not None and start <= int(offset[1]) < end:
                kind = re.search(r'payload: \{"type":"([A-Z_]+)"', line)
                counts[kind_name(kind[1]) if kind else "control"] += 1
    return counts


def kind_name(name: str) -> str:
    """``TOPIC_RECORD`` as the schema's file has it; NO_OP is NoOp there."""
    words = name.split("_")
    return "".join(word.capitalize() for word in words)


@pytest.fixture(scope="module")
def lagging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[QuorumCluster, int]]:
    """A cluster that was killed, one of whose controllers had been killed before the topic
    ``late`` was made; and that controller.
    """
    with QuorumCluster(tmp_path_factory.mktemp("lagging"), dynamic=True) as cluster:
        filled(cluster)
        late_node = next(node for node in CONTROLLERS if node != cluster.leader())
        cluster.kill(late_node)
        cluster.make_topic("late", retention_ms="1234567")
        cluster.produce("late", ["z"])
        cluster.kill_all()
        yield cluster, late_node


@pytest.mark.rotates(8)
def test_a_controller_that_lags_is_left(lagging: tuple[QuorumCluster, int], tmp_path: Path) -> None:
    """What it lacks is counted by what is left of another one, a log that is damaged; it serves
    what it has.
    """
    cluster, late_node = lagging
    other = next(node for node in CONTROLLERS if node != late_node)
    truth = cluster.log_dir(other) / METADATA
    log = max(truth.glob("*.log"))
    damaged = tmp_path / "damaged"
    shutil.copytree(cluster.log_dir(other), damaged)
    content = bytearray(log.read_bytes())
    content[100] ^= 1
    (damaged / METADATA / log.name).write_bytes(content)

    alone = call("quorum", cluster.log_dir(late_node), "--output", "json")
    assert 0 == alone.status, alone.err
    first = verdict(alone.lines)
    assert first["lostBefore"] is None
    both = call("quorum", cluster.log_dir(late_node), damaged, "--output", "json")
    assert 3 == both.status
    second = verdict(both.lines)
    assert str(cluster.log_dir(late_node)) == second["source"]
    end = read_metadata(truth).end_offset
    assert (first["endOffset"], end) == (second["endOffset"], second["lostBefore"])
    lost = logged(truth, second["endOffset"], end, cluster)
    assert dict(lost) == kinds(second["notApplied"])
    assert (1, 1) == (lost["TopicRecord"], lost["PartitionRecord"])
    uncertain = logged(truth, first["committedOffset"], first["endOffset"], cluster)
    assert dict(uncertain) == kinds(first["perhapsNotCommitted"])

    new = tmp_path / "rescued"
    rescue(cluster.log_dir(late_node), "--to", new, "--yes")
    written_as_kafka_reads(cluster, new, late_node)
    broker = cluster.log_dir(BROKER)
    shutil.copytree(broker, tmp_path / "broker")
    (broker / METADATA).rename(tmp_path / "metadata-of-the-broker")
    begin_again(cluster, late_node, new)
    serves_as_before(cluster)
    assert "late" not in cluster.topics()
    cluster.kill_all()
    shutil.rmtree(broker)
    (tmp_path / "broker").rename(broker)


@pytest.mark.rotates(8)
def test_a_broker_has_what_the_controller_lacks(
    lagging: tuple[QuorumCluster, int], tmp_path: Path
) -> None:
    """With its directory nothing is lost."""
    cluster, late_node = lagging
    dirs = (cluster.log_dir(late_node), cluster.log_dir(BROKER))
    new = tmp_path / "rescued"
    lines = rescue(*dirs, "--to", new, "--node-id", late_node, "--yes")
    assert str(cluster.log_dir(BROKER)) == verdict(lines)["source"]
    begin_again(cluster, late_node, new)
    serves_as_before(cluster)
    cluster.wait_for_topics({"late"})
    assert "1234567" == cluster.config("late", "retention.ms")
    assert ["z"] == cluster.consume("late", 1)


def written_as_kafka_reads(cluster: QuorumCluster, new: Path, node: int) -> None:
    """Kafka's own tool reads the snapshot: its frame, its only voter, and valid batches."""
    (snapshot,) = (new / METADATA).glob("*.checkpoint")
    words = ("--cluster-metadata-decoder", "--files", str(snapshot))
    printed = cluster.tool("org.apache.kafka.tools.DumpLogSegments", *words)
    assert "isvalid: false" not in printed
    assert printed.count("isvalid: true") >= 3
    assert 1 == printed.count("SnapshotHeader") == printed.count("SnapshotFooter")
    (voters_record,) = re.findall(r"KRaftVoters (\{.*\})", printed)
    assert [node] == [one["voterId"] for one in json.loads(voters_record)["voters"]]
    assert '"kRaftVersion":1' in printed


@pytest.mark.rotates(8)
def test_a_broker_that_is_a_controller_is_left(tmp_path: Path) -> None:
    """Of three in combined mode: it keeps its partitions where they are."""
    with Brokers(tmp_path) as brokers:
        (made,) = brokers.admin.create_topics([NewTopic("orders", 3, 3)]).values()
        made.result(60)
        producer = Producer({"bootstrap.servers": brokers.bootstrap, "acks": "all"})
        for number in range(30):
            producer.produce("orders", str(number), partition=number % 3)
        assert 0 == producer.flush(60)
        for broker in brokers.ids:
            brokers.kill(broker)
        for broker in brokers.ids[1:]:
            shutil.rmtree(brokers.log_dir(broker))
        left, new = brokers.log_dir(1), tmp_path / "rescued"
        rescue(left, "--to", new, "--yes")
        (left / METADATA).rename(tmp_path / "old-metadata")
        properties = tmp_path / "1.properties"
        alone = re.sub(r"(controller\.quorum\.voters=1@[^,]*),.*", r"\1", properties.read_text())
        alone += f"metadata.log.dir={new}\nunclean.leader.election.enable=true\n"
        properties.write_text(alone)
        brokers.start(1)
        deadline = time.monotonic() + 120
        while brokers.alive() != {1}:
            assert time.monotonic() < deadline, brokers.said()
            time.sleep(0.2)
        consumer = Consumer({"bootstrap.servers": brokers.bootstrap, "group.id": "g"})
        consumer.assign([TopicPartition("orders", at, 0) for at in range(3)])
        read = set()
        while len(read) < 30:
            assert time.monotonic() < deadline, brokers.said()
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                read.add((message.value() or b"").decode())
        consumer.close()
        assert {str(number) for number in range(30)} == read
