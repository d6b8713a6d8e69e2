"""Kafka's internal topics as tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from logwright.config.decoding import Decoding, InternalSpec
from logwright.decode.internal_facts import (
    Facts,
    group_key,
    group_value,
    share_key,
    share_value,
    transaction_key,
    transaction_value,
)
from logwright.decode.internal_messages import (
    CONSUMER_OFFSETS,
    SHARE_STATE,
    TRANSACTION_STATE,
    RecordType,
)
from logwright.decode.make import Making
from logwright.decode.model import ORIGIN, TIMESTAMP, Decoded, Keyless
from logwright.decode.refusal import Refused
from logwright.decode.rows import refused_rows
from logwright.errors import PolicyError
from logwright.garbage import rare_collections

_PARTITIONS: Final = pa.list_(
    pa.struct([("topic", pa.string()), ("partitions", pa.list_(pa.int32()))])
)
_MEMBERS: Final = pa.list_(
    pa.struct(
        [
            ("member_id", pa.string()),
            ("group_instance_id", pa.string()),
            ("client_id", pa.string()),
            ("client_host", pa.string()),
            ("rebalance_timeout_ms", pa.int32()),
            ("session_timeout_ms", pa.int32()),
            ("subscribed_topics", pa.list_(pa.string())),
            ("assigned_partitions", _PARTITIONS),
        ]
    )
)
CONSUMER_OFFSETS_SCHEMA: Final = pa.schema(
    [
        *ORIGIN,
        ("type", pa.string()),
        ("group_id", pa.string()),
        ("member_id", pa.string()),
        ("regular_expression", pa.string()),
        ("committed_topic", pa.string()),
        ("committed_partition", pa.int32()),
        ("committed_offset", pa.int64()),
        ("committed_leader_epoch", pa.int32()),
        ("committed_metadata", pa.string()),
        ("commit_time", TIMESTAMP),
        ("expire_time", TIMESTAMP),
        ("committed_topic_id", pa.string()),
        ("protocol_type", pa.string()),
        ("generation", pa.int32()),
        ("protocol", pa.string()),
        ("leader", pa.string()),
        ("state_time", TIMESTAMP),
        ("members", _MEMBERS),
        ("details", pa.string()),
    ]
)
"""`type` is a record's type as CoordinatorRecordType has it, in lower case. The columns from
committed_topic to committed_topic_id are of commits, those from protocol_type to members of classic
groups; all other types have their fields as JSON in details. Topic ids in Kafka's text form.
"""

TRANSACTION_STATE_SCHEMA: Final = pa.schema(
    [
        *ORIGIN,
        ("transactional_id", pa.string()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int16()),
        ("previous_producer_id", pa.int64()),
        ("next_producer_id", pa.int64()),
        ("next_producer_epoch", pa.int16()),
        ("state", pa.string()),
        ("timeout_ms", pa.int32()),
        ("partitions", _PARTITIONS),
        ("start_time", TIMESTAMP),
        ("update_time", TIMESTAMP),
        ("transaction_version", pa.int16()),
    ]
)

SHARE_STATE_SCHEMA: Final = pa.schema(
    [
        *ORIGIN,
        ("type", pa.string()),
        ("group_id", pa.string()),
        ("share_topic_id", pa.string()),
        ("share_partition", pa.int32()),
        ("snapshot_epoch", pa.int32()),
        ("state_epoch", pa.int32()),
        ("leader_epoch", pa.int32()),
        ("start_offset", pa.int64()),
        ("delivery_complete_count", pa.int32()),
        ("create_time", TIMESTAMP),
        ("write_time", TIMESTAMP),
        (
            "state_batches",
            pa.list_(
                pa.struct(
                    [
                        ("first_offset", pa.int64()),
                        ("last_offset", pa.int64()),
                        ("delivery_state", pa.string()),
                        ("delivery_count", pa.int16()),
                    ]
                )
            ),
        ),
    ]
)
"""`type` is share_snapshot or share_update. An update has neither state epoch nor times; -1, which
stands for none, is null. Topic ids in Kafka's text form.
"""


class _Topic(NamedTuple):
    """How an internal topic is decoded."""

    schema: pa.Schema
    key: Callable[[str, bytes | None], tuple[RecordType, Facts]]
    value: Callable[[RecordType, bytes], Facts]


_TOPICS: Final[Mapping[str, _Topic]] = MappingProxyType(
    {
        CONSUMER_OFFSETS: _Topic(CONSUMER_OFFSETS_SCHEMA, group_key, group_value),
        TRANSACTION_STATE: _Topic(TRANSACTION_STATE_SCHEMA, transaction_key, transaction_value),
        SHARE_STATE: _Topic(SHARE_STATE_SCHEMA, share_key, share_value),
    }
)
_MICROSECONDS: Final = 1000


def make(spec: InternalSpec, making: Making) -> InternalDecoder:
    """Return the decoder of a topic.

    Raises:
        PolicyError: the topic is not known, or none of them.
    """
    topic = making.topic()
    if topic is None:
        raise PolicyError("The format kafka-internal needs the name of the topic.")
    return InternalDecoder(topic, Decoding(key=spec, value=spec))


class InternalDecoder:
    """Decodes the records of one of Kafka's internal topics.

    Raises:
        PolicyError: the topic is not one of them.
    """

    reads_keyless: Final = False

    def __init__(self, topic: str, decoding: Decoding) -> None:
        if topic not in _TOPICS:
            names = ", ".join(_TOPICS)
            raise PolicyError(f"The format kafka-internal is for {names}, not for {topic}.")
        self._name = topic
        self._topic = _TOPICS[topic]
        self.schema = self._topic.schema
        self.decoding = decoding

    def decode(self, batch: pa.RecordBatch) -> Decoded:
        """Decode a batch."""
        with rare_collections():
            return self._decode(batch)

    def keyless(self, batch: pa.RecordBatch) -> Keyless:  # noqa: ARG002 - as every decoder's
        """Return nothing: Kafka does not write such records to these topics."""
        return Keyless()

    def _decode(self, batch: pa.RecordBatch) -> Decoded:
        reasons: dict[str, dict[int, str]] = {"key": {}, "value": {}}
        kept: list[int] = []
        rows: list[Facts] = []
        values = batch.column("value").to_pylist()
        for row, key in enumerate(batch.column("key").to_pylist()):
            part = "key"
            try:
                kind, facts = self._topic.key(self._name, key)
                part = "value"
                if values[row] is not None:
                    facts |= self._topic.value(kind, values[row])
            except Refused as refused:
                reasons[part][row] = refused.reason
            else:
                kept.append(row)
                rows.append(facts)
        origin = [batch.column(field.name).cast(field.type) for field in ORIGIN]
        positions = pa.array(kept, pa.int64())
        columns = [_column(field, rows) for field in list(self.schema)[len(ORIGIN) :]]
        return Decoded(
            rows=pa.RecordBatch.from_arrays(
                [*(one.take(positions) for one in origin), *columns], schema=self.schema
            ),
            positions=positions,
            deleted=pa.array(np.array([values[row] is None for row in kept], bool)),
            refused=refused_rows(origin, reasons),
        )


def _column(field: pa.Field, rows: list[Facts]) -> pa.Array:
    values: list[Any] = [facts.get(field.name) for facts in rows]
    if field.type != TIMESTAMP:
        return pa.array(values, field.type)
    times = [None if one is None else one * _MICROSECONDS for one in values]
    return pa.array(times, pa.int64()).view(TIMESTAMP)
