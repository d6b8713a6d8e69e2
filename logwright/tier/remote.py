"""All remote segments of a tier as files, for searches: also those that no log shows any more,
since their bytes are there.

::

    TOPIC-N/TOPICID/OFFSET-SEGMENTID.log        as it was before it was cut into chunks

Objects are not changed once they are written, so one listing of them is one state. An upload that
was not finished cannot be read, and is named. Indexes and manifests hold no record; objects of no
segment are not shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from logwright.errors import CorruptObject, UnsupportedFormatError
from logwright.format.names import LOG, TopicPartition
from logwright.place.model import Bytes, Entry, FileStamp, Place, ReadOnlyPlace
from logwright.tier.lineage import candidate, chain
from logwright.tier.model import RemoteSegment
from logwright.tier.parts import RemotePart, part_of
from logwright.tier.place import SCHEME, TieredPlace
from logwright.tier.tier import Tier, TierOptions, local_of
from logwright.units import ByteCount

_OUTSIDE: Final = ("",) * 4
"""Names of what is not below the root: nothing is there."""
_IN_A_TOPIC: Final = 2
"""Names below the root of the directory of a topic's id."""


@dataclass(frozen=True, order=True)
class RemoteSegmentsPlace(ReadOnlyPlace):
    """All remote segments, or something in them."""

    tier: Tier = field(compare=False, repr=False)

    def __str__(self) -> str:
        return f"{SCHEME}:{self.pure}"

    def entry(self) -> Entry:
        """See `ReadOnlyPlace.entry`."""
        parts = self._parts()
        segment = self._segment(parts)
        if segment is not None:
            return _entry_of(segment, self.name)
        if parts and self._names(parts) is None:
            raise FileNotFoundError(str(self))
        return _directory(self.name)

    def entries(self) -> Iterable[Entry]:
        """See `ReadOnlyPlace.entries`."""
        parts = self._parts()
        names = self._names(parts)
        if names is None:
            kind = FileNotFoundError if self._segment(parts) is None else NotADirectoryError
            raise kind(str(self))
        if len(parts) < _IN_A_TOPIC:
            return [_directory(name) for name in names]
        return [_entry_of(segment, name) for name, segment in self._named(parts).items()]

    def open(self) -> Bytes:
        """See `ReadOnlyPlace.open`."""
        segment = self._segment(self._parts())
        if segment is None:
            kind = FileNotFoundError if self._names(self._parts()) is None else IsADirectoryError
            raise kind(str(self))
        segment.sizes()
        return _part_of(segment).open()

    def _parts(self) -> tuple[str, ...]:
        root = PurePosixPath(self.tier.options.text)
        return self.pure.relative_to(root).parts if self.pure.is_relative_to(root) else _OUTSIDE

    def _names(self, parts: tuple[str, ...]) -> list[str] | None:
        """Return what is in a directory, None if there is none. Effects: see `Tier.logs`."""
        logs = self.tier.logs()
        if not parts:
            return sorted({partition.directory_name for partition, _ in logs})
        partition = TopicPartition.parse(parts[0])
        ids = sorted(topic_id for log, topic_id in logs if log == partition)
        if len(parts) == 1:
            return ids or None
        return [*self._named(parts)] if len(parts) == _IN_A_TOPIC and parts[1] in ids else None

    def _named(self, parts: tuple[str, ...]) -> Mapping[str, RemoteSegment]:
        """Return the segments of a log, by the names of their files."""
        partition = TopicPartition.parse(parts[0])
        if partition is None:
            return {}
        segments = self.tier.logs().get((partition, parts[1]), ())
        return {f"{each.id.base_offset:020d}-{each.id.segment_id}{LOG}": each for each in segments}

    def _segment(self, parts: tuple[str, ...]) -> RemoteSegment | None:
        return self._named(parts).get(parts[2]) if len(parts) == _IN_A_TOPIC + 1 else None


@dataclass(frozen=True, slots=True)
class RemoteSegments:
    """The tier of a search.

    Attributes:
        tier: with the log directories that are searched.
    """

    tier: Tier

    @property
    def place(self) -> RemoteSegmentsPlace:
        """All its segments, as they are from now on: what is no longer in a log directory that was
        searched before is in it.
        """
        options = self.tier.options
        return RemoteSegmentsPlace(PurePosixPath(options.text), Tier(options))

    def lacks(self, topic: str) -> str | None:
        """Return why not all remote segments of a topic are in the tier, None if they are as far as
        is known. Effects: see `Tier.found`.

        Raises:
            LogwrightError: the tier cannot be listed, or the events not be read.
        """
        there = {
            segment.id.segment_id: segment
            for (partition, _), segments in self.tier.logs().items()
            if partition.topic == topic
            for segment in segments
        }
        events = [
            known
            for (partition, _), known in self.tier.metadata().segments.items()
            if partition.topic == topic
        ]
        missing = sum(
            segment.is_readable and segment_id not in there
            for known in events
            for segment_id, segment in known.items()
        )
        if missing:
            return f"{missing} of its remote segments are not in the tier"
        if not there and not events:
            return "none of its remote segments are in the tier, and no event says that it has none"
        return None

    def gaps(
        self, log_dir: Place, directory: str, partition: TopicPartition, offsets: tuple[int, int]
    ) -> Iterator[tuple[int, int]]:
        """Yield which of a log's offsets, [start, end), are in no remote segment: first and last
        ones. Effects: reads the log's topic id, and manifests.

        Raises:
            LogwrightError: as `lacks`; or a manifest cannot be read.
        """
        start, end = offsets
        topic_id = local_of(log_dir, directory).topic_id
        segments = self.tier.logs().get((partition, topic_id or ""), ())
        candidates = [
            candidate(segment, segment.span()) for segment in segments if segment.is_finished
        ]
        yield from chain(candidates, local_start=end, log_start=start)[1]


def whole_tier(place: Place, key: Path | None) -> Place:
    """Return all remote segments of a tier without a log directory; any other place as it is.
    Pure.

    Args:
        key: the file of the private key, None: not encrypted.
    """
    if not isinstance(place, TieredPlace) or place.local is not None:
        return place
    return remote_segments((), TierOptions.of(place.tier.options.text, key)).place


def remote_segments(log_dirs: Iterable[Place], options: TierOptions) -> RemoteSegments:
    """Return the tier of a search of some log directories of one broker. Pure."""
    return RemoteSegments(Tier(options, tuple(log_dirs)))


def _part_of(segment: RemoteSegment) -> RemotePart:
    """Return the ``.log`` of a segment; of one that cannot be read, its object. Effects: may read
    its manifest.
    """
    try:
        size = segment.sizes()[LOG]
    except (CorruptObject, UnsupportedFormatError):
        size = segment.objects[LOG].bytes if LOG in segment.objects else 0
    return part_of(segment, LOG, size)


def _entry_of(segment: RemoteSegment, name: str) -> Entry:
    entry = _part_of(segment).entry(name)
    return entry if segment.is_finished else entry._replace(kind="unfinished upload")


def _directory(name: str) -> Entry:
    return Entry("directory", FileStamp(name, ByteCount(0), 0, 0), 0)
