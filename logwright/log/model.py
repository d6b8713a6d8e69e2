"""A partition's log as values, from which every plan is made.

They are tuples, because planning a fleet makes some hundred thousand: that takes half the time of
making dataclasses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeAlias, cast, overload

from logwright.bucket.rows import NO_BATCH, NO_FILE
from logwright.format.names import TopicPartition
from logwright.format.snapshot import ProducerEntry
from logwright.place.model import (
    AnyPlace_co,
    FileStamp,
    KnownLog,
    Place,
    PlaceOrText,
    ReadOnlyPlace,
    below,
)
from logwright.units import ByteCount, Offset, TimestampMs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Fingerprint(NamedTuple):
    """The facts that must be the same at commit as at planning (a durable form of KAFKA-631's
    generation counter).

    Attributes:
        files: all plain files of the partition directory, by name; of a version of a log in a
            bucket a `FilesOfVersion`.
        checkpoints: (file name, offset or None) of this partition in each offset checkpoint file.
    """

    files: Sequence[FileStamp]
    checkpoints: tuple[tuple[str, int | None], ...]


class Segment(NamedTuple):
    """One segment.

    Attributes:
        base_offset: from the file name.
        log_bytes: size of the ``.log``.
        index_bytes: size of the ``.index`` (offset index).
        timeindex_bytes: size of the ``.timeindex``.
        txnindex_bytes: size of the ``.txnindex``, None if there is no such file.
        modified_ns: modification time of the ``.log``, ns since the epoch.
        largest_timestamp_ms: last entry of the time index, else the modification time in ms.
        first_batch_max_timestamp_ms: maxTimestamp of the first batch; None if the segment is empty.
    """

    base_offset: Offset
    log_bytes: ByteCount
    index_bytes: ByteCount
    timeindex_bytes: ByteCount
    txnindex_bytes: ByteCount | None
    modified_ns: int
    largest_timestamp_ms: TimestampMs
    first_batch_max_timestamp_ms: TimestampMs | None


class SegmentTable(Sequence[Segment]):
    """Many segments, each made when it is looked at: as `Segment`s they need ten times the memory.

    Attributes:
        rows: `logwright.bucket.rows.SEGMENT`[n].
    """

    __slots__ = ("rows",)

    def __init__(self, rows: NDArray[np.void]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Segment]:
        return map(_segment_of, self.rows.tolist())

    @overload
    def __getitem__(self, number: int) -> Segment: ...

    @overload
    def __getitem__(self, number: slice) -> SegmentTable: ...

    def __getitem__(self, number: int | slice) -> Segment | SegmentTable:
        if isinstance(number, slice):
            return SegmentTable(self.rows[number])
        return _segment_of(self.rows[number].item())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        return all(own == another for own, another in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(tuple(self))


def _segment_of(row: tuple[int, ...]) -> Segment:
    base, log, index, timeindex, txnindex, modified_ns, largest, first = row
    return Segment(
        Offset(base),
        ByteCount(log),
        ByteCount(index),
        ByteCount(timeindex),
        None if txnindex == NO_FILE else ByteCount(txnindex),
        modified_ns,
        TimestampMs(largest),
        None if first == NO_BATCH else TimestampMs(first),
    )


def log_bytes_of(segments: Sequence[Segment]) -> ByteCount:
    """Return the size of the ``.log`` files of some segments."""
    if isinstance(segments, SegmentTable):
        return ByteCount(int(segments.rows["log_bytes"].sum(dtype="i8")))
    return ByteCount(sum([segment.log_bytes for segment in segments]))


class FilesOfVersion(Sequence[FileStamp]):
    """The files of one version of a log in a bucket, looked at when somebody asks for them."""

    __slots__ = ("_directory", "_version")

    def __init__(self, directory: ReadOnlyPlace, known: KnownLog) -> None:
        """`directory`: shows this version."""
        self._directory, self._version = directory, known.version

    def __len__(self) -> int:
        return len(self._stamps())

    @overload
    def __getitem__(self, number: int) -> FileStamp: ...

    @overload
    def __getitem__(self, number: slice) -> list[FileStamp]: ...

    def __getitem__(self, number: int | slice) -> FileStamp | list[FileStamp]:
        return self._stamps()[number]

    def __iter__(self) -> Iterator[FileStamp]:
        return iter(self._stamps())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FilesOfVersion) and self._version == other._version

    def __hash__(self) -> int:
        return hash(self._version)

    def _stamps(self) -> list[FileStamp]:
        entries = (entry for entry in self._directory.entries() if entry.kind == "file")
        return sorted(entry.stamp for entry in entries)


class PartitionLog(NamedTuple, Generic[AnyPlace_co]):
    """A frozen picture of one partition's log. Without a parameter it is one of this machine, which
    can be changed; `ReadableLog` is one anywhere.

    Attributes:
        log_dir: the log directory (not the partition's).
        segments: ascending by base offset, at least one; the last is the active segment.
        log_start_offset: first offset that readers see.
        log_end_offset: next offset to be written.
        high_watermark: everything below is committed.
        last_stable_offset: everything below is decided (no open transaction begins below it).
        recovery_point: first offset not known to be flushed.
        cleaner_checkpoint: first dirty offset as recorded, None if there is no entry.
        snapshot_offsets: offsets of the producer snapshots, ascending.
        fingerprint: to notice a change between plan and commit.
        producers: what a broker would know of producers after loading the log, expired ones
            included.
    """

    log_dir: AnyPlace_co
    partition: TopicPartition
    segments: Sequence[Segment]
    log_start_offset: Offset
    log_end_offset: Offset
    high_watermark: Offset
    last_stable_offset: Offset
    recovery_point: Offset
    cleaner_checkpoint: Offset | None
    snapshot_offsets: tuple[Offset, ...]
    fingerprint: Fingerprint
    producers: tuple[ProducerEntry, ...] = ()

    @property
    def directory(self) -> AnyPlace_co:
        """The partition's directory."""
        return cast("AnyPlace_co", self.log_dir / self.partition.directory_name)

    @property
    def directory_text(self) -> str:
        """The same as text: making a path costs as much as reading a small file."""
        return f"{self.log_dir}/{self.partition.directory_name}"

    @property
    def readable(self) -> PlaceOrText:
        """The same as `below` takes it: text on this machine."""
        return below(self.log_dir, self.partition.directory_name)

    @property
    def active(self) -> Segment:
        """The segment that appends go to: the last."""
        return self.segments[-1]

    @property
    def sealed(self) -> Sequence[Segment]:
        """All segments but the active one."""
        return self.segments[:-1]

    @property
    def log_bytes(self) -> ByteCount:
        """Size of all ``.log`` files."""
        return log_bytes_of(self.segments)

    def with_segments(self, segments: Sequence[Segment]) -> PartitionLog[AnyPlace_co]:
        """Return the same log with other segments, for planning what follows a roll."""
        return self._replace(segments=segments)


ReadableLog: TypeAlias = PartitionLog[Place]
"""A log that is only read."""
