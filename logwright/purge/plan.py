"""Decide what a purge removes from a partition directory.

1. **Retired files** (``.deleted``) whose delay is over: retired at or before now -
   `file.delete.delay.ms`, by the settings now and by those that they were retired with, which a
   broker schedules the removal by (LocalLog.deleteSegmentFiles): what one front end keeps, another
   one with other settings does not remove. The ledger has time and delay; for a file without a
   record, the later of its change and modification time counts. Files that are not due are listed
   with their time.
2. **Worthless leftovers**: every ``.cleaned``, and every ``.swap`` of a swap that was not committed
   while the old log still exists (`FileKinds.needed_swaps`). LogLoader 4.3.0 drops them too. Any
   other ``.swap`` may be the only copy of its records, and a recovery must rename it into place:
   nothing is removed then.
3. Indexes without a log that name no record, as an interrupted roll leaves them, or whose log is
   retired; and the temporary snapshot of a roll. Others may prove that records are missing.
4. Staging directories of dead plans.
5. The ledger keeps the records of the files that still exist. This is left out on a full disk,
   where removing a file that has another name frees nothing: a record of a missing file does
   no harm, and the next purge compacts the ledger.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from logwright.errors import UncleanLogDir
from logwright.format.deletions import parse_ledger
from logwright.format.names import FAILED, LOG
from logwright.log.kinds import FileKinds, file_kinds, is_retired, offset_in
from logwright.purge.account import PurgeAccount
from logwright.purge.observe import PartitionListing, PlainFile
from logwright.purge.steps import (
    failed_output_steps,
    ledger_steps,
    staging_steps,
    unlink_steps,
)
from logwright.steps.step import FileStep
from logwright.units import ByteCount, TimestampMs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingDeletion:
    """A retired file whose delay is not over."""

    name: str
    bytes: ByteCount
    due_at_ms: TimestampMs


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeResult:
    """The files that a purge removes, and those that it leaves for later.

    Attributes:
        removed: names of the retired files.
        removed_bytes: space that they free; a file that has another name frees none.
        leftovers: names of what interrupted operations had left.
        staging: names of the dead plans' staging directories.
        failed_outputs: names of the kept outputs that have expired.
        pending: retired files and kept outputs that are not due yet.
        account: what was looked at, and what a purge left on the disk; None of a plan.
    """

    removed: tuple[str, ...]
    removed_bytes: ByteCount
    leftovers: tuple[str, ...]
    staging: tuple[str, ...]
    failed_outputs: tuple[str, ...]
    pending: tuple[PendingDeletion, ...]
    account: PurgeAccount | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgePlan:
    """A purge before it is done.

    Attributes:
        steps: 1 to 4, which need no disk space.
        ledger: 5.
    """

    steps: tuple[FileStep, ...]
    ledger: tuple[FileStep, ...]
    result: PurgeResult


def plan_purge(
    listing: PartitionListing,
    *,
    now_ms: TimestampMs,
    file_delete_delay_ms: int,
    force: bool = False,
) -> PurgePlan:
    """Decide what is removed. The partition must be locked, so that the listing stays correct.

    Args:
        listing: the partition's directory.
        now_ms: the command's clock.
        file_delete_delay_ms: `file.delete.delay.ms`, by the settings now.
        force: it alone counts, and not the one with which files were retired.

    Raises:
        UncleanLogDir: a committed swap is unfinished; nothing is removed.
    """
    kinds = file_kinds(file.name for file in listing.files)
    _refuse_unfinished(listing, kinds)
    orphans = tuple(sorted((*_worthless(listing, kinds), *kinds.temporary)))
    retired = retired_files(listing, file_delete_delay_ms=file_delete_delay_ms, force=force)
    due = [file for file, due_at_ms in retired if due_at_ms <= now_ms]
    pending = [
        PendingDeletion(name=file.name, bytes=file.bytes, due_at_ms=due_at_ms)
        for file, due_at_ms in retired
        if due_at_ms > now_ms
    ]
    expired = [one for one in listing.failed if one.output.due_at_ms <= now_ms]
    kept = [
        PendingDeletion(
            name=f"{FAILED}/{failed.output.name}",
            bytes=failed.bytes,
            due_at_ms=failed.output.due_at_ms,
        )
        for failed in listing.failed
        if failed.output.due_at_ms > now_ms
    ]
    dead = [one for one in listing.staging if not one.held]
    recorded = parse_ledger(listing.ledger or b"")
    remaining = {one.name for one in pending if one.name in recorded}
    removed = tuple(file.name for file in due)
    steps = (
        *unlink_steps(listing.directory, kinds.swaps, kinds.cleaned, (*removed, *orphans)),
        *staging_steps(listing),
        *failed_output_steps(listing, expired),
    )
    result = PurgeResult(
        removed=removed,
        removed_bytes=ByteCount(_freed_bytes(due) + sum(one.bytes for one in expired)),
        leftovers=(*kinds.swaps, *kinds.cleaned, *orphans),
        staging=tuple(one.path.name for one in dead),
        failed_outputs=tuple(f"{FAILED}/{one.output.name}" for one in expired),
        pending=(*pending, *kept),
    )
    ledger = ledger_steps(listing.directory, listing.ledger, remaining)
    return PurgePlan(steps=steps, ledger=ledger, result=result)


def retired_files(
    listing: PartitionListing, *, file_delete_delay_ms: int, force: bool = False
) -> tuple[tuple[PlainFile, TimestampMs], ...]:
    """Return each retired file and when it is due; arguments as for `plan_purge`."""
    recorded = parse_ledger(listing.ledger or b"")

    def due_at_ms(file: PlainFile) -> int:
        line = recorded.get(file.name)
        if line is None:
            return file.touched_ms + file_delete_delay_ms
        by_now_ms = line.at_ms + file_delete_delay_ms
        return by_now_ms if force else max(by_now_ms, line.not_before_ms)

    return tuple(
        (file, TimestampMs(due_at_ms(file))) for file in listing.files if is_retired(file.name)
    )


def _worthless(listing: PartitionListing, kinds: FileKinds) -> Iterator[str]:
    """Yield the indexes without a log that prove nothing of its records."""
    retired = {offset_in(name) for name in kinds.retired if f"{LOG}." in name}
    for name in kinds.orphans:
        if name not in listing.proofs or offset_in(name) in retired:
            yield name


def _refuse_unfinished(listing: PartitionListing, kinds: FileKinds) -> None:
    if kinds.needed_swaps:
        raise UncleanLogDir(
            "it is part of a swap that was committed and not finished.",
            path=listing.directory / kinds.needed_swaps[0],
            remedy="Nothing was changed. Recover the log first: `logwright recover`.",
        )


def _freed_bytes(files: Sequence[PlainFile]) -> ByteCount:
    return ByteCount(sum(file.bytes for file in files if file.links == 1))
