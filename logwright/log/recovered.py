"""The record that a log was recovered in a directory that did not get its clean-shutdown marker.

One log of an unknown format, or a directory that stops a broker, keeps the whole log directory
without its marker. The other logs are as a clean stop leaves them once they are recovered. The
record says so for one log, and only as long as all of its files are the same: it holds a digest of
their names, sizes, times and inodes. A broker that loads the log changes them, since it enlarges
the indexes of the last segment.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from logwright.errors import LogwrightError
from logwright.format.names import WORK_DIRECTORY
from logwright.place.model import OpenDir

if TYPE_CHECKING:
    from collections.abc import Mapping

    from logwright.place.model import FileStamp

RECOVERED: Final = "recovered"
"""Name of the record, in the work directory."""
_VERSION: Final = "1"


def recovered_record(stamps: Mapping[str, FileStamp]) -> bytes:
    """Return the record of a log with these files."""
    lines = [f"{one.name} {one.bytes} {one.modified_ns} {one.inode}" for one in stamps.values()]
    digest = hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()
    return f"{_VERSION} {digest}\n".encode()


def is_recovered(directory: OpenDir, stamps: Mapping[str, FileStamp]) -> bool:
    """Return whether the log was recovered and has not changed since. Effects: reads the record;
    one that cannot be read says nothing.
    """
    expected = recovered_record(stamps)
    try:
        with directory.open_dir(WORK_DIRECTORY) as work:
            return work.read_part(RECOVERED, 0, len(expected) + 1) == expected
    except LogwrightError:
        return False
