"""Segments as Kafka's own LocalTieredStorage lays them out: each file of a segment as it was.

::

    TOPIC-PARTITION-TOPICID/OFFSET-SEGMENTID.log
                                            .index .timeindex .txnindex .snapshot
                                            .leader_epoch_checkpoint

A file that is empty may be missing. Source: LocalTieredStorage and RemoteLogSegmentFileset, Kafka
4.3.0 (``kafka-storage``, classifier ``test``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from logwright.errors import CorruptObject
from logwright.format.names import INDEX, LOG, TIMEINDEX
from logwright.place.model import Bytes
from logwright.running.bounds import end_of_log
from logwright.tier.chunks import PlainBytes
from logwright.tier.model import PARTS, RemoteSegment, Span
from logwright.units import Offset

OBJECTS: Final = PARTS
"""What can be there of a segment, by suffix."""
_REQUIRED: Final = (LOG, INDEX, TIMEINDEX)


class LocalSegment(RemoteSegment):
    """A segment of LocalTieredStorage."""

    def key_of(self, suffix: str) -> str:
        """See `RemoteSegment.key_of`."""
        known = next(iter(self.objects.values())).key
        return known[: known.rindex(".")] + suffix

    @property
    def is_finished(self) -> bool:
        """See `RemoteSegment.is_finished`: nothing is written last."""
        return all(suffix in self.objects for suffix in _REQUIRED)

    def sizes(self) -> Mapping[str, int]:
        """See `RemoteSegment.sizes`; nothing is read."""
        for suffix in _REQUIRED:
            self.part(suffix)
        return {suffix: stat.bytes for suffix, stat in self.objects.items()}

    def span(self) -> Span:
        """See `RemoteSegment.span`: no object says it, so its last batches are read; where one is
        damaged, it ends.
        """
        sizes, base = self.sizes(), self.id.base_offset
        log, index = (self.open(suffix, (sizes[suffix], 0, 0)) for suffix in (LOG, INDEX))
        end = end_of_log(log, index, base_offset=base).following
        return Span(start=Offset(base), end=Offset(max(end - 1, base)))

    def open(self, suffix: str, seen: tuple[int, int, int]) -> Bytes:
        """See `RemoteSegment.open`."""
        return PlainBytes(self.bucket, self.part(suffix), seen)

    def faults(self) -> Iterator[CorruptObject]:
        """See `RemoteSegment.faults`: its files have no sums; a verification of the log's batches
        and indexes shows what is wrong in them.
        """
        for suffix in _REQUIRED:
            try:
                self.part(suffix)
            except CorruptObject as error:
                yield error
