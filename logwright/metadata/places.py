"""Decide from the cluster's metadata whether a partition directory is stray."""

from __future__ import annotations

from logwright.format.names import TopicPartition
from logwright.metadata.model import (
    ClusterMetadata,
    DirectoryIds,
    PartitionMetadata,
    is_reserved,
)


def stray_reason(
    partition: TopicPartition,
    topic_id: str | None,
    metadata: ClusterMetadata,
    ids: DirectoryIds,
) -> str | None:
    """Return why a broker would not serve this directory; None if it would.

    1. Kafka renames it to ``-stray`` at start-up (LogManager.isStrayReplica, 4.3.0) if it has no
       topic id, an unknown one or that of another topic, or if the node has no replica of the
       partition.
    2. The node's replica is assigned to another of its log directories (KIP-858).

    Args:
        partition: the partition in the directory's name.
        topic_id: the topic id in its ``partition.metadata``.
        metadata: the cluster's metadata.
        ids: the ids of the log directory.
    """
    if topic_id is None:
        return "no topic id"
    owner = metadata.topics.get(partition.topic)
    if owner is None or owner.topic_id != topic_id:  # rare, so a search is fast enough
        owner = next((one for one in metadata.topics.values() if one.topic_id == topic_id), None)
    if owner is None:
        return f"its topic id {topic_id} is unknown to the cluster"
    if owner.name != partition.topic:
        return f"its topic id {topic_id} belongs to the topic {owner.name}"
    return _replica_reason(owner.partitions.get(partition.partition), ids)


def _replica_reason(partition: PartitionMetadata | None, ids: DirectoryIds) -> str | None:
    if partition is None:
        return "the partition does not exist in its topic"
    if ids.node_id is not None and ids.node_id not in partition.replicas:
        return f"node {ids.node_id} has no replica of it"
    if ids.node_id is None or ids.directory_id is None or not partition.directories:
        return None
    assigned = partition.directories[partition.replicas.index(ids.node_id)]
    if is_reserved(assigned) or assigned == ids.directory_id:
        return None
    return f"its replica is assigned to the log directory with id {assigned}"
