"""Records of a topic that its log directory does not have: in remote storage (KIP-405), or lost.

Six things say so: the topic's config ``remote.storage.enable`` in the cluster's metadata; a log
start offset below the first local segment (of a running broker's log, which has an old one on
record, its oldest leader epoch, too); and ``__remote_log_metadata``, whose events name each
remote segment until its deletion is finished; the record of deleted logs, of one that began before
its first segment; the place itself, if it has more than it shows, as a bucket has earlier
versions of a log; and the directory next to it to which a rescue moved what was in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from logwright.erasure.find.result import Unsearched
from logwright.errors import LogwrightError
from logwright.format.checkpoints import parse_leader_epochs, parse_offset_checkpoint
from logwright.format.names import (
    LEADER_EPOCH_CHECKPOINT,
    LOG,
    LOG_START_OFFSET_CHECKPOINT,
    TopicPartition,
)
from logwright.log.inventory import NO_PARTITION, owner_of
from logwright.log.record_files import Inventory, RecordFile, partition_of
from logwright.place.files import exists, moved_out
from logwright.place.mapped import map_file
from logwright.place.model import Place, ReadOnlyPlace, is_running
from logwright.tier.metadata import TOPIC, RemoteLogMetadata, values_of

if TYPE_CHECKING:
    from logwright.metadata.model import ClusterMetadata
    from logwright.tier.remote import RemoteSegments

_REMOTE: Final = "its remote segments were not searched"
_LOCAL: Final = frozenset(("segment", "deleted log"))
"""Retired files and swaps are not: a broker with remote storage retires what it has there, and a
swap may be of the first segment alone.
"""


def is_remote(topic: str, metadata: ClusterMetadata | None) -> bool:
    """Return whether the cluster's metadata says that a topic has remote storage."""
    return metadata is not None and metadata.is_remote(topic)


def places_elsewhere(
    log_dir: Place,
    inventory: Inventory,
    metadata: ClusterMetadata | None,
    tier: RemoteSegments | None = None,
) -> Iterator[Unsearched]:
    """Yield where else records of the topics are. Effects: reads checkpoints and
    ``__remote_log_metadata``; lists the tier; of a bucket the names of objects.

    Args:
        tier: that is searched, too.
    """
    topics = inventory.topics if metadata is None else inventory.topics | metadata.topics.keys()
    remote = {topic for topic in topics if is_remote(topic, metadata)}
    remote |= {one.partition.topic for one in inventory.deletions.values() if one.elsewhere}
    events = [
        file
        for file in inventory.files
        if file.place.name == "segment" and file.partition.topic == TOPIC
    ]
    try:
        remote |= remote_topics(events)
    except LogwrightError as error:
        yield _elsewhere(NO_PARTITION, "", f"the remote segments are not known: {error.problem}")
    for topic in sorted(remote):
        problem = _REMOTE if tier is None else _lacking(tier, topic)
        if problem is not None:
            yield _elsewhere(TopicPartition(topic, -1), "", f"{topic}: {problem}")
    try:
        starts = {one.directory_name: start for one, start in _starts(log_dir).items()}
    except LogwrightError as error:
        starts = {}
        problem = f"where the logs start is not known: {error.problem}"
        yield _elsewhere(NO_PARTITION, "", problem)
    yield from _missing(inventory, starts, tier)


def not_shown(log_dir: Place) -> Iterator[Unsearched]:
    """Yield what the place has and does not show, once the rest is searched: in a bucket also what
    appeared meanwhile; of a directory, what a rescue moved out of it. Effects: lists a bucket.
    """
    try:
        shown = log_dir.not_shown() if isinstance(log_dir, ReadOnlyPlace) else moved_out(log_dir)
        for name, problem in shown:
            yield _elsewhere(partition_of(name.partition("/")[0], {}), name, problem)
    except LogwrightError as error:
        yield _elsewhere(NO_PARTITION, "", f"what else is there is not known: {error.problem}")


def _lacking(tier: RemoteSegments, topic: str) -> str | None:
    """Return why remote segments of a topic are not searched with the tier, None if all are.
    Effects: lists it.
    """
    try:
        return tier.lacks(topic)
    except LogwrightError as error:
        return f"{_REMOTE}: {error.problem.removesuffix('.')}"


def _missing(
    inventory: Inventory, starts: Mapping[str, int], tier: RemoteSegments | None
) -> Iterator[Unsearched]:
    """Yield the partitions whose log starts below their first local segment, unless the tier has
    what is before. Effects: lists the tier.

    Args:
        starts: directory of a live log → its log start offset on record.
    """
    first: dict[str, tuple[int, TopicPartition]] = {}
    for file in inventory.files:
        local = file.place.name in _LOCAL and file.path.name.endswith(LOG)
        if local and file.place.form == "segment" and file.relative.count("/") == 1:
            directory = file.relative.partition("/")[0]
            known, _ = first.get(directory, (file.base_offset, file.partition))
            first[directory] = min(known, file.base_offset), file.partition
    recorded = {
        name: deletion.checkpoints.get(LOG_START_OFFSET_CHECKPOINT)
        for name, deletion in inventory.deletions.items()
    }
    for directory, start in {**recorded, **starts}.items():
        if start is None:
            continue
        if directory not in first:
            if directory in inventory.logs and owner_of(directory)[0] == "log":
                problem = f"no segment; offsets from {start} on are in remote storage, or lost"
                yield _elsewhere(inventory.logs[directory], directory, problem)
            continue
        base, partition = first[directory]
        gaps = [(start, base - 1)] if start < base else []
        if gaps and is_running(inventory.tree.root):
            gaps = [] if _starts_at(inventory.tree.root / directory, base) else gaps
        if gaps and tier is not None:
            with suppress(LogwrightError):  # then nothing is known to be there
                place = inventory.tree.root
                gaps = list(tier.gaps(place, directory, partition, (start, base)))
        for since, until in gaps:
            problem = f"offsets {since} to {until} are in remote storage, or lost"
            yield _elsewhere(partition, directory, problem)


def _starts_at(directory: Place, base: int) -> bool:
    """Return whether a running broker's log starts with a segment, or after its beginning. The log
    start offset on record is up to a minute old, and too low after a retention; but that moves the
    oldest leader epoch (LeaderEpochFileCache.truncateFromStartAsyncFlush), which stays where older
    segments are in remote storage. Effects: reads the epochs.
    """
    path = directory / LEADER_EPOCH_CHECKPOINT
    try:
        epochs = parse_leader_epochs(map_file(path).tobytes(), path)
    except LogwrightError:
        return False
    return bool(epochs) and epochs[0].start_offset >= base


def _starts(log_dir: Place) -> Mapping[TopicPartition, int]:
    """Return the log start offsets on record.

    Raises:
        LogwrightError: they cannot be read.
    """
    path = log_dir / LOG_START_OFFSET_CHECKPOINT
    if not exists(path):
        return {}
    return parse_offset_checkpoint(map_file(path).tobytes(), path)


def _elsewhere(partition: TopicPartition, path: str, problem: str) -> Unsearched:
    return Unsearched(partition=partition, path=path, position=0, bytes=-1, problem=problem)


def remote_topics(files: Iterable[RecordFile]) -> set[str]:
    """Return the topics that have remote segments by these events. Effects: reads them.

    Raises:
        LogwrightError: they cannot be read.
    """
    metadata = RemoteLogMetadata()
    for file in sorted(files, key=lambda one: (one.partition, one.base_offset)):
        for value in values_of(file.path):
            metadata.apply(value)
    return metadata.topics
