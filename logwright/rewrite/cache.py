"""The rebuild cache: compressed batches that the first pass has rebuilt, for the second to copy.

1. To rebuild a compressed batch it must be decompressed, which the first pass does for its keys. If
   it reads from the newest batch to the oldest, the fate of a record is known at once: it has met a
   newer one of its key, or there is none.
2. Rebuilt batches wait in memory, then in a file without a name, which vanishes with the process.
   If the disk has no room for it and the output, the first pass stops rebuilding, and the second
   does it.
3. The second pass takes a batch only if as many of its records survive as when it was rebuilt.
   Records only ever die, so they are the same ones.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

BUFFER_BYTES: Final = 8 * 1024 * 1024

CACHED_BATCH: Final = np.dtype(
    [
        ("at", "<i8"),
        ("max_timestamp", "<i8"),
        ("content", "<u8"),
        ("digest", "<u8"),
        ("size", "<i4"),
        ("kept", "<i4"),
        ("sets_horizon", "<i4"),
    ]
)
"""One batch: where it waits and how many bytes it has, 0 if it is not cached; its max timestamp,
ms; records kept; its receipt (`batch_receipt`); 1 if it got a delete horizon.
"""

CACHE_STATE: Final = np.dtype([("used", "<i8"), ("before", "<i8"), ("needed", "<i8")])
"""Fill level of a cache, in bytes: used in the buffer; moved from it to the file; needed in the
buffer before a window is begun.
"""


class CachedBatches(NamedTuple):
    """Some batches of the rebuild cache.

    Attributes:
        batches: CACHED_BATCH[n], one row for each of them, or none at all.
        content: uint8[m], their bytes.
    """

    batches: NDArray[np.void]
    content: NDArray[np.uint8]


_NO_ENTRIES: Final = np.zeros(0, dtype=CACHED_BATCH)


class Rebuilt(NamedTuple):
    """What the first pass has rebuilt.

    Attributes:
        content: uint8[m], the bytes of all cached batches.
        entries: CACHED_BATCH[n] of the segments that have any, by base offset: a row for each of
            their batches.
    """

    content: NDArray[np.uint8]
    entries: Mapping[int, NDArray[np.void]]

    def of(self, base_offset: int, rows: slice) -> CachedBatches:
        """Return what there is of these rows of a segment."""
        return CachedBatches(self.entries.get(base_offset, _NO_ENTRIES)[rows], self.content)


NOTHING_REBUILT: Final = Rebuilt(np.zeros(0, dtype=np.uint8), {})


class RebuildCache:
    """Holds rebuilt batches. Effects: may write a file that has no name.

    Args:
        directory: on the file system for that file.
        output_bytes: what else must fit there.

    Attributes:
        out: uint8[m], the buffer. state: CACHE_STATE.
        entries: CACHED_BATCH[n] of each segment, by base offset.
        closed: nothing can be added any more.
    """

    def __init__(self, directory: Path, *, output_bytes: int) -> None:
        self.out: NDArray[np.uint8] = np.empty(BUFFER_BYTES, dtype=np.uint8)
        self.state: np.void = np.zeros(1, dtype=CACHE_STATE)[0]
        self.entries: dict[int, NDArray[np.void]] = {}
        self._directory = directory
        self._output_bytes = output_bytes
        self.closed = False
        self._file: FileIO | None = None

    def entries_of(self, base_offset: int, batches: int) -> NDArray[np.void]:
        """Return the rows of a segment with this number of batches, to be filled."""
        if base_offset not in self.entries:
            self.entries[base_offset] = np.zeros(batches, dtype=CACHED_BATCH)
        return self.entries[base_offset]

    def empty(self) -> None:
        """Move what the buffer holds to the file, or close the cache if that is not possible.

        Effects: writes the file.
        """
        used = int(self.state["used"])
        if used and not self._write(self.out[:used].data):
            self.closed = True
            return
        self.state["before"] += used
        self.state["used"] = 0
        if self.state["needed"] > len(self.out):
            self.out = np.empty(self.state["needed"], dtype=np.uint8)

    def _write(self, content: memoryview) -> bool:
        try:
            if self._file is None:
                flags = os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC
                self._file = FileIO(os.open(self._directory, flags, 0o600), "r+")
            disk = os.fstatvfs(self._file.fileno())
            if disk.f_bavail * disk.f_frsize < self._output_bytes + len(content):
                return False
            self._file.seek(int(self.state["before"]))
            while content:
                content = content[self._file.write(content) :]
        except OSError:  # it is only for speed: the second pass rebuilds
            return False
        return True

    def close(self) -> Rebuilt:
        """Return all cached batches; the entries of those that are not in the file are reset.
        Effects: maps and closes the file.
        """
        if self._file is not None and not self.closed:
            self.empty()
        self.closed = True
        if self._file is None:
            return Rebuilt(self.out, self.entries)
        written = int(self.state["before"])
        with self._file:
            if not written:
                return Rebuilt(self.out, self.entries)
            for rows in self.entries.values():
                rows["size"][rows["at"] >= written] = 0
            content = np.frombuffer(mmap.mmap(self._file.fileno(), written), dtype=np.uint8)
            return Rebuilt(content, self.entries)
