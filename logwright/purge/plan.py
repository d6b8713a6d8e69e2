"""What a purge removes from a partition's directory, and in which order.

1. **Retired files** (``.deleted``) whose delay is over: retired at or before now -
   `file.delete.delay.ms`. The ledger says when; of a file without a record, the later of its change
   and modification time counts. Not due: listed with the time when they will be.
2. **Leftovers that are worth nothing**: every ``.cleaned``; a ``.swap`` while there is a
   ``.cleaned`` and a ``.log`` of the same base, since then that swap was not committed and no old
   file had gone (`logwright.swap.steps`, R1); also of a lower base, if there is no ``.log`` of its
   own (`logwright.undo.steps`, U1). LogLoader 4.3.0 drops them too. Another ``.swap`` may be all
   that is left of its records and must be put in place by a recovery: nothing is done then.
3. Indexes without a log, which a roll leaves that was cut short, and its temporary snapshot.
4. Staging directories of dead plans.
5. The ledger is left with the records of the files that still exist. On a full disk, where what
   went frees nothing (it has another name), this is left out: a record of a file that is gone says
   nothing, and the next purge writes it.

The guard goes last: ``.swap`` files first, fsync, then the ``.cleaned``. A crash in between leaves
nothing that could be taken for a committed swap.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from logwright.errors import UncleanLogDir
from logwright.format.deletions import parse_ledger
from logwright.format.names import (
    CLEANED,
    DELETED,
    INDEX,
    LOG,
    SWAP,
    TIMEINDEX,
    TXNINDEX,
    WORK_DIRECTORY,
    parse_segment_file_name,
    segment_file_name,
)
from logwright.purge.ledger import compact_ledger
from logwright.purge.observe import STAGING, PartitionListing, PlainFile
from logwright.steps.step import FileStep, FsyncDir, RemoveDir, Unlink
from logwright.units import ByteCount, TimestampMs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_METADATA_SNAPSHOT: Final = ".checkpoint.deleted"
"""Kafka's loader leaves these alone: they belong to the KRaft metadata log."""

