"""Plan, stage and commit an append. Only `commit_append` changes an existing log; `prepare_log_dir`
and `ingest.staging` create directories and files.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from logwright.errors import NotALogDir, PolicyError, StalePlan, UncleanLogDir
from logwright.format.checkpoints import parse_leader_epochs
from logwright.format.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, parse_time_index
from logwright.format.names import (
    CLEAN_SHUTDOWN_MARKER,
    LEADER_EPOCH_CHECKPOINT,
    LOG,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    TIMEINDEX,
    TopicPartition,
    segment_file_name,
)
from logwright.ingest.appender import Appender, discard_staging
from logwright.ingest.empty import is_empty, make_log_dir
from logwright.ingest.journal import Done, Journal, Pending, read_journal, write_journal
from logwright.ingest.model import (
    Appended,
    AppendOptions,
    AppendPlan,
    StagedAppend,
    Tail,
)
from logwright.ingest.settle import (
    has_log,
    present_records,
    refuse_start_offset,
    settle,
    stamps,
)
from logwright.ingest.steps import (
    append_steps,
    begin_steps,
    created_names,
    end_steps,
    record_steps,
)
from logwright.live_plans import end_plan, new_plan_id
from logwright.locks import lock_checkpoints, lock_log_dir, lock_partition
from logwright.log.load import fingerprint, list_partitions, observe
from logwright.place.files import names_in
from logwright.place.mapped import map_file
from logwright.state.hold import refuse_moved
from logwright.steps.filesystem import RealFileSystem
from logwright.steps.interpreter import execute
from logwright.steps.live import look_twice
from logwright.steps.marker import (
    APPEND_WAIT_SECONDS,
    lock_marker,
    markers_aside,
)
from logwright.steps.step import FileStep
from logwright.units import ByteCount, Offset, TimestampMs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import pyarrow as pa

    from logwright.config.topic import TopicConfig
    from logwright.format.checkpoints import LeaderEpoch
    from logwright.log.model import PartitionLog


def prepare_log_dir(log_dir: Path) -> None:
    """Finish or roll back an interrupted append; turn an empty directory into a log directory.

    Effects: see `settle`; in an empty directory writes the marker and empty checkpoint files.

    Raises:
        LogDirLocked: a broker holds its lock.
        NotALogDir: the directory does not exist or has other files.
        UncleanLogDir: see `settle`.
    """
    if not log_dir.is_dir():
        raise NotALogDir(
            "the log directory does not exist.", path=log_dir, remedy="Create it or fix the path."
        )
    empty = is_empty(log_dir)
    if not empty:
        list_partitions(log_dir)  # locking creates a file: only in a log directory
    with lock_log_dir(log_dir):
        if not empty and not markers_aside(log_dir):
            return
        with lock_marker(log_dir, wait_seconds=APPEND_WAIT_SECONDS), lock_checkpoints(log_dir):
            if not is_empty(log_dir):  # another process may have started meanwhile
                settle(log_dir)
            elif not (log_dir / CLEAN_SHUTDOWN_MARKER).exists():
                with RealFileSystem(log_dir) as files:
                    execute(make_log_dir(log_dir), files)


def plan_append(
    log_dir: Path,
    partition: TopicPartition,
    config: TopicConfig,
    *,
    ingest_id: str,
    now_ms: TimestampMs,
    options: AppendOptions,
    topic_id: str | None = None,
) -> AppendPlan | Appended:
    """Plan an append to a partition; or return the result if this ingest was already appended.

    `topic_id`: topic id of a new partition whose topic has none yet.

    Effects: reads; writes the checkpoints if an earlier run was interrupted just before that.

    Raises:
        UncleanLogDir: the directory was not shut down cleanly, or another interrupted ingest must
            be completed first.
        PreconditionError: the log is being moved to another log directory.
        And any error of `observe`.
    """
    directory = log_dir / partition.directory_name
    with lock_log_dir(log_dir), lock_marker(log_dir, wait_seconds=APPEND_WAIT_SECONDS):
        if not (log_dir / CLEAN_SHUTDOWN_MARKER).exists():
            raise _unclean(log_dir)
        log = None
        if has_log(directory):
            log = look_twice(partial(observe, log_dir, high_watermark="end"), log_dir, partition)
        else:
            refuse_moved(log_dir, partition)
            refuse_start_offset(log_dir, partition)
        journal = read_journal(directory) if directory.is_dir() else Journal()
        plan = AppendPlan(
            plan_id=new_plan_id(now_ms),
            ingest_id=ingest_id,
            now_ms=now_ms,
            log_dir=log_dir,
            partition=partition,
            log=log,
            tail=None if log is None else _tail(log),
            epochs=_epochs(directory),
            topic_id=_topic_id(log_dir, partition, topic_id if log is None else None),
            config=config,
            options=options,
        )
        return _after_earlier_run(plan, journal)


def stage_append(plan: AppendPlan, records: Iterable[pa.RecordBatch]) -> StagedAppend:
    """Stage these records, columns as `schema.SCHEMA`. Effects: creates the staging directory;
    removes it after an error. Errors: see `Appender`.
    """
    appender = Appender(plan)
    try:
        for batch in records:
            appender.add(batch)
        return appender.finish()
    except BaseException:
        appender.discard()
        raise


def commit_append(plan: AppendPlan, staged: StagedAppend) -> Appended:
    """Append the staged records to the log. Effects: see `ingest.steps`; holds the locks of log
    directory, marker and partition, at the end also that of the checkpoints; removes the staging
    directory.

    Raises:
        LogDirLocked: a broker or another process holds a lock. Nothing was changed.
        StalePlan: the log changed after it was planned. Nothing was changed.
        DiskFull, StepFailed: a step failed; run it again, see `settle`.
    """
    try:
        pending = _commit_append(plan, staged)
    finally:  # from now on a purge may remove the staged files
        end_plan(plan.log_dir, plan.plan_id)
    return Appended(
        partition=plan.partition,
        records=staged.records + plan.skip,
        first_offset=Offset(pending.first_offset),
        end_offset=staged.end_offset,
        log_bytes=staged.record_bytes,
        segments_rolled=sum(not segment.tail for segment in staged.segments) - (plan.tail is None),
        repeated=False,
    )


def _commit_append(plan: AppendPlan, staged: StagedAppend) -> Pending:
    log_dir, partition = plan.log_dir, plan.partition
    with (
        lock_log_dir(log_dir),
        lock_marker(log_dir, wait_seconds=APPEND_WAIT_SECONDS),
        lock_partition(log_dir, partition),
        RealFileSystem(log_dir) as files,
    ):
        _refuse_stale(plan, staged)
        pending = pending_append(plan, staged, read_journal(plan.directory).pending)
        execute(commit_steps(plan, staged, pending), files)
        with lock_checkpoints(log_dir):
            execute(record_steps(plan, staged.end_offset), files)
        discard_staging(plan)
    return pending


def commit_steps(plan: AppendPlan, staged: StagedAppend, pending: Pending) -> Iterator[FileStep]:
    """Yield all steps of a commit except those of the checkpoints, see `ingest.steps`. Some steps
    read the results of earlier ones.
    """
    before = read_journal(plan.directory).settled()
    journal = Journal(done=before.done, pending=pending)
    yield from begin_steps(plan, journal, pending.nonce)
    yield from append_steps(plan, staged)
    yield from write_journal(plan.directory, journal.finished())
    yield from end_steps(plan.log_dir, pending.nonce)


def _after_earlier_run(plan: AppendPlan, journal: Journal) -> AppendPlan | Appended:
    """Return the plan for the records that an earlier run has not appended yet."""
    pending = journal.interrupted
    if plan.options.keep_offsets:
        return _plan_of_copy(plan, journal)
    done = journal.find(plan.ingest_id)
    if done is None and pending is not None and plan.log is not None:
        present = present_records(plan.log, pending)
        if present is None:
            journal = journal.finished()
            with (
                RealFileSystem(plan.log_dir) as files,
                lock_partition(plan.log_dir, plan.partition),
            ):
                execute(write_journal(plan.directory, journal), files)
            done = journal.find(plan.ingest_id)
        elif pending.id == plan.ingest_id:
            return replace(plan, skip=present)
        elif present:
            raise UncleanLogDir(
                "another ingest was interrupted here and is partly in the log.",
                path=plan.directory,
                remedy="First run that ingest again, with the same input.",
            )
    if done is None:
        return plan
    _record(plan, done)
    return Appended(
        partition=plan.partition,
        records=done.records,
        first_offset=Offset(done.first_offset),
        end_offset=Offset(done.end_offset),
        log_bytes=ByteCount(0),
        segments_rolled=0,
        repeated=True,
    )


def _record(plan: AppendPlan, done: Done) -> None:
    """Write the checkpoints of an append that was interrupted before it did. Effects: may write
    them.
    """
    log = plan.log
    if log is None or log.log_end_offset != done.end_offset:
        return
    if dict(log.fingerprint.checkpoints).get(RECOVERY_POINT_CHECKPOINT) != log.log_end_offset:
        with RealFileSystem(plan.log_dir) as files, lock_checkpoints(plan.log_dir):
            execute(record_steps(plan, log.log_end_offset), files)


def _plan_of_copy(plan: AppendPlan, journal: Journal) -> AppendPlan:
    """Return the plan of a copy, which continues at the log's end: offsets are the source's.

    Raises:
        PolicyError: the log has records of an ingest, with their own offsets.
    """
    known = [one.id for one in journal.done]
    if journal.pending is not None:
        known.append(journal.pending.id)
    if any(one != plan.ingest_id for one in known):
        raise PolicyError(
            "this log has ingested records with their own offsets and cannot hold a copy.",
            path=plan.directory,
            remedy="Archive to another log directory.",
        )
    return plan


def pending_append(plan: AppendPlan, staged: StagedAppend, before: Pending | None) -> Pending:
    """Return the journal's entry for the running append; `before`: its current entry."""
    tail = None if plan.log is None else plan.log.active
    inode = 0
    if tail is not None:
        inode = (plan.directory / segment_file_name(tail.base_offset, LOG)).lstat().st_ino
    resumed = plan.skip > 0 and before is not None
    return Pending(
        id=plan.ingest_id,
        skipped=plan.skip,
        first_offset=before.first_offset if resumed and before else staged.first_offset,
        log_end_offset=plan.log_end_offset,
        end_offset=staged.end_offset,
        records=plan.skip + staged.records,
        base_offset=None if tail is None else tail.base_offset,
        log_bytes=0 if tail is None else tail.log_bytes,
        index_bytes=0 if tail is None else tail.index_bytes,
        timeindex_bytes=0 if tail is None else tail.timeindex_bytes,
        created=created_names(plan, staged),
        stamps=stamps(plan.log_dir),
        nonce=secrets.token_hex(8),
        inode=inode,
        batches=staged.batches,
    )


