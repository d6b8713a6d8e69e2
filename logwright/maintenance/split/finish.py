"""The last step of a cleaning that is split: the same file steps as of any cleaning, in a copy
whose segments are hollow, with output that is hollow too. What that leaves is committed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from logwright.bucket.agreement import limits_of
from logwright.bucket.store import Bucket
from logwright.checks.model import CHECK_NAMES, CheckResult, OutputFacts
from logwright.compaction.model import CleaningStats, CleanPlan, StagedCleaning
from logwright.compaction.split import groups_of
from logwright.errors import StalePlan, invariant
from logwright.format.names import INDEX, TIMEINDEX, segment_file_name
from logwright.locks import lock_log_dir
from logwright.maintenance.copy import write_stored
from logwright.maintenance.maintain import Maintained, Maintenance
from logwright.maintenance.scratch import own_temporary
from logwright.maintenance.sweep import BucketSweep, Swept, whole
from logwright.rewrite.staging import new_staging
from logwright.sweep.model import LogWork, SweepState, planned
from logwright.sweep.stages import commit_each, plan_all
from logwright.units import ByteCount
from logwright.upload.upload import for_whole

if TYPE_CHECKING:
    from pathlib import Path

    from logwright.batches.runtime import Runtime
    from logwright.bucket.manifest import Manifest
    from logwright.bucket.stored import StoredFile
    from logwright.maintenance.split.model import GroupBuilt
    from logwright.rewrite.model import UnchangedSegment

_SUMMED: Final = (
    "bytes_read",
    "bytes_written",
    "bytes_kept",
    "records_read",
    "records_written",
    "removed_superseded",
    "removed_tombstones",
    "removed_null_keys",
    "removed_aborted",
    "removed_markers",
    "horizons_set",
    "batches_verbatim",
    "batches_rebuilt",
    "batches_dropped",
    "map_seconds",
    "copy_seconds",
    "cpu_seconds",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MapFigures:
    """Figures of the pass over the keys, see `CleaningStats`."""

    map_reads: int = 1
    map_records: int = 0
    map_bytes: int = 0
    distinct_keys: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishTask:
    """The commit of one cleaning.

    Attributes:
        sweep: what is done.
        base: the version that it was planned on.
        built: of each group, in order; none if nothing is cleaned.
        figures: of the keys.
        began_ms_ago: when the first object was sent that is named.
    """

    sweep: BucketSweep
    base: Manifest
    built: tuple[GroupBuilt, ...]
    figures: MapFigures
    began_ms_ago: int


def finish(task: FinishTask, *, runtime: Runtime) -> Maintained[Swept] | None:
    """Commit. Effects: changes the log in the bucket, see `Maintenance.run_on`.

    Raises:
        Conflict, TooLate: see `Maintenance.run`.
        StalePlan: the plan is another one now.
        LogwrightError: as a cleaning.
    """
    sweep, bucket = task.sweep, Bucket.of(task.sweep.url)
    maintenance = Maintenance(
        bucket=bucket,
        partition=sweep.partition,
        operation="clean",
        id=sweep.id,
        scratch=own_temporary() if sweep.scratch is None else sweep.scratch,
        limits=for_whole(limits_of(bucket)),
        now_ms=sweep.now_ms,
        needed=lambda _: False,
        throttle=runtime.throttle,
        made=_made(task),
        past_quarantine=sweep.options.force,
    )
    ended = maintenance.run_on(
        task.base, lambda log_dir: _commit(task, log_dir), began_ms_ago=task.began_ms_ago
    )
    if ended is None:
        return None
    sent = sum(each.sent_bytes for each in task.built) if ended.result is not None else 0
    return replace(ended, sent_bytes=ByteCount(ended.sent_bytes + sent))


def _made(task: FinishTask) -> dict[str, StoredFile]:
    """Return the files that are in the bucket: what was sent, and the indexes of segments that stay
    as they are, of which only the times are set.
    """
    made = {name: file for each in task.built for name, file in each.files.items()}
    known = task.base.state.files
    kept = [
        segment_file_name(segment.base_offset, suffix)
        for each in task.built
        for segment in each.staged.unchanged
        for suffix in (INDEX, TIMEINDEX)
    ]
    return made | {name: known[name][0] for name in kept}


def _commit(task: FinishTask, log_dir: Path) -> Swept:
    """Do the steps in a hollow copy. Effects: changes it."""
    sweep = task.sweep
    work = LogWork(key=str(sweep.partition), log_dir=log_dir, partition=sweep.partition)
    with lock_log_dir(log_dir):
        state = plan_all(
            SweepState(works=(work,), now_ms=sweep.now_ms),
            sweep,
            options=sweep.options,
            high_watermark=sweep.high_watermark,
        )
        (work,) = whole(state.works)
        plan = planned(work)
        _require_same(task, plan)
        if plan.clean:
            work = replace(work, staged=_staged(task, plan), facts=_facts(task, plan))
        if work.changes:
            (work,) = whole(commit_each([[work]]))
    return Swept(passes=(work,))


def _require_same(task: FinishTask, plan: CleanPlan) -> None:
    """Require that the copy is cleaned as the groups were."""
    groups = groups_of(plan) if plan.clean else ()
    bases = [tuple(segment.base_offset for segment in group) for group in groups]
    built = [
        tuple(each.staged.segments[0].source_base_offsets)
        if each.staged.segments
        else tuple(segment.base_offset for segment in each.staged.unchanged)
        for each in task.built
    ]
    ends = {each.staged.end_offset for each in task.built}
    if bases != built or not ends <= {plan.compaction.first_uncleanable_offset}:
        raise StalePlan(
            "another plan is made of the log now.",
            path=task.sweep.partition,
            remedy="Nothing was changed. Run it again.",
        )


def _staged(task: FinishTask, plan: CleanPlan) -> StagedCleaning:
    """Return what was built for all groups, as if it were staged here. Effects: makes hollow files
    in the staging directory.
    """
    directory = Bucket.of(task.sweep.url).below(task.sweep.partition.directory_name)
    segments = tuple(segment for each in task.built for segment in each.staged.segments)
    modified_ns = {int(segment.base_offset): segment.modified_ns for segment in segments}
    with new_staging(plan) as staging:
        for each in task.built:
            for name, stored in each.files.items():
                time_ns = modified_ns[int(name.partition(".")[0])]
                write_stored(staging.path / name, directory, stored, time_ns, hollow=True)
    first = task.built[0].staged
    unchanged = tuple(segment for each in task.built for segment in each.staged.unchanged)
    return StagedCleaning(
        plan_id=plan.plan_id,
        directory=staging.path,
        end_offset=first.end_offset,
        last_mapped_offset=first.last_mapped_offset,
        segments=segments,
        stats=_stats(task, plan, len(segments), unchanged),
        unchanged=unchanged,
    )


def _stats(
    task: FinishTask, plan: CleanPlan, staged: int, unchanged: tuple[UnchangedSegment, ...]
) -> CleaningStats:
    """Return the figures of all groups together."""
    stats = [each.staged.stats for each in task.built]
    invariant(stats, "there is a group")
    summed = Counter[str]()
    for group in stats:
        figures = group._asdict()
        summed.update({name: figures[name] for name in _SUMMED})
    horizons = [each.delete_horizon_ms for each in stats if each.delete_horizon_ms is not None]
    figures = {name: summed[name] for name in _SUMMED}
    before = len(plan.rolled_log.segments)
    sources = sum(map(len, groups_of(plan)))
    return stats[0]._replace(
        **figures,
        segments_before=before,
        segments_after=before - sources + staged + len(unchanged),
        map_reads=task.figures.map_reads,
        map_records=task.figures.map_records,
        map_bytes=ByteCount(task.figures.map_bytes),
        distinct_keys=task.figures.distinct_keys,
        delete_horizon_ms=min(horizons, default=None),
    )


def _facts(task: FinishTask, plan: CleanPlan) -> OutputFacts:
    """Return what the checks say of all groups together: a check counts as done if it was done of
    each.
    """
    facts = [each.facts for each in task.built]
    results = [{check.name: check.violations for check in each.checks} for each in facts]
    invariant(all(each.keys() >= set(CHECK_NAMES) for each in results), "each group has all checks")
    return OutputFacts(
        topic_partition=str(plan.log.partition),
        plan_id=plan.plan_id,
        checks=tuple(
            CheckResult(name, sum(each[name] for each in results)) for name in CHECK_NAMES
        ),
        segments=tuple(segment for each in facts for segment in each.segments),
        source_records=sum(each.source_records for each in facts),
        source_bytes=sum(each.source_bytes for each in facts),
        expected_records=sum(each.expected_records for each in facts),
        expected_bytes=sum(each.expected_bytes for each in facts),
    )
