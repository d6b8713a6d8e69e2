"""The file steps of an append, and the state after a crash at each of them.

=====  ==========================================  ==============================================
steps  what they do                                a crash after any of them
=====  ==========================================  ==============================================
1      write the list of batches, then the         a clean log as before; the list shows that
       journal: old state of the log, a nonce      no batch of it is in the log
2      rename ``.kafka_cleanshutdown`` to a name   no marker: a broker or `logwright recover`
       with the nonce                              recovers the log and keeps whole batches; the
                                                   next ingest, of any topic, truncates it
                                                   (`settle`)
3      append batches to the active ``.log``,      the same
       fsync; then its index entries and the
       final time entry
4      each new segment: producer snapshot,        the same
       indexes, then the ``.log``, by rename
5      producer snapshot at the new end; remove    the same
       those that a load would remove
6      mark the append complete in the journal     no marker: a recovery keeps all records; the
                                                   next ingest only restores the marker
7      restore the marker                          a clean log with all records
8      high watermark, then recovery point         done; the same ingest, run again, writes them
=====  ==========================================  ==============================================

Between the crash and the next ingest of this log:

- clean, roll, retain, undo, recover: after steps 2 to 6 there is no marker, so they first recover
  the whole directory. A recovery removes the renamed marker, so the log is not truncated later.
  After steps 1, 7 and 8 the log is clean, and there is no renamed marker with this nonce.
- a broker writes the checkpoints, so `settle` does not change the log.
- another topic's ingest settles this one first. Its marker has its own nonce, so a crash of it
  never truncates this log.
- the log is deleted or moved: no journal has the nonce of the renamed marker, so the marker is not
  restored.

After a recovery the list of batches shows which of them are in the log (`present_records`); the
next run appends the rest. It refuses if a cleaning or a retention may have removed some of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from logwright.format.checkpoints import (
    LeaderEpoch,
    parse_offset_checkpoint,
    serialize_leader_epochs,
    serialize_offset_checkpoint,
)
from logwright.format.names import (
    CLEAN_SHUTDOWN_MARKER,
    HIGH_WATERMARK_CHECKPOINT,
    INDEX,
    LEADER_EPOCH_CHECKPOINT,
    LOG,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    SNAPSHOT,
    TIMEINDEX,
    TXNINDEX,
    WORK_DIRECTORY,
    segment_file_name,
)
from logwright.format.snapshot import serialize_snapshot
from logwright.ingest.journal import BATCHES, Journal, Pending, batches_name, write_journal
from logwright.place.mapped import map_file
from logwright.steps.marker import aside
from logwright.steps.replace import replace_file
from logwright.steps.step import (
    Append,
    FileStep,
    FsyncDir,
    FsyncFile,
    Rename,
    Truncate,
    Unlink,
)
from logwright.units import Offset

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from logwright.ingest.model import AppendPlan, StagedAppend, StagedSegment

PIECE_BYTES: Final = 8 * 1024 * 1024
"""Bytes appended by one step, so that a large tail is never in memory as a whole."""

WATCHED: Final = (RECOVERY_POINT_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT)
"""Files of the log directory that a running broker rewrites regularly."""


def begin_steps(plan: AppendPlan, journal: Journal, nonce: str) -> tuple[FileStep, ...]:
    """Return the steps that write the journal, then rename the marker."""
    work = plan.directory / WORK_DIRECTORY
    return (
        Rename(plan.staging / BATCHES, work / batches_name(nonce)),
        *write_journal(plan.directory, journal),
        Rename(plan.log_dir / CLEAN_SHUTDOWN_MARKER, plan.log_dir / aside(nonce)),
        FsyncDir(plan.log_dir),
    )


def append_steps(plan: AppendPlan, staged: StagedAppend) -> Iterator[FileStep]:
    """Yield the steps 3 to 5, see the module."""
    yield from _leader_epochs(plan, staged)
    if plan.topic_id is not None:
        path = plan.directory / PARTITION_METADATA
        yield from replace_file(path, plan.topic_id, like=plan.directory)
    for segment in staged.segments:
        if segment.tail:
            yield from _grow(plan, segment)
        else:
            yield from _snapshot(plan, segment.base_offset)
            yield from _put_in(plan, segment)
    yield from _snapshot(plan, staged.end_offset)
    for offset in _stray_snapshots(plan):
        yield Unlink(plan.directory / segment_file_name(offset, SNAPSHOT), missing_ok=True)


def end_steps(log_dir: Path, nonce: str) -> tuple[FileStep, ...]:
    """Return the steps that restore the marker."""
    return (
        Rename(log_dir / aside(nonce), log_dir / CLEAN_SHUTDOWN_MARKER),
        FsyncDir(log_dir),
    )


def record_steps(plan: AppendPlan, end_offset: Offset) -> Iterator[FileStep]:
    """Yield the steps that write the checkpoints as after a clean shutdown, the recovery point
    last. The caller holds their lock.
    """
    log_dir = plan.log_dir
    for name in (LOG_START_OFFSET_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT, RECOVERY_POINT_CHECKPOINT):
        path = log_dir / name
        content = map_file(path).tobytes() if path.exists() else b""
        entries = parse_offset_checkpoint(content, path)
        wanted = (
            entries
            if name == LOG_START_OFFSET_CHECKPOINT
            else {
                **entries,
                plan.partition: end_offset,
            }
        )
        if wanted != entries or not content:
            like = path if path.exists() else log_dir
            yield from replace_file(path, serialize_offset_checkpoint(wanted), like=like)


def undo_steps(directory: Path, pending: Pending, sizes: dict[str, int]) -> Iterator[FileStep]:
    """Yield the steps that restore a log's state before a pending append; no file gets longer.

    Args:
        directory: the partition's directory.
        pending: the append, verified by `logwright.ingest.proof`.
        sizes: name → size of the existing files.
    """
    for name in reversed(pending.created):
        yield Unlink(directory / name, missing_ok=True)
        if name.endswith(LOG):  # after a power loss: no later records without earlier ones
            yield FsyncDir(directory)
    if pending.base_offset is not None:
        before = (pending.log_bytes, pending.index_bytes, pending.timeindex_bytes)
        # Indexes first: no entry may point after the log's end.
        for suffix, size in reversed(tuple(zip((LOG, INDEX, TIMEINDEX), before, strict=True))):
            name = segment_file_name(pending.base_offset, suffix)
            if sizes[name] > size:
                yield Truncate(directory / name, size)
                yield FsyncFile(directory / name)
    yield FsyncDir(directory)


def created_names(plan: AppendPlan, staged: StagedAppend) -> tuple[str, ...]:
    """Return the files that `append_steps` creates and `undo_steps` removes, in order."""
    names: list[str] = []
    for segment in staged.segments:
        if not segment.tail:
            if _wants_snapshot(plan, segment.base_offset):
                names.append(segment_file_name(segment.base_offset, SNAPSHOT))
            names += [
                segment_file_name(segment.base_offset, suffix) for suffix in (INDEX, TIMEINDEX, LOG)
            ]
    last = segment_file_name(staged.end_offset, SNAPSHOT)
    if _wants_snapshot(plan, staged.end_offset) and last not in names:
        names.append(last)
    return tuple(names)


def _leader_epochs(plan: AppendPlan, staged: StagedAppend) -> Iterator[FileStep]:
    """Add the leader epoch of the batches to the leader-epoch-checkpoint, if it is missing."""
    path = plan.directory / LEADER_EPOCH_CHECKPOINT
    if plan.epochs:
        return
    if staged.records:
        epoch = LeaderEpoch(epoch=plan.leader_epoch, start_offset=staged.first_offset)
        yield from replace_file(path, serialize_leader_epochs([epoch]), like=plan.directory)
    elif plan.log is None:
        yield from replace_file(path, b"", like=plan.directory)


def _grow(plan: AppendPlan, segment: StagedSegment) -> Iterator[FileStep]:
    """Append to the active segment, log before indexes; flush by ``flush.messages``."""
    log = plan.directory / segment_file_name(segment.base_offset, LOG)
    content = map_file(plan.staging / log.name, expected_bytes=segment.log_bytes)
    flushes = set(segment.flushes)
    bounds = {*range(0, segment.log_bytes, PIECE_BYTES), *flushes, int(segment.log_bytes)} - {0}
    start = 0
    for end in sorted(bounds):
        yield Append(log, content[start:end].tobytes())
        if end in flushes or end == segment.log_bytes:
            yield FsyncFile(log)
        start = end
    for suffix in (INDEX, TIMEINDEX):
        path = plan.directory / segment_file_name(segment.base_offset, suffix)
        entries = map_file(plan.staging / path.name).tobytes()
        if entries:
            yield Append(path, entries)
            yield FsyncFile(path)


def _put_in(plan: AppendPlan, segment: StagedSegment) -> Iterator[FileStep]:
    """Rename a new segment into place; its log last: a log without indexes needs recovery."""
    base = segment.base_offset
    yield Unlink(plan.directory / segment_file_name(base, TXNINDEX), missing_ok=True)
    for suffix in (INDEX, TIMEINDEX, LOG):
        name = segment_file_name(base, suffix)
        if suffix == LOG:
            yield FsyncDir(plan.directory)
        yield Rename(plan.staging / name, plan.directory / name)
    yield FsyncDir(plan.directory)


def _wants_snapshot(plan: AppendPlan, offset: Offset) -> bool:
    """Return whether to write a producer snapshot at an offset: Kafka does if offsets were added
    since the last snapshot, and never at 0.
    """
    known = () if plan.log is None else plan.log.snapshot_offsets
    return offset > max(known, default=0) and (plan.log is not None or offset > 0)


def _stray_snapshots(plan: AppendPlan) -> tuple[Offset, ...]:
    """Return the snapshots that a broker removes when it loads the log: those without a segment,
    except the last one (ProducerStateManager.removeStraySnapshots).
    """
    if plan.log is None:
        return ()
    bases = {segment.base_offset for segment in plan.log.segments}
    stray = [offset for offset in plan.log.snapshot_offsets if offset not in bases]
    last = max(stray, default=Offset(-1))
    return tuple(offset for offset in stray if offset != last or offset < max(bases))


def _snapshot(plan: AppendPlan, offset: Offset) -> tuple[FileStep, ...]:
    if not _wants_snapshot(plan, offset):
        return ()
    path = plan.directory / segment_file_name(offset, SNAPSHOT)
    producers = () if plan.log is None else plan.log.producers
    like = plan.directory
    if plan.tail is not None:
        like /= segment_file_name(plan.tail.base_offset, LOG)
    return replace_file(path, serialize_snapshot(producers), like=like)
