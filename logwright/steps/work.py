"""Directories of ours below a partition's."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from logwright.errors import UnreadableFile


def make_private(partition: Path | str, *below: str) -> Path:
    """Make a directory below a partition's, and those on the way, for the log's owner alone.
    Effects: makes directories.

    Args:
        partition: the partition's directory.
        below: one name after the other.

    Raises:
        UnreadableFile: something on the way is a link or no directory.
    """
    path = str(partition)  # as text: paths cost, for a fleet
    owner = os.stat(path)  # noqa: PTH116
    for name in below:
        path = f"{path}/{name}"
        made = False
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)  # noqa: PTH102
            made = True
        found = os.lstat(path)
        if not stat.S_ISDIR(found.st_mode):
            raise UnreadableFile(
                "it is a link or no directory.", path=path, remedy="Remove it; nothing was changed."
            )
        of_others = (found.st_uid, found.st_gid) != (owner.st_uid, owner.st_gid)
        if made and of_others and os.geteuid() == 0:
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)
    return Path(path)
