"""The records of Kafka's internal topics: the messages of Kafka 4.4.0, and their older versions.

A key is its record's type (int16) and fields; a value is its version (int16) and fields. Source:
CoordinatorRecordType and the message definitions of the group, transaction and share coordinators.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from logwright.decode.refusal import Refused
from logwright.decode.share_messages import SHARE_PARTITION, SNAPSHOT, UPDATE
from logwright.format.messages import Field, MalformedMessage, Message, read_int16, read_message

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
SHARE_STATE: Final = "__share_group_state"

OFFSET_COMMIT: Final = "offset_commit"
GROUP_METADATA: Final = "group_metadata"
TRANSACTION: Final = "transaction"

_INT16_BYTES: Final = 2


@dataclass(frozen=True, slots=True)
class RecordType:
    """A type of records.

    Attributes:
        name: as CoordinatorRecordType has it, in lower case.
        key, value: their messages, without type and version.
    """

    name: str
    key: Message
    value: Message


_GROUP: Final = Field("groupId", "string")
_MEMBER: Final = Field("memberId", "string")
_ANY: Final = 0
"""Null is allowed since this version: in every one."""

_TOPIC_PARTITION: Final = (Field("topicId", "uuid"), Field("partitions", "[]int32"))
_EPOCHS: Final = Field("assignmentEpochs", "[]int32", nullable_since=_ANY, tag=0)
_ASSIGNED: Final = (*_TOPIC_PARTITION, _EPOCHS)
_TASKS: Final = (Field("subtopologyId", "string"), Field("partitions", "[]int32"), _EPOCHS)
_PAIR: Final = (Field("key", "string"), Field("value", "string"))
_TOPIC_INFO: Final = (
    Field("name", "string"),
    Field("partitions", "int32"),
    Field("replicationFactor", "int16"),
    Field("topicConfigs", "[]struct", _PAIR),
)
_SHARE_TOPIC: Final = (
    Field("topicId", "uuid"),
    Field("topicName", "string"),
    Field("partitions", "[]int32"),
)
_OFFSET_VALUE: Final = Message(
    (
        Field("offset", "int64"),
        Field("leaderEpoch", "int32", since=3),
        Field("metadata", "string"),
        Field("commitTimestamp", "int64"),
        Field("expireTimestamp", "int64", since=1, until=1),
        Field("topicId", "uuid", since=4, tag=0),
    ),
    latest=4,
    flexible_since=4,
)
_CLASSIC_GROUP: Final = Field("group", "string")
_OFFSET_KEY: Final = Message(
    (_CLASSIC_GROUP, Field("topic", "string"), Field("partition", "int32")),
)
_CLASSIC_MEMBER: Final = (
    Field("memberId", "string"),
    Field("groupInstanceId", "string", since=3, nullable_since=3),
    Field("clientId", "string"),
    Field("clientHost", "string"),
    Field("rebalanceTimeout", "int32", since=1),
    Field("sessionTimeout", "int32"),
    Field("subscription", "bytes"),
    Field("assignment", "bytes"),
)
_GROUP_VALUE: Final = Message(
    (
        Field("protocolType", "string"),
        Field("generation", "int32"),
        Field("protocol", "string", nullable_since=_ANY),
        Field("leader", "string", nullable_since=_ANY),
        Field("currentStateTimestamp", "int64", since=2),
        Field("members", "[]struct", _CLASSIC_MEMBER),
    ),
    latest=4,
    flexible_since=4,
)


def _value(*fields: Field) -> Message:
    """Return the message of a value whose only version, 0, is flexible."""
    return Message(fields, flexible_since=0)


_BY_GROUP: Final = Message((_GROUP,))
_BY_MEMBER: Final = Message((_GROUP, _MEMBER))
_TARGET: Final = _value(
    Field("assignmentEpoch", "int32"), Field("assignmentTimestamp", "int64", tag=0)
)
_TARGET_MEMBER: Final = _value(Field("topicPartitions", "[]struct", _TOPIC_PARTITION))
_MEMBER_STATE: Final = (
    Field("memberEpoch", "int32"),
    Field("previousMemberEpoch", "int32"),
    Field("state", "int8"),
)
_CLIENT: Final = (Field("clientId", "string"), Field("clientHost", "string"))
_RACK: Final = Field("rackId", "string", nullable_since=_ANY)
_INSTANCE: Final = Field("instanceId", "string", nullable_since=_ANY)

_GROUP_TYPES: Final[Mapping[int, RecordType]] = MappingProxyType(
    {
        0: RecordType("legacy_offset_commit", _OFFSET_KEY, _OFFSET_VALUE),
        1: RecordType(OFFSET_COMMIT, _OFFSET_KEY, _OFFSET_VALUE),
        2: RecordType(GROUP_METADATA, Message((_CLASSIC_GROUP,)), _GROUP_VALUE),
        3: RecordType(
            "consumer_group_metadata",
            _BY_GROUP,
            _value(Field("epoch", "int32"), Field("metadataHash", "int64", tag=0)),
        ),
        4: RecordType(
            "consumer_group_partition_metadata",
            _BY_GROUP,
            _value(
                Field(
                    "topics",
                    "[]struct",
                    (
                        Field("topicId", "uuid"),
                        Field("topicName", "string"),
                        Field("numPartitions", "int32"),
                        Field(
                            "partitionMetadata",
                            "[]struct",
                            (Field("partition", "int32"), Field("racks", "[]string")),
                        ),
                    ),
                )
            ),
        ),
        5: RecordType(
            "consumer_group_member_metadata",
            _BY_MEMBER,
            _value(
                _INSTANCE,
                _RACK,
                *_CLIENT,
                Field("subscribedTopicNames", "[]string"),
                Field("subscribedTopicRegex", "string", nullable_since=_ANY),
                Field("rebalanceTimeoutMs", "int32"),
                Field("serverAssignor", "string", nullable_since=_ANY),
                Field(
                    "classicMemberMetadata",
                    "struct",
                    (
                        Field("sessionTimeoutMs", "int32"),
                        Field(
                            "supportedProtocols",
                            "[]struct",
                            (Field("name", "string"), Field("metadata", "bytes")),
                        ),
                    ),
                    nullable_since=_ANY,
                    tag=0,
                ),
            ),
        ),
        6: RecordType("consumer_group_target_assignment_metadata", _BY_GROUP, _TARGET),
        7: RecordType("consumer_group_target_assignment_member", _BY_MEMBER, _TARGET_MEMBER),
        8: RecordType(
            "consumer_group_current_member_assignment",
            _BY_MEMBER,
            _value(
                *_MEMBER_STATE,
                Field("assignedPartitions", "[]struct", _ASSIGNED),
                Field("partitionsPendingRevocation", "[]struct", _ASSIGNED),
            ),
        ),
        10: RecordType(
            "share_group_member_metadata",
            _BY_MEMBER,
            _value(_RACK, *_CLIENT, Field("subscribedTopicNames", "[]string")),
        ),
        11: RecordType(
            "share_group_metadata",
            _BY_GROUP,
            _value(Field("epoch", "int32"), Field("metadataHash", "int64")),
        ),
        12: RecordType("share_group_target_assignment_metadata", _BY_GROUP, _TARGET),
        13: RecordType("share_group_target_assignment_member", _BY_MEMBER, _TARGET_MEMBER),
        14: RecordType(
            "share_group_current_member_assignment",
            _BY_MEMBER,
            _value(*_MEMBER_STATE, Field("assignedPartitions", "[]struct", _TOPIC_PARTITION)),
        ),
        15: RecordType(
            "share_group_state_partition_metadata",
            _BY_GROUP,
            _value(
                Field("initializingTopics", "[]struct", _SHARE_TOPIC),
                Field("initializedTopics", "[]struct", _SHARE_TOPIC),
                Field("deletingTopics", "[]struct", _SHARE_TOPIC[:2]),
            ),
        ),
        16: RecordType(
            "consumer_group_regular_expression",
            Message((_GROUP, Field("regularExpression", "string"))),
            _value(
                Field("topics", "[]string"), Field("version", "int64"), Field("timestamp", "int64")
            ),
        ),
        17: RecordType(
            "streams_group_metadata",
            _BY_GROUP,
            _value(
                Field("epoch", "int32"),
                Field("metadataHash", "int64"),
                Field("validatedTopologyEpoch", "int32", tag=0),
                Field("lastAssignmentConfigs", "[]struct", _PAIR, nullable_since=_ANY, tag=1),
                Field("storedDescriptionTopologyEpoch", "int32", tag=2),
                Field("failedDescriptionTopologyEpoch", "int32", tag=3),
            ),
        ),
        19: RecordType(
            "streams_group_member_metadata",
            _BY_MEMBER,
            _value(
                _INSTANCE,
                _RACK,
                *_CLIENT,
                Field("rebalanceTimeoutMs", "int32"),
                Field("topologyEpoch", "int32"),
                Field("processId", "string"),
                Field(
                    "userEndpoint",
                    "struct",
                    (Field("host", "string"), Field("port", "uint16")),
                    nullable_since=_ANY,
                ),
                Field("clientTags", "[]struct", _PAIR),
            ),
        ),
        20: RecordType("streams_group_target_assignment_metadata", _BY_GROUP, _TARGET),
        21: RecordType(
            "streams_group_target_assignment_member",
            _BY_MEMBER,
            _value(
                Field("activeTasks", "[]struct", _TASKS),
                Field("standbyTasks", "[]struct", _TASKS),
                Field("warmupTasks", "[]struct", _TASKS),
            ),
        ),
        22: RecordType(
            "streams_group_current_member_assignment",
            _BY_MEMBER,
            _value(
                *_MEMBER_STATE,
                *(
                    Field(f"{kind}Tasks{suffix}", "[]struct", _TASKS)
                    for suffix in ("", "PendingRevocation")
                    for kind in ("active", "standby", "warmup")
                ),
            ),
        ),
        23: RecordType(
            "streams_group_topology",
            _BY_GROUP,
            _value(
                Field("epoch", "int32"),
                Field(
                    "subtopologies",
                    "[]struct",
                    (
                        Field("subtopologyId", "string"),
                        Field("sourceTopics", "[]string"),
                        Field("sourceTopicRegex", "[]string"),
                        Field("stateChangelogTopics", "[]struct", _TOPIC_INFO),
                        Field("repartitionSinkTopics", "[]string"),
                        Field("repartitionSourceTopics", "[]struct", _TOPIC_INFO),
                        Field(
                            "copartitionGroups",
                            "[]struct",
                            (
                                Field("sourceTopics", "[]int16"),
                                Field("sourceTopicRegex", "[]int16"),
                                Field("repartitionSourceTopics", "[]int16"),
                            ),
                        ),
                    ),
                ),
            ),
        ),
    }
)
_TRANSACTION_TYPES: Final[Mapping[int, RecordType]] = MappingProxyType(
    {
        0: RecordType(
            TRANSACTION,
            Message((Field("transactionalId", "string"),)),
            Message(
                (
                    Field("producerId", "int64"),
                    Field("previousProducerId", "int64", since=1, tag=0),
                    Field("nextProducerId", "int64", since=1, tag=1),
                    Field("producerEpoch", "int16"),
                    Field("nextProducerEpoch", "int16", since=1, tag=3),
                    Field("transactionTimeoutMs", "int32"),
                    Field("transactionStatus", "int8"),
                    Field(
                        "transactionPartitions",
                        "[]struct",
                        (Field("topic", "string"), Field("partitionIds", "[]int32")),
                        nullable_since=_ANY,
                    ),
                    Field("transactionLastUpdateTimestampMs", "int64"),
                    Field("transactionStartTimestampMs", "int64"),
                    Field("clientTransactionVersion", "int16", since=1, tag=2),
                ),
                latest=1,
                flexible_since=1,
            ),
        ),
    }
)
_SHARE_TYPES: Final[Mapping[int, RecordType]] = MappingProxyType(
    {
        0: RecordType("share_snapshot", SHARE_PARTITION, SNAPSHOT),
        1: RecordType("share_update", SHARE_PARTITION, UPDATE),
    }
)
TYPES: Final[Mapping[str, Mapping[int, RecordType]]] = MappingProxyType(
    {
        CONSUMER_OFFSETS: _GROUP_TYPES,
        TRANSACTION_STATE: _TRANSACTION_TYPES,
        SHARE_STATE: _SHARE_TYPES,
    }
)
"""Topic → type of a record's key → its messages."""


def parse_key(topic: str, key: bytes | None) -> tuple[RecordType, dict[str, Any]]:
    """Return the type of a record of an internal topic, and the fields of its key.

    Raises:
        Refused: the key is null, of an unknown type, or malformed.
    """
    if key is None:
        raise Refused("is null")
    try:
        kind = TYPES[topic].get(read_int16(key))
        if kind is None:
            raise Refused("is of an unknown type of records")
        return kind, read_message(kind.key, key, _INT16_BYTES, 0)
    except MalformedMessage as error:
        raise Refused(error.reason) from None


def parse_value(kind: RecordType, value: bytes) -> dict[str, Any]:
    """Return the fields of a value.

    Raises:
        Refused: it is of an unknown version, or malformed.
    """
    try:
        return read_message(kind.value, value, _INT16_BYTES, read_int16(value))
    except MalformedMessage as error:
        raise Refused(error.reason) from None
