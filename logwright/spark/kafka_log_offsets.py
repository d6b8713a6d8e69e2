"""Offsets of a stream, as Spark keeps them in a checkpoint: those of Spark's Kafka source, and what
a log is recognised by.

``{"orders": {"0": 23, "1": 7}, "orders#KqX…#0:5,1:7": {}}``: the next offsets of orders; its topic
id, and the leader epoch of the record before each offset. Spark's Kafka source takes the second
member for a topic without partitions, and continues at the same offsets; no topic has a ``#`` in
its name. Offsets without such a member are right as well.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from logwright.errors import PolicyError
from logwright.format.names import TopicPartition
from logwright.units import INT32_MAX, INT64_MAX

UNKNOWN: Final = -1
"""The epoch where there is no record, or its log has no epochs."""

_MARK: Final = "#"
_FACTS: Final = re.compile(
    r"([A-Za-z0-9._-]+)#([A-Za-z0-9_-]{22})?#([0-9]+:-?[0-9]+(?:,[0-9]+:-?[0-9]+)*)"
)

Json = dict[str, dict[str, int]]


class Position(NamedTuple):
    """Where a stream is in a partition.

    Attributes:
        offset: the next one.
        epoch: leader epoch of the offset before it.
        topic_id: in Kafka's base64, None if the log has none.
    """

    offset: int
    epoch: int = UNKNOWN
    topic_id: str | None = None


Positions = Mapping[TopicPartition, Position]


def to_json(positions: Positions) -> Json:
    """Return positions as Spark keeps them; the same ones are always the same text. Pure."""
    offsets: Json = {}
    epochs: dict[tuple[str, str], list[str]] = {}
    for partition, (offset, epoch, topic_id) in sorted(positions.items()):
        offsets.setdefault(partition.topic, {})[str(partition.partition)] = offset
        if epoch != UNKNOWN or topic_id is not None:
            known = epochs.setdefault((partition.topic, topic_id or ""), [])
            known.append(f"{partition.partition}:{epoch}")
    facts: Json = {_MARK.join((*names, ",".join(known))): {} for names, known in epochs.items()}
    return offsets | facts


def from_json(document: object) -> dict[TopicPartition, Position]:
    """Return positions from what a checkpoint has: ours, or that of Spark's Kafka source. Pure.

    Raises:
        PolicyError: it is something else.
    """
    positions: dict[TopicPartition, Position] = {}
    offsets = without_facts(document)
    if not isinstance(document, Mapping) or not isinstance(offsets, Mapping):
        raise _other_offsets()
    for topic, of_topic in offsets.items():
        if not isinstance(of_topic, Mapping) or _MARK in topic:
            raise _other_offsets()
        for number, offset in of_topic.items():
            partition = TopicPartition.parse(f"{topic}-{number}")
            if partition is None or type(offset) is not int or not 0 <= offset <= INT64_MAX:
                raise _other_offsets()
            positions[partition] = Position(offset)
    for name in document:
        match = _FACTS.fullmatch(name)
        if match is None:
            continue
        for pair in match[3].split(","):
            number, epoch = map(int, pair.split(":"))
            partition = TopicPartition(match[1], number)
            if partition not in positions or not UNKNOWN <= epoch <= INT32_MAX:
                raise _other_offsets()
            positions[partition] = Position(positions[partition].offset, epoch, match[2])
    return positions


def without_facts(document: object) -> object:
    """Return the offsets of a stream without what Spark's Kafka source does not know. Pure."""
    if not isinstance(document, Mapping):
        return document
    return {
        name: of_topic
        for name, of_topic in document.items()
        if of_topic != {} or not isinstance(name, str) or _FACTS.fullmatch(name) is None
    }


def _other_offsets() -> PolicyError:
    return PolicyError(
        "these are not the offsets of a stream of kafka-log.",
        remedy='They look like {"orders": {"0": 23}}. Use another checkpointLocation.',
    )


def shares(sizes: Mapping[TopicPartition, int], most: int) -> dict[TopicPartition, int]:
    """Return how much of each partition one micro-batch reads, at least 1, in proportion to what
    there is, as Spark's Kafka source does (KafkaMicroBatchStream.rateLimit). Pure.

    Args:
        sizes: offsets or bytes that there are, 0 or more.
        most: of all together.
    """
    total = sum(sizes.values())
    if total <= most:
        return dict(sizes)
    return {partition: min(size, max(1, most * size // total)) for partition, size in sizes.items()}
