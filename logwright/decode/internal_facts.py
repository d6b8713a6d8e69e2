"""The records of Kafka's internal topics as flat facts: for tables and for ``dump``."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from logwright.decode.consumer_protocol import assigned_partitions, subscribed_topics
from logwright.decode.internal_messages import (
    GROUP_METADATA,
    OFFSET_COMMIT,
    RecordType,
    parse_key,
    parse_value,
)
from logwright.decode.refusal import Refused

_CONSUMER: Final = "consumer"
_OFFSETS: Final = frozenset({OFFSET_COMMIT, "legacy_offset_commit"})
_LAST_MS: Final = 253_402_300_799_999
_STATES: Final[Mapping[int, str]] = MappingProxyType(
    {
        0: "Empty",
        1: "Ongoing",
        2: "PrepareCommit",
        3: "PrepareAbort",
        4: "CompleteCommit",
        5: "CompleteAbort",
        6: "Dead",
        7: "PrepareEpochFence",
    }
)
"""Source: org.apache.kafka.coordinator.transaction.TransactionState."""

Facts = dict[str, Any]
"""Column → value; times are milliseconds since the epoch, None if there is none."""


def group_key(topic: str, key: bytes | None) -> tuple[RecordType, Facts]:
    """Return the type and the facts of a key of ``__consumer_offsets``.

    Raises:
        Refused: it cannot be decoded.
    """
    kind, fields = parse_key(topic, key)
    facts: Facts = {"type": kind.name, "group_id": fields.get("group") or fields.get("groupId", "")}
    if kind.name in _OFFSETS:
        facts |= {"committed_topic": fields["topic"], "committed_partition": fields["partition"]}
    elif "memberId" in fields:
        facts["member_id"] = fields["memberId"]
    elif "regularExpression" in fields:
        facts["regular_expression"] = fields["regularExpression"]
    return kind, facts


def group_value(kind: RecordType, value: bytes) -> Facts:
    """Return the facts of a value of ``__consumer_offsets``.

    Raises:
        Refused: it cannot be decoded.
    """
    fields = parse_value(kind, value)
    if kind.name in _OFFSETS:
        return {
            "committed_offset": fields["offset"],
            "committed_leader_epoch": _known(fields.get("leaderEpoch")),
            "committed_metadata": fields["metadata"],
            "commit_time": _time(fields["commitTimestamp"]),
            "expire_time": _time(fields.get("expireTimestamp", -1)),
            "committed_topic_id": fields.get("topicId"),
        }
    if kind.name == GROUP_METADATA:
        is_consumer = fields["protocolType"] == _CONSUMER
        return {
            "protocol_type": fields["protocolType"],
            "generation": fields["generation"],
            "protocol": fields["protocol"],
            "leader": fields["leader"],
            "state_time": _time(fields.get("currentStateTimestamp", -1)),
            "members": [_member(one, is_consumer=is_consumer) for one in fields["members"]],
        }
    return {"details": json.dumps(fields, default=_base64, separators=(",", ":"))}


def _member(fields: Mapping[str, Any], *, is_consumer: bool) -> Facts:
    """Return the facts of a member of a classic group."""
    return {
        "member_id": fields["memberId"],
        "group_instance_id": fields.get("groupInstanceId"),
        "client_id": fields["clientId"],
        "client_host": fields["clientHost"],
        "rebalance_timeout_ms": _known(fields.get("rebalanceTimeout")),
        "session_timeout_ms": fields["sessionTimeout"],
        "subscribed_topics": subscribed_topics(fields["subscription"]) if is_consumer else None,
        "assigned_partitions": assigned_partitions(fields["assignment"]) if is_consumer else None,
    }


def transaction_key(topic: str, key: bytes | None) -> tuple[RecordType, Facts]:
    """Return the type and the facts of a key of ``__transaction_state``.

    Raises:
        Refused: it cannot be decoded.
    """
    kind, fields = parse_key(topic, key)
    return kind, {"transactional_id": fields["transactionalId"]}


def transaction_value(kind: RecordType, value: bytes) -> Facts:
    """Return the facts of a value of ``__transaction_state``.

    Raises:
        Refused: it cannot be decoded.
    """
    fields = parse_value(kind, value)
    state = _STATES.get(fields["transactionStatus"])
    if state is None:
        raise Refused("has an unknown state of a transaction")
    partitions = fields["transactionPartitions"]
    return {
        "producer_id": fields["producerId"],
        "producer_epoch": fields["producerEpoch"],
        "previous_producer_id": _known(fields.get("previousProducerId")),
        "next_producer_id": _known(fields.get("nextProducerId")),
        "next_producer_epoch": _known(fields.get("nextProducerEpoch")),
        "state": state,
        "timeout_ms": fields["transactionTimeoutMs"],
        "partitions": partitions
        and [{"topic": one["topic"], "partitions": one["partitionIds"]} for one in partitions],
        "start_time": _time(fields["transactionStartTimestampMs"]),
        "update_time": _time(fields["transactionLastUpdateTimestampMs"]),
        "transaction_version": fields.get("clientTransactionVersion", 0),
    }


_DELIVERIES: Final[Mapping[int, str]] = MappingProxyType(
    {0: "Available", 1: "Acquired", 2: "Acknowledged", 3: "Archiving", 4: "Archived"}
)
"""Source: org.apache.kafka.server.share.fetch.RecordState."""


def share_key(topic: str, key: bytes | None) -> tuple[RecordType, Facts]:
    """Return the type and the facts of a key of ``__share_group_state``.

    Raises:
        Refused: it cannot be decoded.
    """
    kind, fields = parse_key(topic, key)
    return kind, {
        "type": kind.name,
        "group_id": fields["groupId"],
        "share_topic_id": fields["topicId"],
        "share_partition": fields["partition"],
    }


def share_value(kind: RecordType, value: bytes) -> Facts:
    """Return the facts of a value of ``__share_group_state``.

    Raises:
        Refused: it cannot be decoded.
    """
    fields = parse_value(kind, value)
    return {
        "snapshot_epoch": fields["snapshotEpoch"],
        "state_epoch": fields.get("stateEpoch"),
        "leader_epoch": fields["leaderEpoch"],
        "start_offset": _known(fields["startOffset"]),
        "delivery_complete_count": _known(fields.get("deliveryCompleteCount")),
        "create_time": _time(fields.get("createTimestamp", -1)),
        "write_time": _time(fields.get("writeTimestamp", -1)),
        "state_batches": [_delivery(one) for one in fields["stateBatches"]],
    }


def _delivery(fields: Mapping[str, Any]) -> Facts:
    """Return the facts of a range of offsets that a share group got."""
    state = _DELIVERIES.get(fields["deliveryState"])
    if state is None:
        raise Refused("has an unknown state of a delivery")
    return {
        "first_offset": fields["firstOffset"],
        "last_offset": fields["lastOffset"],
        "delivery_state": state,
        "delivery_count": fields["deliveryCount"],
    }


def _known(value: int | None) -> int | None:
    """Return a number, None for Kafka's -1, which stands for none."""
    return None if value == -1 else value


def _time(value: int) -> int | None:
    """Return a time in milliseconds, None for -1."""
    if not -1 <= value <= _LAST_MS:
        raise Refused("has a time that is not of the years 1970 to 9999")
    return _known(value)


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")
