"""The file steps that unlink at once what an erasure has replaced and what else has a match.

====  ==========================================  ================================================
part  what it does                                a crash inside it
====  ==========================================  ================================================
1     retired files go                            the rest is retired as before, and the ledger has
                                                  them: the next erasure finds them again
2     staged files of dead plans go, then kept    as before, and found again
      outputs and cut pieces with a match
3     the ledger forgets the files that are gone  a record of a missing file has no effect
====  ==========================================  ================================================

None of these files is one that a broker reads: its loader removes all ``.deleted`` files, and it
ignores the work directory. An undo needs the whole operation's files, so it refuses from the first
of them on; after that by the ledger, where the line of an erasure stays without files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from logwright.erasure.erase.copies import siblings
from logwright.format.deletions import (
    LEDGER,
    parse_ledger,
    parse_retirements,
    remaining_ledger,
)
from logwright.format.names import WORK_DIRECTORY
from logwright.log.kinds import is_retired
from logwright.purge.steps import staging_steps, unlink_steps
from logwright.steps.replace import replace_file
from logwright.steps.step import FsyncDir, Unlink

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from logwright.erasure.erase.model import Copy
    from logwright.purge.observe import PartitionListing
    from logwright.steps.step import FileStep


def replaced_files(listing: PartitionListing) -> tuple[str, ...]:
    """Return the retired files that erasures have replaced, by the ledger."""
    present = {file.name for file in listing.files}
    return tuple(
        name
        for line in parse_retirements(listing.ledger or b"")
        if line.origin is not None and line.origin.operation == "erase"
        for name in line.files
        if name in present and is_retired(name)
    )


def purged_files(
    listing: PartitionListing, copies: Iterable[Copy], *, purge_unreadable: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the files that go, and those that stay though they cannot be read to their end;
    relative to the partition's directory, sorted.

    Args:
        listing: the partition's directory, locked.
        copies: what was read of it.
        purge_unreadable: also the latter go.
    """
    retired = [file.name for file in listing.files if is_retired(file.name)]
    gone = set(replaced_files(listing))
    unreadable = set()
    for copy in copies:
        if copy.path in gone:
            continue
        if copy.matches or purge_unreadable:
            gone.update((copy.path, *siblings(copy.path, retired)))
        else:
            unreadable.add(copy.path)
    return tuple(sorted(gone)), tuple(sorted(unreadable - gone))


def purge_steps(listing: PartitionListing, gone: Collection[str]) -> tuple[FileStep, ...]:
    """Return parts 1 and 2.

    Args:
        listing: the partition's directory.
        gone: the files that go, see `purged_files`.
    """
    directory = listing.directory
    inside = [name for name in gone if "/" in name]
    retired = [name for name in gone if name not in inside]
    parents = dict.fromkeys((directory / name).parent for name in inside)
    return (
        *unlink_steps(directory, retired),
        *staging_steps(listing),
        *(Unlink(directory / name, missing_ok=True) for name in inside),
        *(FsyncDir(parent) for parent in parents),
    )


def ledger_steps(listing: PartitionListing, gone: Collection[str]) -> tuple[FileStep, ...]:
    """Return part 3; none if nothing changes."""
    if listing.ledger is None:
        return ()
    recorded = parse_ledger(listing.ledger)
    present = {file.name for file in listing.files}
    remaining = {name for name in recorded if name in present and name not in gone}
    wanted = remaining_ledger(listing.ledger, remaining)
    path = listing.directory / WORK_DIRECTORY / LEDGER
    if wanted == listing.ledger:
        return ()
    if not wanted:
        return (Unlink(path), FsyncDir(path.parent))
    return replace_file(path, wanted, like=path)