_TEMPORARY_SNAPSHOT: Final = re.compile(r"[0-9]{20,}\.snapshot\.tmp")


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingDeletion:
    """A retired file whose delay is not over."""

    name: str
    bytes: ByteCount
    due_at_ms: TimestampMs


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeResult:
    """What a purge removes, and what it leaves for later.

    Attributes:
        removed: names of the retired files.
        removed_bytes: space that they free; a file that has another name frees none.
        leftovers: names of what interrupted operations had left.
        staging: names of the dead plans' staging directories.
        pending: retired files that are not due yet.
    """

    removed: tuple[str, ...]
    removed_bytes: ByteCount
    leftovers: tuple[str, ...]
    staging: tuple[str, ...]
    pending: tuple[PendingDeletion, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgePlan:
    """A purge before it is done.

    Attributes:
        steps: 1 to 4, which need no room.
        ledger: 5.
    """

    steps: tuple[FileStep, ...]
    ledger: tuple[FileStep, ...]
    result: PurgeResult


def plan_purge(
    listing: PartitionListing, *, now_ms: TimestampMs, file_delete_delay_ms: int
) -> PurgePlan:
    """Decide what goes. The partition must be locked, so that what is listed stays as it is.

    Args:
        listing: the partition's directory.
        now_ms: the command's clock.
        file_delete_delay_ms: `file.delete.delay.ms`.

    Raises:
        UncleanLogDir: a committed swap is unfinished; nothing is removed.
    """
    swaps, cleaned = _leftover_swaps(listing)
    orphans = _orphans(listing)
    retired = retired_files(listing, file_delete_delay_ms=file_delete_delay_ms)
    due = [file for file, due_at_ms in retired if due_at_ms <= now_ms]
    pending = [
        PendingDeletion(name=file.name, bytes=file.bytes, due_at_ms=due_at_ms)
        for file, due_at_ms in retired
        if due_at_ms > now_ms
    ]
    dead = [one for one in listing.staging if not one.held]
    recorded = parse_ledger(listing.ledger or b"")
    remaining = {one.name for one in pending if one.name in recorded}
    directory = listing.directory
    steps = (
        *_unlink(directory, swaps),
        *_unlink(directory, cleaned),
        *_unlink(directory, [*(file.name for file in due), *orphans]),
        *_remove_staging(listing),
    )
    result = PurgeResult(
        removed=tuple(file.name for file in due),
        removed_bytes=_freed_bytes(due),
        leftovers=(*swaps, *cleaned, *orphans),
        staging=tuple(one.path.name for one in dead),
        pending=tuple(pending),
    )
    ledger = compact_ledger(directory, listing.ledger, remaining)
    return PurgePlan(steps=steps, ledger=ledger, result=result)


def retired_files(
    listing: PartitionListing, *, file_delete_delay_ms: int
) -> tuple[tuple[PlainFile, TimestampMs], ...]:
    """Each retired file and when it is due; arguments as of `plan_purge`."""
    retired_at_ms = parse_ledger(listing.ledger or b"")
    return tuple(
        (
            file,
            TimestampMs(retired_at_ms.get(file.name, file.touched_ms) + file_delete_delay_ms),
        )
        for file in listing.files
        if file.name.endswith(DELETED) and not file.name.endswith(_METADATA_SNAPSHOT)
    )


def _leftover_swaps(listing: PartitionListing) -> tuple[list[str], list[str]]:
    """The names of worthless ``.swap`` and ``.cleaned`` files."""
    names = {file.name for file in listing.files}
    cleaned = sorted(name for name in names if name.endswith(CLEANED))
    swaps = sorted(name for name in names if name.endswith(SWAP))
    guards = {stem for stem in map(_stem, cleaned) if f"{stem}{LOG}" in names}
    for name in swaps:
        own = _stem(name)
        lower = f"{own}{LOG}" not in names and any(guard < own for guard in guards)
        if own not in guards and not lower:
            raise UncleanLogDir(
                "it is part of a swap that was committed and not finished.",
                path=listing.directory / name,
                remedy="Nothing was changed. Recover the log first: `logwright recover`.",
            )
    return swaps, cleaned


def _stem(name: str) -> str:
    """The base offset in a file's name, as it is written there."""
    return name.partition(".")[0]


def _orphans(listing: PartitionListing) -> list[str]:
    names = {file.name for file in listing.files}
    found = [name for name in names if _TEMPORARY_SNAPSHOT.fullmatch(name)]
    for name in names:
        parsed = parse_segment_file_name(name)
        if parsed is None or parsed[1] not in (INDEX, TIMEINDEX, TXNINDEX):
            continue
        if segment_file_name(parsed[0], LOG) not in names:
            found.append(name)
    return sorted(found)


def _freed_bytes(files: Sequence[PlainFile]) -> ByteCount:
    return ByteCount(sum(file.bytes for file in files if file.links == 1))


def _unlink(directory: Path, names: Sequence[str]) -> tuple[FileStep, ...]:
    if not names:
        return ()
    return (*(Unlink(directory / name) for name in names), FsyncDir(directory))


def _remove_staging(listing: PartitionListing) -> tuple[FileStep, ...]:
    """Files, then directories from the inside out; at last the common parent, if it is empty.
    Builds and their ends take no lock: the parent may get another directory, or go.
    """
    steps: list[FileStep] = []
    for one in listing.staging:
        if not one.held:
            steps += [Unlink(path, missing_ok=True) for path in one.files]
            steps += [RemoveDir(path, missing_ok=True) for path in reversed(one.directories)]
            steps.append(RemoveDir(one.path, missing_ok=True))
    work = listing.directory / WORK_DIRECTORY
    if listing.has_staging and not any(one.held for one in listing.staging):
        steps.append(RemoveDir(work / STAGING, missing_ok=True, full_ok=True))
    return (*steps, FsyncDir(work)) if steps else ()
