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
from types import MappingProxyType
from typing import Any, Final

from logwright.errors import CorruptBatch, UnsupportedFormatError
from logwright.format.messages import (
    Field,
    MalformedMessage,
    Message,
    read_message,
    read_varint,
)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """A topic is created."""

    name: str
    topic_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord:
    """A partition is created.

    Attributes:
        in_sync: node ids of the in-sync replicas.
        directories: directory id of each replica; () before KIP-858.
    """

    partition: int
    topic_id: str
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
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
    in_sync: tuple[int, ...] | None
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
    try:
        frame_version, position = read_varint(value, 0)
        if frame_version != FRAME_VERSION:
            raise UnsupportedFormatError(
                f"its frame version is {frame_version}, supported is {FRAME_VERSION}."
            )
        api_key, position = read_varint(value, position)
        version, position = read_varint(value, position)
    except MalformedMessage as error:
        raise CorruptBatch(f"it {error.reason}.") from error
    if api_key not in _MESSAGES:
        return None
    message, record_of = _MESSAGES[api_key]
    if version > message.latest:
        raise UnsupportedFormatError(
            f"its api key {api_key} has version {version}, supported are 0 to {message.latest}."
        )
    try:
        return record_of(read_message(message, value, position, version))
    except MalformedMessage as error:
        raise CorruptBatch(f"its api key is {api_key}, and it {error.reason}.") from error


def _message(*fields: Field, latest: int = 0) -> Message:
    """Return a message that is flexible in all versions."""
    return Message(fields, latest=latest, flexible_since=0)


def _topic(fields: dict[str, Any]) -> TopicRecord:
    return TopicRecord(name=fields["name"], topic_id=fields["topicId"])


def _partition(fields: dict[str, Any]) -> PartitionRecord:
    return PartitionRecord(
        partition=fields["partitionId"],
        topic_id=fields["topicId"],
        replicas=tuple(fields["replicas"]),
        in_sync=tuple(fields["isr"]),
        directories=tuple(fields.get("directories", ())),
    )


def _config(fields: dict[str, Any]) -> ConfigRecord:
    return ConfigRecord(
        resource_type=fields["resourceType"],
        resource_name=fields["resourceName"],
        name=fields["name"],
        value=fields["value"],
    )


def _partition_change(fields: dict[str, Any]) -> PartitionChangeRecord:
    replicas, in_sync, directories = (
        None if fields.get(name) is None else tuple(fields[name])
        for name in ("replicas", "isr", "directories")
    )
    return PartitionChangeRecord(
        partition=fields["partitionId"],
        topic_id=fields["topicId"],
        replicas=replicas,
        in_sync=in_sync,
        directories=directories,
    )


def _register_broker(fields: dict[str, Any]) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=fields["brokerId"],
        features={one["name"]: one["maxSupportedVersion"] for one in fields["features"]},
    )


_ALWAYS: Final = 0
"""Null is allowed since this version: in every one."""
_TOPIC_ID: Final = Field("topicId", "uuid")
_BROKER: Final = Field("brokerId", "int32")
_EPOCH: Final = Field("brokerEpoch", "int64")
_PARTITION_FIELDS: Final = (
    Field("partitionId", "int32"),
    _TOPIC_ID,
    *(Field(name, "[]int32") for name in ("replicas", "isr", "removingReplicas", "addingReplicas")),
    *(Field(name, "int32") for name in ("leader", "leaderEpoch", "partitionEpoch")),
    Field("directories", "[]uuid", since=1),  # KIP-858
)
_CHANGE_FIELDS: Final = (
    Field("partitionId", "int32"),
    _TOPIC_ID,
    Field("isr", "[]int32", nullable_since=_ALWAYS, tag=0),
    Field("replicas", "[]int32", nullable_since=_ALWAYS, tag=2),
    Field("directories", "[]uuid", since=1, nullable_since=_ALWAYS, tag=8),
)
_BROKER_FIELDS: Final = (
    _BROKER,
    Field("isMigratingZkBroker", "int8", since=2),
    Field("incarnationId", "uuid"),
    _EPOCH,
    Field(
        "endPoints",
        "[]struct",
        (
            *(Field(name, "string") for name in ("name", "host")),
            *(Field(name, "int16") for name in ("port", "securityProtocol")),
        ),
    ),
    Field(
        "features",
        "[]struct",
        (
            Field("name", "string"),
            *(Field(name, "int16") for name in ("minSupportedVersion", "maxSupportedVersion")),
        ),
    ),
    Field("rack", "string", nullable_since=_ALWAYS),
    Field("fenced", "int8"),
    Field("inControlledShutdown", "int8", since=1),
)
_CONFIG_FIELDS: Final = (
    Field("resourceType", "int8"),
    *(Field(name, "string") for name in ("resourceName", "name")),
    Field("value", "string", nullable_since=_ALWAYS),
)
_FEATURE_FIELDS: Final = (Field("name", "string"), Field("featureLevel", "int16"))

_MESSAGES: Final[Mapping[int, tuple[Message, Callable[[dict[str, Any]], MetadataRecord]]]] = (
    MappingProxyType(
        {
            REGISTER_BROKER: (_message(*_BROKER_FIELDS, latest=4), _register_broker),
            UNREGISTER_BROKER: (
                _message(_BROKER, _EPOCH),
                lambda fields: UnregisterBrokerRecord(broker_id=fields["brokerId"]),
            ),
            TOPIC: (_message(Field("name", "string"), _TOPIC_ID), _topic),
            PARTITION: (_message(*_PARTITION_FIELDS, latest=2), _partition),
            CONFIG: (_message(*_CONFIG_FIELDS), _config),
            PARTITION_CHANGE: (_message(*_CHANGE_FIELDS, latest=2), _partition_change),
            REMOVE_TOPIC: (
                _message(_TOPIC_ID),
                lambda fields: RemoveTopicRecord(topic_id=fields["topicId"]),
            ),
            FEATURE_LEVEL: (
                _message(*_FEATURE_FIELDS),
                lambda fields: FeatureLevelRecord(
                    name=fields["name"], level=fields["featureLevel"]
                ),
            ),
            BEGIN_TRANSACTION: (_message(), lambda _: TransactionRecord.BEGIN),
            END_TRANSACTION: (_message(), lambda _: TransactionRecord.END),
            ABORT_TRANSACTION: (_message(), lambda _: TransactionRecord.ABORT),
        }
    )
)
"""Api key → its message, without the fields that nothing here needs at its tags; its record."""
