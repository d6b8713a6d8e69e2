"""Which log directories hold a partition, and which replicas are missing among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from logwright.format.names import TopicPartition
from logwright.metadata.model import ClusterMetadata
from logwright.metadata.read import read_directory_ids
from logwright.observe import holds
from logwright.place.model import Place


class Holders(NamedTuple):
    """The replicas of a partition among several log directories.

    Attributes:
        holding: the directories that have the partition's log.
        lacking: those that do not, although no other directory of their broker does: of brokers
            that hold a replica by the metadata, or, without metadata, of any.
        assigned: the brokers that hold a replica by the metadata, None if that is not known.
        unseen: those of them of which no directory was given.
    """

    holding: tuple[Place, ...]
    lacking: tuple[Place, ...]
    assigned: tuple[int, ...] | None
    unseen: tuple[int, ...]

    @property
    def complete(self) -> bool:
        """Every replica that should be there is."""
        return not self.lacking and not self.unseen


def node_ids(log_dirs: Sequence[Place]) -> dict[Place, int | None]:
    """Return the broker of each log directory by its ``meta.properties``, None if it has none.
    Effects: reads them.

    Raises:
        NotALogDir, UnreadableFile, CorruptLogError: see `read_directory_ids`.
    """
    return {log_dir: read_directory_ids(log_dir).node_id for log_dir in log_dirs}


def assigned_brokers(
    partition: TopicPartition, metadata: ClusterMetadata | None
) -> tuple[int, ...] | None:
    """Return the brokers that hold a replica by the metadata, None if that is not known. Pure."""
    topic = None if metadata is None else metadata.topics.get(partition.topic)
    assigned = None if topic is None else topic.partitions.get(partition.partition)
    return None if assigned is None else assigned.replicas


def find_holders(
    partition: TopicPartition,
    log_dirs: Sequence[Place],
    nodes: Mapping[Place, int | None],
    metadata: ClusterMetadata | None = None,
) -> Holders:
    """Return which directories hold a partition, and which replicas are missing. Effects: looks at
    the directories.

    Args:
        nodes: of `node_ids`.
        metadata: of the cluster, if known: its assignment of replicas.
    """
    holding = tuple(log_dir for log_dir in log_dirs if holds(log_dir, partition))
    assigned = assigned_brokers(partition, metadata)
    return judge_holders(log_dirs, holding, nodes, assigned)


def judge_holders(
    log_dirs: Sequence[Place],
    holding: Sequence[Place],
    nodes: Mapping[Place, int | None],
    assigned: tuple[int, ...] | None,
) -> Holders:
    """Return which replicas are missing. Pure; see `Holders`."""
    served = {nodes[log_dir] for log_dir in holding} - {None}
    lacking = []
    for log_dir in log_dirs:
        node = nodes[log_dir]
        elsewhere = log_dir in holding or node in served
        expected = assigned is None or node is None or node in assigned
        if not elsewhere and expected:
            lacking.append(log_dir)
    given = {node for node in nodes.values() if node is not None}
    unseen = tuple(one for one in assigned or () if one not in given) if given else ()
    return Holders(tuple(holding), tuple(lacking), assigned, unseen)
