"""Which replicas lack what others have, so that none of them is in sync in a rescued state.

The state may be older than what a rescue lacks: a replica that has left the ISR since is in it
there. The controller would let it lead, and the others cut their logs to its end, with records
that were acknowledged (KIP-101). Of two replicas that one has more whose last record has the newer
leader epoch; of the same epoch, the longer one.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from logwright.errors import LogwrightError, NotALogDir, PreconditionError
from logwright.format.checkpoints import parse_leader_epochs
from logwright.format.names import LEADER_EPOCH_CHECKPOINT, TopicPartition
from logwright.log.load import list_partitions, observe
from logwright.log.topic_id import read_topic_id
from logwright.metadata.find import METADATA_DIRECTORY
from logwright.metadata.model import NO_IDS, DirectoryIds, PartitionMetadata, TopicMetadata
from logwright.metadata.read import read_directory_ids
from logwright.metadata.records import FRAME_VERSION
from logwright.place.files import open_partition_dir
from logwright.quorum.control import varint

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


NOTHING: Final = End(-1, 0)
"""Of a replica whose log is missing."""
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
    """Return the partitions of a state of which replicas lack what others have. Not those of which
    nobody is in sync there, and not all replicas were looked at: an eligible leader replica may
    have more. Pure.
    """
    demoted = []
    for partition, topic_id, known in _replicated(topics):
        own = {at: end for at, end in ends.get(partition, {}).items() if at in known.replicas}
        other = max(own, key=lambda broker: own[broker], default=None)
        if other is None:
            continue
        if not known.in_sync and len(own) < len(known.replicas):
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


def has_only_replicas(log_dir: Path) -> bool:
    """Return whether a directory is a further one of a broker: with logs, and without the metadata
    log. Effects: looks.

    Raises:
        UnreadableFile: it cannot be read.
    """
    return not (log_dir / METADATA_DIRECTORY).exists() and bool(_partitions(log_dir))


def read_ends(
    log_dirs: Sequence[Path], topics: Mapping[str, TopicMetadata], cluster_id: str | None
) -> Ends:
    """Return where the replicas in the directories of brokers end: `NOTHING` where the state has a
    replica in a directory, and its log is missing. Those that cannot be read, or are of a topic
    with another id, are left out. Effects: reads their last segments.

    Args:
        topics: of the state.
        cluster_id: None: not known.

    Raises:
        PreconditionError: a directory is of another cluster.
    """
    ends: dict[TopicPartition, dict[int, End]] = {}
    absent: list[tuple[int, TopicPartition]] = []
    for log_dir in log_dirs:
        ids = _ids(log_dir)
        if ids.node_id is None:
            continue
        if cluster_id is not None and ids.cluster_id not in (None, cluster_id):
            raise PreconditionError(
                "is of another cluster.",
                path=log_dir,
                remedy="Give directories of one cluster. Nothing was changed.",
            )
        here = _partitions(log_dir)
        absent += [(ids.node_id, each) for each in _absent(topics, ids, here)]
        for partition in here:
            topic = topics.get(partition.topic)
            with suppress(LogwrightError):  # `doctor` says what is wrong with it
                end = None if topic is None else _end(log_dir, partition, topic.topic_id)
                if end is not None:
                    ends.setdefault(partition, {})[ids.node_id] = end
    for broker, partition in absent:  # unless it was moved to another directory of the broker
        ends.setdefault(partition, {}).setdefault(broker, NOTHING)
    return ends


def _absent(
    topics: Mapping[str, TopicMetadata], ids: DirectoryIds, here: Collection[TopicPartition]
) -> Iterator[TopicPartition]:
    """Yield the partitions of which a directory should have a replica, and has none."""
    for partition, _, known in _replicated(topics):
        places = dict(zip(known.replicas, known.directories, strict=False))
        own = ids.node_id is not None and places.get(ids.node_id) == ids.directory_id
        if own and ids.directory_id is not None and partition not in here:
            yield partition


def _ids(log_dir: Path) -> DirectoryIds:
    try:
        return read_directory_ids(log_dir)
    except LogwrightError:  # it is named as damaged
        return NO_IDS


def _partitions(log_dir: Path) -> list[TopicPartition]:
    try:
        return list_partitions(log_dir)
    except NotALogDir:  # of a controller
        return []


def _end(log_dir: Path, partition: TopicPartition, topic_id: str) -> End | None:
    """Return where a replica ends, None if it is of another topic, or without an id: a broker takes
    it for a stray log.
    """
    name = LEADER_EPOCH_CHECKPOINT
    with open_partition_dir(log_dir, partition) as directory:
        if read_topic_id(directory) != topic_id:
            return None
        content = directory.read(name) if directory.exists(name) else b""
    end = observe(log_dir, partition, high_watermark="end").log_end_offset
    epochs = parse_leader_epochs(content, log_dir / partition.directory_name / name)
    epoch = next((each.epoch for each in reversed(epochs) if each.start_offset < end), -1)
    return End(epoch, end)
