"""What a purge looked at and what it left on the disk, for checks that do not use its plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from logwright.format.deletions import parse_ledger

if TYPE_CHECKING:
    from collections.abc import Iterable

    from logwright.purge.observe import PartitionListing, PlainFile


class AccountedFile(NamedTuple):
    """A file of a partition's directory, before and after a purge.

    Attributes:
        since_ms: when it was retired, by the ledger; without a record the later of the file's
            times.
        not_before_ms: until when the settings keep it that it was retired with; 0: not on record.
        left: it was there afterwards.
    """

    name: str
    since_ms: int
    left: bool
    not_before_ms: int = 0


class PurgeAccount(NamedTuple):
    """The plain files of a partition's directory that were there before a purge."""

    files: tuple[AccountedFile, ...]


def account_of(listing: PartitionListing, names: Iterable[str]) -> PurgeAccount:
    """Return the account of a purge.

    Args:
        listing: of the directory before.
        names: of the files that were there afterwards.
    """
    recorded = parse_ledger(listing.ledger or b"")
    left = frozenset(names)

    def accounted(file: PlainFile) -> AccountedFile:
        is_left, line = file.name in left, recorded.get(file.name)
        if line is None:
            return AccountedFile(file.name, file.touched_ms, is_left)
        return AccountedFile(file.name, line.at_ms, is_left, line.not_before_ms)

    return PurgeAccount(tuple(map(accounted, listing.files)))
