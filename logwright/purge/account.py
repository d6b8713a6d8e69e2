"""What a purge looked at and what it left on the disk, for checks that do not use its plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from logwright.format.deletions import parse_ledger

if TYPE_CHECKING:
    from collections.abc import Iterable

    from logwright.purge.observe import PartitionListing


class AccountedFile(NamedTuple):
    """A file of a partition's directory, before and after a purge.

    Attributes:
        since_ms: when it was retired, by the ledger; without a record the later of the file's
            times.
        left: it was there afterwards.
    """

    name: str
    since_ms: int
    left: bool


class PurgeAccount(NamedTuple):
    """The plain files of a partition's directory that were there before a purge."""

    files: tuple[AccountedFile, ...]


def account_of(listing: PartitionListing, names: Iterable[str]) -> PurgeAccount:
    """Return the account of a purge.

    Args:
        listing: of the directory before.
        names: of the files that were there afterwards.
    """
    recorded_ms = parse_ledger(listing.ledger or b"")
    left = frozenset(names)
    return PurgeAccount(
        tuple(
            AccountedFile(
                name=file.name,
                since_ms=recorded_ms.get(file.name, file.touched_ms),
                left=file.name in left,
            )
            for file in listing.files
        )
    )
