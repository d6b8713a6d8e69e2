"""The file steps that restore segments, in an order that can be interrupted anywhere.

**A swap** is undone group by group, the newest first: like a cleaning, each state of its undo has
cleaned groups in front of uncleaned ones. A group is itself a replacement, of one segment by many
(`logwright.steps.replace_segments`); then the snapshots of its bases are linked back.

**A retention** is undone from the newest segment down, so that there is never a hole: the indexes
and the snapshot by link, fsync, then the ``.log``, fsync. The loader deletes indexes without a log;
the remaining log is one that a shorter retention would have left.

Before both come the leader epochs and the checkpoints, which do no harm before their segments are
there. After both, the ledger's line is written and the ``.deleted`` names are removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from logwright.format.deletions import Origin
from logwright.format.names import (
    LOG,
    SNAPSHOT,
    parse_segment_file_name,
    segment_file_name,
    segment_files,
)
from logwright.steps.replace import replace_file
from logwright.steps.replace_segments import Replacement, replace_segments
from logwright.steps.retire import record_retirement
from logwright.steps.step import FileStep, FsyncDir, Link, Unlink

if TYPE_CHECKING:
    from pathlib import Path

    from logwright.log.model import PartitionLog
    from logwright.undo.plan import Comeback, UndoPlan
    from logwright.units import Offset, TimestampMs


def undo_steps(plan: UndoPlan, identity: str, *, now_ms: TimestampMs) -> tuple[FileStep, ...]:
    """Return the steps in the partition directory, without those of the leader epochs.

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
            origin = Origin(operation="undo", id=identity)
            steps += _swap_back(directory, group, present, origin, now_ms)
    if plan.snapshots:
        steps += [Link(directory / name, directory / live) for live, name in plan.snapshots.items()]
        steps.append(FsyncDir(directory))
    done = Origin(operation="undo", id=identity, facts={"of": plan.id})
    steps += record_retirement(directory, (), now_ms=now_ms, origin=done)
    steps += [Unlink(directory / name, missing_ok=True) for name in plan.finished]
    return (*steps, FsyncDir(directory))


def snapshot_steps(log: PartitionLog, content: bytes) -> tuple[FileStep, ...]:
    """Return the steps that write a producer snapshot of this content at the log's end."""
    path = log.directory / segment_file_name(log.log_end_offset, SNAPSHOT)
    active = log.directory / segment_file_name(log.active.base_offset, LOG)
    return replace_file(path, content, like=active)


def _extend(directory: Path, group: Comeback, present: set[str]) -> list[FileStep]:
    """Return the steps that restore a retention's segments, the newest first."""
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
    """Return whether a file is restored with this segment; a snapshot of no segment goes with the
    oldest.
    """
    parsed = parse_segment_file_name(live)
    own = base if parsed is None else parsed[0]
    return own == base or (base == group.bases[0] and own not in group.bases)


def _swap_back(
    directory: Path, group: Comeback, present: set[str], origin: Origin, now_ms: TimestampMs
) -> list[FileStep]:
    """Return the steps that replace the cleaned segment of a group by its old ones."""
    new = tuple(segment_files(base, group.names) for base in group.bases)
    change = Replacement(
        directory=str(directory),
        new=new,
        staged={name: f"{directory}/{group.names[name]}" for names in new for name in names},
        bring_in=Link,
        old=segment_files(group.bases[0], present),
    )
    snapshots = [
        Link(directory / name, directory / live)
        for live, name in group.names.items()
        if live.endswith(SNAPSHOT) and live not in present
    ]
    return [
        *replace_segments(change, present=present, now_ms=now_ms, origin=origin),
        *snapshots,
        *([FsyncDir(directory)] if snapshots else []),
    ]
