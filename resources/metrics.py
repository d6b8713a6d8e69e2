"""Where the fleet inventory writes the metrics for Prometheus."""

import os
from pathlib import Path
from typing import Final

METRICS_VARIABLE: Final = "LOGWRIGHT_METRICS_FILE"


def metrics_file() -> Path | None:
    """Return LOGWRIGHT_METRICS_FILE, None if it is not set. Effects: reads the environment."""
    given = os.environ.get(METRICS_VARIABLE)
    return Path(given).absolute() if given else None
