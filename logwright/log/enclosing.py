"""Which log directory a path is in: a broker ends at its start if it finds a directory there that
is not a partition's (LogManager.loadLogs, Kafka 4.3.0).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from logwright.format.names import CLEAN_SHUTDOWN_MARKER
from logwright.log.checkpoints import CHECKPOINT_FILES
from logwright.log.load import META_PROPERTIES
from logwright.place.model import Place, is_local

_SIGNS: Final = (META_PROPERTIES, CLEAN_SHUTDOWN_MARKER, *CHECKPOINT_FILES)
"""Files by which a log directory is known."""


def enclosing_log_dir(path: Path, known: Iterable[Place] = ()) -> Path | None:
    """Return the log directory that a path is or would be in, or is itself; None if there is none.
    Effects: follows symlinks; looks for a broker's files in the path and in all directories above.

    Args:
        path: need not exist.
        known: log directories, which may have none of these files; in another place none is.
    """
    log_dirs = {log_dir.resolve() for log_dir in known if is_local(log_dir)}
    resolved = path.resolve()
    for directory in (resolved, *resolved.parents):
        if directory in log_dirs or any(os.path.lexists(directory / name) for name in _SIGNS):
            return directory
    return None
