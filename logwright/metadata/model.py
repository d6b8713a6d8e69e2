"""A cluster's metadata about its topics and brokers."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from logwright.format.names import TopicPartition
from logwright.place.model import Place
from logwright.units import Offset, TimestampMs

REMOTE_STORAGE: Final = "remote.storage.enable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """A config's value and the offset of the record that set it."""

    value: str
    offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    """A partition.

    Attributes:
        replicas: node ids.
        directories: directory ids of the replicas, in the same order; () if unknown. A reserved one
            (`is_reserved`) means that the replica has no directory yet or that it was lost.
        in_sync: by node id of an in-sync replica since when it is known to be one, ms since the
            epoch by the controller's clock; 0: since the partition was made.
    """

    replicas: tuple[int, ...]
    directories: tuple[str, ...]
    in_sync: Mapping[int, TimestampMs] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata:
    """A topic."""

    name: str
    topic_id: str
    partitions: Mapping[int, PartitionMetadata]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetadata:
    """All topics, configs, features and brokers up to an offset.

    Attributes:
        registered: node id → feature name → highest level that the broker registered when it last
            started.
    """

    path: Place
    cluster_id: str | None
    end_offset: Offset
    snapshot: str | None
    topics: Mapping[str, TopicMetadata]
    topic_configs: Mapping[str, Mapping[str, ConfigEntry]]
    broker_configs: Mapping[str, Mapping[str, ConfigEntry]]
    features: Mapping[str, int]
    registered: Mapping[int, Mapping[str, int]] = field(default_factory=dict)

    def replicas_of(self, partition: TopicPartition) -> tuple[int, ...]:
        """Return the node ids of a partition's replicas; none if the cluster does not have it."""
        topic = self.topics.get(partition.topic)
        known = None if topic is None else topic.partitions.get(partition.partition)
        return () if known is None else known.replicas

    def is_remote(self, topic: str) -> bool:
        """Return whether a topic has remote storage (KIP-405)."""
        entry = self.topic_configs.get(topic, {}).get(REMOTE_STORAGE)
        return entry is not None and entry.value.strip().lower() == "true"


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryIds:
    """The ids in ``meta.properties``."""

    cluster_id: str | None
    node_id: int | None
    directory_id: str | None


NO_IDS: Final = DirectoryIds(cluster_id=None, node_id=None, directory_id=None)
"""The ids of a log directory without ``meta.properties``."""

ELIGIBLE_LEADERS: Final = "eligible.leader.replicas.version"
"""The feature level of eligible leader replicas (KIP-966)."""
RESERVED_IDS: Final = 100
"""Number of reserved ids, from 0 (DirectoryId.reserved, 4.3.0)."""


def is_reserved(directory_id: str) -> bool:
    """Return whether this is a reserved id: 0 migrating, 1 unassigned, 2 lost (KIP-858)."""
    return int.from_bytes(base64.urlsafe_b64decode(f"{directory_id}=="), "big") < RESERVED_IDS