def _refuse_stale(plan: AppendPlan, staged: StagedAppend) -> None:
    log_dir = plan.log_dir
    if not (log_dir / CLEAN_SHUTDOWN_MARKER).exists():
        raise _unclean(log_dir)
    stale = (
        has_log(plan.directory)
        if plan.log is None
        else (fingerprint(log_dir, plan.partition) != plan.log.fingerprint)
    )
    for segment in staged.segments:
        path = plan.staging / segment_file_name(segment.base_offset, LOG)
        stale = stale or not path.exists() or path.lstat().st_size != segment.log_bytes
    if stale:
        raise StalePlan(
            "the log or the staged output changed after it was planned.",
            path=plan.directory,
            remedy="Nothing was changed. Retry.",
        )


def _unclean(log_dir: Path) -> UncleanLogDir:
    aside = bool(markers_aside(log_dir))
    return UncleanLogDir(
        f"the broker was not shut down cleanly (no {CLEAN_SHUTDOWN_MARKER}).",
        path=log_dir,
        remedy="An append was interrupted: run it again."
        if aside
        else "Recover it first: `logwright recover`.",
    )


def _tail(log: PartitionLog) -> Tail:
    active = log.active
    path = log.directory / segment_file_name(active.base_offset, TIMEINDEX)
    content = map_file(path, expected_bytes=active.timeindex_bytes)[-TIME_ENTRY_BYTES:]
    entries = parse_time_index(content.tobytes(), active.base_offset)
    largest, offset = entries[-1].tolist() if len(entries) else (-1, active.base_offset)
    return Tail(
        base_offset=active.base_offset,
        log_bytes=active.log_bytes,
        index_entries=active.index_bytes // OFFSET_ENTRY_BYTES,
        time_entries=active.timeindex_bytes // TIME_ENTRY_BYTES,
        first_timestamp_ms=active.first_batch_max_timestamp_ms,
        largest_timestamp_ms=TimestampMs(largest),
        offset_of_largest=Offset(offset),
    )


def _epochs(directory: Path) -> tuple[LeaderEpoch, ...]:
    path = directory / LEADER_EPOCH_CHECKPOINT
    if not os.path.lexists(path):
        return ()
    return parse_leader_epochs(map_file(path).tobytes(), path)


def _topic_id(log_dir: Path, partition: TopicPartition, given: str | None) -> bytes | None:
    """Return the partition.metadata of a new partition: that of the topic's other partitions, else
    one with the given id (PartitionMetadataFile, 4.3.0).
    """
    if os.path.lexists(log_dir / partition.directory_name / PARTITION_METADATA):
        return None
    for name in names_in(log_dir):
        other = TopicPartition.parse(name)
        path = log_dir / name / PARTITION_METADATA
        if other is not None and other.topic == partition.topic and path.is_file():
            return map_file(path).tobytes()
    return None if given is None else f"version: 0\ntopic_id: {given}".encode()
