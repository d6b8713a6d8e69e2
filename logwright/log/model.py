"""A partition's log as values, from which every plan is made.

They are tuples, because planning a fleet makes some hundred thousand: that takes half the time of
making dataclasses.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeAlias, cast

from logwright.format.names import TopicPartition
from logwright.format.snapshot import ProducerEntry
from logwright.place.model import AnyPlace_co, FileStamp, Place, PlaceOrText, below
from logwright.units import ByteCount, Offset, TimestampMs


class Fingerprint(NamedTuple):
    """The facts that must be the same at commit as at planning (a durable form of KAFKA-631's
    generation counter).

    Attributes:
        files: all plain files of the partition directory, by name.
        checkpoints: (file name, offset or None) of this partition in each offset checkpoint file.
    """

    files: tuple[FileStamp, ...]
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
    segments: tuple[Segment, ...]
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
    def sealed(self) -> tuple[Segment, ...]:
        """All segments but the active one."""
        return self.segments[:-1]

    @property
    def log_bytes(self) -> ByteCount:
        """Size of all ``.log`` files."""
        return ByteCount(sum(segment.log_bytes for segment in self.segments))

    def with_segments(self, segments: tuple[Segment, ...]) -> PartitionLog[AnyPlace_co]:
        """Return the same log with other segments, for planning what follows a roll."""
        return self._replace(segments=segments)


ReadableLog: TypeAlias = PartitionLog[Place]
"""A log that is only read."""
