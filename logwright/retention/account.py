"""What a retention looked at and what it left on the disk, for checks that do not use its plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from logwright.format.names import LOG
from logwright.units import Offset

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from logwright.log.model import ReadableLog
    from logwright.units import TimestampMs


class RetentionAccount(NamedTuple):
    """A log before a retention, and its segments afterwards.

    Attributes:
        log: as it was observed before.
        left: base offsets of the ``.log`` files that were in the directory afterwards.
        newest_ms: base offset → newest timestamp of its batches, -1 if they have none: of the
            segments whose batches were read before they went.
    """

    log: ReadableLog
    left: frozenset[Offset]
    newest_ms: Mapping[Offset, TimestampMs]


def account_of(
    log: ReadableLog, names: Iterable[str], newest_ms: Mapping[Offset, TimestampMs]
) -> RetentionAccount:
    """Return the account of a log. `names`: of the files in its directory afterwards."""
    bases = (name.removesuffix(LOG) for name in names if name.endswith(LOG))
    left = frozenset(Offset(int(base)) for base in bases)
    return RetentionAccount(log=log, left=left, newest_ms=newest_ms)


def untouched(log: ReadableLog) -> RetentionAccount:
    """Return the account of a log of which nothing was deleted."""
    return account_of(log, (stamp.name for stamp in log.fingerprint.files), {})
