"""The file steps of a retention, and what a crash between them leaves (LocalLog.deleteSegmentFiles,
4.3.0).

=====  ========================================  ==============================================
phase  what it does                              a log that is opened in the middle of it
=====  ========================================  ==============================================
1      a roll, if every segment goes             as before, or rolled: `logwright.roll.steps`
2      the new log start offset into its         as before, or begins there: nothing lies in
       checkpoint, if a segment reaches below    between but what the plan deletes
       it
3      the ledger's record                       as before
4      oldest first, each segment's ``.log`` to  begins with the oldest ``.log`` that is left;
       ``.deleted``, synced before the next;     indexes without a log are deleted at load
       its other files after it
5      snapshots of the deleted bases to          as after: a snapshot of no segment is deleted
       ``.deleted``                              at load
6      the leader epochs, cut at the start       an epoch that begins below the log does no
                                                 harm; the next retention cuts it
7      the checkpoints: no log start offset that the loader takes the larger of entry and name,
       the first name says; recovery point not   and bytes below the start are not read
       below it
=====  ========================================  ==============================================

The sync between two ``.log`` renames prevents holes: if a later one were durable and an earlier one
not, old records would stay visible before a gap. A ``.log`` is renamed before its indexes, since a
``.log`` without an ``.index`` is recovered at load, and that can lose producer state.

On a full disk, where retention is needed most, phases 3, 6 and 7 are left out: renames need no
space. Without the record a purge uses the files' own times, and there is no undo.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from logwright.format.deletions import Origin
from logwright.format.names import (
    INDEX,
    LOG,
    SNAPSHOT,
    TIMEINDEX,
    TXNINDEX,
    segment_file_name,
)
from logwright.steps.retire import deleted_names, record_retirement
from logwright.steps.step import FileStep, FsyncDir, Rename

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from logwright.format.checkpoints import LeaderEpoch
    from logwright.retention.plan import RetentionPlan
    from logwright.units import Offset


def retire_segments(
    plan: RetentionPlan, present: Collection[str], origin: Origin
) -> tuple[tuple[FileStep, ...], tuple[FileStep, ...]]:
    """Return the steps of phase 3, and of phases 4 and 5; none if nothing is deleted.

    Args:
        plan: with the segments that go.
        present: names of the partition's plain files now, after a roll if there was one.
        origin: for the ledger.
    """
    bases = [verdict.base_offset for verdict in plan.deleted]
    snapshots = [
        name
        for offset in _snapshots(plan, bases)
        if (name := segment_file_name(offset, SNAPSHOT)) in present
    ]
    if not bases and not snapshots:
        return (), ()
    directory = plan.log.directory
    logs = [segment_file_name(base, LOG) for base in bases]
    behind = [
        [
            name
            for suffix in (INDEX, TIMEINDEX, TXNINDEX)
            if (name := segment_file_name(base, suffix)) in present
        ]
        for base in bases
    ]
    retired = [*logs, *(name for names in behind for name in names), *snapshots]
    deleted = deleted_names(retired, present=present)

    def retire(name: str) -> Rename:
        return Rename(directory / name, directory / deleted[name])

    record = record_retirement(
        directory,
        deleted.values(),
        now_ms=plan.now_ms,
        origin=origin if bases else None,  # without a segment there is nothing to undo
    )
    steps: list[FileStep] = []
    waiting: list[str] = []
    for log, others in zip(logs, behind, strict=True):
        steps += [*map(retire, waiting), retire(log), FsyncDir(directory)]
        waiting = others
    return record, (*steps, *map(retire, [*waiting, *snapshots]), FsyncDir(directory))


def _snapshots(plan: RetentionPlan, bases: Sequence[Offset]) -> list[Offset]:
    """Return the snapshots of the deleted bases, and those that a broker drops when it loads the
    log, at or below its start (ProducerStateManager). Without a deletion: only those that an
    interrupted one left.
    """
    start = plan.log.log_start_offset if bases else plan.log.segments[0].base_offset - 1
    passed = [offset for offset in plan.log.snapshot_offsets if offset <= start]
    return sorted({*bases, *passed})


def undo_facts(
    plan: RetentionPlan, epochs: Sequence[LeaderEpoch], entries: dict[str, int | None]
) -> dict[str, object]:
    """Return what an undo of this retention needs.

    Args:
        plan: before it is done.
        epochs: the leader epochs before.
        entries: this partition's offset checkpoint entries before, by file name.
    """
    return {
        "bases": [verdict.base_offset for verdict in plan.deleted],
        "sizes": [verdict.bytes for verdict in plan.deleted],
        "start": plan.log_start_offset,
        "first": plan.log.log_end_offset if plan.rolls else _first_kept(plan),
        "epochs": [[epoch.epoch, epoch.start_offset] for epoch in epochs],
        "checkpoints": entries,
    }


def _first_kept(plan: RetentionPlan) -> int:
    return plan.kept[0].base_offset
