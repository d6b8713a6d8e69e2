"""Retiring files: their ``.deleted`` names, and the durable record of when.

A retired file is logically gone. A purge unlinks it `file.delete.delay.ms` later; a broker that
loads the log does so immediately, since its loader deletes all files that end in ``.deleted``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from logwright.errors import invariant
from logwright.format.deletions import (
    LEDGER,
    Origin,
    parse_retirements,
    serialize_retirement,
)
from logwright.format.names import DELETED, WORK_DIRECTORY, live_file_name
from logwright.steps.step import AnyPath, Append, FileStep, FsyncDir, FsyncFile

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from logwright.units import TimestampMs


def deleted_names(names: Iterable[str], *, present: Collection[str]) -> dict[str, str]:
    """Return a name for each file: ``NAME.deleted``, or ``NAME.N.deleted`` if that is taken.

    It is taken if a file of the same name was retired before and is not purged yet. Renaming over
    it would end its delay early.

    Args:
        names: files to be retired, all different.
        present: names of the plain files in the directory.
    """
    chosen: dict[str, str] = {}
    for name in names:
        invariant(name not in chosen, f"{name} is retired twice")
        candidate, number = f"{name}{DELETED}", 0
        while candidate in present:
            number += 1
            candidate = f"{name}.{number}{DELETED}"
        chosen[name] = candidate
    return chosen


def recorded_names(
    names: Iterable[str], ledger: bytes, *, present: Collection[str]
) -> dict[str, str]:
    """Return the ``.deleted`` names that the ledger has for these files and that no file has yet:
    an interrupted operation was about to give them. The newest record of a file counts.

    Args:
        names: live files.
        ledger: content of the partition's ledger.
        present: names of the plain files in the directory.
    """
    recorded = {
        live: deleted
        for line in parse_retirements(ledger)
        for deleted in line.files
        if (live := live_file_name(deleted)) is not None and deleted not in present
    }
    return {name: recorded[name] for name in names if name in recorded}


def record_retirement(
    directory: AnyPath, deleted: Iterable[str], *, now_ms: TimestampMs, origin: Origin | None = None
) -> tuple[FileStep, ...]:
    """Return the steps that durably record, before any rename, which names files get.

    Args:
        directory: the partition's; its work directory exists, since the partition is locked.
        deleted: the ``.deleted`` names.
        now_ms: the command's clock.
        origin: the operation that retires them, for an undo.
    """
    work = f"{directory}/{WORK_DIRECTORY}"
    ledger = f"{work}/{LEDGER}"
    return (
        Append(ledger, serialize_retirement(deleted, at_ms=now_ms, origin=origin), create=True),
        FsyncFile(ledger),
        FsyncDir(work),
    )
