"""Execute the erasure of one log; the stages before it for one log."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from logwright.compaction.build import discard_staging
from logwright.erasure.erase.build import build_erasure
from logwright.erasure.erase.check import require_correct
from logwright.erasure.erase.copies import inner_copies, top_copies
from logwright.erasure.erase.model import Erased, ErasePlan, Matcher, StagedErasure
from logwright.erasure.erase.plan import plan_erasure
from logwright.erasure.erase.scan import scan_log
from logwright.erasure.erase.steps import ledger_steps, purge_steps, purged_files, replaced_files
from logwright.erasure.mark import mark_steps
from logwright.errors import LogDirLocked, StalePlan, enough_memory
from logwright.format.names import LOG, segment_file_name
from logwright.live_plans import end_plan
from logwright.observe import observe_unlocked
from logwright.purge.observe import list_partition
from logwright.roll.commit import sealing_steps
from logwright.state.hold import refuse_held
from logwright.steps.interpreter import execute
from logwright.steps.live import live_log
from logwright.steps.room import room_or_without
from logwright.swap.steps import swap_steps
from logwright.units import ByteCount

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from logwright.batches.runtime import Progress, Runtime
    from logwright.config.topic import CleanerConfig, TopicConfig
    from logwright.format.names import TopicPartition
    from logwright.purge.observe import PartitionListing
    from logwright.steps.step import FileStep
    from logwright.units import TimestampMs

_LOG = logging.getLogger(__name__)


def plan_erasure_of(
    log_dir: Path,
    partition: TopicPartition,
    settings: tuple[TopicConfig, CleanerConfig],
    keys: Matcher,
    *,
    now_ms: TimestampMs,
    progress: Progress,
    runtime: Runtime | None = None,
    purge_unreadable: bool = False,
) -> ErasePlan:
    """Observe a partition, and scan it for the keys. Effects: reads.

    Raises:
        LogwrightError: see `observe_unlocked` and `scan_log`.
    """
    log = observe_unlocked(log_dir, partition, high_watermark="end")
    with enough_memory(log.directory):
        scan = scan_log(log, keys, progress=progress, runtime=runtime)
        names = [stamp.name for stamp in log.fingerprint.files]
        copies = top_copies(log.directory, names, keys)
    return plan_erasure(
        log, settings, scan, copies, now_ms=now_ms, purge_unreadable=purge_unreadable
    )


def build_and_check(
    plan: ErasePlan, keys: Matcher, *, progress: Progress, runtime: Runtime | None = None
) -> StagedErasure:
    """Rebuild what has a match, and prove that nothing else changed. Effects: staged files, which
    are removed if an error is raised.

    Raises:
        QualityError: the output fails a check.
        LogwrightError: see `build_erasure`.
    """
    try:
        with enough_memory(plan.clean.log.directory):
            staged = build_erasure(plan, progress=progress, runtime=runtime)
            if staged.staged is not None:
                progress("check", 0, 1)
                require_correct(plan, staged.staged, keys)
                progress("check", 1, 1)
    except BaseException:
        discard_staging(plan.clean)
        raise
    return staged


def commit_erasure(staged: StagedErasure, keys: Matcher) -> Erased:
    """Make the rebuilt segments the live log, and unlink at once what they replaced and whatever
    else of the log has a match. Effects: changes the log, under the locks of the log directory and
    the partition; removes the staging directory. However it ends, the plan is over.

    Args:
        staged: built and checked.
        keys: to read kept outputs and cut pieces by, under the locks.

    Raises:
        LogDirLocked: a broker or another process works on it, or has staged output of it. Nothing
            was changed.
        StalePlan: the log is not as it was planned. Nothing was changed.
        Paused: it was paused in the meantime. Nothing was changed.
        DiskFull, StepFailed: a step failed; run it again, it continues.
    """
    plan, clean = staged.plan, staged.plan.clean
    log = clean.log
    try:
        with live_log(log) as files:
            refuse_held(log.log_dir, log.partition, clean.now_ms, force=True)
            _refuse_staged(list_partition(log.directory), clean.plan_id)
            _refuse_incomplete(staged)
            copies = (*plan.copies, *inner_copies(log.directory, keys))
            erased = keys.shorts(plan.scan.requests)
            execute(_swap(staged, erased), files)
            end_plan(log.log_dir, clean.plan_id)
            listing = list_partition(log.directory)
            gone, unreadable = purged_files(listing, copies, purge_unreadable=plan.purge_unreadable)
            if replaced_files(listing):
                execute(mark_steps(log.directory, clean.plan_id, erased, done=True), files)
            execute(purge_steps(listing, gone), files)
            with room_or_without("compacting the deletion ledger, which the next purge does"):
                execute(ledger_steps(listing, gone), files)
    finally:
        discard_staging(clean)
    result = _result(staged, gone, unreadable)
    _LOG.info(
        "erased topic_partition=%s records=%d segments=%d purged=%d",
        log.partition,
        result.records,
        len(result.segments),
        len(result.purged),
    )
    return result


def _swap(staged: StagedErasure, erased: tuple[str, ...]) -> Iterator[FileStep]:
    clean = staged.plan.clean
    if staged.staged is not None:
        yield from mark_steps(clean.log.directory, clean.plan_id, erased, done=False)
    yield from sealing_steps(clean.log, clean.roll)
    if staged.staged is not None:
        for segment in staged.staged.segments:
            yield from swap_steps(
                clean.rolled_log,
                segment,
                staged.staged.directory,
                now_ms=clean.now_ms,
                operation="erase",
            )


def _refuse_staged(listing: PartitionListing, plan_id: str) -> None:
    """Refuse a log of which another process has staged output: it may hold the records, and may not
    be removed.
    """
    for one in listing.staging:
        if one.held and one.path.name != plan_id:
            raise LogDirLocked(
                "another logwright process has staged output of this log.",
                path=one.path,
                remedy="Nothing was changed. Wait for it to end, then run it again.",
            )


def _refuse_incomplete(staged: StagedErasure) -> None:
    """Refuse output that a purge has removed as that of a dead plan."""
    if staged.staged is None:
        return
    for segment in staged.staged.segments:
        path = staged.staged.directory / segment_file_name(segment.base_offset, LOG)
        if not path.exists() or path.lstat().st_size != segment.log_bytes:
            raise StalePlan(
                "the staged output is incomplete.",
                path=path,
                remedy="Nothing was changed. Run it again.",
            )


def _result(staged: StagedErasure, gone: tuple[str, ...], unreadable: tuple[str, ...]) -> Erased:
    clean, stage = staged.plan.clean, staged.staged
    before = clean.log.log_bytes
    removed = 0 if stage is None else stage.stats.bytes_removed
    return Erased(
        records=staged.plan.scan.records,
        segments=() if stage is None else tuple(each.base_offset for each in stage.segments),
        rolled=clean.roll.due,
        bytes_before=before,
        bytes_after=ByteCount(before - removed),
        purged=gone,
        unreadable=unreadable,
    )


def erase_partition(
    log_dir: Path,
    partition: TopicPartition,
    settings: tuple[TopicConfig, CleanerConfig],
    keys: Matcher,
    *,
    now_ms: TimestampMs,
    progress: Progress = lambda *_: None,
    runtime: Runtime | None = None,
) -> Erased:
    """Plan, build, check and commit. Effects and errors: as those."""
    plan = plan_erasure_of(
        log_dir, partition, settings, keys, now_ms=now_ms, progress=progress, runtime=runtime
    )
    staged = build_and_check(plan, keys, progress=progress, runtime=runtime)
    return commit_erasure(staged, keys)


def needs_purge(plan: ErasePlan, keys: Matcher) -> bool:
    """Return whether a log without a match in its segments has something to unlink. Effects: reads
    its directory, kept outputs and cut pieces.

    Raises:
        LogwrightError: as `list_partition`.
    """
    log = plan.clean.log
    listing = list_partition(log.directory)
    copies = (*plan.copies, *inner_copies(log.directory, keys))
    gone, _ = purged_files(listing, copies, purge_unreadable=plan.purge_unreadable)
    return bool(gone) or any(not one.held for one in listing.staging)
