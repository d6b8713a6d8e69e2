"""Keeping the ledger of retired files small: what is rewritten after a purge.

`logwright.format.deletions` has the bytes, `logwright.steps.retire` the appending.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from logwright.format.deletions import LEDGER, remaining_ledger
from logwright.format.names import WORK_DIRECTORY
from logwright.steps.replace import replace_file
from logwright.steps.step import FileStep, FsyncDir, Unlink

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path


def compact_ledger(
    directory: Path, content: bytes | None, remaining: Collection[str]
) -> tuple[FileStep, ...]:
    """The steps that leave only these records; none if it is so already.

    The ledger is replaced by rename, so that a crash leaves the old one or the new one. Losing the
    rewrite does no harm: a record of a file that is gone says nothing.

    Args:
        directory: the partition's.
        content: of the ledger as it is, None if there is none.
        remaining: the ``.deleted`` names that still exist and have a record.
    """
    work = directory / WORK_DIRECTORY
    if content is None:
        return ()
    wanted = remaining_ledger(content, remaining)
    if not remaining:  # also one of no bytes, which a full disk leaves
        return (Unlink(work / LEDGER), FsyncDir(work))
    if content == wanted:
        return ()
    return replace_file(work / LEDGER, wanted, like=work / LEDGER)
