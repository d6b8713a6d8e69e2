"""The values of an append: plan, staged output, result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from logwright.config.topic import TopicConfig
from logwright.format.checkpoints import LeaderEpoch
from logwright.format.names import STAGING, WORK_DIRECTORY, TopicPartition
from logwright.log.model import PartitionLog
from logwright.units import ByteCount, Offset, TimestampMs

DEFAULT_BATCH_BYTES: Final = 16_384
"""A producer's ``batch.size``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendOptions:
    """Options of an append.

    Attributes:
        batch_bytes: maximum size of a batch before compression; a larger record has its own batch.
        codec: codec id for topics with ``compression.type=producer``.
        keep_offsets: records have offsets, as on a follower; gaps are kept.
    """

    batch_bytes: int = DEFAULT_BATCH_BYTES
    codec: int = 0
    keep_offsets: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The state of the active segment, as a broker has it after loading.

    Attributes:
        index_entries, time_entries: number of entries of its indexes.
        first_timestamp_ms: maxTimestamp of the first batch, None if there is none.
        largest_timestamp_ms: timestamp of the last time index entry, -1 if none.
        offset_of_largest: offset of that entry.
    """

    base_offset: Offset
    log_bytes: ByteCount
    index_entries: int
    time_entries: int
    first_timestamp_ms: TimestampMs | None
    largest_timestamp_ms: TimestampMs
    offset_of_largest: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendPlan:
    """Everything decided about appending to one partition.

    Attributes:
        plan_id: unique id, the name of the staging directory.
        ingest_id: id of the input, the same in every run.
        log: the log as observed; None if it does not exist yet.
        tail: its active segment.
        epochs: entries of its leader-epoch-checkpoint.
        topic_id: content of a partition.metadata to write, None if it exists.
        skip: number of records of this input that an interrupted run has already appended.
    """

    plan_id: str
    ingest_id: str
    now_ms: TimestampMs
    log_dir: Path
    partition: TopicPartition
    log: PartitionLog | None
    tail: Tail | None
    epochs: tuple[LeaderEpoch, ...]
    topic_id: bytes | None
    config: TopicConfig
    options: AppendOptions
    skip: int = 0

    @property
    def directory(self) -> Path:
        """The partition's directory."""
        return self.log_dir / self.partition.directory_name

    @property
    def staging(self) -> Path:
        """The staging directory."""
        return self.directory / WORK_DIRECTORY / STAGING / self.plan_id

    @property
    def log_end_offset(self) -> Offset:
        """The offset of the next record."""
        return Offset(0) if self.log is None else self.log.log_end_offset

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of new batches: the last known one."""
        return self.epochs[-1].epoch if self.epochs else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedSegment:
    """A part to append to the active segment, or a new segment; its files are in the staging
    directory under their final names.

    Attributes:
        tail: it is the part for the active segment.
        flushes: sizes of the staged ``.log`` at which ``flush.messages`` requires a flush.
    """

    base_offset: Offset
    tail: bool
    log_bytes: ByteCount
    index_bytes: ByteCount
    timeindex_bytes: ByteCount
    flushes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedAppend:
    """The staged output of an append.

    Attributes:
        records: number of staged records, without skipped ones.
        first_offset: offset of the first staged record; the log end offset if there is none.
        end_offset: log end offset after the commit.
        batches: number of batches; `BATCHES` in the staging directory has their offsets and CRCs.
    """

    segments: tuple[StagedSegment, ...]
    records: int
    batches: int
    first_offset: Offset
    end_offset: Offset
    record_bytes: ByteCount


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """The result of one ingest in a partition.

    Attributes:
        first_offset: offset of its first record, if it has any.
        end_offset: offset after the last.
        log_bytes: bytes appended by this run.
        repeated: an earlier run has appended everything.
    """

    partition: TopicPartition
    records: int
    first_offset: Offset
    end_offset: Offset
    log_bytes: ByteCount
    segments_rolled: int
    repeated: bool
