"""Compressed batches that the first pass has rebuilt already, for the second to copy.

1. To rebuild a compressed batch it must be decompressed, and the first pass has done that for its
   keys. Read from the newest batch to the oldest, the fate of a record is known at once: a newer
   one of its key was met before, or there is none.
2. What is rebuilt then waits in memory, later in a file without a name, which is gone with the
   process. Where the disk has no room for that and the output besides, the first pass stops
   keeping, and the second rebuilds.
3. A batch is taken only if as many of its records survive as when it was rebuilt: records die but
   never rise, so they are the same ones.
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

REBUILT_BATCH: Final = np.dtype(
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
"""One batch: where it waits and how many bytes it has, 0 if it does not; its max timestamp in ms;
records kept; what `witness` tells of it; 1 if a delete horizon was set.
"""

# The cells of how far a store is filled, int64[3].
USED: Final = 0
"""Bytes in the buffer."""
BEFORE: Final = 1
"""Bytes that have left it for the file."""
NEEDED: Final = 2
"""Bytes of room in the buffer without which no window is begun."""


class RebuiltBatches:
    """Where rebuilt batches wait. Effects: may write a file that has no name.

    Args:
        directory: on the disk where that file may be.
        output_bytes: what else must have room there.

    Attributes:
        out: uint8[m], the buffer. used: int64[3], see `USED`.
        closed: nothing can be added any more.
    """

    def __init__(self, directory: Path, *, output_bytes: int) -> None:
        self.out: NDArray[np.uint8] = np.empty(BUFFER_BYTES, dtype=np.uint8)
        self.used: NDArray[np.int64] = np.zeros(3, dtype=np.int64)
        self._directory = directory
        self._output_bytes = output_bytes
        self.closed = False
        self._file: FileIO | None = None

    def empty(self) -> None:
        """Move what the buffer holds to the file; if that is not possible, the store is closed.

        Effects: writes the file.
        """
        used = int(self.used[USED])
        if used and not self._write(self.out[:used].data):
            self.closed = True
            return
        self.used[BEFORE] += used
        self.used[USED] = 0
        if self.used[NEEDED] > len(self.out):
            self.out = np.empty(self.used[NEEDED], dtype=np.uint8)

    def _write(self, content: memoryview) -> bool:
        try:
            if self._file is None:
                flags = os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC
                self._file = FileIO(os.open(self._directory, flags, 0o600), "r+")
            disk = os.fstatvfs(self._file.fileno())
            if disk.f_bavail * disk.f_frsize < self._output_bytes + len(content):
                return False
            self._file.seek(int(self.used[BEFORE]))
            while content:
                content = content[self._file.write(content) :]
        except OSError:  # it is only for speed: the second pass rebuilds
            return False
        return True

    def close(self, segments: list[NDArray[np.void]]) -> NDArray[np.uint8]:
        """The bytes of what waits, uint8[n]. Effects: maps and closes the file.

        Args:
            segments: all REBUILT_BATCH rows; those which did not get into the file are taken back.
        """
        if self._file is not None and not self.closed:
            self.empty()
        self.closed = True
        if self._file is None:
            return self.out
        written = int(self.used[BEFORE])
        with self._file:
            if not written:
                return self.out
            for rows in segments:
                rows["size"][rows["at"] >= written] = 0
            return np.frombuffer(mmap.mmap(self._file.fileno(), written), dtype=np.uint8)
