"""Compare a partition with an earlier state of itself, by the checks of a cleaning.

The later log is treated as the staged output of a cleaning of the whole earlier one, and given to
the thorough checks: nothing is new, every survivor is unchanged, the latest value of each key is
still there, and offsets stayed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from logwright.checks.model import (
    CRC_VALID,
    INDEX_ENTRIES_VALID,
    LATEST_VALUE_PER_KEY,
    OFFSETS_ASCENDING,
    SURVIVORS_IDENTICAL,
)
from logwright.checks.thorough import examine_thoroughly
from logwright.compaction.model import CleaningOptions, CleaningStats, CleanPlan, StagedCleaning
from logwright.config.topic import CleanerConfig, TopicConfig
from logwright.format.names import TopicPartition
from logwright.log.load import observe
from logwright.log.model import PartitionLog, Segment
from logwright.rewrite.model import StagedSegment
from logwright.sweep.plan import plan_cleaning
from logwright.units import ByteCount, Offset, TimestampMs
from logwright.verify.model import Fault

_NO_STATS: Final = CleaningStats(
    bytes_kept=ByteCount(0),
    bytes_read=ByteCount(0),
    bytes_written=ByteCount(0),
    records_read=0,
    records_written=0,
    segments_before=0,
    segments_after=0,
    map_reads=0,
    map_records=0,
    map_bytes=ByteCount(0),
    distinct_keys=0,
    removed_superseded=0,
    removed_tombstones=0,
    removed_null_keys=0,
    horizons_set=0,
    batches_verbatim=0,
    batches_rebuilt=0,
    batches_dropped=0,
    map_seconds=0.0,
    copy_seconds=0.0,
    cpu_seconds=0.0,
    delete_horizon_ms=None,
)
_MEANING: Final = {
    CRC_VALID: "record batches cannot be read or fail their CRC",
    OFFSETS_ASCENDING: "offsets do not ascend",
    SURVIVORS_IDENTICAL: "records are not those that the earlier log has at their offset",
    LATEST_VALUE_PER_KEY: "records are gone, with no later one of their key",
    INDEX_ENTRIES_VALID: "index entries do not agree with the .log",
}


def compare_partition(
    earlier: Path,
    log_dir: Path,
    partition: TopicPartition,
    settings: tuple[TopicConfig, CleanerConfig],
    *,
    now_ms: TimestampMs,
) -> list[Fault]:
    """Return the checks that fail between two states of a partition. Effects: reads both.

    Raises:
        UncleanLogDir, CorruptLogError, UnsupportedFormatError, NotALogDir, UnreadableFile: one of
        them cannot be read as it is.
    """
    plan = plan_cleaning(
        earlier,
        partition,
        settings,
        now_ms=now_ms,
        options=CleaningOptions(force=True, like_kafka=True),
        high_watermark="end",
    )
    later = observe(log_dir, partition, high_watermark="end")
    faults = _check_bounds(plan.log, later)
    segments, unknown = _as_staged(plan.log, later)
    faults += unknown
    if not segments:
        return faults
    covered = plan.log.with_segments((*plan.log.segments, _end(plan.log)))
    facts = examine_thoroughly(
        plan._replace(log=covered),
        _as_output(plan, later, segments),
        tombstones_may_go=True,
    )
    return faults + [
        Fault(
            path=later.directory,
            position=None,
            problem=f"{check.violations} times {_MEANING[check.name]}, first at offset"
            f" {check.first_offset}",
        )
        for check in facts.failed
    ]


def _check_bounds(earlier: PartitionLog, later: PartitionLog) -> list[Fault]:
    faults = []
    if later.log_end_offset != earlier.log_end_offset:
        problem = f"the log ends at {later.log_end_offset}, before at {earlier.log_end_offset}"
        faults.append(Fault(path=later.directory, position=None, problem=problem))
    if later.log_start_offset != earlier.log_start_offset:
        problem = f"it starts at {later.log_start_offset}, before at {earlier.log_start_offset}"
        faults.append(Fault(path=later.directory, position=None, problem=problem))
    return faults


def _as_staged(
    earlier: PartitionLog, later: PartitionLog
) -> tuple[tuple[StagedSegment, ...], list[Fault]]:
    """Return each segment of the later log with those of the earlier one that it replaces."""
    known = [segment.base_offset for segment in earlier.segments]
    bases = [segment.base_offset for segment in later.segments]
    staged: list[StagedSegment] = []
    unknown: list[Fault] = []
    ends = [*bases[1:], None]
    for segment, end in zip(later.segments, ends, strict=True):
        base = segment.base_offset
        if base not in known:
            if segment.log_bytes:
                problem = f"the earlier log has no segment {base}"
                unknown.append(Fault(path=later.directory, position=None, problem=problem))
            continue
        sources = tuple(one for one in known if base <= one and (end is None or one < end))
        staged.append(
            StagedSegment(
                base_offset=base,
                source_base_offsets=sources,
                log_bytes=segment.log_bytes,
                index_bytes=segment.index_bytes,
                timeindex_bytes=segment.timeindex_bytes,
                txnindex_bytes=segment.txnindex_bytes,
                next_offset=base if end is None else end,
                modified_ns=segment.modified_ns,
            )
        )
    return tuple(staged), unknown


def _end(log: PartitionLog) -> Segment:
    """Return an empty segment at the log's end, so that its last one counts as sealed."""
    return log.active._replace(
        base_offset=log.log_end_offset,
        log_bytes=ByteCount(0),
        index_bytes=ByteCount(0),
        timeindex_bytes=ByteCount(0),
        txnindex_bytes=None,
    )


def _as_output(
    plan: CleanPlan, later: PartitionLog, segments: tuple[StagedSegment, ...]
) -> StagedCleaning:
    return StagedCleaning(
        plan_id=plan.plan_id,
        directory=later.directory,
        end_offset=later.log_end_offset,
        last_mapped_offset=Offset(later.log_end_offset - 1),
        segments=segments,
        stats=_NO_STATS,
    )
