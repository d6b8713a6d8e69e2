"""Who may change a log directory: root, or the broker's user.

What we replace or make must belong to the user who owned it before: a broker that may not open its
own lock file, or a checkpoint's ``.tmp``, does not start or takes the log directory offline. Only
root may give files to another user (chown(2)). So anybody else is refused before he makes anything.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from logwright.errors import UnreadableFile
from logwright.format.names import RECOVERY_POINT_CHECKPOINT

_ROOT: Final = 0


def refuse_other_user(directory: int, path: Path) -> None:
    """Stop a user who cannot give to a directory's owner what he makes there. Effects: reads.

    A log directory's owner is the broker's user, whoever made the directory: the one who owns
    ``recovery-point-offset-checkpoint``, which a broker writes each minute. What is root's may be
    made by anybody who has the right to: root can open and replace it.

    Args:
        directory: a descriptor of a log directory, or of a directory in one.
        path: what is to be made in it.

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
        found = os.stat(RECOVERY_POINT_CHECKPOINT, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        found = os.fstat(directory)
    return found.st_uid
