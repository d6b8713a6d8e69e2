"""What ticks remember of partition directories: one that has not changed is not listed again.

A tick over a large fleet would list every directory and look at every file. A file that is created,
removed or renamed changes the modification time of its directory; an append changes the size of the
active segment. These are looked at instead. Other segments are never written in place; if an
operator does it, a tick notices within an hour, and a run looks at all files anyway.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

from logwright.format.names import LOG, STAGING, WORK_DIRECTORY

RACE_NS: Final = 2_000_000_000
"""A directory that changed so shortly before it was listed may have changed again at the same
time."""
LISTED_AGAIN_NS: Final = 3_600_000_000_000

_T = TypeVar("_T")
_Key = tuple[int, ...]


class Remembered(Generic[_T]):
    """Values that were read from partition directories, by path; for the life of the process."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[_Key, str | None, int, _T]] = {}

    def value(self, directory: str, read: Callable[[], tuple[_T, str | None]]) -> _T:
        """Return what `read` returned for a directory, or now returns if it has changed.

        Args:
            directory: path of the partition directory.
            read: reads it. Returns the value, and the name of the active segment's file if its size
                counts.

        Raises:
            Exception: what `read` raises; nothing is remembered then.
        """
        now_ns = time.time_ns()
        kept = self._kept.get(directory)
        if kept is not None:
            key, active, listed_ns, value = kept
            if now_ns - listed_ns < LISTED_AGAIN_NS and _key(directory, active) == key:
                return value
        self._kept.pop(directory, None)
        value, active = read()
        stamp = _key(directory, active)
        if stamp and max(stamp[1::2]) < now_ns - RACE_NS:
            self._kept[directory] = (stamp, active, now_ns, value)
        return value


def _key(directory: str, active: str | None) -> _Key:
    """Return inode or size, and modification time in ns, of each place that changes; empty if the
    directory is gone. Effects: reads their status.
    """
    work = f"{directory}/{WORK_DIRECTORY}"
    try:
        status = os.stat(directory, follow_symlinks=False)  # noqa: PTH116 -- a path costs
    except OSError:
        return ()
    key = [status.st_ino, status.st_mtime_ns]
    paths = (f"{directory}/{active}",) if active is not None else ()
    for path in (*paths, work, f"{work}/{STAGING}"):
        try:
            status = os.stat(path, follow_symlinks=False)  # noqa: PTH116 -- as above
        except OSError:
            key += (-1, 0)
        else:
            key += (status.st_size, status.st_mtime_ns)
    return tuple(key)


def active_segment(names: Iterable[str]) -> str | None:
    """Return the ``.log`` file with the largest base offset; None if there is none."""
    return max((name for name in names if name.endswith(LOG)), default=None)
