"""The files of a log outside its live segments: retired segments, outputs that failed their checks,
what recoveries have cut out. Each is read like a segment, as far as it can be read.

Staged files of dead plans are not read: they have no value, and all of them go.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from logwright.batches.runtime import Runtime
from logwright.batches.source import Source
from logwright.erasure.erase.model import Copy, Matcher
from logwright.erasure.erase.scan import matches_of
from logwright.errors import CorruptLogError, UnsupportedFormatError
from logwright.format.names import LOG, STAGING, WORK_DIRECTORY, live_file_name
from logwright.format.valid import valid_batches
from logwright.log.kinds import offset_in
from logwright.log.log_dir import list_tree
from logwright.place.mapped import MappedFiles
from logwright.units import ByteCount

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from logwright.batches.runtime import Throttle

_CUT: Final = "cut"
_FAILED: Final = "failed"


def retired_copies(directory: Path, names: Iterable[str], keys: Matcher) -> list[Copy]:
    """Return the retired ``.log`` files among these names that match or cannot be read. Effects:
    reads them.
    """
    logs = [name for name in names if is_retired_log(name)]
    return [copy for name in logs if (copy := _copy(directory, name, keys)).matches is not False]


def work_copies(directory: Path, keys: Matcher) -> list[Copy]:
    """Return the kept outputs and cut pieces in a partition's work directory that match or cannot
    be read. Effects: reads them.
    """
    found = []
    for part in (_FAILED, _CUT):
        parent = directory / WORK_DIRECTORY / part
        if parent.is_symlink() or not parent.is_dir():
            continue
        for entry in list_tree(parent):
            if entry.kind == "file" and holds_batches(entry.path.name):
                path = str(Path(WORK_DIRECTORY, part, entry.path))
                copy = _copy(directory, path, keys)
                if copy.matches is not False:
                    found.append(copy)
    return found


def staged_files(directory: Path) -> Iterator[str]:
    """Yield the paths of all staged files, relative to the partition's directory. Effects: lists
    them.
    """
    parent = directory / WORK_DIRECTORY / STAGING
    if not parent.is_symlink() and parent.is_dir():
        for entry in list_tree(parent):
            if entry.kind == "file":
                yield str(Path(WORK_DIRECTORY, STAGING, entry.path))


def file_matches(path: Path, keys: Matcher, *, throttle: Throttle | None = None) -> bool | None:
    """Return whether a file has a matching record; None if it has none before it cannot be read.
    Effects: reads it.

    Raises:
        UnreadableFile, StalePlan: it is not a regular file, or vanished.
    """
    log = MappedFiles().open(path)
    data = log.data
    found = valid_batches(data, base_offset=0, check_crcs=True, check_range=False)
    batches = found.batches
    counts = batches["count"].astype(np.int64)
    batches["first_ordinal"] = np.cumsum(counts) - counts
    source = Source(base_offset=0, log=log, batches=batches)
    runtime = Runtime() if throttle is None else Runtime(throttle=throttle)
    try:
        for some in matches_of(source, keys, runtime=runtime):
            if len(some.ordinals):
                return True
    except (CorruptLogError, UnsupportedFormatError):
        return None
    return False if found.end == "whole" else None


def siblings(name: str, among: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the retired files of the same segment and number, the ``.log`` among
    them: ``N.log.2.deleted`` and ``N.index.2.deleted``.
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


def _copy(directory: Path, path: str, keys: Matcher) -> Copy:
    whole = directory / path
    return Copy(path, ByteCount(whole.lstat().st_size), file_matches(whole, keys))


def is_retired_log(name: str) -> bool:
    """Return whether a file is the ``.log`` of a retired segment."""
    live = live_file_name(name)
    return live is not None and live.endswith(LOG)


def holds_batches(name: str) -> bool:
    """Return whether a file of the work directory may hold records: a segment, or a piece."""
    return offset_in(name) >= 0 and LOG in name
