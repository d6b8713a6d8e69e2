"""Compact a log of which a whole copy does not fit on the disk, one group of segments after the
other; see `logwright.compaction.groups`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from logwright.checks.model import LATEST_VALUE_PER_KEY, CheckResult, refusal
from logwright.checks.quick import examine_quickly
from logwright.compaction.groups import (
    ROOM,
    GroupCleaning,
    in_turn,
    smaller_groups,
    with_smallest_need,
)
from logwright.format.names import (
    CLEANER_OFFSET_CHECKPOINT,
    DELETED,
    SEGMENT_SUFFIXES,
    TopicPartition,
    segment_file_name,
)
from logwright.purge.commit import purge_locked
from logwright.rescue.free import FreeStep
from logwright.rescue.free_look import EVER, blocks_of
from logwright.rewrite.staging import discard_staging
from logwright.rewrite.steps import swap_steps, unchanged_steps
from logwright.state.hold import refuse_held
from logwright.steps.interpreter import execute
from logwright.steps.live import refuse_changed, set_offsets
from logwright.steps.step import FsyncDir, Link, Rename, Unlink
from logwright.sweep.plan import WITHOUT_ROLL, plan_cleaning
from logwright.units import ByteCount, TimestampMs

if TYPE_CHECKING:
    from logwright.compaction.model import CleanPlan
    from logwright.log.committed import HighWatermark
    from logwright.steps.filesystem import FileSystem
    from logwright.steps.step import FileStep
    from logwright.sweep.plan import Settings


def compaction_plan(
    log_dir: Path,
    partition: TopicPartition,
    settings: Settings,
    *,
    now_ms: TimestampMs,
    high_watermark: HighWatermark,
) -> CleanPlan | None:
    """Return the cleaning of a compacted log, due or not, without a roll, that can be split into
    groups; None if there is nothing to clean. Effects: reads.

    Raises:
        LogwrightError: as `plan_cleaning`.
    """
    config, cleaner = settings
    if not config.compact or cleaner.off is not None:
        return None
    plan = plan_cleaning(
        log_dir,
        partition,
        settings,
        now_ms=now_ms,
        options=WITHOUT_ROLL,
        high_watermark=high_watermark,
    )
    if not plan.clean:
        return None
    return plan._replace(options=replace(plan.options, like_kafka=False))


def compaction_step(plan: CleanPlan) -> FreeStep:
    """Return what a cleaning frees at most, and what its smallest group needs at most: its output
    is not larger than its input. Effects: looks at its files.
    """
    groups, need = with_smallest_need(plan)
    below = [segment for group in groups for segment in group]
    names = (segment_file_name(one.base_offset, each) for one in below for each in SEGMENT_SUFFIXES)
    looked = [blocks_of(plan.log.directory / name) for name in names]
    bound = plan.compaction.first_uncleanable_offset
    return FreeStep(
        kind="compaction",
        log_dir=plan.log.log_dir,
        name=plan.log.partition.directory_name,
        bytes=ByteCount(sum(blocks for blocks, _ in looked)),
        files=len(below),
        need=need,
        linked=sum(linked for _, linked in looked),
        detail=f"segments below offset {bound}: {len(below)}, groups: {len(groups)}; what goes is"
        " not known before",
    )


def compact(
    plan: CleanPlan,
    files: FileSystem,
    *,
    room: int,
    goes: Callable[[int], bool],
    at_worst: Callable[[], None],
) -> int | None:
    """Clean a log on which nobody else works, group by group, without an undo; return the bytes
    that the next group needs if it does not go, None if no group is left. Effects: removes what is
    retired; changes the log; what is staged goes if there is no room for it.

    Args:
        plan: as `compaction_plan` made it.
        room: bytes that may be taken: groups are not larger, as far as they have several segments.
        goes: says whether a group is done that needs this many bytes.
        at_worst: called when a group is staged and its old files are not removed yet.

    Raises:
        StalePlan: the log is not as it was planned.
        LogwrightError: as `GroupCleaning`.
    """
    log = plan.log
    refuse_changed(log)
    refuse_held(log.log_dir, log.partition, plan.now_ms, force=False)
    # An undo of an earlier cleaning would bring back what tombstones delete that go now.
    purge_locked(log.log_dir, log.partition, files, now_ms=EVER, file_delete_delay_ms=0)
    if not goes(ROOM):
        return ROOM
    cleaning = GroupCleaning(plan=smaller_groups(plan, room))
    cleaning.read()
    _require_right(cleaning)
    with cleaning.staging():
        for group in in_turn(cleaning.groups):
            if not goes(group.need):
                return group.need
            _do_group(cleaning, group.number, files, at_worst)
    end = {CLEANER_OFFSET_CHECKPOINT: plan.compaction.first_uncleanable_offset}
    set_offsets(log.log_dir, log.partition, end, files)
    return None


def _require_right(cleaning: GroupCleaning) -> None:
    """Require that what was read of the keys is right.

    Raises:
        QualityError: a sample of the keys contradicts the map.
    """
    if not cleaning.is_right:
        raise refusal(cleaning.plan, [CheckResult(LATEST_VALUE_PER_KEY, 1).sentence])


def _do_group(
    cleaning: GroupCleaning, number: int, files: FileSystem, at_worst: Callable[[], None]
) -> None:
    """Build, check and swap one group, and remove its old files. Effects: as said; what is staged
    is removed if an error is raised.

    Args:
        at_worst: called when all is staged and nothing is removed yet.

    Raises:
        QualityError: the output breaks a check. Nothing was changed.
        DiskFull, StepFailed: a step failed; the log is the old or the new one for a recovery.
        CorruptBatch, UnsupportedFormatError, UnreadableFile, StalePlan: as `GroupCleaning.build`.
    """
    plan, staged, aborted = cleaning.build(number)
    try:
        facts = examine_quickly(plan, staged, aborted=aborted)
        if facts.failed:
            raise refusal(plan, (check.sentence for check in facts.failed))
        at_worst()
        log, now_ms = cleaning.plan.rolled_log, plan.now_ms
        execute(unchanged_steps(log, staged.unchanged), files)
        for segment in staged.segments:
            steps = swap_steps(log, segment, staged.directory, now_ms=now_ms, undoable=False)
            execute((*steps, *_removal(steps), FsyncDir(plan.log.directory)), files)
    finally:
        discard_staging(plan)


def _removal(steps: Iterable[FileStep]) -> Iterator[FileStep]:
    """Yield the steps that remove what these steps retire."""
    for step in steps:
        if isinstance(step, Link | Rename) and str(step.target).endswith(DELETED):
            yield Unlink(step.target)
