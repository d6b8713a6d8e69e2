"""How one cleaned segment takes the place of a group of old ones: a proved order of renames.

The group is b1 < ... < bk; the cleaned segment has base offset b1. A crash inside a phase may leave
any subset of its renames, since a file system may reorder what is not synced; each phase ends with
an fsync of the partition directory, and the next one begins on what is durable. Groups are swapped
one at a time, in ascending order, whole.

=====  ====================================  ==========================  ===========================
phase  what it does                          what Kafka's loader makes   what we make of a state
                                             of a state inside it        inside it
=====  ====================================  ==========================  ===========================
P      owner, mode and time of the staged    the old log: nothing in     the old log; the staging
       files; the ledger's record            the directory has changed   directory is discarded
R0     staged files to ``.cleaned``, second  the old log: deletes all    refused as unclean until a
       names ``.deleted`` for old b1's       ``.cleaned`` and            purge, which removes the
                                             ``.deleted``                ``.cleaned``
R1     ``.cleaned`` to ``.swap``             the old log, while any      as in R0; the purge removes
                                             ``.cleaned`` is left: it    the ``.swap`` files first,
                                             drops every ``.swap`` from  their guard ``.cleaned``
                                             that base on. With its      after them
                                             last rename: the new one
R2     old b2...bk to ``.deleted``; of a     the new log: deletes all    refused as unclean: the
       tail (see below) only the ``.log``    files in [b1, next offset)  ``.swap`` files are needed.
                                             that are no ``.swap``,      A recovery, ours or a
                                             renames the ``.swap``; a    broker's, finishes the swap
                                             tail that is still there
                                             is old data that compaction
                                             would have dropped
R3     ``.log.swap`` over the old b1 log     the new log, as in R2;      as in R2
                                             index ``.swap`` files are
                                             renamed even if their log
                                             has its final name already
R4     index ``.swap`` over old indexes;     the new log: renames what   as in R2, and an index
       the tails' indexes to ``.deleted``    is left; deletes indexes    without a log as well
                                             without a log
R5     the empty ``.txnindex`` is removed;   the new log; a snapshot of  the new log
       snapshots of vanished bases to        no segment is deleted
       ``.deleted``
=====  ====================================  ==========================  ===========================

R1's fsync is the commit point.

- **Why the guard.** Were files renamed from staging to ``.swap`` at once, a ``.log.swap`` could be
  there without its indexes; the loader then opens it with indexes full of zeros and keeps those.
- **Why old b1 stays under its name** until R3 puts the new log over it: no instant is without a log
  at b1. The hard links of R0 give its files the delay and the way back that the others have.
- **Tails** are old segments whose base is at or above the cleaned content's next offset: nothing of
  them was kept, so the loader does not count them to the range that the ``.swap`` replaces. They go
  one after the other, with an fsync between: were a later one durable as the earlier is not, a
  tombstone's segment could be gone while the older value's is there.
- **The empty** ``.txnindex``: if old b1 has one and the cleaned segment has none, the old one would
  stay in front of the new log. A file of 0 bytes takes its place and goes last.
- R3 must be durable before the next group's R1: with two ``.log.swap`` the loader deletes the live
  segments between them.

Sources: LogLoader and LocalLog.replaceSegments (4.3.0), whose own order, with one fsync at its end,
loses records under reordering; Cleaner.cleanSegments for times and snapshots.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from logwright.errors import invariant
from logwright.format.deletions import Origin
from logwright.format.names import (
    CLEANED,
    CLEANER_OFFSET_CHECKPOINT,
    INDEX,
    LOG,
    SEGMENT_SUFFIXES,
    SNAPSHOT,
    SWAP,
    TIMEINDEX,
    TXNINDEX,
    TopicPartition,
    segment_file_name,
)
from logwright.steps.checkpoints import set_offsets
from logwright.steps.retire import deleted_names, record_retirement
from logwright.steps.step import (
    FileStep,
    FsyncDir,
    FsyncFile,
    Link,
    Rename,
    SetMtime,
    SetOwner,
    Unlink,
    WriteFile,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from logwright.compaction.model import StagedSegment, StandingSegment
    from logwright.log.model import PartitionLog
    from logwright.units import Offset, TimestampMs


@dataclass(frozen=True, slots=True, kw_only=True)
class _Swap:
    """One group, in names.

    Attributes:
        directory, staging: the partition's, and that of the staged files.
        fresh: suffixes of the staged files, ``.log`` first.
        guarded: an empty ``.txnindex`` is made.
        old: names of old b1's files.
        covered: names of the files of b2...bk that lie inside the new content's range.
        tails: names of the files of each tail, ascending by base, ``.log`` first.
        snapshots: producer snapshots of the bases that vanish.
        deleted: file name to the ``.deleted`` name it gets.
    """

    directory: str
    staging: str
    base_offset: Offset
    modified_ns: int
    fresh: tuple[str, ...]
    guarded: bool
    old: tuple[str, ...]
    covered: tuple[str, ...]
    tails: tuple[tuple[str, ...], ...]
    snapshots: tuple[str, ...]
    deleted: dict[str, str]

    def live(self, name: str) -> str:
        """A file of the partition's directory."""
        return f"{self.directory}/{name}"

    def staged(self, name: str) -> str:
        """A file of the staging directory."""
        return f"{self.staging}/{name}"

    @property
    def incoming(self) -> tuple[str, ...]:
        """Final names of what comes in, ``.log`` first, the empty ``.txnindex`` included."""
        suffixes = (*self.fresh, TXNINDEX) if self.guarded else self.fresh
        return tuple(segment_file_name(self.base_offset, suffix) for suffix in suffixes)

    def retire(self, name: str) -> Rename:
        """The step that gives a file its ``.deleted`` name."""
        return Rename(self.live(name), self.live(self.deleted[name]))

    def rename(self, name: str, source_suffix: str, target_suffix: str) -> Rename:
        """The step that changes what is behind a file's final name."""
        return Rename(self.live(f"{name}{source_suffix}"), self.live(f"{name}{target_suffix}"))


