"""The state that results from the records of the metadata log (MetadataDelta, MetadataImage,
4.3.0).

1. Removing a topic removes its configs. Setting a config to null removes it.
2. The records of an aborted transaction have no effect; those of an open one have none yet.
3. Inconsistent records (an unknown topic or partition, a duplicate topic, an end without a begin)
   are refused: no controller writes them.
4. A replica is in sync since the record that made it so, or the partition; of a snapshot, since its
   last record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from logwright.errors import CorruptBatch
from logwright.metadata.model import ConfigEntry, PartitionMetadata, TopicMetadata
from logwright.metadata.records import (
    ChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    TransactionRecord,
    UnregisterBrokerRecord,
)
from logwright.units import Offset, TimestampMs

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
"""ConfigResource.Type; other types have no settings of logs."""

KRAFT_VERSION: Final = "kraft.version"
"""A feature of the quorum, which is not set by records of this log (FeaturesDelta)."""

MIGRATING: Final = "AAAAAAAAAAAAAAAAAAAAAA"
"""Directory of a replica whose record had none; written by snapshots (DirectoryId.MIGRATING)."""

Configs = dict[str, dict[str, ConfigEntry]]


@dataclass(slots=True)
class _Topic:
    """A topic under construction."""

    name: str
    partitions: dict[int, PartitionMetadata] = field(default_factory=dict)


class At(NamedTuple):
    """Where a record is.

    Attributes:
        offset: the source of configs.
        timestamp_ms: ms since the epoch, by the controller's clock.
        is_snapshot: it is part of a snapshot, with its time.
    """

    offset: Offset
    timestamp_ms: TimestampMs = TimestampMs(0)
    is_snapshot: bool = False


class Image:
    """The state after applying records in log order; does no I/O."""

    def __init__(self) -> None:
        self._topics: dict[str, _Topic] = {}
        self._ids: dict[str, str] = {}
        self._topic_configs: Configs = {}
        self._broker_configs: Configs = {}
        self._features: dict[str, int] = {}
        self._registered: dict[int, Mapping[str, int]] = {}
        self._transaction: list[tuple[ChangeRecord, At]] = []
        self._begin: Offset | None = None

    @property
    def open_transaction(self) -> Offset | None:
        """Offset of the begin record of the open transaction, None if none is open."""
        return self._begin

    @property
    def topics(self) -> Mapping[str, TopicMetadata]:
        """Topic name → topic."""
        return {
            topic.name: TopicMetadata(
                name=topic.name,
                topic_id=topic_id,
                partitions=dict(sorted(topic.partitions.items())),
            )
            for topic_id, topic in self._topics.items()
        }

    @property
    def topic_configs(self) -> Mapping[str, Mapping[str, ConfigEntry]]:
        """Topic name → configs."""
        return self._topic_configs

    @property
    def broker_configs(self) -> Mapping[str, Mapping[str, ConfigEntry]]:
        """Node id as text → configs; "" = all brokers."""
        return self._broker_configs

    @property
    def features(self) -> Mapping[str, int]:
        """Feature name → level, above 0."""
        return self._features

    @property
    def registered(self) -> Mapping[int, Mapping[str, int]]:
        """Node id → feature name → highest level that the broker registered."""
        return self._registered

    def apply(self, record: MetadataRecord, at: At) -> None:
        """Apply the next record.

        Raises:
            CorruptBatch: the record is inconsistent with the state.
        """
        if isinstance(record, TransactionRecord):
            self._apply_transaction(record, at.offset)
        elif self._begin is not None:
            self._transaction.append((record, at))
        else:
            self._change(record, at)

    def _apply_transaction(self, record: TransactionRecord, offset: Offset) -> None:
        if (record is TransactionRecord.BEGIN) == (self._begin is not None):
            state = "no transaction is open" if self._begin is None else "a transaction is open"
            raise CorruptBatch(f"unexpected transaction {record.name}: {state}.")
        changes, self._transaction = self._transaction, []
        self._begin = offset if record is TransactionRecord.BEGIN else None
        if record is TransactionRecord.END:
            for change, changed_at in changes:
                self._change(change, changed_at)

    def _change(self, record: ChangeRecord, at: At) -> None:
        match record:
            case TopicRecord(name=name, topic_id=topic_id):
                if name in self._ids or topic_id in self._topics:
                    raise CorruptBatch(
                        f"a topic with this name or with the id {topic_id} already exists."
                    )
                self._topics[topic_id] = _Topic(name)
                self._ids[name] = topic_id
            case RemoveTopicRecord(topic_id=topic_id):
                name = self._topic(topic_id).name
                del self._topics[topic_id], self._ids[name]
                self._topic_configs.pop(name, None)
            case PartitionRecord(partition=partition, topic_id=topic_id):
                since = at.timestamp_ms if at.is_snapshot else TimestampMs(0)
                in_sync = dict.fromkeys(record.in_sync, since)
                made = _partition(record.replicas, record.directories, in_sync)
                self._topic(topic_id).partitions[partition] = made
            case PartitionChangeRecord():
                self._change_partition(record, at)
            case ConfigRecord():
                self._change_config(record, at.offset)
            case FeatureLevelRecord():
                self._change_feature(record)
            case RegisterBrokerRecord() | UnregisterBrokerRecord():
                self._change_broker(record)

    def _change_broker(self, record: RegisterBrokerRecord | UnregisterBrokerRecord) -> None:
        if isinstance(record, RegisterBrokerRecord):
            self._registered[record.broker_id] = record.features
        else:
            self._registered.pop(record.broker_id, None)

    def _change_feature(self, record: FeatureLevelRecord) -> None:
        self._features.pop(record.name, None)
        if record.level and record.name != KRAFT_VERSION:
            self._features[record.name] = record.level

    def _change_partition(self, record: PartitionChangeRecord, at: At) -> None:
        partitions = self._topic(record.topic_id).partitions
        before = partitions.get(record.partition)
        if before is None:
            raise CorruptBatch(f"partition {record.partition} of {record.topic_id} does not exist.")
        known = before.in_sync
        now = known if record.in_sync is None else record.in_sync
        partitions[record.partition] = _partition(
            before.replicas if record.replicas is None else record.replicas,
            before.directories if record.directories is None else record.directories,
            {node: known.get(node, at.timestamp_ms) for node in now},
        )

    def _change_config(self, record: ConfigRecord, offset: Offset) -> None:
        if record.resource_type == TOPIC_RESOURCE:
            configs = self._topic_configs
        elif record.resource_type == BROKER_RESOURCE:
            configs = self._broker_configs
        else:
            return
        entries = configs.setdefault(record.resource_name, {})
        if record.value is None:
            entries.pop(record.name, None)
        else:
            entries[record.name] = ConfigEntry(value=record.value, offset=offset)
        if not entries:
            del configs[record.resource_name]

    def _topic(self, topic_id: str) -> _Topic:
        topic = self._topics.get(topic_id)
        if topic is None:
            raise CorruptBatch(f"unknown topic id {topic_id}.")
        return topic


def _partition(
    replicas: tuple[int, ...],
    directories: tuple[str, ...],
    in_sync: Mapping[int, TimestampMs],
) -> PartitionMetadata:
    if directories and len(directories) != len(replicas):
        raise CorruptBatch(f"it has {len(replicas)} replicas and {len(directories)} directories.")
    if set(directories) == {MIGRATING}:
        directories = ()
    return PartitionMetadata(replicas=replicas, directories=directories, in_sync=in_sync)
