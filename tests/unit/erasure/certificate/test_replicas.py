"""What the cluster's metadata knows to be elsewhere."""

from __future__ import annotations

from logwright.erasure.certificate.model import Replicas
from logwright.erasure.certificate.replicas import not_searched
from logwright.format.names import TopicPartition
from logwright.metadata.model import PartitionMetadata, TopicMetadata

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def topic(name: str, *replicas: tuple[int, ...]) -> TopicMetadata:
    partitions = {
        number: PartitionMetadata(replicas=brokers, directories=())
        for number, brokers in enumerate(replicas)
    }
    return TopicMetadata(name=name, topic_id="x", partitions=partitions)


TOPICS = {"t": topic("t", (1, 2), (2, 3)), "u": topic("u", (1,)), "v": topic("v", (9,))}


def test_brokers_by_topic() -> None:
    """Each replica must be in a searched directory of its own broker."""
    held = [(1, {T0, U0}), (2, {T0, T1})]
    assert (Replicas(topic="t", brokers=(3,)),) == not_searched(
        TOPICS, held, lambda one: one != "v"
    )
    assert (Replicas(topic="v", brokers=(9,)),) == not_searched(TOPICS, [], lambda one: one == "v")


def test_another_log_directory_of_the_same_broker() -> None:
    """A broker that was searched, but not the directory that has the log."""
    held = [(1, {U0}), (2, {T0, T1}), (3, {T1})]
    assert (Replicas(topic="t", brokers=(1,)),) == not_searched(
        TOPICS, held, lambda one: one != "v"
    )
    assert () == not_searched(TOPICS, [*held, (1, {T0})], lambda one: one != "v")


def test_directories_of_unknown_brokers() -> None:
    """They prove nothing of a broker."""
    assert (Replicas(topic="u", brokers=(1,)),) == not_searched(
        TOPICS, [(None, {U0})], lambda one: one == "u"
    )
