"""A remote segment, whatever its layout."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from logwright.errors import CorruptObject
from logwright.format.checkpoints import LeaderEpoch
from logwright.format.names import INDEX, LOG, SNAPSHOT, TIMEINDEX, TXNINDEX, TopicPartition
from logwright.place.model import Bytes
from logwright.tier.objects import Objects, ObjectStat
from logwright.units import Offset

LEADER_EPOCHS: Final = ".leader_epoch_checkpoint"
"""Suffix of a segment's leader epochs (RemoteLogSegmentFileset, Kafka 4.3.0)."""
PARTS: Final = (LOG, INDEX, TIMEINDEX, TXNINDEX, SNAPSHOT, LEADER_EPOCHS)
"""What a remote segment has, by suffix; a segment without aborted transactions has no
``.txnindex``."""
_RESTORE: Final = "Restore the object: no other copy of these records is known here."


class SegmentId(NamedTuple):
    """Which segment it is (RemoteLogSegmentId, Kafka 4.3.0).

    Attributes:
        partition: its topic and partition.
        topic_id, segment_id: 22 characters of Kafka's base64, which may be ``-`` and ``_``.
        base_offset: of its first batch.
    """

    partition: TopicPartition
    topic_id: str
    base_offset: int
    segment_id: str


class Span(NamedTuple):
    """The offsets of a segment.

    Attributes:
        start, end: the first and the last one; the next segment begins after the last one.
        epochs: leader epochs, each with its first offset in the segment.
    """

    start: Offset
    end: Offset
    epochs: tuple[LeaderEpoch, ...] = ()


class RemoteSegment(ABC):
    """A segment in remote storage. Its objects were listed; nothing was read yet.

    Attributes:
        id: which segment it is.
        objects: by suffix.
    """

    def __init__(self, bucket: Objects, id: SegmentId, objects: Mapping[str, ObjectStat]) -> None:  # noqa: A002 -- Kafka's name
        self.bucket = bucket
        self.id = id
        self.objects = dict(objects)

    @property
    def log(self) -> ObjectStat:
        """The object of its ``.log``.

        Raises:
            CorruptObject: it is missing.
        """
        return self.part(LOG)

    def part(self, suffix: str) -> ObjectStat:
        """Return an object that it must have.

        Raises:
            CorruptObject: it is missing.
        """
        if suffix in self.objects:
            return self.objects[suffix]
        raise damaged("the object is missing", self.key_of(suffix))

    @abstractmethod
    def key_of(self, suffix: str) -> str:
        """Return the key of the object that a part is in. Pure."""

    @property
    @abstractmethod
    def is_finished(self) -> bool:
        """Whether its copy was finished, as far as the keys of its objects say it. Pure."""

    @abstractmethod
    def sizes(self) -> Mapping[str, int]:
        """Return the bytes of each part that it has, by suffix, as a broker wrote them. Effects:
        may read an object, once.

        Raises:
            CorruptObject: an object is missing, or is not what was written.
            UnreadableFile: it cannot be read.
        """

    @abstractmethod
    def span(self) -> Span:
        """Return its offsets. Effects: reads an object, or a part of one; errors: as `sizes`."""

    @abstractmethod
    def open(self, suffix: str, seen: tuple[int, int, int]) -> Bytes:
        """Open a part of `sizes`. Effects and errors: as `sizes`.

        Args:
            seen: as `Bytes.seen` is to be.
        """

    @abstractmethod
    def faults(self) -> Iterator[CorruptObject]:
        """Yield what is wrong with its objects themselves, whatever records they hold; at most one
        for each object. Effects: reads all of them.

        Raises:
            UnreadableFile: one cannot be read.
        """


def damaged(problem: str, key: str, position: int | None = None) -> CorruptObject:
    """Return the error for an object; `problem` without a full stop."""
    return CorruptObject(f"{problem}.", path=key, position=position, remedy=_RESTORE)
