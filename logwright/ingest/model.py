"""The values of an append: what it starts from, what was staged, what is remembered of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from logwright.config.topic import TopicConfig
from logwright.format.checkpoints import LeaderEpoch
from logwright.format.names import WORK_DIRECTORY, TopicPartition
from logwright.log.model import PartitionLog
from logwright.units import ByteCount, Offset, TimestampMs

DEFAULT_BATCH_BYTES: Final = 16_384
"""A producer's ``batch.size``."""

STAGING: Final = "staging"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendOptions:
    """How records are appended.

    Attributes:
        batch_bytes: most bytes of a batch before compression; a larger record has its own.
        codec: id of the codec that stands for a producer's, under ``compression.type=producer``.
        keep_offsets: records carry their offsets, as a follower's do; gaps stay.
    """

    batch_bytes: int = DEFAULT_BATCH_BYTES
    codec: int = 0
    keep_offsets: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The active segment as a broker would have it after loading it.

    Attributes:
        index_entries, time_entries: of its indexes.
        first_timestamp_ms: maxTimestamp of the first batch, None if there is none.
        largest_timestamp_ms: of the last time index entry, -1 without one.
        offset_of_largest: of that entry.
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
        plan_id: names the staging directory; unique to this plan.
        ingest_id: what is appended, the same in every run of the same input.
        log: as observed; None if there is none yet.
        tail: its active segment.
        epochs: entries of its leader-epoch-checkpoint.
        topic_id: content of its partition.metadata if one is to be written.
        skip: records of this input that an earlier, interrupted run has appended already.
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
        """The partition's."""
        return self.log_dir / self.partition.directory_name

    @property
    def staging(self) -> Path:
        """Where the output is built."""
        return self.directory / WORK_DIRECTORY / STAGING / self.plan_id

    @property
    def log_end_offset(self) -> Offset:
        """Of the next record."""
        return Offset(0) if self.log is None else self.log.log_end_offset

    @property
    def leader_epoch(self) -> int:
        """The epoch that batches are stamped with: the last one known."""
        return self.epochs[-1].epoch if self.epochs else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedSegment:
    """What is appended to the active segment, or a new segment; its files lie in the staging
    directory under their final names.

    Attributes:
        tail: it is what is appended to the active segment.
        flushes: sizes of the staged ``.log`` at which ``flush.messages`` wants it flushed.
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
        records: staged now, without those skipped.
        first_offset: of the first staged record; the log's end if there is none.
        end_offset: the log's end after the commit.
        batches: staged batches; their offsets and CRCs are in `BATCHES` of the staging directory.
    """

    segments: tuple[StagedSegment, ...]
    records: int
    batches: int
    first_offset: Offset
    end_offset: Offset
    record_bytes: ByteCount


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """What a partition got of one ingest.

    Attributes:
        first_offset: of its first record, where there is one.
        end_offset: behind the last.
        log_bytes: appended by this run.
        repeated: an earlier run had appended all of it.
    """

    partition: TopicPartition
    records: int
    first_offset: Offset
    end_offset: Offset
    log_bytes: ByteCount
    segments_rolled: int
    repeated: bool
