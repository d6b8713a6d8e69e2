"""The events of ``__remote_log_metadata``: which remote segments there are (KIP-405).

A value is a frame version, the kind of the event and its version, as unsigned varints, then the
event (BytesApiMessageSerde, RemoteLogMetadataSerde, Kafka 4.3.0). Keys are null. A segment is
readable from the end of its copy until its deletion begins (RemoteLogSegmentState). The log of a
deleted topic ends with the deletion of each of its segments; a record for the whole partition need
not be there.

A broker's log directory has some of the topic's partitions, or none: of a log with no event,
nothing is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from logwright.batches.projection import read_window
from logwright.batches.source import Source, row_ranges
from logwright.errors import UnsupportedFormatError
from logwright.format.batch import CONTROL
from logwright.format.checkpoints import LeaderEpoch
from logwright.format.messages import (
    Field,
    MalformedMessage,
    Message,
    read_message,
    read_varint,
)
from logwright.format.names import LOG, TopicPartition, parse_segment_file_name
from logwright.format.scan import check_crcs, scan_whatever
from logwright.log.log_dir import list_log_dir
from logwright.place.files import names_in, open_log_dir
from logwright.place.mapped import MappedFiles
from logwright.place.model import Place
from logwright.tier.model import SegmentId, Span
from logwright.units import Offset

TOPIC: Final = "__remote_log_metadata"
_FRAME: Final = 1
_SEGMENT, _UPDATE, _PARTITION_DELETE = range(3)
COPY_STARTED, COPY_FINISHED, DELETE_STARTED, DELETE_FINISHED = range(4)
"""States of a segment (RemoteLogSegmentState)."""
_PARTITION_DELETED: Final = 2
"""State of a partition's deletion when it is over (RemotePartitionDeleteState)."""

_TOPIC_ID_PARTITION: Final = Field(
    "topic",
    "struct",
    (Field("name", "string"), Field("id", "uuid"), Field("partition", "int32")),
)
_ID: Final = Field("segment", "struct", (_TOPIC_ID_PARTITION, Field("id", "uuid")))
_CUSTOM: Final = Field("custom", "bytes", nullable_since=0)
_EPOCH: Final = (Field("epoch", "int32"), Field("offset", "int64"))
_MESSAGES: Final = {
    _SEGMENT: Message(
        (
            _ID,
            Field("start", "int64"),
            Field("end", "int64"),
            Field("broker", "int32"),
            Field("max_timestamp_ms", "int64"),
            Field("at_ms", "int64"),
            Field("epochs", "[]struct", _EPOCH),
            Field("bytes", "int32"),
            _CUSTOM,
            Field("state", "int8"),
        ),
        latest=1,
        flexible_since=0,
    ),
    _UPDATE: Message(
        (_ID, Field("broker", "int32"), Field("at_ms", "int64"), _CUSTOM, Field("state", "int8")),
        latest=1,
        flexible_since=0,
    ),
    _PARTITION_DELETE: Message(
        (
            _TOPIC_ID_PARTITION,
            Field("broker", "int32"),
            Field("at_ms", "int64"),
            Field("state", "int8"),
        ),
        flexible_since=0,
    ),
}
"""By kind. Source: the ``Remote*Record.json`` of Kafka's storage module."""

LogId = tuple[TopicPartition, str]
"""A log: its partition and the id of its topic."""


class Known(NamedTuple):
    """A segment as the events have it.

    Attributes:
        state: `COPY_STARTED`, …; that of a segment whose deletion is over is not kept.
    """

    id: SegmentId
    span: Span
    state: int

    @property
    def is_readable(self) -> bool:
        """Whether it is whole, and not being deleted."""
        return self.state == COPY_FINISHED


@dataclass(slots=True)
class RemoteLogMetadata:
    """What the events that were read say.

    Attributes:
        segments: of each log, by id; a log whose segments are all deleted has an empty entry.
        partitions: of the topic, that were read.
    """

    segments: dict[LogId, dict[str, Known]] = field(default_factory=dict)
    partitions: set[int] = field(default_factory=set)

    @property
    def topics(self) -> set[str]:
        """The topics that have a segment, whatever its state."""
        return {partition.topic for (partition, _), known in self.segments.items() if known}

    def of(self, log: LogId) -> dict[str, Known] | None:
        """Return the segments of a log; None if no event is about it."""
        return self.segments.get(log)

    def apply(self, value: bytes) -> None:
        """Apply the value of a record.

        Raises:
            UnsupportedFormatError: it is not known.
        """
        try:
            frame, position = read_varint(value, 0)
            kind, position = read_varint(value, position)
            version, position = read_varint(value, position)
            if frame != _FRAME or kind not in _MESSAGES:
                raise MalformedMessage("is of an unknown kind")
            event = read_message(_MESSAGES[kind], value, position, version)
        except MalformedMessage as error:
            raise UnsupportedFormatError("an event of remote storage is not known.") from error
        if kind == _PARTITION_DELETE:
            if event["state"] == _PARTITION_DELETED:
                self.segments[_log_of(event["topic"])] = {}
            return
        log, known = _log_of(event["segment"]["topic"]), event["segment"]["id"]
        of_log = self.segments.setdefault(log, {})
        if event["state"] == DELETE_FINISHED:
            of_log.pop(known, None)
        elif kind == _SEGMENT:
            of_log[known] = _known(log, known, event)
        elif known in of_log:
            of_log[known] = of_log[known]._replace(state=event["state"])


def _log_of(topic: dict[str, Any]) -> LogId:
    return TopicPartition(topic["name"], topic["partition"]), topic["id"]


def _known(log: LogId, segment: str, event: dict[str, Any]) -> Known:
    start = event["start"]
    epochs = sorted((one["epoch"], one["offset"]) for one in event["epochs"])
    return Known(
        id=SegmentId(log[0], log[1], start, segment),
        span=Span(
            start=Offset(start),
            end=Offset(event["end"]),
            epochs=tuple(LeaderEpoch(epoch=one, start_offset=Offset(at)) for one, at in epochs),
        ),
        state=event["state"],
    )


def read_remote_log_metadata(log_dirs: Iterable[Place]) -> RemoteLogMetadata:
    """Return what the events in some log directories say. Effects: reads them.

    Raises:
        CorruptBatch, UnsupportedFormatError, UnreadableFile: they cannot be read.
    """
    metadata = RemoteLogMetadata()
    for log_dir in log_dirs:
        with open_log_dir(log_dir) as directory:
            partitions = list_log_dir(directory).partitions.items()
        for name, partition in sorted(partitions, key=lambda one: one[1]):
            if partition.topic != TOPIC:
                continue
            metadata.partitions.add(partition.partition)
            for file in names_in(log_dir / name):
                parsed = parse_segment_file_name(file)
                if parsed is not None and parsed[1] == LOG:
                    for value in values_of(log_dir / name / file):
                        metadata.apply(value)
    return metadata


def values_of(path: Place) -> Iterator[bytes]:
    """Yield the values of a segment's records that are not null. Effects: reads it.

    Raises:
        CorruptBatch, UnsupportedFormatError, UnreadableFile: it cannot be read.
    """
    log = MappedFiles().open(path)
    batches = scan_whatever(log.data, path)
    check_crcs(log.data, batches, path, first=0, last=len(batches))
    source = Source(base_offset=0, log=log, batches=batches)
    data = (batches["attributes"] & CONTROL) == 0
    for first, last in row_ranges(source, first=0, last=len(batches)):
        records = read_window(source, first + np.flatnonzero(data[first:last]))
        values = (records.bytes_of(row, "value") for row in range(len(records.rows)))
        yield from filter(None, values)
