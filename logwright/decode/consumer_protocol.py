"""What members of a classic group said of themselves, as the consumer's protocol has it; the group
coordinator keeps it as bytes. Source: ConsumerProtocolSubscription, ConsumerProtocolAssignment.
"""

from __future__ import annotations

from typing import Any, Final

from logwright.format.messages import Field, MalformedMessage, Message, read_int16, read_message

_INT16_BYTES: Final = 2
_PARTITIONS: Final = (Field("topic", "string"), Field("partitions", "[]int32"))
_SUBSCRIPTION: Final = Message((Field("topics", "[]string"), Field("rest", "rest")))
_ASSIGNMENT: Final = Message(
    (Field("assignedPartitions", "[]struct", _PARTITIONS), Field("rest", "rest"))
)


def subscribed_topics(subscription: bytes) -> list[str] | None:
    """Return the topics of a consumer's subscription (ConsumerProtocolSubscription), None if it is
    not one; what later versions have after them is ignored.
    """
    message = _after_version(_SUBSCRIPTION, subscription)
    return None if message is None else message["topics"]


def assigned_partitions(assignment: bytes) -> list[dict[str, Any]] | None:
    """Return topic and partitions of a consumer's assignment (ConsumerProtocolAssignment), None if
    it is not one.
    """
    message = _after_version(_ASSIGNMENT, assignment)
    return None if message is None else message["assignedPartitions"]


def _after_version(message: Message, content: bytes) -> dict[str, Any] | None:
    try:
        return read_message(message, content, _INT16_BYTES, 0) if read_int16(content) >= 0 else None
    except MalformedMessage:
        return None
