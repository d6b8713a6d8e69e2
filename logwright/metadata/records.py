"""Decode the values of the metadata log's records into dataclasses.

::

    frame version   unsigned varint   1
    api key         unsigned varint
    version         unsigned varint   of the message
    message         in the flexible encoding of KIP-482

Only records about topics, partitions, configs, features, transactions and the registration of
brokers are decoded; any other api key is ignored, such as UnregisterControllerRecord (29), which is
new in Kafka 4.4.
Source: MetadataRecordSerde, AbstractApiMessageSerde and the messages of org.apache.kafka.common.
metadata of Kafka 4.4.0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from logwright.errors import CorruptBatch, UnsupportedFormatError
from logwright.metadata.message import MessageReader

FRAME_VERSION: Final = 1

REGISTER_BROKER: Final = 0
UNREGISTER_BROKER: Final = 1
TOPIC: Final = 2
PARTITION: Final = 3
CONFIG: Final = 4
PARTITION_CHANGE: Final = 5
REMOVE_TOPIC: Final = 9
FEATURE_LEVEL: Final = 12
BEGIN_TRANSACTION: Final = 23
END_TRANSACTION: Final = 24
ABORT_TRANSACTION: Final = 25

_REPLICAS_TAG: Final = 2
_DIRECTORIES_TAG: Final = 8
_DIRECTORIES_VERSION: Final = 1
"""First version of both partition records with directories (KIP-858)."""

_MIGRATING_VERSION: Final = 2
"""First version of a registration that says whether a broker migrates from ZooKeeper (KIP-866)."""
_SHUTDOWN_VERSION: Final = 1
"""First version of a registration that says whether a broker shuts down."""

_INT64_BYTES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """A topic is created."""

    name: str
    topic_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord:
    """A partition is created.

    Attributes:
        directories: directory id of each replica; () before KIP-858.
    """

    partition: int
    topic_id: str
    replicas: tuple[int, ...]
    directories: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRecord:
    """A config is set or removed.

    Attributes:
        resource_type: 2 topic, 4 broker, or another type.
        value: None if removed.
    """

    resource_type: int
    resource_name: str
    name: str
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChangeRecord:
    """A partition changes; None for fields that do not change."""

    partition: int
    topic_id: str
    replicas: tuple[int, ...] | None
    directories: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopicRecord:
    """A topic is removed, with its configs."""

    topic_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevelRecord:
    """A feature gets this level; 0 disables it."""

    name: str
    level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRecord:
    """A broker has started.

    Attributes:
        features: feature name → highest level that the broker's software supports.
    """

    broker_id: int
    features: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerRecord:
    """A broker is removed from the cluster."""

    broker_id: int


class TransactionRecord(Enum):
    """Begin, end or abort of a controller's transaction (KIP-868)."""

    BEGIN = BEGIN_TRANSACTION
    END = END_TRANSACTION
    ABORT = ABORT_TRANSACTION


ChangeRecord = (
    TopicRecord
    | PartitionRecord
    | ConfigRecord
    | PartitionChangeRecord
    | RemoveTopicRecord
    | FeatureLevelRecord
    | RegisterBrokerRecord
    | UnregisterBrokerRecord
)
"""The records that change the image."""
MetadataRecord = ChangeRecord | TransactionRecord


def decode_metadata_record(value: bytes | None) -> MetadataRecord | None:
    """Decode a record's value; None for an api key that is ignored.

    Raises:
        CorruptBatch: it is null or malformed.
        UnsupportedFormatError: the frame or the message has an unknown version.
    """
    if value is None:
        raise CorruptBatch("its value is null.")
    reader = MessageReader(value)
    frame_version = reader.unsigned_varint()
    if frame_version != FRAME_VERSION:
        raise UnsupportedFormatError(
            f"its frame version is {frame_version}, supported is {FRAME_VERSION}."
        )
    api_key = reader.unsigned_varint()
    version = reader.unsigned_varint()
    known = _DECODERS.get(api_key)
    if known is None:
        return None
    latest, decode = known
    if version > latest:
        raise UnsupportedFormatError(
            f"its api key {api_key} has version {version}, supported are 0 to {latest}."
        )
    try:
        record = decode(reader, version)
        reader.expect_end()
    except CorruptBatch as error:
        raise CorruptBatch(f"its api key is {api_key}, {error.problem}") from error
    return record


