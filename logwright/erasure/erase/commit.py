"""Execute the erasure of one log; the stages before it for one log."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from logwright.batches.runtime import Runtime
from logwright.erasure.erase.build import build_erasure
from logwright.erasure.erase.check import ErasureChecks
from logwright.erasure.erase.copies import inner_copies, top_copies
from logwright.erasure.erase.model import Erased, ErasePlan, Matcher, StagedErasure
from logwright.erasure.erase.plan import plan_erasure
from logwright.erasure.erase.scan import scan_log
from logwright.erasure.erase.steps import ledger_steps, purge_steps, purged_files, replaced_files
from logwright.errors import LogDirLocked, enough_memory
from logwright.live_plans import end_plan
from logwright.observe import observe_unlocked
from logwright.purge.observe import list_partition
from logwright.rewrite.staging import (
    discard_staging,
    discarded_on_error,
    require_complete,
    staging_directory,
)
from logwright.rewrite.steps import swap_steps
from logwright.rewrite.unsynced import Unsynced
from logwright.roll.commit import sealing_steps
from logwright.state.erasure_mark import Erasure, absent_steps, mark_steps
from logwright.state.hold import refuse_held
from logwright.steps.interpreter import execute
from logwright.steps.live import live_log
from logwright.steps.room import room_or_without
from logwright.units import ByteCount

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from logwright.batches.runtime import Progress
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
    runtime = runtime or Runtime()
    with enough_memory(log.directory):
        scan = scan_log(log, keys, progress=progress, runtime=runtime)
        names = [stamp.name for stamp in log.fingerprint.files]
        copies = top_copies(log.directory, names, keys, runtime=runtime)
    return plan_erasure(
        log, settings, scan, copies, now_ms=now_ms, purge_unreadable=purge_unreadable
    )


def build_and_check(
    plan: ErasePlan, keys: Matcher, *, progress: Progress, runtime: Runtime | None = None
) -> StagedErasure:
    """Rebuild what has a match, and prove of each segment that nothing else changed; meanwhile the
    files become durable. Effects: staged files, which are removed if an error is raised.

    Raises:
        QualityError: the output fails a check.
        LogwrightError: see `build_erasure`.
    """
    files = Unsynced()
    runtime = replace(runtime or Runtime(), sync=files.start)
    try:
        with enough_memory(plan.log.directory), discarded_on_error(plan):
            checks = ErasureChecks(plan, keys, runtime)
            staged = build_erasure(plan, progress=progress, runtime=runtime, written=checks.judge)
            checks.require_passed()
            files.finish()
    except BaseException:
        discard_staging(plan)
        raise
    finally:
        files.release()
    return staged


def commit_erasure(
    staged: StagedErasure, keys: Matcher, *, runtime: Runtime | None = None
) -> Erased:
    """Make the rebuilt segments the live log, and unlink at once what they replaced and whatever
    else of the log has a match. Effects: changes the log, under the locks of the log directory and
    the partition; removes the staging directory. However it ends, the plan is over.

    Args:
        staged: built and checked.
        keys: to read kept outputs and cut pieces by, under the locks; runtime: to read them with.

    Raises:
        LogDirLocked: a broker or another process works on it, or has staged output of it. Nothing
            was changed.
        StalePlan: the log is not as it was planned. Nothing was changed.
        Paused: it was paused in the meantime. Nothing was changed.
        DiskFull, StepFailed: a step failed; run it again, it continues.
    """
    plan = staged.plan
    log = plan.log
    runtime = runtime or Runtime()
    try:
        with live_log(log) as files:
            refuse_held(log.log_dir, log.partition, plan.now_ms, force=True)
            _refuse_staged(list_partition(log.directory), plan.plan_id)
            require_complete(plan, staged.segments)
            copies = (*plan.copies, *inner_copies(log.directory, keys, runtime=runtime))
            forms = not plan.scan.undecoded and all(one.matches is not None for one in copies)
            shorts = keys.shorts(plan.scan.requests, forms=forms)
            erased = dict.fromkeys(shorts, Erasure(plan.now_ms, "at once"))
            absent = _absent(plan, keys, forms=forms)
            execute(_swap(staged, erased), files)
            end_plan(log.log_dir, plan.plan_id)
            listing = list_partition(log.directory)
            gone, unreadable = purged_files(listing, copies, purge_unreadable=plan.purge_unreadable)
            if replaced_files(listing):
                execute(
                    mark_steps(log.directory, plan.plan_id, erased, done=True, absent=absent), files
                )
            else:
                execute(absent_steps(log.directory, absent), files)
            execute(purge_steps(listing, gone), files)
            with room_or_without("compacting the deletion ledger, which the next purge does"):
                execute(ledger_steps(listing, gone), files)
    finally:
        discard_staging(plan)
    result = _result(staged, gone, unreadable)
    _LOG.info(
        "erased topic_partition=%s records=%d segments=%d purged=%d",
        log.partition,
        result.records,
        len(result.segments),
        len(result.purged),
    )
    return result


def note_absent(plan: ErasePlan, keys: Matcher) -> None:
    """Note in the mark of a log of which nothing is to be erased that it has no record of the keys.
    Effects: may replace the mark, under the locks.

    Raises:
        LogDirLocked, StalePlan, StepFailed: as `commit_erasure`.
    """
    with live_log(plan.log) as files, room_or_without("noting which keys the log has no record of"):
        absent = _absent(plan, keys, forms=not plan.scan.undecoded)
        execute(absent_steps(plan.log.directory, absent), files)


def _absent(plan: ErasePlan, keys: Matcher, *, forms: bool) -> dict[str, int]:
    """Return the keys that the log has no record of after the erasure: all that were asked for.

    Args:
        forms: all forms of them were looked for, in the kept files too.
    """
    return dict.fromkeys(keys.asked(forms=forms), plan.log.log_end_offset)


def _swap(staged: StagedErasure, erased: Mapping[str, Erasure]) -> Iterator[FileStep]:
    plan, log = staged.plan, staged.plan.log
    if staged.segments:
        yield from mark_steps(log.directory, plan.plan_id, erased, done=False)
    yield from sealing_steps(log, plan.roll)
    for segment in staged.segments:
        yield from swap_steps(
            plan.rolled_log,
            segment,
            staging_directory(plan),
            now_ms=plan.now_ms,
            operation="erase",
        )


def _refuse_staged(listing: PartitionListing, plan_id: str) -> None:
    """Refuse a log of which another process has staged output: it may hold the records, and may not
    be removed.
    """
    for output in listing.staging:
        if output.held and output.path.name != plan_id:
            raise LogDirLocked(
                "another logwright process has staged output of this log.",
                path=output.path,
                remedy="Nothing was changed. Wait for it to end, then run it again.",
            )


def _result(staged: StagedErasure, gone: tuple[str, ...], unreadable: tuple[str, ...]) -> Erased:
    plan, segments = staged.plan, staged.segments
    before = plan.log.log_bytes
    old = sum(segment.log_bytes for segment in plan.scan.segments)
    new = sum(segment.log_bytes for segment in segments)
    return Erased(
        records=plan.scan.records,
        segments=tuple(segment.base_offset for segment in segments),
        rolled=plan.roll.due,
        bytes_before=before,
        bytes_after=ByteCount(before - old + new),
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
    return commit_erasure(staged, keys, runtime=runtime)


def needs_purge(plan: ErasePlan, keys: Matcher, *, runtime: Runtime) -> bool:
    """Return whether a log without a match in its segments has something to unlink. Effects: reads
    its directory, kept outputs and cut pieces.

    Raises:
        LogwrightError: as `list_partition`.
    """
    log = plan.log
    listing = list_partition(log.directory)
    copies = (*plan.copies, *inner_copies(log.directory, keys, runtime=runtime))
    gone, _ = purged_files(listing, copies, purge_unreadable=plan.purge_unreadable)
    return bool(gone) or any(not one.held for one in listing.staging)
