"""Which replicas lack what others have, so that none of them is in sync in a rescued state.

The state may be older than what a rescue lacks: a replica that has left the ISR since is in it
there. The controller would let it lead, and the others cut their logs to its end, with records
that were acknowledged (KIP-101). Of two replicas that one has more whose last record has the newer
leader epoch; of the same epoch, the longer one.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from logwright.errors import LogwrightError, NotALogDir
from logwright.format.checkpoints import parse_leader_epochs
from logwright.format.names import LEADER_EPOCH_CHECKPOINT, TopicPartition
from logwright.log.load import list_partitions, observe
from logwright.metadata.model import PartitionMetadata, TopicMetadata
from logwright.metadata.records import FRAME_VERSION
from logwright.place.files import open_partition_dir
from logwright.quorum.control import varint
from logwright.quorum.model import Survivor

_PARTITION_CHANGE: Final = 5
_WITH_ELIGIBLE: Final = 2
"""The version of the record that has the eligible leader replicas."""
_ISR, _LEADER, _ELR, _LAST_KNOWN_ELR = 0, 1, 6, 7
"""Tags of its fields (PartitionChangeRecord.json, 4.3.0)."""


class End(NamedTuple):
    """Where a replica ends: the epoch of its last record, -1 if that is not known, and its log end
    offset.
    """

    epoch: int
    offset: int


Ends = Mapping[TopicPartition, Mapping[int, End]]
"""By partition and broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demotion:
    """A partition of which replicas lack what another one has.

    Attributes:
        topic_id: of its topic.
        lacking: where those end, by broker.
        other, most: who has the most, and where that one ends.
        in_sync: who is in sync in the new state: not one that lacks records.
    """

    partition: TopicPartition
    topic_id: str
    lacking: Mapping[int, End]
    other: int
    most: End
    in_sync: tuple[int, ...]


def demotions(topics: Mapping[str, TopicMetadata], ends: Ends) -> tuple[Demotion, ...]:
    """Return the partitions of a state of which replicas lack what others have. Pure."""
    demoted = []
    for partition, topic_id, known in _replicated(topics):
        own = {at: end for at, end in ends.get(partition, {}).items() if at in known.replicas}
        other = max(own, key=lambda broker: own[broker], default=None)
        if other is None:
            continue
        most = own[other]
        lacking = {broker: end for broker, end in sorted(own.items()) if end < most}
        if lacking:
            left = tuple(each for each in known.in_sync if each not in lacking)
            demoted.append(
                Demotion(
                    partition=partition,
                    topic_id=topic_id,
                    lacking=lacking,
                    other=other,
                    most=most,
                    in_sync=left or (other,),
                )
            )
    return tuple(demoted)


def not_compared(topics: Mapping[str, TopicMetadata], ends: Ends) -> Mapping[int, int]:
    """Return how many replicas of a state were not looked at, by broker, where a partition has
    several. Pure.
    """
    counts: Counter[int] = Counter()
    for partition, _, known in _replicated(topics):
        counts.update(each for each in known.replicas if each not in ends.get(partition, {}))
    return dict(sorted(counts.items()))


def _replicated(
    topics: Mapping[str, TopicMetadata],
) -> Iterator[tuple[TopicPartition, str, PartitionMetadata]]:
    """Yield the partitions with several replicas, with the ids of their topics, sorted."""
    for name, topic in sorted(topics.items()):
        for number, known in topic.partitions.items():
            if len(known.replicas) > 1:
                yield TopicPartition(name, number), topic.topic_id, known


def partition_change(demotion: Demotion, *, eligible: bool) -> bytes:
    """Return the value of a PartitionChangeRecord that says who is in sync, and lets one of them
    lead.

    Args:
        eligible: the cluster has eligible leader replicas (KIP-966): of these none is left.
    """
    fields = {_ISR: _int32s(demotion.in_sync), _LEADER: _int32(demotion.in_sync[0])}
    if eligible:
        fields |= {_ELR: _int32s(()), _LAST_KNOWN_ELR: _int32s(())}
    version = _WITH_ELIGIBLE if eligible else 0
    padding = "=" * (-len(demotion.topic_id) % 4)
    body = [
        bytes([FRAME_VERSION, _PARTITION_CHANGE, version]),
        _int32(demotion.partition.partition),
        base64.urlsafe_b64decode(demotion.topic_id + padding),
        varint(len(fields)),
        *(varint(tag) + varint(len(content)) + content for tag, content in fields.items()),
    ]
    return b"".join(body)


def _int32(number: int) -> bytes:
    return number.to_bytes(4, "big", signed=True)


def _int32s(numbers: Sequence[int]) -> bytes:
    return varint(len(numbers) + 1) + b"".join(map(_int32, numbers))


def read_ends(survivors: Sequence[Survivor]) -> Ends:
    """Return where the replicas in the directories of brokers end; those that cannot be read are
    left out. Effects: reads their last segments.
    """
    ends: dict[TopicPartition, dict[int, End]] = {}
    for survivor in survivors:
        broker = survivor.ids.node_id
        if broker is None:
            continue
        for partition in _partitions(survivor.log_dir):
            with suppress(LogwrightError):  # `doctor` says what is wrong with it
                ends.setdefault(partition, {})[broker] = _end(survivor.log_dir, partition)
    return ends


def _partitions(log_dir: Path) -> list[TopicPartition]:
    try:
        return list_partitions(log_dir)
    except NotALogDir:  # of a controller
        return []


def _end(log_dir: Path, partition: TopicPartition) -> End:
    end = observe(log_dir, partition, high_watermark="end").log_end_offset
    name = LEADER_EPOCH_CHECKPOINT
    with open_partition_dir(log_dir, partition) as directory:
        content = directory.read(name) if directory.exists(name) else b""
    epochs = parse_leader_epochs(content, log_dir / partition.directory_name / name)
    epoch = next((each.epoch for each in reversed(epochs) if each.start_offset < end), -1)
    return End(epoch, end)
