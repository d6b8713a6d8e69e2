"""Which files of a bucket are written again by an update, and which only lose rows. Pure.

A format that can delete rows of a file without writing it (Delta's deletion vectors, Iceberg's
position deletes) is updated by merge-on-read: the new rows go to a new file, and the old rows of
their keys are deleted by position. Each reader pays for deleted rows and for many files, so a
bucket with too many of them is written again. Over the life of a table the bytes written stay
proportional to the new rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from logwright.tables.model import DataFile

Positions = NDArray[np.int64]
"""Rows of a file, from 0, ascending: int64[n]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeLimits:
    """When the files of a bucket are written again.

    Attributes:
        small_bytes: a bucket of at most this many bytes always is: it costs next to nothing, and
            every reader can read it.
        deleted_share: a bucket of which a larger share of rows is deleted is, all of it.
        files: of a bucket with this many files, all but the largest are.
    """

    small_bytes: int = 1 << 20
    deleted_share: float = 0.25
    files: int = 8


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileChange:
    """A file of a bucket, and what an update changes.

    Attributes:
        before: rows that were deleted before.
        added: rows whose key has a newer record; none of them is in `before`.
    """

    file: DataFile
    before: Positions
    added: Positions

    @property
    def deleted(self) -> Positions:
        """All rows that are deleted afterwards."""
        return np.sort(np.concatenate((self.before, self.added)))


def files_to_write_again(
    changes: Sequence[FileChange], limits: MergeLimits | None, *, purges: bool = False
) -> tuple[FileChange, ...]:
    """Return the files that are written again: their rows go to the new file.

    Args:
        changes: all files of a bucket that is changed.
        limits: None: the format cannot delete rows of a file.
        purges: all files with deleted rows are.
    """
    chosen = _by_limits(changes, limits)
    return tuple(one for one in changes if one in chosen or (purges and len(one.deleted)))


def _by_limits(changes: Sequence[FileChange], limits: MergeLimits | None) -> tuple[FileChange, ...]:
    if limits is None or sum(one.file.bytes for one in changes) <= limits.small_bytes:
        return tuple(changes)
    rows = sum(one.file.rows for one in changes)
    if sum(len(one.deleted) for one in changes) > limits.deleted_share * rows:
        return tuple(changes)
    if len(changes) < limits.files:
        return tuple(one for one in changes if len(one.deleted) == one.file.rows)
    largest = max(changes, key=lambda one: (one.file.rows, one.file.path))
    return tuple(one for one in changes if one is not largest)
