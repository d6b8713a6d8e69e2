"""The values of a cleaning: the plan, what was built, and its figures.

They are tuples, like a `PartitionLog`: they are sent to workers and back, for each of many logs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from logwright.config.policy_models import Checks
from logwright.config.topic import CleanerConfig, TopicConfig
from logwright.keys.receipt import KeyFacts
from logwright.log.model import PartitionLog
from logwright.place.model import AnyPlace_co, Place
from logwright.rewrite.model import StagedSegment, UnchangedSegment
from logwright.roll.plan import RollDecision
from logwright.units import INT64_MAX, ByteCount, DurationMs, Offset, TimestampMs


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningOptions:
    """The options of a cleaning.

    Attributes:
        force: clean even if it is not due.
        like_kafka: switch off the declared differences to Kafka's cleaner.
        checks: how the output is checked before the swap (docs/adr/0010).
        keep_failed_output_ms: how long an output is kept that fails a check, ms; 0: not at all.
        ahead_ms: clean also what ``max.compaction.lag.ms`` will make due within this time.
        roll: roll the active segments of compacted logs before, due or not; a log with nothing
            dirty then is cleaned from its start.
        replicas: log directories of other replicas that bound what is removed (docs/adr/0030).
    """

    force: bool = False
    like_kafka: bool = False
    checks: Checks = "quick"
    keep_failed_output_ms: int = 0
    ahead_ms: int = 0
    roll: bool = False
    replicas: tuple[Path, ...] = ()


class RemovalBound(NamedTuple):
    """What a cleaning that is coordinated with other replicas may remove (docs/adr/0030).

    Attributes:
        end: tombstones and transaction markers of a batch that is not wholly below it stay: the
            lowest clean offset of all replicas.
        data: int64[n, 2], producer id and base offset of the transactional data that other
            replicas hold below `end`, ascending: the markers of these transactions stay.
    """

    end: Offset
    data: NDArray[np.int64]


NO_BOUND: Final = RemovalBound(Offset(INT64_MAX), np.zeros((0, 2), dtype=np.int64))
"""Of a cleaning that is not coordinated, as none of Kafka's is."""


class CompactionPlan(NamedTuple):
    """What may be cleaned of one partition, and whether it is due (LogCleanerManager, 4.3.0).

    Attributes:
        first_dirty_offset: start of the part that is not cleaned yet.
        first_uncleanable_dirty_offset: the bound before it is aligned to a segment.
        first_uncleanable_offset: exclusive end of what may be cleaned, aligned to a segment.
        clean_bytes: ``.log`` bytes below the first dirty offset.
        cleanable_bytes: ``.log`` bytes of the segments in [first dirty, first uncleanable).
        cleanable_ratio: cleanable / (clean + cleanable), 0.0 when both are 0.
        compaction_delay_ms: by how much ``max.compaction.lag.ms`` is exceeded, 0 if it is not.
        need_compaction_now: the delay is above 0 (KIP-354).
        force_update_checkpoint: the recorded checkpoint is invalid and will be rewritten.
        eligible: due by the ratio or by the lag.
        due_at_ms: when the lag will make it due, None if no lag applies or it is not compacted.
        reasons: sentences that explain the decision, with its numbers.
    """

    first_dirty_offset: Offset
    first_uncleanable_dirty_offset: Offset
    first_uncleanable_offset: Offset
    clean_bytes: ByteCount
    cleanable_bytes: ByteCount
    cleanable_ratio: float
    min_cleanable_ratio: float
    compaction_delay_ms: DurationMs
    need_compaction_now: bool
    force_update_checkpoint: bool
    eligible: bool
    due_at_ms: TimestampMs | None
    reasons: tuple[str, ...]

    @property
    def total_bytes(self) -> ByteCount:
        """Clean and cleanable bytes together."""
        return ByteCount(self.clean_bytes + self.cleanable_bytes)


