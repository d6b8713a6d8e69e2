"""The files of a log outside its live segments that an erasure removes, by the inventory
(`logwright.log.inventory`). Each is read like a segment, as far as it can be read.

Staged files of dead plans are not read: they have no value, and all of them go.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from logwright.batches.legacy import converted_copy
from logwright.batches.source import Source
from logwright.erasure.erase.model import Copy, Matcher
from logwright.erasure.erase.scan import matches_of
from logwright.errors import BatchAboveLimit, CorruptLogError, UnsupportedFormatError
from logwright.format.names import LOG, live_file_name
from logwright.format.valid import valid_batches
from logwright.log.inventory import file_place, owner_of
from logwright.log.tree import list_tree
from logwright.place.mapped import MappedFiles
from logwright.units import ByteCount

if TYPE_CHECKING:
    from collections.abc import Iterable

    from logwright.batches.runtime import Runtime


def top_copies(
    directory: Path, names: Iterable[str], keys: Matcher, *, runtime: Runtime
) -> list[Copy]:
    """Return the files among these names that an erasure removes if they match, as far as they
    match or cannot be read. Effects: reads them.

    Args:
        directory: of a partition, or of a stray or future log.
    """
    where, _ = owner_of(directory.name)
    copies = (
        _copy(directory, name, keys, runtime)
        for name in names
        if file_place(where, name).erasure == "removed"
    )
    return [copy for copy in copies if copy.matches is not False]


def inner_copies(directory: Path, keys: Matcher, *, runtime: Runtime) -> list[Copy]:
    """Return such files of the directories below. Effects: lists and reads them."""
    below = (path for path in list_tree(directory).files if "/" in path)
    return top_copies(directory, below, keys, runtime=runtime)


def file_matches(path: Path, keys: Matcher, *, runtime: Runtime) -> bool | None:
    """Return whether a file has a matching record; None if it has none before it cannot be read, or
    has keys that cannot be decoded and may match. Effects: reads it.

    Raises:
        UnreadableFile, StalePlan: it is not a regular file, or vanished.
        DiskFull: there is no room for its batches of old formats in format v2.
    """
    log = MappedFiles().open(path)
    scanned = valid_batches(log.data, base_offset=0, check_crcs=True, check_range=False)
    batches = scanned.batches
    if batches["legacy"].any():
        log, batches = converted_copy(log, batches)
    is_whole = scanned.end == "whole" and len(batches) == len(scanned.batches)
    counts = batches["count"].astype(np.int64)
    batches["first_ordinal"] = np.cumsum(counts) - counts
    source = Source(base_offset=0, log=log, batches=batches)
    try:
        for hits in matches_of(source, keys, runtime=runtime):
            if len(hits.requests):
                return True
            is_whole &= not hits.undecoded
    except (CorruptLogError, UnsupportedFormatError, BatchAboveLimit):
        return None
    return False if is_whole else None


def siblings(name: str, among: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the retired files of the same segment and number: ``N.log.2.deleted`` and
    ``N.index.2.deleted``.
    """
    stem, _, rest = name.partition(LOG)
    return tuple(
        other
        for other in among
        if other.startswith(f"{stem}.")
        and other.endswith(rest)
        and live_file_name(other) is not None
        and other.removeprefix(stem).removesuffix(rest).count(".") == 1
    )


def _copy(directory: Path, path: str, keys: Matcher, runtime: Runtime) -> Copy:
    whole = directory / path
    matches = file_matches(whole, keys, runtime=runtime)
    return Copy(path, ByteCount(whole.lstat().st_size), matches)
