"""Staged files that become durable while other work continues.

1. A small log is built and checked in a few ms, and its files need as many ms to become durable. So
   several logs are built one after the other, and the disk gets all their files at once, while the
   next logs are built.
2. The files of a large log are written to the disk while the next ones are made and checked.
"""

from __future__ import annotations

import os
from collections import deque
from typing import Final

from logwright.steps.writeback import begin_writing

_MOST: Final = 16
"""Files of one log that wait at most. Many logs wait at a time, and each file stays open."""


class Unsynced:
    """The staged files of one log that are written and not durable yet. Each keeps a descriptor
    here: the system reports a failed write only to those who have the file open.
    """

    def __init__(self) -> None:
        self._descriptors: deque[int] = deque()

    def add(self, descriptor: int) -> None:
        """Add a file, instead of the fsync(2) of `Runtime.sync`. The caller keeps its descriptor.
        If the log has too many files, the first one becomes durable now.
        """
        self._descriptors.append(os.dup(descriptor))
        if len(self._descriptors) > _MOST:
            self._finish_first()

    def start(self, descriptor: int) -> None:
        """Add a file and let the disk start to write it."""
        begin_writing(descriptor)
        self.add(descriptor)

    def begin(self) -> None:
        """Let the disk start to write all files. A file system with delayed allocation allocates
        now, for the files of all logs together; else each fsync would wait for its own journal
        commit.
        """
        for descriptor in self._descriptors:
            begin_writing(descriptor)

    def finish(self) -> None:
        """Make all files durable and close them. Effects: waits for the disk.

        Raises:
            OSError: a file cannot be made durable.
        """
        try:
            while self._descriptors:
                self._finish_first()
        finally:
            self.release()

    def release(self) -> None:
        """Close all files as they are. A second call does nothing."""
        while self._descriptors:
            os.close(self._descriptors.pop())

    def _finish_first(self) -> None:
        """Make the file durable that was added first, and close it."""
        descriptor = self._descriptors.popleft()
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
