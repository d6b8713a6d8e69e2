"""Build the compacted output of one partition in its staging directory; nothing live is touched.

1. Find the survivors (`survivors`): two bits of knowledge per record, from the keys alone.
2. They are grouped (`plan.group_segments`): each group becomes one segment.
3. A segment that would become what it is stays (`unchanged`).
4. Recopy each other group into one staged segment with its indexes (`recopy`), make it durable
   (`Runtime.sync`), with the modification time of the group's last source, which retention falls
   back on.

The same function runs in a Spark task. It takes no lock of the log: staged files are of use to
nobody before the commit. That the plan is alive is marked by the process that made it.
"""

from __future__ import annotations

import errno
import time
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from logwright.compaction.keys.prepare import new_horizon_ms
from logwright.compaction.keys.state import Progress
from logwright.compaction.keys.survivors import Survivors, find_survivors
from logwright.compaction.model import (
    CleaningStats,
    CleanPlan,
    StagedCleaning,
    StagedSegment,
    UnchangedSegment,
)
from logwright.compaction.rewrite import copy as copying
from logwright.compaction.rewrite.segment import SegmentWriter
from logwright.compaction.rewrite.unchanged import group_facts, unchanged_segment
from logwright.compaction.runtime import Runtime
from logwright.errors import DiskFull, LogwrightError, StalePlan, StepFailed
from logwright.format.names import WORK_DIRECTORY
from logwright.live_plans import end_plan, hold_plan
from logwright.steps.work import PrivateDirectory, make_private, remove_private
from logwright.units import ByteCount, Offset

STAGING: Final = "staging"


def silent(_phase: str, _done: int, _total: int) -> None:
    """Progress that nobody looks at."""


def staging_directory(plan: CleanPlan) -> Path:
    """Where this plan's output is built: ``<partition>/.logwright/staging/<plan id>``."""
    return plan.log.directory / WORK_DIRECTORY / STAGING / plan.plan_id


def build(
    plan: CleanPlan, *, progress: Progress = silent, runtime: Runtime | None = None
) -> StagedCleaning:
    """Build what the partition will hold after this cleaning. Effects: reads the log, writes the
    staging directory.

    `runtime`: one thread and no throttle, if not given.

    Raises:
        CorruptBatch, UnsupportedFormatError, UnreadableFile, StalePlan: the log is refused as it
        is.
        DiskFull, StepFailed: the output could not be written.
        After any of these the staging directory is gone.
    """
    runtime = runtime or Runtime()
    try:
        survivors = find_survivors(plan, progress=progress, runtime=runtime)
        hold_plan(plan.log.log_dir, plan.plan_id)
        below = (WORK_DIRECTORY, STAGING, plan.plan_id)
        with make_private(plan.log.directory_text, *below) as directory:
            return _recopy(plan, survivors, directory, progress, runtime)
    except OSError as error:
        raise give_up(plan, error) from error
    except LogwrightError:
        discard_staging(plan)
        raise


def give_up(plan: CleanPlan, error: OSError) -> LogwrightError:
    """The output could not be written, or not be made durable: what that means, DiskFull, StalePlan
    or StepFailed. Effects: removes the staging directory.
    """
    discard_staging(plan)
    return _write_error(error, staging_directory(plan))


def discard_staging(plan: CleanPlan) -> None:
    """Remove this plan's staged files, if there are any: it is over. Effects: unlinks them, and the
    directories left empty.
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
        remedy="Nothing was changed. Mend the cause and run again.",
    )


def _recopy(
    plan: CleanPlan,
    survivors: Survivors,
    directory: PrivateDirectory,
    progress: Progress,
    runtime: Runtime,
) -> StagedCleaning:
    started = time.perf_counter()
    rule = np.array([plan.config.index_interval_bytes, new_horizon_ms(plan)], dtype=np.int64)
    total = sum(each.log_bytes for group in survivors.groups for each, _ in group)
    done = 0

    def copied(length: int) -> None:
        nonlocal done
        done += length
        progress("copy", done, total)

    cells = np.zeros(copying.STATE_CELLS, dtype=np.int64)
    staged: list[StagedSegment] = []
    unchanged: list[UnchangedSegment] = []
    for group, aborted in zip(survivors.groups, survivors.aborted, strict=True):
        facts = group_facts(
            [source for _, source in group],
            survivors.dead,
            log_start_offset=plan.log.log_start_offset,
            last_mapped_offset=survivors.last_mapped_offset,
        )
        stays = unchanged_segment(plan, group, facts, aborted)
        if stays is not None:
            unchanged.append(stays)
            cells[copying.RECORDS] += stays.records
            cells[copying.VERBATIM] += len(group[0][1].batches)
            copied(stays.log_bytes)
            continue
        writer = SegmentWriter(
            directory,
            group,
            rule=rule,
            dead=survivors.dead,
            aborted=aborted,
            facts=facts,
            hash_key=survivors.keys.hash_key,
            last_mapped_offset=survivors.last_mapped_offset,
            runtime=runtime,
            rebuilt=survivors.rebuilt,
        )
        staged.append(writer.write(copied))
        cells += writer.state
    runtime.sync(directory.fd)
    return StagedCleaning(
        plan_id=plan.plan_id,
        directory=directory.path,
        end_offset=Offset(survivors.end_offset),
        last_mapped_offset=Offset(survivors.last_mapped_offset),
        segments=tuple(staged),
        unchanged=tuple(unchanged),
        keys=survivors.keys,
        stats=_stats(plan, survivors, (staged, unchanged), cells, time.perf_counter() - started),
    )


def _stats(
    plan: CleanPlan,
    survivors: Survivors,
    output: tuple[list[StagedSegment], list[UnchangedSegment]],
    cells: NDArray[np.int64],
    copy_seconds: float,
) -> CleaningStats:
    staged, unchanged = output
    rewritten = [segment for group in survivors.groups for segment, _ in group]
    return CleaningStats(
        bytes_read=ByteCount(sum(each.log_bytes for each in rewritten)),
        bytes_written=ByteCount(sum(each.log_bytes for each in staged)),
        bytes_kept=ByteCount(sum(each.log_bytes for each in unchanged)),
        records_read=sum(source.records for group in survivors.groups for _, source in group),
        records_written=int(cells[copying.RECORDS]),
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
        horizons_set=int(cells[copying.HORIZONS]),
        batches_verbatim=int(cells[copying.VERBATIM]),
        batches_rebuilt=int(cells[copying.REBUILT]),
        batches_dropped=int(cells[copying.DROPPED]),
        map_seconds=survivors.seconds,
        copy_seconds=copy_seconds,
    )
