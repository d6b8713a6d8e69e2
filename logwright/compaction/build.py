"""Build the compacted output of one partition in its staging directory. No live file is changed.

The order of a build:

1. Open the segments below the first uncleanable offset, check their headers, and number their
   records: a record's number is its ordinal (`keys.prepare`).
2. First pass (`keys.survivors`): read the keys into the offset map, and set a bit in the dead
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
7. Return what was staged, with a receipt for the checks (`receipt`, `batch_receipt`): sums over the
   records that must be in the output.

A Spark task runs the same function. It takes no lock: nobody uses staged files before the commit.
The process that made the plan marks it as alive (`live_plans`), so that no purge removes them.
"""

from __future__ import annotations

import errno
import os
import time
from collections import Counter
from pathlib import Path

from logwright.batches.runtime import Progress, Runtime, silent
from logwright.compaction.batch_receipt import new_receipt
from logwright.compaction.horizons import earliest_horizon
from logwright.compaction.keys.survivors import Survivors, find_survivors
from logwright.compaction.model import (
    CleaningStats,
    CleanPlan,
    StagedCleaning,
    StagedSegment,
    UnchangedSegment,
)
from logwright.compaction.record_limit import require_within_limit
from logwright.compaction.rewrite.chunks import Rewrite
from logwright.compaction.rewrite.copy import CopyRule
from logwright.compaction.rewrite.output import COUNTS
from logwright.compaction.rewrite.segment import Group, SegmentWriter
from logwright.compaction.rewrite.unchanged import group_facts, unchanged_segment
from logwright.compaction.rules import delete_horizon_ms
from logwright.errors import DiskFull, LogwrightError, StalePlan, StepFailed
from logwright.format.names import STAGING, WORK_DIRECTORY
from logwright.live_plans import end_plan, hold_plan
from logwright.steps.work import PrivateDirectory, make_private, remove_private
from logwright.units import ByteCount, Offset


def staging_directory(plan: CleanPlan) -> Path:
    """Return where this plan's output is built, ``<partition>/.logwright/staging/<plan id>``."""
    return plan.log.directory / WORK_DIRECTORY / STAGING / plan.plan_id


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
    try:
        survivors = find_survivors(plan, progress=progress, runtime=runtime)
        rewritten = [source for group in survivors.groups for _, source in group]
        require_within_limit(plan.config, rewritten)
        hold_plan(plan.log.log_dir, plan.plan_id)
        below = (WORK_DIRECTORY, STAGING, plan.plan_id)
        if os.path.lexists("/".join((plan.log.directory_text, *below))):
            # Spark runs a task again whose executor was lost. If that one still lives, it writes to
            # files without a name; if it fails then, it removes these, and the commit fails.
            remove_private(plan.log.directory_text, *below)
        with make_private(plan.log.directory_text, *below) as directory:
            staged = _rewrite(plan, survivors, directory, progress, runtime)
        stats = staged.stats._replace(cpu_seconds=cpu_clock() - cpu_started)
        return staged._replace(stats=stats)
    except OSError as error:
        raise give_up(plan, error) from error
    except LogwrightError:
        discard_staging(plan)
        raise


def give_up(plan: CleanPlan, error: OSError) -> LogwrightError:
    """Return the error to raise if the output could not be written or made durable: DiskFull,
    StalePlan or StepFailed. Effects: removes the staging directory.
    """
    discard_staging(plan)
    return _write_error(error, staging_directory(plan))


def discard_staging(plan: CleanPlan) -> None:
    """End this plan. Effects: unlinks its staged files, if there are any, and the directories that
    are then empty.
    """
    remove_private(plan.log.directory_text, WORK_DIRECTORY, STAGING, plan.plan_id)
    end_plan(plan.log.log_dir, plan.plan_id)


def _write_error(error: OSError, directory: Path) -> LogwrightError:
    path = error.filename or directory
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return DiskFull(
            "there is no room for the compacted output.",
            path=path,
            remedy="Nothing was changed. Kept records are written before the old ones go: free "
            "some space; `logwright purge` unlinks what is due.",
        )
    if isinstance(error, FileNotFoundError):
        return StalePlan(
            "the log, or what was staged for it, went away after it was planned.",
            path=path,
            remedy="Nothing was changed. Plan again.",
        )
    return StepFailed(
        f"the compacted output could not be written: {error.strerror}.",
        path=path,
        remedy="Nothing was changed. Fix the cause and retry.",
    )


def _rewrite(
    plan: CleanPlan,
    survivors: Survivors,
    directory: PrivateDirectory,
    progress: Progress,
    runtime: Runtime,
) -> StagedCleaning:
    """Steps 4 to 7 of a build. Effects: writes the staging directory."""
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
    done = 0

    def copied(length: int) -> None:
        nonlocal done
        done += length
        progress("copy", done, total)

    staged: list[StagedSegment] = []
    unchanged: list[UnchangedSegment] = []
    counts = Counter[str]()
    for sources, aborted in zip(survivors.groups, survivors.aborted, strict=True):
        facts = group_facts(
            [source for _, source in sources],
            survivors.dead,
            log_start_offset=plan.log.log_start_offset,
        )
        stays = unchanged_segment(plan, sources, facts, aborted)
        if stays is not None:
            unchanged.append(stays)
            counts.update(records=stays.records, verbatim=len(sources[0][1].batches))
            copied(stays.log_bytes)
            continue
        group = Group(sources=sources, aborted=aborted, facts=facts)
        writer = SegmentWriter(directory, group, rewrite)
        staged.append(writer.write(copied))
        counts.update({name: int(writer.output.state[name]) for name in COUNTS})
    runtime.sync(directory.fd)
    return StagedCleaning(
        plan_id=plan.plan_id,
        directory=directory.path,
        end_offset=Offset(survivors.end_offset),
        last_mapped_offset=Offset(survivors.last_mapped_offset),
        segments=tuple(staged),
        unchanged=tuple(unchanged),
        keys=survivors.keys,
        stats=_stats(plan, survivors, (staged, unchanged), counts, time.perf_counter() - started),
    )


def _stats(
    plan: CleanPlan,
    survivors: Survivors,
    output: tuple[list[StagedSegment], list[UnchangedSegment]],
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
