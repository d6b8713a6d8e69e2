"""The file steps that replace sources by cleaned segments.

The order, and what a crash inside it leaves, is in `logwright.steps.replace_segments`. Before it,
phase P gives the staged files the owner, mode and time of the files that they replace and makes
their content durable: a crash there leaves the old log, and the staging directory is discarded.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from logwright.errors import invariant
from logwright.format.deletions import Origin
from logwright.format.names import (
    CLEANED,
    INDEX,
    LOG,
    SEGMENT_SUFFIXES,
    SNAPSHOT,
    SWAP,
    TIMEINDEX,
    TXNINDEX,
    segment_file_name,
    segment_files,
)
from logwright.steps.replace_segments import Replacement, replace_segments
from logwright.steps.step import FileStep, FsyncFile, SetMtime, SetOwner

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from logwright.format.deletions import Operation
    from logwright.log.model import PartitionLog
    from logwright.rewrite.model import StagedSegment, UnchangedSegment
    from logwright.units import TimestampMs


def swap_steps(
    log: PartitionLog,
    staged: StagedSegment,
    staging: Path,
    *,
    now_ms: TimestampMs,
    file_delete_delay_ms: int = 0,
    operation: Operation = "swap",
    undoable: bool = True,
) -> tuple[FileStep, ...]:
    """Return the steps that replace the sources of one staged segment by it.

    Args:
        log: the log as it is now, after a roll if there was one in this commit. Groups that were
            swapped before this one may still be in it: groups share no name.
        staged: the cleaned segment and its sources.
        staging: directory of the staged files, which have their final names there.
        now_ms: the command's clock, from which the retired files' delay counts.
        file_delete_delay_ms: that delay, for the ledger; 0: it has none.
        operation: by which the ledger knows it; only a swap can be undone.
        undoable: see `replace_segments`.
    """
    present = _present(log)
    _check(log, staged, present)
    change = _replacement(log, staged, staging, present)
    origin = replace(_origin(log, staged, staging, operation), delay_ms=file_delete_delay_ms)
    replaced = replace_segments(
        change, present=present, now_ms=now_ms, origin=origin, undoable=undoable
    )
    return (*_prepare(change, staged), *replaced)


def _origin(
    log: PartitionLog, staged: StagedSegment, staging: Path, operation: Operation
) -> Origin:
    """Return what the ledger keeps for an undo: all groups of one plan are one operation."""
    bytes_of = {segment.base_offset: segment.log_bytes for segment in log.segments}
    facts: dict[str, object] = {
        "sources": list(staged.source_base_offsets),
        "sizes": [bytes_of[base] for base in staged.source_base_offsets],
        "log_bytes": staged.log_bytes,
        "cleaner": log.cleaner_checkpoint,
    }
    return Origin(operation=operation, id=staging.name, facts=facts)


def unchanged_steps(
    log: PartitionLog, unchanged: Sequence[UnchangedSegment]
) -> tuple[FileStep, ...]:
    """Return the steps that give the indexes of unchanged segments the modification time of their
    logs, as the cleaner does for those that it rewrites.
    """
    kept = {segment.base_offset for segment in unchanged}
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


def _replacement(
    log: PartitionLog, staged: StagedSegment, staging: Path, present: frozenset[str]
) -> Replacement:
    """Return the swap in names. Sources whose base the new content does not reach are tails."""
    base = staged.base_offset
    vanishing = staged.source_base_offsets[1:]
    suffixes = SEGMENT_SUFFIXES if staged.txnindex_bytes is not None else (LOG, INDEX, TIMEINDEX)
    new = tuple([segment_file_name(base, suffix) for suffix in suffixes])
    return Replacement(
        directory=log.directory_text,
        new=(new,),
        staged={name: f"{staging}/{name}" for name in new},
        old=segment_files(base, present),
        covered=tuple(
            name
            for base in vanishing
            if base < staged.next_offset
            for name in segment_files(base, present)
        ),
        tails=tuple(segment_files(one, present) for one in vanishing if one >= staged.next_offset),
        snapshots=tuple(
            segment_file_name(base, SNAPSHOT) for base in vanishing if base in log.snapshot_offsets
        ),
    )


def _present(log: PartitionLog) -> frozenset[str]:
    """Return the names of the plain files, with those that a roll in this commit has made."""
    seen = {stamp.name for stamp in log.fingerprint.files}
    if segment_file_name(log.active.base_offset, LOG) not in seen and log.sealed:
        rolled = log.sealed[-1].base_offset
        seen |= {segment_file_name(rolled, INDEX), segment_file_name(rolled, TIMEINDEX)}
    return frozenset(seen)


def _check(log: PartitionLog, staged: StagedSegment, present: frozenset[str]) -> None:
    sealed = [segment.base_offset for segment in log.sealed]
    sources = list(staged.source_base_offsets)
    invariant(bool(sources) and sources[0] == staged.base_offset, "the group begins elsewhere")
    invariant(sources[0] in sealed, f"segment {sources[0]} is not sealed")
    first = sealed.index(sources[0])
    invariant(
        sealed[first : first + len(sources)] == sources, "the sources are not consecutive segments"
    )
    following = [*sealed, log.active.base_offset][first + len(sources)]
    invariant(
        staged.base_offset <= staged.next_offset <= following, "the new content is out of range"
    )
    leftovers = sorted(name for name in present if name.endswith((CLEANED, SWAP)))
    invariant(not leftovers, f"leftovers of an interrupted swap: {leftovers}")


def _prepare(change: Replacement, staged: StagedSegment) -> list[FileStep]:
    """Return P: set owner, mode and time of the old files (Cleaner sets no time on the transaction
    index).
    """
    steps: list[FileStep] = []
    syncs: list[FileStep] = []
    (new,) = change.new
    for name, path in change.staged.items():
        steps.append(SetOwner(path, like=change.live(name if name in change.old else new[0])))
        if not name.endswith(TXNINDEX):
            steps.append(SetMtime(path, staged.modified_ns))
        syncs.append(FsyncFile(path))
    return steps + syncs