def swap_steps(
    log: PartitionLog, staged: StagedSegment, staging: Path, *, now_ms: TimestampMs
) -> tuple[FileStep, ...]:
    """The steps that put one staged segment in the place of its sources.

    Args:
        log: the log as it is now, after a roll if there was one in this commit. Groups that were
            swapped before this one may still be in it: groups share no name.
        staged: the cleaned segment and its sources.
        staging: directory of the staged files, which have their final names there.
        now_ms: the command's clock, from which the retired files' delay counts.
    """
    swap = _swap(log, staged, staging)
    return (
        *_prepare(swap),
        *record_retirement(
            swap.directory,
            swap.deleted.values(),
            now_ms=now_ms,
            origin=_origin(log, staged, staging),
        ),
        *_guard(swap),
        *_commit(swap),
        *_retire_sources(swap),
        *_install(swap),
        *_finish(swap),
    )


def _origin(log: PartitionLog, staged: StagedSegment, staging: Path) -> Origin:
    """For the ledger and an undo: all groups of one plan are one operation."""
    bytes_of = {segment.base_offset: segment.log_bytes for segment in log.segments}
    facts: dict[str, object] = {
        "sources": list(staged.source_base_offsets),
        "sizes": [bytes_of[base] for base in staged.source_base_offsets],
        "log_bytes": staged.log_bytes,
        "cleaner": log.cleaner_checkpoint,
    }
    return Origin(operation="swap", id=staging.name, facts=facts)


def standing_steps(log: PartitionLog, standing: Sequence[StandingSegment]) -> tuple[FileStep, ...]:
    """The steps that give the indexes of segments which stay the time of their logs, as the cleaner
    gives it to those that it rewrites.
    """
    kept = {segment.base_offset for segment in standing}
    stamps = {stamp.name: stamp.modified_ns for stamp in log.fingerprint.files}
    names = [
        (segment_file_name(segment.base_offset, suffix), segment.modified_ns)
        for segment in log.segments
        if segment.base_offset in kept
        for suffix in (INDEX, TIMEINDEX)
    ]
    return tuple(
        SetMtime(log.directory / name, modified_ns)
        for name, modified_ns in names
        if stamps.get(name) != modified_ns
    )


def checkpoint_steps(
    log_dir: Path, content: bytes | None, offsets: Mapping[TopicPartition, Offset]
) -> tuple[FileStep, ...]:
    """The steps that record partitions' first dirty offsets; none if they are recorded already.

    Args:
        log_dir: the log directory.
        content: of its cleaner-offset-checkpoint, read under `logwright.locks.lock_checkpoints`,
            which is held until the steps are done: all partitions share the file. None if there is
            no file.
        offsets: by partition, the first offset that is not cleaned. The others' entries stay.

    Raises:
        CorruptCheckpoint: the file is malformed.
        UnsupportedFormatError: it is of another version.
    """
    return set_offsets(log_dir / CLEANER_OFFSET_CHECKPOINT, content, offsets)


def _swap(log: PartitionLog, staged: StagedSegment, staging: Path) -> _Swap:
    present = _present(log)
    _check(log, staged, present)
    base = staged.base_offset
    vanishing = staged.source_base_offsets[1:]
    old = _files(base, present)
    covered = tuple(
        name for one in vanishing if one < staged.next_offset for name in _files(one, present)
    )
    tails = tuple(_files(one, present) for one in vanishing if one >= staged.next_offset)
    snapshots = tuple(
        segment_file_name(one, SNAPSHOT) for one in vanishing if one in log.snapshot_offsets
    )
    retired = (*old, *covered, *(name for tail in tails for name in tail), *snapshots)
    has_transactions = staged.txnindex_bytes is not None
    return _Swap(
        directory=str(log.directory),
        staging=str(staging),
        base_offset=base,
        modified_ns=staged.modified_ns,
        fresh=SEGMENT_SUFFIXES if has_transactions else (LOG, INDEX, TIMEINDEX),
        guarded=not has_transactions and segment_file_name(base, TXNINDEX) in old,
        old=old,
        covered=covered,
        tails=tails,
        snapshots=snapshots,
        deleted=deleted_names(retired, present=present),
    )


