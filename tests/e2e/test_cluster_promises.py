"""What a command does to one replica breaks no promise of its cluster: real brokers, with a
controller that continues while they are stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ElectionType, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from logwright.locks import wait_for
from tests.e2e.brokers import Brokers
from tests.e2e.command import Answer, call
from tests.e2e.rolling_cluster import IN_TIME

pytestmark = [pytest.mark.e2e, pytest.mark.oracle]

TOPIC = "t"
COUNT = 1_000
"""Records that are acknowledged."""
EVERY = {1, 2, 3}
SEGMENT = f"{TOPIC}-0/{0:020d}.log"
CLIENT_SECONDS = 60.0


@contextmanager
def three_brokers(work: Path, *features: str) -> Iterator[Brokers]:
    """They run, with the topic, until the end of the block."""
    with Brokers(work, apart=True, features=features) as running:
        config = {"min.insync.replicas": "2", "cleanup.policy": "compact"}
        topic = NewTopic(TOPIC, 1, len(EVERY), config=config)
        running.admin.create_topics([topic])[TOPIC].result(CLIENT_SECONDS)
        yield running


def produce(cluster: Brokers, keys: list[str]) -> None:
    """Records of which all replicas in sync have acknowledged each."""
    settings = {"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0}
    producer = Producer({**settings, "batch.num.messages": 20})
    for key in keys:
        producer.produce(TOPIC, key=key, value=f"of {key}", partition=0)
        producer.poll(0)
    assert 0 == producer.flush(CLIENT_SECONDS)


def consumed(cluster: Brokers) -> set[str]:
    """The keys that a consumer gets, up to the end."""
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "log_level": 0}
    consumer = Consumer(settings)
    partition = TopicPartition(TOPIC, 0, 0)
    _, end = consumer.get_watermark_offsets(partition, timeout=CLIENT_SECONDS)
    consumer.assign([partition])
    keys, offset = set(), 0
    while offset < end:
        (message,) = consumer.consume(1, CLIENT_SECONDS)
        assert message.error() is None
        keys.add(bytes(message.key() or b"").decode())
        offset = (message.offset() or 0) + 1
    consumer.close()
    return keys


def isr(cluster: Brokers) -> set[int]:
    """Who is in sync."""
    return set(cluster.admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions[0].isrs)


def leader(cluster: Brokers) -> int:
    """Who leads; -1: nobody."""
    return int(cluster.admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions[0].leader)


def lose_the_end(cluster: Brokers, broker: int) -> Answer:
    """All are stopped cleanly, this one last; its disk loses the end of the log, and it is rescued.
    What `rescue` says.
    """
    for each in sorted(EVERY - {broker}):
        cluster.stop(each)
    cluster.stop(broker)
    log_dir = cluster.log_dir(broker)
    marker = log_dir / ".kafka_cleanshutdown"
    assert "brokerEpoch" in marker.read_text()
    segment = log_dir / SEGMENT
    size = segment.stat().st_size
    with segment.open("r+b") as file:
        file.seek(size * 4 // 10)
        file.write(bytes(size - size * 4 // 10))
    rescued = call("rescue", log_dir, "--yes", "--accept-loss")
    assert 0 == rescued.status, rescued.err
    assert "" == marker.read_text()
    return rescued


def has_most(cluster: Brokers, broker: int) -> tuple[int, int]:
    """The last leader epoch of a replica, and where its log ends."""
    epochs = cluster.log_dir(broker) / f"{TOPIC}-0/leader-epoch-checkpoint"
    (log,) = call("inspect", cluster.log_dir(broker), f"{TOPIC}-0", "--output", "json").lines
    return int(epochs.read_text().split()[-2]), log["logEndOffset"]


def require_all(cluster: Brokers, keys: set[str]) -> None:
    """Consumers get all that was acknowledged, and the replicas are alike."""
    assert wait_for(lambda: isr(cluster) == EVERY or None, IN_TIME), cluster.said()
    assert keys == consumed(cluster)
    assert 1 == len({(cluster.log_dir(each) / SEGMENT).stat().st_size for each in EVERY})


@pytest.mark.rotates(8)
def test_what_all_acknowledged_stays(tmp_path: Path) -> None:
    """A follower takes no record of its own while it is stopped: `erase` by Kafka's rules is
    refused. A replica that lost its end, and was rescued, is not elected, even if it comes back
    first; the others keep what they acknowledged, and it fetches that from them (KIP-966).
    """
    keys = [f"k{number}" for number in range(COUNT)]
    with three_brokers(tmp_path) as cluster:
        produce(cluster, keys)
        follower = min(EVERY - {leader(cluster), 1})
        cluster.stop(follower)
        (cluster.work / "keys").write_text("k1\n")
        words = ("--keys", cluster.work / "keys", "--yes", "--config", "cleanup.policy=compact")
        refused = call("erase", cluster.log_dir(follower), *words)
        assert 5 == refused.status, refused.err
        assert "only its leader appends" in refused.err
        produce(cluster, ["later"])
        cluster.start(follower)
        assert wait_for(lambda: isr(cluster) == EVERY or None, IN_TIME), cluster.said()

        assert "whatever it lacks" not in lose_the_end(cluster, 1).out
        cluster.start(1)
        assert wait_for(lambda: cluster.alive() == {1} or None, IN_TIME), cluster.said()
        assert -1 == leader(cluster), "it has less than it acknowledged"
        cluster.start(2)
        cluster.start(3)
        require_all(cluster, {*keys, "later"})


@pytest.mark.rotates(8)
def test_a_cluster_without_eligible_leader_replicas(tmp_path: Path) -> None:
    """There the last member of an ISR leads whatever it lacks: `doctor` and `rescue` say so, and
    what to do. Done as they say, nothing is lost.
    """
    keys = {f"k{number}" for number in range(COUNT)}
    with three_brokers(tmp_path, "eligible.leader.replicas.version=0") as cluster:
        produce(cluster, sorted(keys))
        cluster.stop(2)  # it lacks what follows, and is the first that an election would take
        assert wait_for(lambda: isr(cluster) == {1, 3} or None, IN_TIME), cluster.said()
        produce(cluster, ["later"])
        rescued = lose_the_end(cluster, 1)
        alone = f"{TOPIC}-0: by the cluster's metadata this is the only replica in sync"
        assert alone in rescued.out
        assert "leave this one stopped, and stop the others" in rescued.out
        assert has_most(cluster, 3) > has_most(cluster, 2)
        cluster.start(3)
        assert wait_for(lambda: cluster.alive() == {3} or None, IN_TIME), cluster.said()
        assert -1 == leader(cluster)
        partition = TopicPartition(TOPIC, 0)
        cluster.admin.elect_leaders(ElectionType.UNCLEAN, [partition]).result()
        assert wait_for(lambda: leader(cluster) == 3 or None, IN_TIME), cluster.said()
        cluster.start(2)
        cluster.start(1)
        require_all(cluster, {*keys, "later"})
