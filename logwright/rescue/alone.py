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
from logwright.metadata.model import ELIGIBLE_LEADERS, ClusterMetadata
from logwright.metadata.read import read_directory_ids, read_metadata
from logwright.place.model import Place

_MOST_NAMED: Final = 3
NOT_KNOWN_WHO_LEADS: Final = (
    "whether this replica leads although it lacks records: that is in the cluster's metadata"
)
_NOT_KNOWN: Final = f"Not looked at: {NOT_KNOWN_WHO_LEADS}."
LET_ANOTHER_LEAD: Final = (
    "If another broker may have more, leave this one stopped, and stop the others. Start only the"
    " one of them that has most (the highest epoch in the last line of its"
    " TOPIC-N/leader-epoch-checkpoint, then the highest end in `logwright inspect`, which shows it"
    " of a broker that was killed after `logwright recover`), since an election takes the first"
    " that runs, whatever it has, and let it lead:"
    " kafka-leader-election.sh --election-type unclean --topic TOPIC --partition N. Then start the"
    " rest, and this one."
)


def led_by_it_alone(
    metadata: ClusterMetadata, node_id: int | None, partitions: Iterable[TopicPartition]
) -> tuple[TopicPartition, ...]:
    """Return those of some partitions of which a node has one of several replicas, and the only one
    in sync, in a cluster without eligible leader replicas. Pure.
    """
    if metadata.features.get(ELIGIBLE_LEADERS, 0):
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


def elected_anyway(
    log_dir: Path, partitions: Iterable[TopicPartition], given: Place | None
) -> str | None:
    """Return what is to be said of partitions that lack records; None if nothing is. Effects: reads
    the metadata.

    Args:
        given: the metadata log; None: that of the directory, or of one next to it.
    """
    lacking = tuple(partitions)
    if not lacking:
        return None
    try:
        path = find_metadata(log_dir) if given is None else given
        if path is None:
            return _NOT_KNOWN
        node_id = read_directory_ids(log_dir).node_id
        if node_id is None:
            return _NOT_KNOWN
        alone = led_by_it_alone(read_metadata(path), node_id, lacking)
    except LogwrightError:  # `doctor` says what is wrong with it
        return _NOT_KNOWN
    return f"{sentence_of(alone)} {LET_ANOTHER_LEAD}" if alone else None