def _present(log: PartitionLog) -> frozenset[str]:
    """Names of the plain files, those included that a roll in this commit has made."""
    seen = {stamp.name for stamp in log.fingerprint.files}
    if segment_file_name(log.active.base_offset, LOG) not in seen and log.sealed:
        rolled = log.sealed[-1].base_offset
        seen |= {segment_file_name(rolled, INDEX), segment_file_name(rolled, TIMEINDEX)}
    return frozenset(seen)


def _files(base_offset: Offset, present: frozenset[str]) -> tuple[str, ...]:
    names = (segment_file_name(base_offset, suffix) for suffix in SEGMENT_SUFFIXES)
    return tuple(name for name in names if name in present)


def _check(log: PartitionLog, staged: StagedSegment, present: frozenset[str]) -> None:
    sealed = [segment.base_offset for segment in log.sealed]
    sources = list(staged.source_base_offsets)
    invariant(bool(sources) and sources[0] == staged.base_offset, "the group begins elsewhere")
    invariant(sources[0] in sealed, f"{sources[0]} is no sealed segment")
    first = sealed.index(sources[0])
    invariant(sealed[first : first + len(sources)] == sources, "the sources are no run of segments")
    following = [*sealed, log.active.base_offset][first + len(sources)]
    invariant(
        staged.base_offset <= staged.next_offset <= following, "the new content is out of range"
    )
    leftovers = [name for name in present if name.endswith((CLEANED, SWAP))]
    invariant(not leftovers, f"leftovers of an interrupted swap: {leftovers}")


def _prepare(swap: _Swap) -> list[FileStep]:
    """P: what the staged files keep of the old ones (Cleaner: no time on the transaction index)."""
    steps: list[FileStep] = []
    syncs: list[FileStep] = []
    log_name = segment_file_name(swap.base_offset, LOG)
    for suffix in swap.fresh:
        name = segment_file_name(swap.base_offset, suffix)
        model = name if name in swap.old else log_name
        path = swap.staged(name)
        steps.append(SetOwner(path, like=swap.live(model)))
        if suffix != TXNINDEX:
            steps.append(SetMtime(path, swap.modified_ns))
        syncs.append(FsyncFile(path))
    return steps + syncs


def _guard(swap: _Swap) -> list[FileStep]:
    """R0: everything new under ``.cleaned``, and second names for old b1's files."""
    steps: list[FileStep] = []
    for suffix in swap.fresh:
        name = segment_file_name(swap.base_offset, suffix)
        steps.append(Rename(swap.staged(name), swap.live(f"{name}{CLEANED}")))
    if swap.guarded:
        name = segment_file_name(swap.base_offset, TXNINDEX)
        empty = swap.live(f"{name}{CLEANED}")
        steps += [WriteFile(empty, b"", like=swap.live(name)), FsyncFile(empty)]
    steps += [Link(swap.live(name), swap.live(swap.deleted[name])) for name in swap.old]
    return [*steps, FsyncDir(swap.directory), FsyncDir(swap.staging)]


def _commit(swap: _Swap) -> list[FileStep]:
    """R1: its fsync is the commit point."""
    renames = [swap.rename(name, CLEANED, SWAP) for name in swap.incoming]
    return [*renames, FsyncDir(swap.directory)]


def _retire_sources(swap: _Swap) -> list[FileStep]:
    """R2: the covered files and the first tail's log at once, each further tail's log by itself."""
    steps: list[FileStep] = [swap.retire(name) for name in swap.covered]
    for number, tail in enumerate(swap.tails):
        if number > 0:
            steps.append(FsyncDir(swap.directory))
        steps.append(swap.retire(tail[0]))
    return [*steps, FsyncDir(swap.directory)] if steps else []


def _install(swap: _Swap) -> list[FileStep]:
    """R3 and R4: the log, then its indexes, over the old ones."""
    log, *indexes = swap.incoming
    return [
        swap.rename(log, SWAP, ""),
        FsyncDir(swap.directory),
        *(swap.rename(name, SWAP, "") for name in indexes),
        *(swap.retire(name) for tail in swap.tails for name in tail[1:]),
        FsyncDir(swap.directory),
    ]


def _finish(swap: _Swap) -> list[FileStep]:
    """R5: what must not go before the new segment stands whole."""
    steps: list[FileStep] = []
    if swap.guarded:
        steps.append(Unlink(swap.live(segment_file_name(swap.base_offset, TXNINDEX))))
    steps += [swap.retire(name) for name in swap.snapshots]
    return [*steps, FsyncDir(swap.directory)] if steps else []
