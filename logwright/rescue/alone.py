"""Replicas that a controller lets lead whatever they lack.

A controller knows by the broker's epoch that a stop was not clean, and takes the broker's replicas
out of the ISR and the eligible leader replicas (KIP-966). Without that feature the last member of
an ISR stays in it, whatever has become of its log (ReplicationControlManager, Kafka 4.4.0): it
leads again as soon as it is back, and the other replicas cut their logs to its end.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from logwright.errors import LogwrightError
from logwright.format.names import TopicPartition
from logwright.metadata.find import find_metadata
from logwright.metadata.model import ClusterMetadata
from logwright.metadata.read import read_directory_ids, read_metadata

_ELIGIBLE_LEADERS: Final = "eligible.leader.replicas.version"
_MOST_NAMED: Final = 3
LET_ANOTHER_LEAD: Final = (
    "If another broker may have more, leave this one stopped, start the others, and let one of them"
    " lead: kafka-leader-election.sh --election-type unclean --topic TOPIC --partition N. Then"
    " start this one."
)


def led_by_it_alone(
    metadata: ClusterMetadata, node_id: int | None, partitions: Iterable[TopicPartition]
) -> tuple[TopicPartition, ...]:
    """Return those of some partitions of which a node has one of several replicas, and the only one
    in sync, in a cluster without eligible leader replicas. Pure.
    """
    if metadata.features.get(_ELIGIBLE_LEADERS, 0):
        return ()
    alone = []
    for partition in partitions:
        topic = metadata.topics.get(partition.topic)
        known = None if topic is None else topic.partitions.get(partition.partition)
        if known is not None and len(known.replicas) > 1 and {*known.in_sync} == {node_id}:
            alone.append(partition)
    return tuple(alone)


def sentence_of(partitions: tuple[TopicPartition, ...]) -> str:
    """Return what such partitions are in for."""
    names = ", ".join(map(str, partitions[:_MOST_NAMED]))
    more = len(partitions) - _MOST_NAMED
    return (
        f"{names}{f' and {more} more' if more > 0 else ''}: by the cluster's metadata this is the"
        " only replica in sync, and the cluster has no eligible leader replicas (KIP-966): the"
        " controller lets it lead whatever it lacks, and the others cut their logs to its end."
    )


def elected_anyway(log_dir: Path, partitions: Iterable[TopicPartition]) -> str | None:
    """Return what is to be said of partitions that lack records, by the metadata that the directory
    or one next to it has; None if there is none, or nothing is to be said. Effects: reads it.
    """
    lacking = tuple(partitions)
    if not lacking:
        return None
    try:
        path = find_metadata(log_dir)
        if path is None:
            return None
        node_id = read_directory_ids(log_dir).node_id
        alone = led_by_it_alone(read_metadata(path), node_id, lacking)
    except LogwrightError:  # `doctor` says what is wrong with it
        return None
    return f"{sentence_of(alone)} {LET_ANOTHER_LEAD}" if alone else None
