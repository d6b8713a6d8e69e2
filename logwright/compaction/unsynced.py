"""Staged files that become durable while other work goes on.

1. A small log is built and examined in a few ms, and its files are durable after as many ms of
   waiting for the disk. So some logs are built one after the other; then the disk gets all their
   files at once, while the next logs are built.
2. The files of a large log are written to the disk while the next ones are made, and examined.
"""

from __future__ import annotations

import os
from typing import Final

from logwright.steps.writeback import begin_writing

_MOST: Final = 16
"""Files of one log that wait. Many logs wait at a time, and each of these files is open."""


class Unsynced:
    """The staged files of one log that are written and not durable yet. Each keeps a descriptor
    here: an error of writing is told to who had the file open.
    """

    def __init__(self) -> None:
        self._descriptors: list[int] = []

    def add(self, descriptor: int) -> None:
        """One more; instead of fsync(2) as `Runtime.sync`. The descriptor stays the caller's. A
        file of a log that has many becomes durable at once.
        """
        if len(self._descriptors) < _MOST:
            self._descriptors.append(os.dup(descriptor))
        else:
            os.fsync(descriptor)

    def start(self, descriptor: int) -> None:
        """The same, and let the disk begin with it."""
        begin_writing(descriptor)
        self.add(descriptor)

    def begin(self) -> None:
        """Let the disk begin. A file system that gives data its place late does so now, for the
        files of all logs together; else each fsync would wait for a journal commit of its own.
        """
        for descriptor in self._descriptors:
            begin_writing(descriptor)

    def finish(self) -> None:
        """Make all of them durable and let go of them. Effects: waits for the disk.

        Raises:
            OSError: one cannot be made durable.
        """
        try:
            for descriptor in self._descriptors:
                os.fsync(descriptor)
        finally:
            self.release()

    def release(self) -> None:
        """Let go of them as they are. Doing so twice is no error."""
        while self._descriptors:
            os.close(self._descriptors.pop())
