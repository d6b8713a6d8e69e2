"""Records of a topic that its log directory does not have: in remote storage (KIP-405), or lost.

Four things say so: the topic's config ``remote.storage.enable`` in the cluster's metadata; a log
start offset below the first local segment; and ``__remote_log_metadata``, whose events name each
remote segment until its deletion is finished; and the record of deleted logs, of one that began
before its first segment.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from logwright.erasure.find.places import NO_PARTITION, Inventory, RecordFile
from logwright.erasure.find.result import Unsearched
from logwright.errors import CorruptBatch, LogwrightError, UnsupportedFormatError
from logwright.format.batch import crc_is_valid, parse_batch, walk_batches
from logwright.format.checkpoints import parse_offset_checkpoint
from logwright.format.names import LOG, LOG_START_OFFSET_CHECKPOINT, TopicPartition
from logwright.format.record import read_records
from logwright.place.mapped import map_file

if TYPE_CHECKING:
    from logwright.metadata.model import ClusterMetadata

REMOTE_LOG_METADATA: Final = "__remote_log_metadata"
ENABLE: Final = "remote.storage.enable"
_REMOTE: Final = "its remote segments were not searched"
_LOCAL: Final = frozenset(("segment", "deleted log"))
"""Retired files and swaps are not: a broker with remote storage retires what it has there, and a
swap may be of the first segment alone.
"""
_HEAD: Final = 3
"""Bytes before the fields of an event: of the frame, the kind, and the version of the kind."""
_SEGMENT, _UPDATE, _PARTITION_DELETE = range(3)
_SEGMENT_DELETED: Final = 3
_PARTITION_DELETED: Final = 2
_ID_BYTES: Final = 16
_SEGMENT_AT: Final = _ID_BYTES + 4 + 1
"""Of a segment's id, after the topic's name: topic id, partition, and no tagged fields."""
_AFTER_STATE: Final = 8 + 4 + 1
"""Bytes after the state of a partition's deletion: time, broker, and no tagged fields."""


def is_remote(topic: str, metadata: ClusterMetadata | None) -> bool:
    """Return whether the cluster's metadata says that a topic has remote storage."""
    entry = None if metadata is None else metadata.topic_configs.get(topic, {}).get(ENABLE)
    return entry is not None and entry.value.strip().lower() == "true"


def places_elsewhere(
    log_dir: Path, inventory: Inventory, metadata: ClusterMetadata | None
) -> Iterator[Unsearched]:
    """Yield where else records of the topics are. Effects: reads checkpoints and
    ``__remote_log_metadata``.
    """
    topics = inventory.topics if metadata is None else inventory.topics | metadata.topics.keys()
    remote = inventory.elsewhere | {topic for topic in topics if is_remote(topic, metadata)}
    events = [
        one
        for one in inventory.files
        if one.place == "segment" and one.partition.topic == REMOTE_LOG_METADATA
    ]
    try:
        remote |= remote_topics(events)
    except LogwrightError as error:
        yield _elsewhere(NO_PARTITION, "", f"the remote segments are not known: {error.problem}")
    for topic in sorted(remote):
        yield _elsewhere(TopicPartition(topic, -1), "", f"{topic}: {_REMOTE}")
    try:
        starts = {one.directory_name: start for one, start in _starts(log_dir).items()}
    except LogwrightError as error:
        starts = {}
        problem = f"where the logs start is not known: {error.problem}"
        yield _elsewhere(NO_PARTITION, "", problem)
    yield from _missing(inventory, starts)


def _missing(inventory: Inventory, starts: Mapping[str, int]) -> Iterator[Unsearched]:
    """Yield the partitions whose log starts below their first local segment.

    Args:
        starts: directory of a live log → its log start offset on record.
    """
    first: dict[str, tuple[int, TopicPartition]] = {}
    for one in inventory.files:
        local = one.place in _LOCAL and one.path.suffix == LOG
        if local and one.form == "segment" and one.relative.count("/") == 1:
            directory = one.relative.partition("/")[0]
            known, _ = first.get(directory, (one.base_offset, one.partition))
            first[directory] = min(known, one.base_offset), one.partition
    for directory, start in {**inventory.starts, **starts}.items():
        if directory not in first:
            if directory in inventory.partitions:
                problem = f"no segment; offsets from {start} on are in remote storage, or lost"
                yield _elsewhere(inventory.partitions[directory], directory, problem)
            continue
        base, partition = first[directory]
        if start < base:
            problem = f"offsets {start} to {base - 1} are in remote storage, or lost"
            yield _elsewhere(partition, directory, problem)


def _starts(log_dir: Path) -> Mapping[TopicPartition, int]:
    """Return the log start offsets on record.

    Raises:
        LogwrightError: they cannot be read.
    """
    path = log_dir / LOG_START_OFFSET_CHECKPOINT
    if not os.path.lexists(path):
        return {}
    return parse_offset_checkpoint(map_file(path).tobytes(), path)


def _elsewhere(partition: TopicPartition, path: str, problem: str) -> Unsearched:
    return Unsearched(partition=partition, path=path, position=0, bytes=-1, problem=problem)


def remote_topics(files: Iterable[RecordFile]) -> set[str]:
    """Return the topics that have remote segments by these events. Effects: reads them.

    Raises:
        LogwrightError: they cannot be read.
    """
    segments: dict[tuple[bytes, bytes], str] = {}
    for file in sorted(files, key=lambda one: (one.partition, one.base_offset)):
        for value in _values(file.path):
            _apply(value, segments)
    return set(segments.values())


def _values(path: Path) -> Iterator[bytes]:
    content, end = map_file(path).data, 0
    for span in walk_batches(content):
        end = span.position + span.bytes
        whole = content[span.position : end]
        batch = parse_batch(whole)
        if not crc_is_valid(batch, whole):
            raise CorruptBatch("its CRC is wrong.", position=span.position, path=path)
        if not batch.is_control:
            yield from (one.value for one in read_records(batch, whole) if one.value)
    if end < len(content):
        raise CorruptBatch("it ends within a batch.", position=end, path=path)


def _apply(value: bytes, segments: dict[tuple[bytes, bytes], str]) -> None:
    """Apply one event to the segments: partition and id → topic."""
    kind = value[1] if len(value) > _HEAD else -1
    end = _HEAD + value[_HEAD] if kind >= 0 else 0
    partition = value[end : end + _SEGMENT_AT]
    if len(partition) < _SEGMENT_AT or kind not in (_SEGMENT, _UPDATE, _PARTITION_DELETE):
        raise UnsupportedFormatError("an event of remote storage is not known.")
    segment = value[end + _SEGMENT_AT : end + _SEGMENT_AT + _ID_BYTES]
    if kind == _SEGMENT:
        topic = value[_HEAD + 1 : end].decode(errors="replace")
        segments[partition, segment] = topic
    elif kind == _UPDATE and value[-2] == _SEGMENT_DELETED:
        segments.pop((partition, segment), None)
    elif kind == _PARTITION_DELETE and value[-1 - _AFTER_STATE] == _PARTITION_DELETED:
        for one in [one for one in segments if one[0] == partition]:
            del segments[one]
