"""The file steps of a purge.

The guard goes last: ``.swap`` files first, fsync, then the ``.cleaned``. A crash in between leaves
nothing that could be taken for a committed swap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from logwright.format.deletions import LEDGER, remaining_ledger
from logwright.format.names import FAILED, STAGING, WORK_DIRECTORY
from logwright.steps.replace import replace_file
from logwright.steps.step import FileStep, FsyncDir, RemoveDir, Unlink

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from logwright.purge.observe import KeptOutput, PartitionListing, StagingDirectory


def unlink_steps(directory: Path, *groups: Sequence[str]) -> tuple[FileStep, ...]:
    """Return the steps that remove these files; each group is synced before the next."""
    steps: list[FileStep] = []
    for names in groups:
        steps += [Unlink(directory / name) for name in names]
        if names:
            steps.append(FsyncDir(directory))
    return tuple(steps)


def staging_steps(listing: PartitionListing) -> tuple[FileStep, ...]:
    """Return the steps that remove dead plans' staging directories: files, then directories from
    the inside out, at last their common parent if it is empty. Builds take no lock: the parent may
    get another directory, or vanish.
    """
    steps = [step for one in listing.staging if not one.held for step in _directory_steps(one)]
    work = listing.directory / WORK_DIRECTORY
    if listing.has_staging and not any(one.held for one in listing.staging):
        steps.append(RemoveDir(work / STAGING, missing_ok=True, full_ok=True))
    return (*steps, FsyncDir(work)) if steps else ()


def failed_output_steps(
    listing: PartitionListing, due: Collection[KeptOutput]
) -> tuple[FileStep, ...]:
    """Return the steps that remove kept outputs; as for staging directories, others may remove one
    at the same time.
    """
    if not due:
        return ()
    work = listing.directory / WORK_DIRECTORY
    return (
        *(step for one in due for step in _directory_steps(one.directory)),
        RemoveDir(work / FAILED, missing_ok=True, full_ok=True),
        FsyncDir(work),
    )


def _directory_steps(staging: StagingDirectory) -> tuple[FileStep, ...]:
    """Return the steps that remove a directory: files, then directories from the inside out."""
    return (
        *(Unlink(path, missing_ok=True) for path in staging.files),
        *(RemoveDir(path, missing_ok=True) for path in reversed(staging.directories)),
        RemoveDir(staging.path, missing_ok=True),
    )


def ledger_steps(
    directory: Path, content: bytes | None, remaining: Collection[str]
) -> tuple[FileStep, ...]:
    """Return the steps that leave only these records in the ledger; none if nothing changes.

    The ledger is replaced by rename, so that a crash leaves the old one or the new one. Losing the
    change does no harm: a record of a file that is gone has no effect.

    Args:
        directory: of the partition.
        content: of the ledger, None if there is none.
        remaining: the ``.deleted`` names that still exist and have a record.
    """
    work = directory / WORK_DIRECTORY
    if content is None:
        return ()
    wanted = remaining_ledger(content, remaining)
    if not remaining:  # also an empty file, which a full disk leaves
        return (Unlink(work / LEDGER), FsyncDir(work))
    if content == wanted:
        return ()
    return replace_file(work / LEDGER, wanted, like=work / LEDGER)
