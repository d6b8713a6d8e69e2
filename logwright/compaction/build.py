"""Build the compacted output of one partition in its staging directory. No live file is changed.

The order of a build:

1. Open the segments below the first uncleanable offset, check their headers, and number their
   records: a record's number is its ordinal (`survivors.open_sources`).
2. First pass (`survivors`): read the keys into the offset map, and set a bit in the dead
   bitmap for each record that does not survive. If the log is compressed and one thread works on
   it, the batches that lose records are rebuilt on the way and wait in the rebuild cache
   (`rewrite.cache`), so that they are decompressed once.
3. Refuse a compressed record above ``max.decompressed.message.bytes`` (`record_limit`), and group
   the segments (`plan.group_segments`): each group becomes one segment.
4. For each group, sum up the fates of its batches (`rewrite.unchanged`). A group of one segment
   that would be rewritten to the same bytes keeps its files.
5. Second pass, for each other group (`rewrite.segment`): copy its batches chunk by chunk
   (`rewrite.chunks`), on several threads if there are any. A kernel decides about each batch
   (`rewrite.copy`): drop it, copy it as it is, take it from the rebuild cache, or rebuild it
   (`rewrite.batch`). The index entries are made at the same time (`rewrite.output`).
6. Write the indexes, and make the files durable (`Runtime.sync`). They get the modification time of
   the group's last source, which retention uses if there are no timestamps.
7. Return what was staged, with a receipt for the checks (`keys.receipt`, `rewrite.batch_receipt`):
   sums over the records that must be in the output.

A Spark task runs the same function. It takes no lock: nobody uses staged files before the commit.
The process that made the plan marks it as alive (`live_plans`), so that no purge removes them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence

from logwright.batches.runtime import Progress, Runtime, silent
from logwright.cleaner_rules import delete_horizon_ms
from logwright.compaction.horizon_statistics import earliest_horizon
from logwright.compaction.model import CleaningStats, CleanPlan, StagedCleaning
from logwright.compaction.record_limit import require_within_limit
from logwright.compaction.survivors import Survivors, find_survivors
from logwright.rewrite.batch_receipt import new_receipt
from logwright.rewrite.chunks import Rewrite
from logwright.rewrite.copy import CopyRule
from logwright.rewrite.model import StagedSegment, UnchangedSegment
from logwright.rewrite.segment import Group
from logwright.rewrite.staging import (
    copy_progress,
    discarded_on_error,
    new_staging,
    write_groups,
)
from logwright.rewrite.unchanged import group_facts, unchanged_segment
from logwright.steps.work import PrivateDirectory
from logwright.units import ByteCount, Offset


def build(
    plan: CleanPlan, *, progress: Progress = silent, runtime: Runtime | None = None
) -> StagedCleaning:
    """Build what the partition will hold after this cleaning. Effects: reads the log, writes the
    staging directory, and removes it if an error is raised.

    Args:
        progress: called with the phase ("map", "copy"), the bytes done, and the bytes in total.
        runtime: one thread and no throttle, if not given.

    Raises:
        CorruptBatch, UnsupportedFormatError, UnreadableFile, StalePlan: the log is refused.
        RecordAboveLimit: Kafka's cleaner would not read a record.
        DiskFull, StepFailed: the output could not be written.
    """
    runtime = runtime or Runtime()
    # A log that several threads work on is the only one in its process at that time.
    cpu_clock = time.thread_time if runtime.threads == 1 else time.process_time
    cpu_started = cpu_clock()
    with discarded_on_error(plan):
        survivors = find_survivors(plan, progress=progress, runtime=runtime)
        rewritten = [source for group in survivors.groups for _, source in group]
        require_within_limit(plan.config, rewritten)
        with new_staging(plan) as directory:
            staged = rewrite(plan, survivors, directory, progress, runtime)
    stats = staged.stats._replace(cpu_seconds=cpu_clock() - cpu_started)
    return staged._replace(stats=stats)


def rewrite(
    plan: CleanPlan,
    survivors: Survivors,
    directory: PrivateDirectory,
    progress: Progress,
    runtime: Runtime,
) -> StagedCleaning:
    """Steps 4 to 7 of a build. Effects: writes the staging directory.

    Raises:
        OSError, UnsupportedFormatError: see `write_groups`.
    """
    started = time.perf_counter()
    horizon_ms = delete_horizon_ms(plan.now_ms, plan.config.delete_retention_ms)
    rewrite = Rewrite(
        rule=CopyRule(plan.config.index_interval_bytes, horizon_ms),
        dead=survivors.dead,
        rebuilt=survivors.rebuilt,
        receipt=new_receipt(survivors.keys.hash_key, survivors.last_mapped_offset),
        runtime=runtime,
    )
    total = sum(each.log_bytes for group in survivors.groups for each, _ in group)
    copied = copy_progress(progress, total)
    unchanged: list[UnchangedSegment] = []
    kept = Counter[str]()

    def changed() -> Iterator[Group]:
        for sources, aborted in zip(survivors.groups, survivors.aborted, strict=True):
            facts = group_facts(
                [source for _, source in sources],
                survivors.dead,
                log_start_offset=plan.log.log_start_offset,
            )
            stays = unchanged_segment(
                plan.log, sources, facts, aborted, interval_bytes=plan.config.index_interval_bytes
            )
            if stays is None:
                yield Group(sources=sources, aborted=aborted, facts=facts)
                continue
            unchanged.append(stays)
            kept.update(records=stays.records, verbatim=len(sources[0][1].batches))
            copied(stays.log_bytes)

    staged, counts = write_groups(directory, changed(), rewrite, copied)
    counts += kept
    return StagedCleaning(
        plan_id=plan.plan_id,
        directory=directory.path,
        end_offset=Offset(survivors.end_offset),
        last_mapped_offset=Offset(survivors.last_mapped_offset),
        segments=staged,
        unchanged=tuple(unchanged),
        keys=survivors.keys,
        stats=_stats(plan, survivors, (staged, unchanged), counts, time.perf_counter() - started),
    )


def _stats(
    plan: CleanPlan,
    survivors: Survivors,
    output: tuple[Sequence[StagedSegment], Sequence[UnchangedSegment]],
    counts: Counter[str],
    copy_seconds: float,
) -> CleaningStats:
    staged, unchanged = output
    rewritten = [segment for group in survivors.groups for segment, _ in group]
    return CleaningStats(
        bytes_read=ByteCount(sum(each.log_bytes for each in rewritten)),
        bytes_written=ByteCount(sum(each.log_bytes for each in staged)),
        bytes_kept=ByteCount(sum(each.log_bytes for each in unchanged)),
        records_read=sum(source.records for group in survivors.groups for _, source in group),
        records_written=counts["records"],
        segments_before=len(plan.rolled_log.segments),
        segments_after=len(plan.rolled_log.segments)
        - len(rewritten)
        + len(staged)
        + len(unchanged),
        map_reads=survivors.map_reads,
        map_records=survivors.map_records,
        map_bytes=ByteCount(survivors.map_bytes),
        distinct_keys=survivors.distinct_keys,
        removed_superseded=survivors.removed_superseded,
        removed_tombstones=survivors.removed_tombstones,
        removed_null_keys=survivors.removed_null_keys,
        removed_aborted=survivors.removed_aborted,
        removed_markers=survivors.removed_markers,
        horizons_set=counts["horizons"],
        batches_verbatim=counts["verbatim"],
        batches_rebuilt=counts["rebuilt"],
        batches_dropped=counts["dropped"],
        map_seconds=survivors.seconds,
        copy_seconds=copy_seconds,
        cpu_seconds=0.0,
        delete_horizon_ms=earliest_horizon(
            (source for group in survivors.groups for _, source in group),
            survivors.dead,
            now_ms=plan.now_ms,
            new_ms=delete_horizon_ms(plan.now_ms, plan.config.delete_retention_ms)
            if counts["horizons"]
            else None,
        ),
    )
