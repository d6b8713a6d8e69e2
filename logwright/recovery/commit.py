"""Execute a recovery of a log directory.

1. Under the locks: remove the clean-shutdown marker, also one that an append renamed. Then repair
   the partitions in groups: all of a group are locked, compared with what was planned, repaired one
   by one, and stay locked until their offset checkpoints are written. So nobody changes a log in
   between, and no entry is written for a log that no longer exists.
2. Write the marker last, and only if every partition of the directory is as a clean stop leaves it:
   recovered now, or clean before, and nothing else in the directory stops a broker. Otherwise each
   recovered log gets a record of its own (`logwright.log.recovered`). Appends remove the marker
   too: it is read and changed under the lock of the checkpoints. It has the broker's epoch only if
   it was there before and no log lacks anything (`RecoveryPlan.lacks`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Final

from logwright.errors import LogwrightError, StalePlan
from logwright.format.checkpoints import serialize_offset_checkpoint
from logwright.format.names import (
    CLEAN_SHUTDOWN_MARKER,
    CLEANER_OFFSET_CHECKPOINT,
    CUT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    WORK_DIRECTORY,
    TopicPartition,
)
from logwright.locks import lock_checkpoints, lock_log_dir, lock_partition_directory
from logwright.log.checkpoints import CHECKPOINT_FILES, Checkpoints
from logwright.log.listing import stamp_files
from logwright.log.recovered import RECOVERED, recovered_record
from logwright.place.files import names_in, open_log_dir
from logwright.recovery.model import (
    DirectoryPlan,
    DirectoryResult,
    RecoveryPlan,
)
from logwright.recovery.observe import (
    has_entries,
    left_out,
    observe_log,
    read_all_offsets,
    read_offsets,
)
from logwright.recovery.root import DAMAGED, look_at_root
from logwright.recovery.steps import keeps, recovery_steps
from logwright.steps.filesystem import FileSystem, RealFileSystem
from logwright.steps.interpreter import execute
from logwright.steps.marker import UNKNOWN_EPOCH, discard_markers, lock_marker
from logwright.steps.replace import replace_file
from logwright.steps.step import FileStep, FsyncDir, Link, Unlink
from logwright.steps.work import make_private
from logwright.units import Offset

_LOG = logging.getLogger(__name__)

GROUP: Final = 32
"""How many partitions are locked together; each holds three files open."""


def commit_directory(plan: DirectoryPlan) -> DirectoryResult:
    """Execute the plan. Effects: changes the logs, checkpoints and marker, under the locks.

    Raises:
        LogDirLocked: a broker or another recovery works on the directory. Nothing was changed.
        UncleanLogDir: a directory has the name of a file that is to be written. Nothing was
            changed.
        StalePlan: the marker came or went since. Nothing was changed.
        DiskFull, StepFailed: the checkpoints or the marker could not be written. An error of one
            partition is recorded as its failure, and the directory stays without marker.
    """
    _refuse_blocked(plan)
    result = DirectoryResult(
        failures=dict(plan.failures), marked_failures=dict(plan.marked_failures)
    )
    if not plan.plans and not plan.changes:
        return result
    with (
        lock_log_dir(plan.log_dir),
        lock_marker(plan.log_dir),
        RealFileSystem(plan.log_dir) as files,
    ):
        _take_marker(plan, files)
        _replace_malformed(plan, files, result)
        interrupted = False
        for first in range(0, len(plan.plans), GROUP):
            group = plan.plans[first : first + GROUP]
            alone = plan.marker is None and not plan.becomes_clean
            interrupted |= _commit_group(group, files, result, alone=alone)
        failed = result.failures or result.marked_failures
        if not interrupted and (plan.marker is not None or not failed):
            result.clean = _put_marker(plan, result, files)
    return result


def _refuse_blocked(plan: DirectoryPlan) -> None:
    written = (*CHECKPOINT_FILES, CLEAN_SHUTDOWN_MARKER)
    for problem in plan.root.problems:
        if problem.path is not None and problem.path.name in [f"{one}.tmp" for one in written]:
            raise problem


def _take_marker(plan: DirectoryPlan, files: FileSystem) -> None:
    """Remove the marker before anything changes. Effects: removes it."""
    marker = plan.log_dir / CLEAN_SHUTDOWN_MARKER
    with lock_checkpoints(plan.log_dir):
        if marker.exists() != (plan.marker is not None):
            raise StalePlan(
                "the clean-shutdown marker came or went since it was planned.",
                path=marker,
                remedy="Nothing was changed. Plan again.",
            )
        # A marker that an append renamed has no meaning for a directory that was recovered.
        execute(discard_markers(plan.log_dir), files)
        if plan.marker is not None and plan.changes:
            execute((Unlink(marker), FsyncDir(plan.log_dir)), files)


def _put_marker(plan: DirectoryPlan, result: DirectoryResult, files: FileSystem) -> bool:
    """Return whether the directory counts as clean now. Effects: writes the marker.

    If there was none, every present log must have been recovered: one may have been added since the
    plan. If there was one and nothing changed, it was not removed and is not written: an append
    that has it now puts it back.
    """
    if plan.marker is not None and not plan.changes:
        return True
    if plan.marker is None and look_at_root(plan.log_dir).stops_a_broker:
        return False
    with lock_checkpoints(plan.log_dir):
        recovered = {one.partition for one in result.recovered}
        marked = {one.name for one in result.marked}
        if plan.marker is None and left_out(plan.log_dir, recovered, marked):
            return False
        execute(_write_marker(plan), files)
    return True


def _replace_malformed(plan: DirectoryPlan, files: FileSystem, result: DirectoryResult) -> None:
    """Keep a copy of each malformed checkpoint, then write one without entries, which is what a
    broker makes of a missing one; those of recovered logs are added later. Effects: writes them.
    """
    for name in plan.root.malformed:
        path = plan.log_dir / name
        kept = path.with_name(f"{DAMAGED}-{name}-{plan.now_ms}")
        with lock_checkpoints(plan.log_dir):
            if not kept.exists():
                execute((Link(path, kept), FsyncDir(plan.log_dir)), files)
            execute(replace_file(path, serialize_offset_checkpoint({}), like=path), files)
        result.damaged[name] = kept
        _LOG.warning("checkpoint replaced: file=%s kept=%s", path, kept)


def _commit_group(
    group: Sequence[RecoveryPlan], files: FileSystem, result: DirectoryResult, *, alone: bool
) -> bool:
    """Repair a group; return whether one was left incomplete. Effects: changes the logs and their
    checkpoints.

    `alone`: the directory will not get its marker, so each log gets a record that it was recovered.
    """
    log_dir = group[0].observed.log_dir
    interrupted = False
    recovered: list[RecoveryPlan] = []
    with ExitStack() as locks:
        locked: list[RecoveryPlan] = []
        for plan in group:
            try:
                locks.enter_context(lock_partition_directory(plan.observed.directory))
            except LogwrightError as error:
                result.fail(plan, error)
            else:
                locked.append(plan)
        checkpoints = read_all_offsets(log_dir)
        for plan in locked:
            begun = False
            try:
                _refuse_changed(plan, checkpoints)
                begun = True
                _commit(plan, files, result)
            except LogwrightError as error:
                result.fail(plan, error)
                interrupted = interrupted or begun
            else:
                recovered.append(plan)
        _write_checkpoints(log_dir, recovered, files)
        for plan in recovered if alone else ():
            _record(plan, files)
    result.recovered += [one for one in recovered if not one.is_marked]
    result.marked += [one for one in recovered if one.is_marked]
    return interrupted


def _record(plan: RecoveryPlan, files: FileSystem) -> None:
    """Record that a log is now as a clean stop leaves it. Effects: writes into its work
    directory.
    """
    with open_log_dir(plan.observed.log_dir) as parent, parent.open_dir(plan.name) as opened:
        content = recovered_record(stamp_files(opened))
    path = plan.observed.directory / WORK_DIRECTORY / RECOVERED
    execute(replace_file(path, content, like=None), files)


def _refuse_changed(plan: RecoveryPlan, checkpoints: Checkpoints) -> None:
    """Raise unless a locked log is as it was planned, including its checkpoint entries. Effects:
    reads.
    """
    before, partition = plan.observed, plan.partition
    now = observe_log(before.log_dir, partition, before.name, checkpoints)
    entries = before.checkpoints.of(partition)
    if now.stamps != before.stamps or now.checkpoints.of(partition) != entries:
        raise StalePlan(
            "the log changed after its recovery was planned.",
            path=before.directory,
            remedy="Nothing was changed. Plan again.",
        )


def _commit(plan: RecoveryPlan, files: FileSystem, result: DirectoryResult) -> None:
    """Repair a locked log that is as it was planned. Effects: changes it."""
    if not plan.changes:
        return
    cut = _make_cut(plan) if keeps(plan) else None
    execute(recovery_steps(plan, cut=cut), files)
    if cut is not None:
        result.cut[plan.name] = cut
    for finding in plan.findings:
        _LOG.info(
            "recovered topic_partition=%s action=%r files=%s bytes=%d reason=%r",
            plan.name,
            finding.action,
            ",".join(finding.files),
            finding.bytes,
            finding.reason,
        )


def _make_cut(plan: RecoveryPlan) -> Path:
    """Make a directory for the removed data. Effects: makes it."""
    partition = plan.observed.directory
    with make_private(partition, WORK_DIRECTORY, CUT) as parent:
        taken = set(names_in(parent.path))
    names = (f"{plan.now_ms}-{number}" for number in count())
    name = next(name for name in names if name not in taken)
    with make_private(partition, WORK_DIRECTORY, CUT, name) as made:
        return made.path


def _write_checkpoints(log_dir: Path, plans: Iterable[RecoveryPlan], files: FileSystem) -> None:
    """Write what a clean stop records of these logs; other entries stay."""
    points: dict[TopicPartition, Offset | None] = {}
    starts: dict[TopicPartition, Offset | None] = {}
    watermarks: dict[TopicPartition, Offset | None] = {}
    cleaned: dict[TopicPartition, Offset | None] = {}
    for plan in (one for one in plans if has_entries(log_dir, one.partition, one.name)):
        partition = plan.partition
        points[partition] = plan.log_end_offset
        starts[partition] = _log_start_entry(plan)
        watermarks[partition] = plan.high_watermark
        # What is appended after a cut is to be cleaned (LogCleanerManager.maybeTruncateCheckpoint).
        if (plan.observed.checkpoints.cleaner_offset.get(partition) or 0) > plan.log_end_offset:
            cleaned[partition] = plan.log_end_offset
    with lock_checkpoints(log_dir):
        for name, changed in (
            (LOG_START_OFFSET_CHECKPOINT, starts),
            (HIGH_WATERMARK_CHECKPOINT, watermarks),
            (CLEANER_OFFSET_CHECKPOINT, cleaned),
            (RECOVERY_POINT_CHECKPOINT, points),
        ):
            execute(_update(log_dir, name, changed), files)


def _log_start_entry(plan: RecoveryPlan) -> Offset | None:
    """Return the entry of the checkpoint of log starts, None for none: of a start inside the first
    segment. One below it stays: with remote storage the log begins there, and without it a broker
    takes it for the segment's base offset (LogManager.checkpointLogStartOffsetsInDir, KIP-405).
    """
    recorded = plan.observed.checkpoints.log_start_offset.get(plan.partition)
    if recorded is not None and recorded < plan.first_base_offset:
        return recorded
    return plan.log_start_offset if plan.log_start_offset > plan.first_base_offset else None


def _update(
    log_dir: Path, name: str, changed: Mapping[TopicPartition, Offset | None]
) -> tuple[FileStep, ...]:
    """Return the steps that set entries of a checkpoint file; None removes an entry."""
    path = log_dir / name
    before = read_offsets(path)
    after = {partition: offset for partition, offset in before.items() if partition not in changed}
    after |= {partition: offset for partition, offset in changed.items() if offset is not None}
    if after == before:
        return ()
    like = path if path.exists() else log_dir
    return replace_file(path, serialize_offset_checkpoint(after), like=like)


def _write_marker(plan: DirectoryPlan) -> tuple[FileStep, ...]:
    content = UNKNOWN_EPOCH if plan.marker is None or plan.doubts else plan.marker
    return replace_file(plan.log_dir / CLEAN_SHUTDOWN_MARKER, content, like=plan.log_dir)
