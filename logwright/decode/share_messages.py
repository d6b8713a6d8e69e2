"""The messages of ``__share_group_state``, the topic of Kafka's share coordinator (KIP-932).

Source: the message definitions of share-coordinator, the same in Kafka 4.3.0 and 4.4.0.
"""

from __future__ import annotations

from typing import Final

from logwright.format.messages import Field, Message

SHARE_PARTITION: Final = Message(
    (Field("groupId", "string"), Field("topicId", "uuid"), Field("partition", "int32"))
)
"""The key of a snapshot and of an update."""

_BATCHES: Final = Field(
    "stateBatches",
    "[]struct",
    (
        Field("firstOffset", "int64"),
        Field("lastOffset", "int64"),
        Field("deliveryState", "int8"),
        Field("deliveryCount", "int16"),
    ),
)
_COMPLETE: Final = Field("deliveryCompleteCount", "int32", tag=0)

SNAPSHOT: Final = Message(
    (
        Field("snapshotEpoch", "int32"),
        Field("stateEpoch", "int32"),
        Field("leaderEpoch", "int32"),
        Field("startOffset", "int64"),
        _COMPLETE,
        Field("createTimestamp", "int64"),
        Field("writeTimestamp", "int64"),
        _BATCHES,
    ),
    flexible_since=0,
)
UPDATE: Final = Message(
    (
        Field("snapshotEpoch", "int32"),
        Field("leaderEpoch", "int32"),
        Field("startOffset", "int64"),
        _COMPLETE,
        _BATCHES,
    ),
    flexible_since=0,
)