def _topic(reader: MessageReader, _: int) -> TopicRecord:
    record = TopicRecord(name=reader.string(), topic_id=reader.uuid())
    reader.tags()
    return record


def _partition(reader: MessageReader, version: int) -> PartitionRecord:
    partition, topic_id, replicas = reader.int32(), reader.uuid(), reader.int32s()
    for _ in ("isr", "removing_replicas", "adding_replicas"):
        reader.int32s()
    for _ in ("leader", "leader_epoch", "partition_epoch"):
        reader.int32()
    directories = reader.uuids() if version >= _DIRECTORIES_VERSION else ()
    reader.tags()
    return PartitionRecord(
        partition=partition, topic_id=topic_id, replicas=replicas, directories=directories
    )


def _config(reader: MessageReader, _: int) -> ConfigRecord:
    record = ConfigRecord(
        resource_type=reader.int8(),
        resource_name=reader.string(),
        name=reader.string(),
        value=reader.nullable_string(),
    )
    reader.tags()
    return record


def _partition_change(reader: MessageReader, version: int) -> PartitionChangeRecord:
    partition, topic_id, tags = reader.int32(), reader.uuid(), reader.tags()
    replicas = directories = None
    if _REPLICAS_TAG in tags:
        replicas = tags[_REPLICAS_TAG].nullable_int32s()
        tags[_REPLICAS_TAG].expect_end()
    if _DIRECTORIES_TAG in tags:
        if version < _DIRECTORIES_VERSION:
            raise CorruptBatch(f"and it has directories, which version {version} does not have.")
        directories = tags[_DIRECTORIES_TAG].nullable_uuids()
        tags[_DIRECTORIES_TAG].expect_end()
    return PartitionChangeRecord(
        partition=partition, topic_id=topic_id, replicas=replicas, directories=directories
    )


def _remove_topic(reader: MessageReader, _: int) -> RemoveTopicRecord:
    record = RemoveTopicRecord(topic_id=reader.uuid())
    reader.tags()
    return record


def _feature_level(reader: MessageReader, _: int) -> FeatureLevelRecord:
    record = FeatureLevelRecord(name=reader.string(), level=reader.int16())
    reader.tags()
    return record


def _register_broker(reader: MessageReader, version: int) -> RegisterBrokerRecord:
    broker_id = reader.int32()
    if version >= _MIGRATING_VERSION:
        reader.int8()
    reader.uuid()  # incarnation
    reader.take(_INT64_BYTES)  # epoch
    for _ in range(reader.count()):
        for _name in ("name", "host"):
            reader.string()
        for _name in ("port", "security protocol"):
            reader.int16()
        reader.tags()
    features = {}
    for _ in range(reader.count()):
        name = reader.string()
        reader.int16()  # lowest level
        features[name] = reader.int16()
        reader.tags()
    reader.nullable_string()  # rack
    reader.int8()  # fenced
    if version >= _SHUTDOWN_VERSION:
        reader.int8()
    reader.tags()  # tags 0 and 1: directories
    return RegisterBrokerRecord(broker_id=broker_id, features=features)


def _unregister_broker(reader: MessageReader, _: int) -> UnregisterBrokerRecord:
    record = UnregisterBrokerRecord(broker_id=reader.int32())
    reader.take(_INT64_BYTES)  # epoch
    reader.tags()
    return record


def _begin(reader: MessageReader, _: int) -> TransactionRecord:
    reader.tags()  # tag 0: its name
    return TransactionRecord.BEGIN


def _end(reader: MessageReader, _: int) -> TransactionRecord:
    reader.tags()
    return TransactionRecord.END


def _abort(reader: MessageReader, _: int) -> TransactionRecord:
    reader.tags()  # tag 0: the reason
    return TransactionRecord.ABORT


_DECODERS: Final[dict[int, tuple[int, Callable[[MessageReader, int], MetadataRecord]]]] = {
    REGISTER_BROKER: (4, _register_broker),
    UNREGISTER_BROKER: (0, _unregister_broker),
    TOPIC: (0, _topic),
    PARTITION: (2, _partition),
    CONFIG: (0, _config),
    PARTITION_CHANGE: (2, _partition_change),
    REMOVE_TOPIC: (0, _remove_topic),
    FEATURE_LEVEL: (0, _feature_level),
    BEGIN_TRANSACTION: (0, _begin),
    END_TRANSACTION: (0, _end),
    ABORT_TRANSACTION: (0, _abort),
}
"""Api key → latest supported version, decoder of the message."""
