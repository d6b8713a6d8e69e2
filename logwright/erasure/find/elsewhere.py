"""Records of a topic that its log directory does not have: in remote storage (KIP-405), or lost.

Five things say so: the topic's config ``remote.storage.enable`` in the cluster's metadata; a log
start offset below the first local segment; and ``__remote_log_metadata``, whose events name each
remote segment until its deletion is finished; the record of deleted logs, of one that began before
its first segment; and the place itself, if it has more than it shows, as a bucket has earlier
versions of a log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from logwright.batches.projection import read_window
from logwright.batches.source import Source, row_ranges
from logwright.erasure.find.result import Unsearched
from logwright.errors import LogwrightError, UnsupportedFormatError
from logwright.format.batch import CONTROL
from logwright.format.checkpoints import parse_offset_checkpoint
from logwright.format.names import LOG, LOG_START_OFFSET_CHECKPOINT, TopicPartition
from logwright.format.scan import check_crcs, scan_whatever
from logwright.log.inventory import NO_PARTITION, owner_of
from logwright.log.record_files import Inventory, RecordFile
from logwright.place.files import exists
from logwright.place.mapped import MappedFiles, map_file
from logwright.place.model import Place, ReadOnlyPlace, is_running

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
    log_dir: Place, inventory: Inventory, metadata: ClusterMetadata | None
) -> Iterator[Unsearched]:
    """Yield where else records of the topics are. Effects: reads checkpoints and
    ``__remote_log_metadata``; of a bucket the names of objects.
    """
    yield from _not_shown(log_dir)
    topics = inventory.topics if metadata is None else inventory.topics | metadata.topics.keys()
    remote = {topic for topic in topics if is_remote(topic, metadata)}
    remote |= {one.partition.topic for one in inventory.deletions.values() if one.elsewhere}
    events = [
        file
        for file in inventory.files
        if file.place.name == "segment" and file.partition.topic == REMOTE_LOG_METADATA
    ]
    try:
        remote |= remote_topics(events)
    except LogwrightError as error:
        yield _elsewhere(NO_PARTITION, "", f"the remote segments are not known: {error.problem}")
    for topic in sorted(remote):
        yield _elsewhere(TopicPartition(topic, -1), "", f"{topic}: {_REMOTE}")
    try:
        starts = {one.directory_name: start for one, start in _starts(log_dir).items()}
        if is_running(log_dir) and metadata is not None:
            starts = {}  # recorded each minute: too low after a retention
    except LogwrightError as error:
        starts = {}
        problem = f"where the logs start is not known: {error.problem}"
        yield _elsewhere(NO_PARTITION, "", problem)
    yield from _missing(inventory, starts)


def _not_shown(log_dir: Place) -> Iterator[Unsearched]:
    """Yield what the place has and does not show."""
    if not isinstance(log_dir, ReadOnlyPlace):
        return
    try:
        for name, problem in log_dir.not_shown():
            partition = TopicPartition.parse(name) or NO_PARTITION
            yield _elsewhere(partition, name, problem)
    except LogwrightError as error:
        yield _elsewhere(NO_PARTITION, "", f"what else is there is not known: {error.problem}")


def _missing(inventory: Inventory, starts: Mapping[str, int]) -> Iterator[Unsearched]:
    """Yield the partitions whose log starts below their first local segment.

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
        if start < base:
            problem = f"offsets {start} to {base - 1} are in remote storage, or lost"
            yield _elsewhere(partition, directory, problem)


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
    segments: dict[tuple[bytes, bytes], str] = {}
    for file in sorted(files, key=lambda one: (one.partition, one.base_offset)):
        for value in _values(file.path):
            _apply(value, segments)
    return set(segments.values())


def _values(path: Place) -> Iterator[bytes]:
    log = MappedFiles().open(path)
    batches = scan_whatever(log.data, path)
    check_crcs(log.data, batches, path, first=0, last=len(batches))
    source = Source(base_offset=0, log=log, batches=batches)
    data = (batches["attributes"] & CONTROL) == 0
    for first, last in row_ranges(source, first=0, last=len(batches)):
        records = read_window(source, first + np.flatnonzero(data[first:last]))
        values = (records.bytes_of(row, "value") for row in range(len(records.rows)))
        yield from filter(None, values)


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
        for key in [key for key in segments if key[0] == partition]:
            del segments[key]