class CleanPlan(NamedTuple, Generic[AnyPlace_co]):
    """The decisions about cleaning one partition; building and committing need nothing else. Like a
    `PartitionLog`, without a parameter it is of one that can be changed.

    Attributes:
        plan_id: names the staging directory; unique to this plan.
        log: the log as it was observed, before a roll.
        roll: whether the active segment is rolled first.
        compaction: offsets, sizes and eligibility, computed as if the roll were done.
        clean: there is something to clean, and it is due or forced.
        planned_ns: system clock when the plan was made, ns; used for durations only.
        removal: bounds what is removed if the cleaning is coordinated with other replicas.
    """

    plan_id: str
    now_ms: TimestampMs
    log: PartitionLog[AnyPlace_co]
    config: TopicConfig
    cleaner: CleanerConfig
    options: CleaningOptions
    roll: RollDecision
    compaction: CompactionPlan
    clean: bool
    planned_ns: int
    removal: RemovalBound = NO_BOUND

    @property
    def rolled_log(self) -> PartitionLog[AnyPlace_co]:
        """The log as it will be after the roll, if there is one."""
        return self.roll.applied_to(self.log)


ReadablePlan: TypeAlias = CleanPlan[Place]
"""A plan of a log that is only read: it can be shown and forecast."""


class CleaningStats(NamedTuple):
    """The figures of one cleaning (Kafka's CleanerStats, and the causes of removal).

    Attributes:
        bytes_read, records_read: of all segments in the cleaning's range.
        bytes_written: ``.log`` bytes that were staged.
        bytes_kept: ``.log`` bytes of unchanged segments; Kafka rewrites them to the same bytes.
        records_written: records in staged and unchanged segments.
        map_reads: how many times the keys were read, 1 unless the map outgrew its budget.
        map_records: records offered to the offset map.
        map_bytes: size of the offset map at its largest.
        distinct_keys: keys in the map.
        removed_superseded: records that a later one with the same key replaced.
        removed_tombstones: tombstones past their delete horizon.
        removed_null_keys: records without a key.
        removed_aborted: records of aborted transactions.
        removed_markers: transaction markers past their delete horizon.
        horizons_set: batches whose tombstones got a delete horizon in this cleaning.
        batches_verbatim, batches_rebuilt, batches_dropped: what became of the batches.
        delete_horizon_ms: earliest delete horizon of the batches that stay with records, None
            without one.
        map_seconds, copy_seconds: time of the two passes.
        cpu_seconds: CPU time of both passes, of all of their threads.
    """

    bytes_read: ByteCount
    bytes_written: ByteCount
    bytes_kept: ByteCount
    records_read: int
    records_written: int
    segments_before: int
    segments_after: int
    map_reads: int
    map_records: int
    map_bytes: ByteCount
    distinct_keys: int
    removed_superseded: int
    removed_tombstones: int
    removed_null_keys: int
    horizons_set: int
    batches_verbatim: int
    batches_rebuilt: int
    batches_dropped: int
    map_seconds: float
    copy_seconds: float
    cpu_seconds: float
    delete_horizon_ms: TimestampMs | None
    removed_aborted: int = 0
    removed_markers: int = 0

    @property
    def bytes_removed(self) -> int:
        """The removed ``.log`` bytes."""
        return self.bytes_read - self.bytes_written - self.bytes_kept


class StagedCleaning(NamedTuple):
    """The compacted output, durable in the staging directory; nothing live has changed.

    Attributes:
        directory: the staging directory.
        end_offset: the first dirty offset after this cleaning.
        last_mapped_offset: latest offset of the map; records above it are kept.
        segments: one per group that is rewritten, ascending by base offset.
        unchanged: the segments that keep their files, ascending.
        keys: what the first pass found out about the keys.
    """

    plan_id: str
    directory: Path
    end_offset: Offset
    last_mapped_offset: Offset
    segments: tuple[StagedSegment, ...]
    stats: CleaningStats
    unchanged: tuple[UnchangedSegment, ...] = ()
    keys: KeyFacts | None = None
