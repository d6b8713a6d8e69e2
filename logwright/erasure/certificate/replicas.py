"""Replicas that the cluster's metadata knows and that were not searched. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from logwright.erasure.certificate.model import Replicas
from logwright.format.names import TopicPartition
from logwright.metadata.model import TopicMetadata


def not_searched(
    topics: Mapping[str, TopicMetadata],
    held: Sequence[tuple[int | None, Collection[TopicPartition]]],
    requested: Callable[[str], bool],
) -> tuple[Replicas, ...]:
    """Return the brokers with a replica that no searched directory of theirs has, by topic.

    Args:
        topics: of the cluster's metadata.
        held: of each searched directory the broker's id, None if unknown, and its partitions.
        requested: whether a request is about a topic.
    """
    seen = {(node_id, one) for node_id, partitions in held for one in partitions}
    missing = []
    for name, topic in sorted(topics.items()):
        if not requested(name):
            continue
        brokers = {
            broker
            for number, partition in topic.partitions.items()
            for broker in partition.replicas
            if (broker, TopicPartition(name, number)) not in seen
        }
        if brokers:
            missing.append(Replicas(topic=name, brokers=tuple(sorted(brokers))))
    return tuple(missing)
