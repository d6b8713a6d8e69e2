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
from io import FileIO
from pathlib import Path
from typing import Final

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
        ("mapped", "<i4"),
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


class RebuildCache:
    """Holds rebuilt batches. Effects: may write a file that has no name.

    Args:
        directory: on the file system for that file.
        output_bytes: what else must fit there.

    Attributes:
        out: uint8[m], the buffer. state: CACHE_STATE.
        closed: nothing can be added any more.
    """

    def __init__(self, directory: Path, *, output_bytes: int) -> None:
        self.out: NDArray[np.uint8] = np.empty(BUFFER_BYTES, dtype=np.uint8)
        self.state: np.void = np.zeros(1, dtype=CACHE_STATE)[0]
        self._directory = directory
        self._output_bytes = output_bytes
        self.closed = False
        self._file: FileIO | None = None

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

    def close(self, segments: list[NDArray[np.void]]) -> NDArray[np.uint8]:
        """Return the bytes of all cached batches, uint8[n]. Effects: maps and closes the file.

        Args:
            segments: CACHED_BATCH[n] of each; rows of batches that are not in the file are reset.
        """
        if self._file is not None and not self.closed:
            self.empty()
        self.closed = True
        if self._file is None:
            return self.out
        written = int(self.state["before"])
        with self._file:
            if not written:
                return self.out
            for rows in segments:
                rows["size"][rows["at"] >= written] = 0
            return np.frombuffer(mmap.mmap(self._file.fileno(), written), dtype=np.uint8)
