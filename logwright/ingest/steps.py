"""What an append does to the disk, and what every prefix of it leaves.

=====  ==========================================  ==============================================
steps  what they do                                a crash after any of them
=====  ==========================================  ==============================================
1      the list of batches, then the journal:      a clean log as before; the list says that
       what the log was, and a nonce               nothing of it is there
2      ``.kafka_cleanshutdown`` is put aside,      no marker: a broker or `logwright recover`
       under a name with the nonce                 recovers the log, whole batches stay; our next
                                                   ingest, of any topic, cuts it back (`settle`)
3      batches behind the active ``.log``, fsync;  the same
       then its index entries, the final time
       entry included
4      each new segment: producer snapshot,        the same
       indexes, then the ``.log``, by rename
5      producer snapshot at the new end; those     the same
       that a load would remove go
6      the journal says complete                   no marker: a recovery leaves all records; our
                                                   next ingest puts the marker back, no more
7      the marker is put back                      a clean log with all records
8      high watermark, then recovery point         done; the same ingest, run again, writes them
=====  ==========================================  ==============================================

What comes between the crash and the next ingest of this log:

- clean, roll, retain, undo, recover: after steps 2 to 6 they find no marker, and recover all of the
  directory first. A recovery removes the marker that lies aside, so nothing is cut back any more.
  After steps 1, 7 and 8 the log is clean, and no marker lies aside that this journal knows.
- a broker: it writes the checkpoints, so `settle` leaves the log alone.
- another topic's ingest: it settles this one first. Its own marker has its own nonce, so what stops
  it never cuts back this log.
- the log is deleted or moved: no journal knows the marker that lies aside, so it is not put back.

After a recovery the list of batches tells which of them are there (`present_records`); the rest is
appended by the next run. It refuses where a cleaning or a retention may have changed what is there.
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
from logwright.log.mapped import map_file
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
"""Appended by one step, so that a large tail is never held in memory whole."""

WATCHED: Final = (RECOVERY_POINT_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT)
"""Files of the log directory that a running broker writes again and again."""


def begin_steps(plan: AppendPlan, journal: Journal, nonce: str) -> tuple[FileStep, ...]:
    """Put down what is about to be done, then put the marker aside."""
    work = plan.directory / WORK_DIRECTORY
    return (
        Rename(plan.staging / BATCHES, work / batches_name(nonce)),
        *write_journal(plan.directory, journal),
        Rename(plan.log_dir / CLEAN_SHUTDOWN_MARKER, plan.log_dir / aside(nonce)),
        FsyncDir(plan.log_dir),
    )


def append_steps(plan: AppendPlan, staged: StagedAppend) -> Iterator[FileStep]:
    """The log grows: see the module."""
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
    """The marker is put back."""
    return (
        Rename(log_dir / aside(nonce), log_dir / CLEAN_SHUTDOWN_MARKER),
        FsyncDir(log_dir),
    )


def record_steps(plan: AppendPlan, end_offset: Offset) -> Iterator[FileStep]:
    """Checkpoints as after a clean stop, the recovery point last. The files are locked."""
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
    """The steps that make a log what it was before a pending append; no file gets longer.

    Args:
        directory: the partition's.
        pending: shown to be true by `logwright.ingest.proof`.
        sizes: of the files that are there, by name.
    """
    for name in reversed(pending.created):
        yield Unlink(directory / name, missing_ok=True)
        if name.endswith(LOG):  # no later records without the earlier ones, whenever the power goes
            yield FsyncDir(directory)
    if pending.base_offset is not None:
        before = (pending.log_bytes, pending.index_bytes, pending.timeindex_bytes)
        # Indexes first: no entry may point behind the log's end.
        for suffix, size in reversed(tuple(zip((LOG, INDEX, TIMEINDEX), before, strict=True))):
            name = segment_file_name(pending.base_offset, suffix)
            if sizes[name] > size:
                yield Truncate(directory / name, size)
                yield FsyncFile(directory / name)
    yield FsyncDir(directory)


def created_names(plan: AppendPlan, staged: StagedAppend) -> tuple[str, ...]:
    """The files that `append_steps` makes and that `undo_steps` removes, in their order."""
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
    """The epoch that the batches carry gets an entry, if there is none yet."""
    path = plan.directory / LEADER_EPOCH_CHECKPOINT
    if plan.epochs:
        return
    if staged.records:
        epoch = LeaderEpoch(epoch=plan.leader_epoch, start_offset=staged.first_offset)
        yield from replace_file(path, serialize_leader_epochs([epoch]), like=plan.directory)
    elif plan.log is None:
        yield from replace_file(path, b"", like=plan.directory)


def _grow(plan: AppendPlan, segment: StagedSegment) -> Iterator[FileStep]:
    """Append to the active segment, log before indexes; flush where ``flush.messages`` says."""
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
    """Give a new segment its place: its log last, since a log without indexes is recovered."""
    base = segment.base_offset
    yield Unlink(plan.directory / segment_file_name(base, TXNINDEX), missing_ok=True)
    for suffix in (INDEX, TIMEINDEX, LOG):
        name = segment_file_name(base, suffix)
        if suffix == LOG:
            yield FsyncDir(plan.directory)
        yield Rename(plan.staging / name, plan.directory / name)
    yield FsyncDir(plan.directory)


def _wants_snapshot(plan: AppendPlan, offset: Offset) -> bool:
    """Whether the producer state at an offset is written: Kafka does if offsets were added since
    the last snapshot, and never at 0.
    """
    known = () if plan.log is None else plan.log.snapshot_offsets
    return offset > max(known, default=0) and (plan.log is not None or offset > 0)


def _stray_snapshots(plan: AppendPlan) -> tuple[Offset, ...]:
    """Snapshots that a broker removes when it loads the log: of no segment, but for the last one
    (ProducerStateManager.removeStraySnapshots).
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
