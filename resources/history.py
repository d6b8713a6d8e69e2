"""Where the maintenance history is."""

import os
from pathlib import Path
from typing import Final

HISTORY_VARIABLE: Final = "LOGWRIGHT_HISTORY"
HISTORY_DIRECTORY: Final = "maintenance_history"
"""Its directory below the instance's storage."""


def history_directory(storage: str | Path) -> Path:
    """Return the directory: LOGWRIGHT_HISTORY, else below the instance's storage directory.
    Effects: reads the environment.
    """
    given = os.environ.get(HISTORY_VARIABLE)
    return Path(given).absolute() if given else Path(storage) / HISTORY_DIRECTORY
