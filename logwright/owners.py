"""Decide who may change a log directory: root, or the broker's user.

Files that logwright replaces or creates must keep their owner: a broker that may not open its own
lock file, or a checkpoint's ``.tmp``, does not start or takes the log directory offline. Only root
may give files to another user (chown(2)). So other users are refused before they create anything.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from logwright.errors import UnreadableFile
from logwright.format.names import RECOVERY_POINT_CHECKPOINT

_ROOT: Final = 0


def refuse_other_user(directory: int, path: Path) -> None:
    """Refuse a user whose files the owner of a directory could not replace. Effects: reads.

    The owner of a log directory is the broker's user, which owns
    ``recovery-point-offset-checkpoint``: a broker writes that file each minute. If root owns the
    directory, any user with the right to may create files, since root can open and replace them.

    Args:
        directory: a descriptor of a log directory, or of a directory in one.
        path: the file or directory to create.

    Raises:
        UnreadableFile: this process is neither root's nor the owner's.
    """
    user = os.geteuid()
    if user == _ROOT:
        return
    owner = _owner(directory)
    if owner not in {user, _ROOT}:
        raise UnreadableFile(
            f"user {user} cannot give it to the broker's user, {owner}.",
            path=path,
            remedy=f"Nothing was changed. Run it as the broker's user (uid {owner}).",
        )


def _owner(directory: int) -> int:
    try:
        status = os.stat(RECOVERY_POINT_CHECKPOINT, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        status = os.fstat(directory)
    return status.st_uid
