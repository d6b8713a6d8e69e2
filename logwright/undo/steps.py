"""How segments come back, in an order that every crash may interrupt.

**Of a swap**, group by group, the newest first: as a cleaning leaves cleaned groups in front of
uncleaned ones, so does each state of its undo. A group is itself a swap, of one segment for many
(LogLoader 4.3.0; the phases are those of `logwright.swap.plan`):

=====  ========================================  ==============================================
phase  what it does                              what Kafka's loader makes of a state inside it
=====  ========================================  ==============================================
U0     old files linked to ``.cleaned``; the     the cleaned segment: deletes all ``.cleaned``
       cleaned segment's linked to ``.deleted``
U1     b2...bk: ``.cleaned`` to ``.swap``        the cleaned segment: while b1 has a
                                                 ``.cleaned``, every ``.swap`` from there on is
                                                 dropped
U2     b1: ``.cleaned`` to ``.swap``; its fsync  as in U1; with its last rename the old ones
       is the commit point
U3     for b1, then b2...bk, one after the       the old ones: what is still ``.swap`` is put in
       other: ``.log.swap`` to its name, then    place, and what it replaces, from its base to
       its indexes                               the end of the last one, is deleted. So no log
                                                 may have its name before the one in front of it
U4     the empty ``.txnindex``, if one was       the old ones
       needed, goes; snapshots come back
=====  ========================================  ==============================================

**Of a retention**, the newest segment first, so that there is never a hole: its indexes and
snapshot by link, fsync, then its ``.log``, fsync. The loader deletes indexes without a log, and
what is not back yet; the log is then as a shorter retention would have left it.

Before both, the leader epochs, then what the checkpoints said; they are harmless before their
segments are there. After
both, the ledger's line, then the ``.deleted`` names go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from logwright.format.deletions import Origin
from logwright.format.names import (
    CLEANED,
    LOG,
    SEGMENT_SUFFIXES,
    SNAPSHOT,
    SWAP,
    TXNINDEX,
    parse_segment_file_name,
    segment_file_name,
)
from logwright.steps.retire import deleted_names, record_retirement
from logwright.steps.step import (
    FileStep,
    FsyncDir,
    FsyncFile,
    Link,
    Rename,
    Unlink,
    WriteFile,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from logwright.undo.plan import Comeback, UndoPlan
    from logwright.units import Offset, TimestampMs


def undo_steps(plan: UndoPlan, identity: str, *, now_ms: TimestampMs) -> tuple[FileStep, ...]:
    """The steps in the partition's directory, all but its checkpoints'.

    Args:
        plan: what comes back.
        identity: of this undo, for the ledger.
        now_ms: the clock, from which the delay of what is replaced counts.
    """
    directory = plan.log.directory
    present = {stamp.name for stamp in plan.log.fingerprint.files}
    steps: list[FileStep] = []
    for group in plan.groups:
        if plan.operation == "retain":
            steps += _extend(directory, group, present)
        else:
            steps += _swap_back(
                directory, group, present, Origin(operation="undo", id=identity), now_ms
            )
    if plan.snapshots:
        steps += [Link(directory / name, directory / live) for live, name in plan.snapshots.items()]
        steps.append(FsyncDir(directory))
    done = Origin(operation="undo", id=identity, facts={"of": plan.id})
    steps += record_retirement(directory, (), now_ms=now_ms, origin=done)
    steps += [Unlink(directory / name, missing_ok=True) for name in plan.finished]
    return (*steps, FsyncDir(directory))


def _extend(directory: Path, group: Comeback, present: set[str]) -> list[FileStep]:
    """A retention's segments, the newest first."""
    steps: list[FileStep] = []
    for base in reversed(group.bases):
        log = segment_file_name(base, LOG)
        others = [live for live in group.names if live != log and _belongs(live, base, group)]
        steps += [
            Link(directory / group.names[live], directory / live)
            for live in others
            if live not in present
        ]
        steps += [FsyncDir(directory), Link(directory / group.names[log], directory / log)]
    return [*steps, FsyncDir(directory)]


def _belongs(live: str, base: Offset, group: Comeback) -> bool:
    """A file comes back with its segment; a snapshot of no segment with the oldest."""
    parsed = parse_segment_file_name(live)
    own = base if parsed is None else parsed[0]
    return own == base or (base == group.bases[0] and own not in group.bases)


def _swap_back(
    directory: Path, group: Comeback, present: set[str], origin: Origin, now_ms: TimestampMs
) -> list[FileStep]:
    first, *rest = group.bases
    cleaned = [name for name in _files(first) if name in present]
    retired = deleted_names(cleaned, present=present)
    present |= set(retired.values())
    back = {base: [name for name in _files(base) if name in group.names] for base in group.bases}
    guard = segment_file_name(first, TXNINDEX)
    guarded = guard in cleaned and guard not in back[first]
    old = [name for names in back.values() for name in names]
    steps: list[FileStep] = [
        *record_retirement(directory, retired.values(), now_ms=now_ms, origin=origin),
        *(Link(directory / group.names[name], directory / f"{name}{CLEANED}") for name in old),
    ]
    if guarded:
        back[first].append(guard)
        empty = directory / f"{guard}{CLEANED}"
        steps += [WriteFile(empty, b"", like=directory / guard), FsyncFile(empty)]
    steps += [Link(directory / name, directory / retired[name]) for name in cleaned]
    steps.append(FsyncDir(directory))
    if rest:
        steps += _rename(directory, [n for base in rest for n in back[base]], CLEANED, SWAP)
    steps += _rename(directory, back[first], CLEANED, SWAP)
    for base in group.bases:
        log, *indexes = back[base]
        steps += [*_rename(directory, [log], SWAP, ""), *_rename(directory, indexes, SWAP, "")]
    if guarded:
        steps.append(Unlink(directory / guard))
    steps += [
        Link(directory / name, directory / live)
        for live, name in group.names.items()
        if live.endswith(SNAPSHOT) and live not in present
    ]
    return [*steps, FsyncDir(directory)]


def _files(base: Offset) -> list[str]:
    return [segment_file_name(base, suffix) for suffix in SEGMENT_SUFFIXES]


def _rename(directory: Path, names: Sequence[str], source: str, target: str) -> list[FileStep]:
    """A phase: renames, then the sync."""
    renames = [Rename(directory / f"{n}{source}", directory / f"{n}{target}") for n in names]
    return [*renames, FsyncDir(directory)]
